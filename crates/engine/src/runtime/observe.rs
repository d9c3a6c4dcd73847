//! Observer: per-step observations of the engine, for histograms.

use overdraft_scheduler::batch::{CacheChange, Overdraft};
use overdraft_units::{Micros, Tokens};

use crate::request::Usage;

/// Is told what happens. Runs on the engine's thread: it must be quick and must not block.
pub trait Observer: Send {
    /// Takes note.
    fn observe(&mut self, observation: &Observation);

    /// Whether to be told what the cache holds; asked once, before the first request. Nothing is
    /// recorded for those who do not care.
    fn watches_cache(&self) -> bool {
        false
    }

    /// What the cache came to hold and gave up since the last call, in order and not empty; after
    /// each step that changed it.
    fn observe_cache(&mut self, changes: CacheChanges) {
        drop(changes);
    }
}

/// Changes of the cache between two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChanges {
    /// Pages came and went.
    Pages(Vec<CacheChange>),
    /// All that was held is gone.
    Cleared,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// A step was computed.
    StepRan {
        /// Positions computed, of prompts and of completions.
        tokens: Tokens,
        /// How long it took, sampling included.
        duration: Micros,
    },
    /// A request got its first token.
    FirstToken {
        /// Since it was submitted.
        waited: Micros,
    },
    /// A request got another token.
    NextToken {
        /// Since the one before.
        gap: Micros,
    },
    /// A request ended.
    Ended(RequestRecord),
    /// Running requests needed more pages than there are, so some lost theirs; told before the step
    /// is computed.
    Overdrawn(Overdraft),
}

/// What became of a request. Phases it never reached are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// How it ended.
    pub end: End,
    /// What it took.
    pub usage: Usage,
    /// Completion tokens it might have had.
    pub output_max: Tokens,
    /// From submission to the end.
    pub total: Micros,
    /// From submission to its first step.
    pub queued: Micros,
    /// From its first step to its first token.
    pub prefill: Micros,
    /// From its first token to its last.
    pub decode: Micros,
    /// Times it lost its blocks and was computed again.
    pub preemptions: u32,
}

/// How a request ended, as vLLM's `finished_reason` label counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// An end token, a stop token or a stop string.
    Stop,
    /// `max_tokens` or the context was used up.
    Length,
    /// The client went away.
    Abort,
    /// The backend failed, or the engine was shut down.
    Error,
}

impl End {
    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
            Self::Error => "error",
        }
    }
}

/// Takes no note.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&mut self, _observation: &Observation) {}
}
