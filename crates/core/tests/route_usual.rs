//! The short way to a decision and the long one choose alike, whatever fleets went through.

use overdraft_core::admit::{Priority, Tenant};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, Failure, FirstToken, Probe, Scraped, Turn, WorkerId};
use overdraft_core::prefix::{Chunking, PrefixChain, PrefixLimits};
use overdraft_core::route::{
    Attempted, Decision, Outcome, Placed, Prompt, Reason, Request, RouteSettings, Router, Sticky,
    Tried,
};
use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId, Tokens};
use proptest::prelude::*;

const MODEL: &str = "m";
const WORKERS: usize = 6;
/// Long after any slow start.
const BEGINNING: Micros = Micros::new(600_000_000);

/// Something that happens to a fleet.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { system: u8, user: u8, blocks: u8 },
    First { of: usize },
    End { of: usize, fails: bool },
    Scrape { worker: usize, use_permille: u16, capacity: u32, waiting: u8 },
    Drain { worker: usize },
    Rejoin { worker: usize },
    Probe { worker: usize, is_there: bool },
    Wait { micros: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3_u8, 0..4_u8, 1..60_u8).prop_map(|(system, user, blocks)| Step::Ask { system, user, blocks }),
        6 => any::<usize>().prop_map(|of| Step::First { of }),
        5 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(of, fails)| Step::End { of, fails }),
        6 => (0..WORKERS, 0..1_000_u16, 500..20_000_u32, 0..3_u8).prop_map(|(worker, use_permille, capacity, waiting)| {
            Step::Scrape { worker, use_permille, capacity, waiting }
        }),
        1 => (0..WORKERS).prop_map(|worker| Step::Drain { worker }),
        2 => (0..WORKERS).prop_map(|worker| Step::Rejoin { worker }),
        1 => (0..WORKERS, any::<bool>()).prop_map(|(worker, is_there)| Step::Probe { worker, is_there }),
        4 => (0..3_000_000_u64).prop_map(|micros| Step::Wait { micros }),
        1 => Just(Step::Wait { micros: BEGINNING.get() }),
    ]
}

struct Story {
    router: Router,
    ids: Vec<WorkerId>,
    settings: RouteSettings,
    placed: Vec<Placed>,
    asked: u64,
    now: Instant,
}

impl Story {
    fn new() -> Self {
        let mut router = Router::new(PrefixLimits::default());
        let ids = (0..).map_while(|tag| router.join(tag)).take(WORKERS).collect();
        let mut story = Self {
            router,
            ids,
            settings: RouteSettings::default(),
            placed: Vec::new(),
            asked: 0,
            now: Instant::ORIGIN,
        };
        for worker in 0..WORKERS {
            story.probe(worker, true);
        }
        story.now = story.now + BEGINNING;
        story
    }

    fn probe(&mut self, worker: usize, is_there: bool) {
        let models = [MODEL.to_owned()];
        let probe = if is_there { Probe::Ready(&models) } else { Probe::Unreachable };
        self.router.probed(self.ids[worker], probe, self.now);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ask { system, user, blocks } => self.ask(&prompt(system, user, blocks)),
            Step::First { of } => {
                if !self.placed.is_empty() {
                    let of = of % self.placed.len();
                    self.router.first_token(&mut self.placed[of], self.now);
                }
            }
            Step::End { of, fails } => {
                if !self.placed.is_empty() {
                    let ended = self.placed.swap_remove(of % self.placed.len());
                    let ending =
                        if fails { Ending::Failed(Failure::Broken) } else { Ending::Answered };
                    self.router.end(ended, Outcome::of(ending), self.now);
                }
            }
            Step::Scrape { worker, use_permille, capacity, waiting } => {
                let scraped = Scraped {
                    at: self.now,
                    running: 0,
                    waiting: u32::from(waiting),
                    kv_use_permille: Some(use_permille),
                    kv_capacity: Some(Tokens::new(capacity)),
                    block_size: BlockSize::new(16),
                    preemptions: Some(0),
                };
                self.router.scraped(self.ids[worker], scraped);
            }
            Step::Drain { worker } => self.router.drain(self.ids[worker]),
            Step::Rejoin { worker } => self.router.rejoin(self.ids[worker]),
            Step::Probe { worker, is_there } => self.probe(worker, is_there),
            Step::Wait { micros } => self.now = self.now + Micros::new(micros),
        }
    }

    fn ask(&mut self, chain: &PrefixChain) {
        self.asked += 1;
        let request = request(chain, self.asked);
        let turn = Attempted { tried: &Tried::default(), turn: Turn::First };
        if let Ok(mut placed) = self.router.place(request, &self.settings, turn, self.now) {
            self.router.remember(&mut placed, request.prompt, self.now);
            self.placed.push(placed);
        }
    }

    /// Decides both ways; whether the short one was enough.
    fn compare(&mut self, chain: &PrefixChain) -> bool {
        let request = request(chain, self.asked + 1);
        let tried = Tried::default();
        let long = self.router.explain(request, &self.settings, &tried, self.now).clone();
        let short = self.router.choose(request, &self.settings, &tried, self.now);
        assert_eq!(told(short), told(&long), "{short:?}\n{long:?}");
        let is_short = short.candidates.len() < long.candidates.len();
        check_record(&self.router, request, &long);
        is_short
    }
}

/// What is kept of the last decision says of each worker what the long way does.
fn check_record(router: &Router, request: Request<'_>, long: &Decision) {
    let mut kept = Vec::new();
    let left_out = router.record(request, &mut kept);
    assert_eq!(kept.len() + left_out, long.candidates.len());
    let chosen = long.chosen().map(|chosen| chosen.worker);
    assert_eq!(chosen, kept.first().map(|one| one.worker).filter(|_| chosen.is_some()));
    for one in &kept {
        let known = long
            .candidates
            .iter()
            .find(|known| known.worker == one.worker)
            .expect("it is a candidate");
        let seen = (one.reason, one.cached, one.requests, one.free);
        assert_eq!(seen, (known.reason, known.cached, known.requests, known.free));
        assert!(known.queued <= one.queued, "what was computed since it was booked may be left in");
        assert!(one.score.is_none_or(|score| score == known.score), "{one:?}\n{known:?}");
    }
    let lost: Vec<u64> = kept
        .iter()
        .filter(|one| one.reason == Reason::Outscored)
        .map(|one| one.score.unwrap_or(u64::MAX))
        .collect();
    assert!(lost.is_sorted(), "{kept:?}");
}

/// What is asked of a decision once it was obeyed.
fn told(decision: &Decision) -> String {
    let Decision { choice, policy, arm, by, source, eviction_prevented, ejections, .. } = decision;
    let chosen = decision.chosen();
    format!(
        "{choice:?} {policy:?} {arm:?} {by:?} {source:?} {eviction_prevented} {ejections:?} {chosen:?}"
    )
}

fn prompt(system: u8, user: u8, blocks: u8) -> PrefixChain {
    let size = BlockSize::new(16).expect("sixteen is not zero");
    let mut chain = PrefixChain::new(CacheSalt::default(), Chunking::Tokens(size));
    for block in 0..u32::from(blocks) {
        let of = if block < 20 { u32::from(system) } else { 100 + u32::from(user) };
        chain.push_tokens(&[TokenId(of * 1_000 + block); 16]);
    }
    chain
}

fn request(chain: &PrefixChain, dice: u64) -> Request<'_> {
    let block = BlockSize::new(16).expect("sixteen is not zero");
    let tokens = u32::try_from(chain.keys().len() * 16).unwrap_or(u32::MAX);
    Request {
        model: MODEL,
        prompt: Prompt::Counted { tokens: Tokens::new(tokens), chain: chain.keys(), block },
        limit: Some(200),
        choices: 1,
        first_token: FirstToken::Seen,
        session: Some(dice % 3),
        dice,
        priority: Priority::Default,
        tenant: Tenant::default(),
        kind: Kind::default(),
    }
}

proptest! {
    #[test]
    fn both_ways_choose_alike(steps in prop::collection::vec((step(), 0..3_u8, 0..4_u8, 1..60_u8), 1..120)) {
        let mut story = Story::new();
        for (step, system, user, blocks) in steps {
            story.take(step);
            story.compare(&prompt(system, user, blocks));
        }
    }
}

#[test]
fn an_idle_fleet_takes_the_short_way_and_whatever_is_rare_the_long_one() {
    let mut story = Story::new();
    let asked = prompt(1, 1, 40);
    assert!(story.compare(&asked), "all are open, and nobody is full");
    story.take(Step::Ask { system: 1, user: 1, blocks: 40 });
    assert!(story.compare(&asked));
    story.settings.sticky = Some(Sticky::default());
    assert!(!story.compare(&asked), "the session may decide");
    story.settings.sticky = None;
    story.take(Step::Drain { worker: 3 });
    assert!(!story.compare(&asked), "one takes nothing");
    story.take(Step::Rejoin { worker: 3 });
    assert!(story.compare(&asked));
    story.take(Step::Scrape { worker: 2, use_permille: 0, capacity: 600, waiting: 0 });
    assert!(!story.compare(&asked), "it fits not even alone into one");
}
