//! Placed request: the state of a request from its placement to its end.

use alloc::string::String;

use overdraft_units::{Instant, Micros, Tokens};

use super::canary::Arm;
use super::policy::Policy;
use crate::admit::Tenant;
use crate::deadline::Prediction;
use crate::estimate::Media;
use crate::fleet::{Attempt, Demand, Ending, FirstToken, WorkerId};
use crate::hedge::Watch;
use crate::prefix::{Announcement, Chunks, Receipt};

/// A request that was given a worker.
#[derive(Debug)]
#[must_use = "a request that is never ended stays on the worker's ledger for ever"]
pub struct Placed {
    pub(super) attempt: Attempt,
    pub(super) prediction: Prediction,
    /// Its tenant, where that is counted.
    pub(super) tenant: Option<Tenant>,
    pub(super) model: String,
    /// Bytes of its text, and what else is in it, where its tokens are estimated.
    pub(super) text: Option<(u64, Media)>,
    pub(super) chunk: Tokens,
    /// Note of the pending prefix insertion, until it is done.
    pub(super) announced: Option<Announcement>,
    /// Chunks of its prompt that its worker should hold.
    pub(super) matched: u32,
    /// Those of them that its worker reported, where that is compared with what its answer will say.
    pub(super) reported: Option<Chunks>,
    /// After the insertion.
    pub(super) receipt: Option<Receipt>,
    pub(super) first_token: Option<Instant>,
    /// While its first token is awaited, where lateness is watched.
    pub(super) watch: Option<Watch>,
    pub(super) source: Option<WorkerId>,
    /// When tokens of each answer were last counted, and how many.
    pub(super) progress: (Instant, u32),
    /// The policy that decided.
    pub policy: Policy,
    /// The arm of a comparison.
    pub arm: Arm,
}

impl Placed {
    /// How long it has been under way.
    pub fn age(&self, now: Instant) -> Micros {
        self.attempt.age(now)
    }

    /// What it was expected to take when it was placed.
    pub const fn prediction(&self) -> &Prediction {
        &self.prediction
    }

    /// How its first token is awaited, where lateness is watched.
    pub const fn watch(&self) -> Option<Watch> {
        self.watch
    }

    /// A worker that holds more of its prompt than the chosen one, where the chosen one can fetch
    /// it.
    pub const fn source(&self) -> Option<WorkerId> {
        self.source
    }

    /// Where it goes.
    pub const fn worker(&self) -> WorkerId {
        self.attempt.worker()
    }

    /// Whether it finds out if the worker still fails.
    pub const fn is_trial(&self) -> bool {
        self.attempt.is_trial()
    }

    /// What it was booked with.
    pub const fn demand(&self) -> Demand {
        self.attempt.demand()
    }

    /// Tokens of prompt and answer, as it ended; as expected where its answer does not say.
    pub(super) fn tokens(&self, outcome: Outcome) -> u64 {
        let demand = self.demand();
        let prompt = outcome.prompt.unwrap_or(demand.prompt);
        let completion = outcome.completion.unwrap_or(demand.completion);
        u64::from(prompt.get()) + u64::from(completion.get())
    }

    /// Tokens of its prompt that were computed without anybody seeing when: those of an answer that came whole,
    /// less what its worker says that it found in its cache.
    pub(super) fn computed_unseen(&self, outcome: Outcome) -> Option<u64> {
        let Outcome { ending, prompt, cached, completion } = outcome;
        let demand = self.demand();
        if ending != Ending::Answered || demand.first_token != FirstToken::Unseen {
            return None;
        }
        // A refusal has none, and what it refused was not computed.
        completion?;
        let told = prompt.zip(cached).map(|(prompt, cached)| prompt.checked_sub(cached));
        let told = told.map(Option::unwrap_or_default);
        Some(u64::from(told.map_or(demand.prefill(), |told| told.min(demand.prefill())).get()))
    }
}

/// How a placed request ended, and what its answer said of itself.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Tokens of its prompt.
    pub prompt: Option<Tokens>,
    /// Those that the worker found in its cache.
    pub cached: Option<Tokens>,
    /// Tokens generated.
    pub completion: Option<Tokens>,
}

impl Outcome {
    /// An end of which nothing else is known.
    pub const fn of(ending: Ending) -> Self {
        Self { ending, prompt: None, cached: None, completion: None }
    }
}
