//! A fleet of 64 under load, and requests for it.

use std::hint::black_box;

use overdraft_claims::{as_float, percentile};
use overdraft_core::admit::{AdmitSettings, Priority, Tenant};
use overdraft_core::estimate::Kind;
use overdraft_core::fleet::{Ending, FirstToken, Probe, Scraped, Turn, WorkerId};
use overdraft_core::prefix::{Chunking, Event, PrefixChain, PrefixKey, PrefixLimits};
use overdraft_core::route::{
    Attempted, Outcome, Placed, Prompt, Request, RouteSettings, Router, Tried,
};
use overdraft_telemetry::Clock;
use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId, Tokens};
use serde::Serialize;

/// Workers in the fleet.
pub(crate) const WORKERS: usize = 64;
/// Blocks of 16 tokens in a prompt.
pub(crate) const BLOCKS: usize = 512;
/// Blocks of the system prompt that all share.
const COMMON: usize = 128;
/// Prompts that workers hold: with the common part, a million blocks.
pub(crate) const PROMPTS: usize = 2_730;
/// Requests under way on each.
const RUNNING: usize = 4;
/// Requests of one round.
const REQUESTS: usize = 2_000;
/// Keys the index may hold.
pub(crate) const LIMITS: PrefixLimits = PrefixLimits { keys_max: 2 << 20 };
/// Tokens that a worker's cache has room for: what it holds here and a quarter more.
const CACHE_TOKENS: u32 = 400_000;

/// For how long the workers have been up.
const UP_FOR: Micros = Micros::new(60_000_000);

const MODEL: &str = "model";

/// How the index learns what workers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feed {
    /// They report it.
    Reports,
    /// It goes by what they were sent.
    Estimates,
}

impl Feed {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reports => "reports",
            Self::Estimates => "estimates",
        }
    }
}

/// What the fleet knows of the prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Prompts {
    /// All of it is held by one worker.
    Held,
    /// A conversation goes on: all but the last sixteenth is held by one.
    Turn,
    /// The first half is.
    Half,
    /// Only the common system prompt is, by all.
    New,
}

impl Prompts {
    pub(crate) const ALL: [Self; 4] = [Self::Held, Self::Turn, Self::Half, Self::New];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Turn => "turn",
            Self::Half => "half",
            Self::New => "new",
        }
    }

    pub(crate) const fn told(self) -> &'static str {
        match self {
            Self::Held => "held by one worker",
            Self::Turn => "held but for 512 tokens",
            Self::Half => "half of it held",
            Self::New => "only the system prompt held",
        }
    }

    /// Blocks at the front that are the same as an older prompt's.
    const fn known(self) -> usize {
        match self {
            Self::Held => BLOCKS,
            Self::Turn => BLOCKS - BLOCKS / 16,
            Self::Half => BLOCKS / 2,
            Self::New => COMMON,
        }
    }
}

/// Microseconds, each the best of the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Times {
    pub(crate) decide_p50: f64,
    pub(crate) decide_p99: f64,
    pub(crate) place_p50: f64,
    pub(crate) place_p99: f64,
    pub(crate) end_p50: f64,
    pub(crate) end_p99: f64,
    pub(crate) remember_p50: f64,
    pub(crate) remember_p99: f64,
    /// Of the median.
    pub(crate) remember_ns_per_block: f64,
}

/// What each request of a round took, in microseconds.
#[derive(Default)]
struct Taken {
    decide: Vec<f64>,
    place: Vec<f64>,
    remember: Vec<f64>,
    end: Vec<f64>,
}

/// A router before a fleet, and what it is asked.
pub(crate) struct Scene {
    pub(crate) router: Router,
    clock: Clock,
    pub(crate) held: Vec<Vec<PrefixKey>>,
    /// Ever new ends of prompts.
    fresh: usize,
    /// What keeps the workers loaded.
    pub(crate) running: Vec<Placed>,
}

/// The keys of a prompt whose blocks differ from those of prompt `number` from `differs` on.
fn prompt(number: usize, (differs, other): (usize, usize)) -> Vec<PrefixKey> {
    let size = BlockSize::new(16).expect("sixteen is not zero");
    let mut chain = PrefixChain::new(CacheSalt(1), Chunking::Tokens(size));
    for block in 0..BLOCKS {
        let own = match block {
            _ if differs <= block => 1_000_000 + other,
            _ if block < COMMON => 0,
            _ => number + 1,
        };
        let token = TokenId(u32::try_from(own * BLOCKS + block).unwrap_or(u32::MAX));
        chain.push_tokens(&[token; 16]);
    }
    chain.keys().to_vec()
}

/// Prompts that share their first blocks.
pub(crate) fn prompts() -> Vec<Vec<PrefixKey>> {
    (0..PROMPTS).map(|number| prompt(number, (BLOCKS, 0))).collect()
}

pub(crate) fn request(keys: &[PrefixKey], dice: usize) -> Request<'_> {
    let block = BlockSize::new(16).expect("sixteen is not zero");
    let tokens = u32::try_from(keys.len()).unwrap_or(u32::MAX).saturating_mul(16);
    Request {
        model: MODEL,
        prompt: Prompt::Counted { tokens: Tokens::new(tokens), chain: keys, block },
        limit: Some(256),
        choices: 1,
        first_token: FirstToken::Seen,
        session: None,
        dice: u64::try_from(dice).unwrap_or(0),
        priority: Priority::Default,
        tenant: Tenant::default(),
        kind: Kind::default(),
    }
}

/// Admission as it is set by default, but for the backlog of prompts: the scene is about workers
/// that are asked, and these have more prompts than a second's work.
fn settings() -> RouteSettings {
    let admission =
        AdmitSettings { prefill_backlog: Micros::new(u64::MAX), ..AdmitSettings::default() };
    RouteSettings { admission, ..RouteSettings::default() }
}

impl Scene {
    /// A fleet that holds a million blocks and is at work.
    pub(crate) fn new(feed: Feed) -> Self {
        let mut router = Router::new(LIMITS);
        let now = Instant::ORIGIN;
        let models = [MODEL.to_owned()];
        let workers: Vec<WorkerId> =
            (0..WORKERS).map_while(|tag| router.join(u64::try_from(tag).ok()?)).collect();
        for &worker in &workers {
            router.probed(worker, Probe::Ready(&models), now);
        }
        let mut scene =
            Self { router, clock: Clock::start(), held: prompts(), fresh: 0, running: Vec::new() };
        scene.scrape(&workers);
        if feed == Feed::Reports {
            scene.report(&workers);
        }
        scene.load(&workers, feed);
        scene
    }

    /// By now the workers have been up for longer than any slow start.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now() + UP_FOR
    }

    fn scrape(&mut self, workers: &[WorkerId]) {
        let now = self.now();
        for (number, &worker) in (0_u32..).zip(workers) {
            self.router.scraped(worker, scraped(number, now));
        }
    }

    /// The workers report what they hold.
    fn report(&mut self, workers: &[WorkerId]) {
        for &worker in workers {
            self.router.cache_changed(worker, Event::Cleared);
        }
        for (keys, &worker) in self.held.iter().zip(workers.iter().cycle()) {
            self.router.cache_changed(worker, Event::Stored { parent: None, keys });
        }
    }

    /// Gives every worker something to do; what does not report is sent all that it is to hold.
    fn load(&mut self, workers: &[WorkerId], feed: Feed) {
        let settings = settings();
        let sent = match feed {
            Feed::Reports => WORKERS * RUNNING,
            Feed::Estimates => self.held.len(),
        };
        for number in 0..sent {
            let now = self.now();
            let asked = request(&self.held[number * 797 % PROMPTS], number);
            let turn = Attempted { tried: &Tried::default(), turn: Turn::First };
            let placed = self.router.place(asked, &settings, turn, now);
            let mut placed = placed.expect("all workers are up");
            self.router.remember(&mut placed, asked.prompt, now);
            self.running.push(placed);
            if self.running.len() > WORKERS * RUNNING {
                let mut ended = self.running.swap_remove(number % self.running.len());
                self.router.first_token(&mut ended, now);
                self.router.end(ended, Outcome::of(Ending::Answered), now);
            }
            // Their room in blocks is known once it is known how long a block is.
            if number % WORKERS == 0 {
                self.scrape(workers);
            }
        }
    }

    /// Times each step of a request, the best of `rounds`.
    pub(crate) fn measure(&mut self, prompts: Prompts, rounds: usize) -> Times {
        let mut best = [f64::INFINITY; 8];
        for _ in 0..rounds {
            let asked = self.asked(prompts);
            let Taken { decide, place, remember, end } = self.round(&asked);
            let steps = [&decide, &place, &remember, &end];
            let figures = steps.into_iter().flat_map(|times| [(times, 50), (times, 99)]);
            for (best, (times, percent)) in best.iter_mut().zip(figures) {
                *best = best.min(percentile(times.clone(), percent));
            }
        }
        let [decide_p50, decide_p99, place_p50, place_p99, ..] = best;
        let [.., remember_p50, remember_p99, end_p50, end_p99] = best;
        let remember_ns_per_block = remember_p50 * 1e3 / as_float(BLOCKS);
        Times {
            decide_p50,
            decide_p99,
            place_p50,
            place_p99,
            end_p50,
            end_p99,
            remember_p50,
            remember_p99,
            remember_ns_per_block,
        }
    }

    /// The prompts of one round: each another one than the one before it, so that nothing of it is
    /// in the processor's caches.
    fn asked(&mut self, prompts: Prompts) -> Vec<Vec<PrefixKey>> {
        let one = |number: usize| {
            let known = number * 797 % PROMPTS;
            if prompts == Prompts::Held {
                return self.held[known].clone();
            }
            prompt(known, (prompts.known(), self.fresh + number))
        };
        let asked = (0..REQUESTS).map(one).collect();
        self.fresh += REQUESTS;
        asked
    }

    fn round(&mut self, asked: &[Vec<PrefixKey>]) -> Taken {
        let settings = settings();
        let tried = Tried::default();
        let mut taken = Taken::default();
        for (number, keys) in asked.iter().enumerate() {
            let (now, asked) = (self.now(), request(keys, number));
            taken.decide.push(microseconds(|| {
                black_box(self.router.choose(asked, &settings, &tried, now));
            }));
        }
        for (number, keys) in asked.iter().enumerate() {
            let (now, asked) = (self.now(), request(keys, number));
            let turn = Attempted { tried: &tried, turn: Turn::First };
            let mut placed = None;
            taken.place.push(microseconds(|| {
                placed = self.router.place(asked, &settings, turn, now).ok();
            }));
            // Ended is one that has been under way for a while, and is not in the caches either.
            let oldest = number % self.running.len();
            let mut ended = match placed {
                Some(mut placed) => {
                    taken.remember.push(microseconds(|| {
                        self.router.remember(&mut placed, asked.prompt, now);
                    }));
                    std::mem::replace(&mut self.running[oldest], placed)
                }
                // Its worker is full until somebody ends.
                None => self.running.swap_remove(oldest),
            };
            self.router.first_token(&mut ended, now);
            taken.end.push(microseconds(|| {
                self.router.end(ended, Outcome::of(Ending::Answered), now);
            }));
            if number % 100 == 0 {
                self.router.tick(now);
            }
        }
        taken
    }
}

/// How long `work` takes.
pub(crate) fn microseconds(work: impl FnOnce()) -> f64 {
    let begun = nanoseconds();
    work();
    (nanoseconds() - begun) / 1e3
}

fn scraped(number: u32, at: Instant) -> Scraped {
    Scraped {
        at,
        running: 4 + number % 3,
        // One that waits before a cache with room would say that all seats are taken.
        waiting: 0,
        kv_use_permille: Some(400),
        kv_capacity: Some(Tokens::new(CACHE_TOKENS)),
        block_size: BlockSize::new(16),
        preemptions: None,
    }
}

/// A clock finer than the project's own, which counts microseconds.
pub(crate) fn nanoseconds() -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, rest) = (now.tv_sec % 100_000, now.tv_nsec);
    let whole = |part: i64| i32::try_from(part).map_or(f64::NAN, f64::from);
    whole(seconds) * 1e9 + whole(rest)
}
