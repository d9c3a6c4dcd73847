//! A prefix that is elsewhere, but can be fetched: who is chosen, at what cost, and whom it asks.

use overdraft_core::admit::{AdmitSettings, Priority, Tenant};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, FirstToken, Probe, Turn, WorkerId};
use overdraft_core::prefix::{Chunking, PrefixChain, PrefixLimits};
use overdraft_core::route::{
    Attempted, Candidate, Decision, Outcome, Policy, Prompt, Request, RouteSettings, Router, Tried,
};
use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId, Tokens};

const MODEL: &str = "m";
/// Tokens of the prompt, a hundred blocks.
const PROMPT: u32 = 1_600;

fn block() -> BlockSize {
    BlockSize::new(16).expect("sixteen is not zero")
}

fn settings() -> RouteSettings {
    let admission = AdmitSettings::off();
    RouteSettings { policy: Policy::Cost, admission, ..RouteSettings::default() }
}

/// Three workers, of which the first has computed the prompt and takes no more requests.
struct Story {
    router: Router,
    ids: Vec<WorkerId>,
    chain: PrefixChain,
    now: Instant,
}

impl Story {
    /// Those with these numbers share blocks.
    fn new(sharing: &[usize]) -> Self {
        let mut router = Router::new(PrefixLimits::default());
        let ids: Vec<WorkerId> = (0..3).filter_map(|tag| router.join(tag)).collect();
        for &number in sharing {
            router.share_blocks(ids[number]);
        }
        let mut chain = PrefixChain::new(CacheSalt::default(), Chunking::Tokens(block()));
        chain.push_tokens(&(0..PROMPT).map(TokenId).collect::<Vec<_>>());
        let mut story = Self { router, ids, chain, now: Instant::ORIGIN };
        // Alone in the fleet it is chosen, and remembered.
        story.up(0);
        let mut placed = story.place();
        let prompt = request(&story.chain).prompt;
        story.router.remember(&mut placed, prompt, story.now);
        story.now = story.now + Micros::new(1_000_000);
        story.router.first_token(&mut placed, story.now);
        story.router.end(placed, Outcome::of(Ending::Answered), story.now);
        story.up(1);
        story.up(2);
        story.router.drain(story.ids[0]);
        story
    }

    fn up(&mut self, number: usize) {
        let models = [MODEL.to_owned()];
        self.router.probed(self.ids[number], Probe::Ready(&models), self.now);
    }

    fn place(&mut self) -> overdraft_core::route::Placed {
        let tried = Attempted { tried: &Tried::default(), turn: Turn::First };
        let placed = self.router.place(request(&self.chain), &settings(), tried, self.now);
        placed.expect("somebody is up")
    }

    fn decide(&mut self) -> Decision {
        // Nobody warms up any more.
        self.now = self.now + Micros::new(60_000_000);
        self.router.explain(request(&self.chain), &settings(), &Tried::default(), self.now).clone()
    }
}

fn request(chain: &PrefixChain) -> Request<'_> {
    Request {
        model: MODEL,
        prompt: Prompt::Counted {
            tokens: Tokens::new(PROMPT),
            chain: chain.keys(),
            block: block(),
        },
        limit: Some(1),
        choices: 1,
        first_token: FirstToken::Seen,
        session: None,
        dice: 0,
        priority: Priority::Default,
        tenant: Tenant::default(),
        kind: Kind::default(),
    }
}

fn candidate(decision: &Decision, worker: WorkerId) -> Candidate {
    *decision.candidates.iter().find(|one| one.worker == worker).expect("it serves the model")
}

#[test]
fn who_can_fetch_is_cheaper_and_is_told_whom_to_ask() {
    let mut story = Story::new(&[0, 2]);
    story.router.fetched(story.ids[2], 100_000);
    let decision = story.decide();
    let (alone, fetches) = (candidate(&decision, story.ids[1]), candidate(&decision, story.ids[2]));
    assert_eq!(alone.fetchable, Tokens::ZERO);
    assert!(Tokens::new(1_000) < fetches.fetchable, "{fetches:?}");
    assert!(Micros::ZERO < fetches.cost.fetch && fetches.score < alone.score / 2, "{decision:?}");
    assert_eq!(decision.chosen().map(|one| one.worker), Some(story.ids[2]));
    assert_eq!(decision.source, Some(story.ids[0]), "it takes no requests, and gives its blocks");
    assert_eq!(story.place().source(), Some(story.ids[0]));
}

#[test]
fn a_fetch_that_takes_longer_than_computing_changes_no_cost() {
    for tokens_per_second in [0, 10] {
        let mut story = Story::new(&[0, 1, 2]);
        story.router.fetched(story.ids[1], tokens_per_second);
        story.router.fetched(story.ids[2], tokens_per_second);
        let decision = story.decide();
        for number in [1, 2] {
            let one = candidate(&decision, story.ids[number]);
            assert_eq!(one.cost.fetch, Micros::ZERO, "{tokens_per_second}: {one:?}");
            assert!(Tokens::ZERO < one.fetchable, "{tokens_per_second}: {one:?}");
        }
        // The worker decides by itself, and measures.
        assert_eq!(decision.source, Some(story.ids[0]));
    }
}

#[test]
fn nothing_is_fetched_from_who_shares_nothing_or_is_down() {
    let mut story = Story::new(&[1, 2]);
    story.router.fetched(story.ids[1], 100_000);
    let decision = story.decide();
    assert_eq!(decision.source, None);
    assert_eq!(candidate(&decision, story.ids[1]).fetchable, Tokens::ZERO);

    let mut story = Story::new(&[0, 1, 2]);
    story.router.fetched(story.ids[1], 100_000);
    for _ in 0..10 {
        let now = story.now;
        story.router.probed(story.ids[0], Probe::Unreachable, now);
    }
    assert_eq!(story.decide().source, None);
}
