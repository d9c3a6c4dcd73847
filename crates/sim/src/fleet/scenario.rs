//! Scenario: the simulated fleet, its policy and the staleness of its metrics.

use overdraft_core::admit::{ByPriority, Mode, QueueSettings};
use overdraft_core::hedge::HedgeSettings;
use overdraft_core::route::{RetrySettings, RouteSettings};
use overdraft_gpu_model::Profile;
use overdraft_scheduler::speculate::Policy;
use overdraft_units::{BlockSize, Instant, Micros, Tokens};

use super::bounds::{PAGE, SHARE_EVERY};
use super::cascade_scenario::CascadeScenario;
use super::faulty_workers::Refusing;
use super::stall::Stall;
use super::tenant_mix::Mix;
use crate::workload::Stage;

/// A fleet and how it is driven.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Each worker's GPUs and model.
    pub profile: Profile,
    /// How many workers there are; 1 to [`WORKERS_MAX`](super::WORKERS_MAX).
    pub workers: u32,
    /// More workers that serve the same model, on other GPUs or with other weights.
    pub others: Vec<Pool>,
    /// Tenants and priorities, where the workload does not name them.
    pub mix: Mix,
    /// Tokens that a worker's cache holds; by default as many as the profile leaves room for.
    pub kv_tokens: Option<Tokens>,
    /// Tokens per page of a worker's cache.
    pub page: BlockSize,
    /// Tokens of prompt and answer together at most; by default all that a cache holds. An answer that
    /// would be longer is cut there.
    pub context: Option<Tokens>,
    /// Tokens that clients say an answer may have (`max_tokens`), by default as many as it has. An answer that would be
    /// longer is cut there.
    pub declared: Option<Tokens>,
    /// Gateways before all workers, 1 to [`GATEWAYS_MAX`](super::GATEWAYS_MAX); requests are spread over them, and they tell each other
    /// what they have in flight.
    pub gateways: u32,
    /// Time between two times that they do.
    pub share_every: Micros,
    /// How requests are routed.
    pub routing: RouteSettings,
    /// What the gateway knows of caches.
    pub knowledge: CacheKnowledge,
    /// Time between two scrapes of a worker.
    pub scrape_every: Micros,
    /// How old a scrape is when it is taken in.
    pub scrape_delay: Micros,
    /// From gateway to worker, and the same back.
    pub network: Micros,
    /// What the worker's front end takes for each prompt token before it is queued, in nanoseconds.
    pub ingest_ns_per_token: u64,
    /// Who decides when sessions begin.
    pub pace: Pace,
    /// How long a user of a closed loop who got no answer waits before beginning again.
    pub refused_wait: Micros,
    /// When users begin no session and no session goes on to another turn any more, where the load ever ends.
    pub until: Option<Micros>,
    /// Requests that are due earlier than this are not counted.
    pub warm_up: Micros,
    /// Requests that may wait at a worker; one more is refused.
    pub waiting_max: u32,
    /// How much may wait at the gateway for a worker to have room; nothing waits there while
    /// `routing.admission` is off.
    pub queue: QueueSettings,
    /// How long a request of each priority may wait there before it is refused.
    pub patience: ByPriority<Micros>,
    /// How freely attempts that failed before their first token are made again elsewhere.
    pub retry: RetrySettings,
    /// What becomes of a worker whose running requests need more pages than there are.
    pub overdraft: Overdraft,
    /// Workers that turn requests away, or are gone for a while.
    pub refusing: Vec<Refusing>,
    /// Workers that stand still now and then.
    pub stalls: Vec<Stall>,
    /// When a second attempt is sent for a late first token.
    pub hedging: HedgeSettings,
    /// Answers that are given again, where the gateway keeps any.
    pub cache: Option<AnswerCache>,
    /// How workers guess ahead, where they do.
    pub speculation: Option<Speculation>,
    /// A cheaper pool that is asked first, where there is one.
    pub cascade: Option<CascadeScenario>,
    /// Whether it is told why prompt tokens were not found in caches; it takes a look at every worker for each
    /// request.
    pub tells_missed: bool,
}

/// Workers of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Each worker's GPUs and model.
    pub profile: Profile,
    /// How many there are; 1 or more.
    pub workers: u32,
}

/// What becomes of a worker whose running requests need more pages than there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdraft {
    /// It takes them from the least entitled, which is computed again later.
    Preempt,
    /// Its process dies with all it has, and an empty one is there after so long.
    Crash(Micros),
}

/// The exact response cache: every request is taken to be greedy, so its answer may be given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerCache {
    /// What all answers may take, in bytes.
    pub bytes: u64,
    /// How long one is kept.
    pub kept: Micros,
    /// How long a look-up takes, whether it finds anything or not.
    pub takes: Micros,
}

/// A draft model beside the target that costs the same for each pass, whatever the batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Speculation {
    /// Who decides how deep.
    pub policy: Policy,
    /// Tokens of a draft at most.
    pub depth_max: usize,
    /// What a pass takes: a token for each sequence that is guessed for.
    pub pass: Micros,
    /// For each kind of text, the chance that a guess is right, given that those before it are; the
    /// last stands for all deeper ones. Sessions are of one kind each, all kinds alike often.
    pub acceptance: Vec<Vec<f64>>,
}

/// How long an answer is kept where nobody says.
pub const KEPT_DEFAULT: Micros = Micros::new(3_600_000_000);

/// How long a look-up takes: memory, or Redis on the same network.
pub const LOOK_UP_DEFAULT: Micros = Micros::new(500);

/// How long a worker is gone that has crashed: a process starts and reads its weights.
pub const RESTART_DEFAULT: Micros = Micros::new(120_000_000);

/// How long a user waits who got no answer: what refusals of the gateway ask for at least (`Retry-After`).
pub const REFUSED_WAIT_DEFAULT: Micros = Micros::new(1_000_000);

/// How long a request may wait at the gateway, as the gateway's own default.
const PATIENCE_DEFAULT: Micros = Micros::new(30_000_000);

/// The same for every priority.
pub const fn all_alike(patience: Micros) -> ByPriority<Micros> {
    ByPriority { flex: patience, default: patience, priority: patience }
}

/// What a gateway knows of its workers' caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKnowledge {
    /// What it sent them, and what answers say of cached tokens.
    Estimated,
    /// What they report as it happens.
    Reported,
}

/// Who decides when sessions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The workload.
    Open,
    /// So many users, each of whom begins one when the one before is through.
    Closed(u32),
    /// So many users, each of whom begins one when the workload says, and not before the one before is through.
    Timed(u32),
}

impl Scenario {
    /// A fleet with the delays of a data centre, at a gateway that sees no KV events, admits
    /// everything, keeps no answers, does not guess, and retries as the gateway does by default. Set what it should do besides.
    pub fn new(profile: Profile, workers: u32, mut routing: RouteSettings) -> Self {
        routing.admission.mode = Mode::Off;
        Self {
            profile,
            workers,
            others: Vec::new(),
            mix: Mix::default(),
            kv_tokens: None,
            page: PAGE,
            context: None,
            declared: None,
            gateways: 1,
            share_every: SHARE_EVERY,
            routing,
            knowledge: CacheKnowledge::Estimated,
            scrape_every: Micros::new(1_000_000),
            scrape_delay: Micros::new(5_000),
            network: Micros::new(250),
            ingest_ns_per_token: 0,
            pace: Pace::Open,
            refused_wait: REFUSED_WAIT_DEFAULT,
            until: None,
            warm_up: Micros::ZERO,
            waiting_max: 65_536,
            queue: QueueSettings::default(),
            patience: all_alike(PATIENCE_DEFAULT),
            retry: RetrySettings::default(),
            overdraft: Overdraft::Preempt,
            refusing: Vec::new(),
            stalls: Vec::new(),
            hedging: HedgeSettings::default(),
            cache: None,
            speculation: None,
            cascade: None,
            tells_missed: false,
        }
    }

    /// The stage of a request that is due now, in a session of that stage.
    pub(super) fn stage(&self, stage: Stage, now: Instant) -> Stage {
        if now.since(Instant::ORIGIN) < self.warm_up { Stage::WarmUp } else { stage }
    }

    /// All pools that answer for the model, the first one first.
    pub(super) fn pools(&self) -> impl Iterator<Item = (&Profile, u32)> + Clone {
        let others = self.others.iter().map(|pool| (&pool.profile, pool.workers));
        std::iter::once((&self.profile, self.workers)).chain(others)
    }
}
