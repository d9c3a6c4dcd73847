//! Relay: how a worker's answer reaches the client.
//!
//! A stream is relayed event by event while it is watched for its end ([`Stream`], [`Watch`]); a
//! non-streamed answer is buffered until it is complete, so that another worker can replace one
//! that dies in the middle of it ([`whole`]).
//!
//! Invariant: an answer that broke off upstream never ends cleanly downstream.

mod continuation;
mod error_shape;
mod last_event;
mod opening;
mod readable;
mod stream;
mod time_limits;
mod watch;
pub(crate) mod whole;

#[cfg(test)]
mod tests;

use overdraft_core::fleet::Failure;
use overdraft_telemetry::{EndCode, Ender, Phase};
use overdraft_units::Tokens;
use overdraft_wire::answer::UsageTold;
use overdraft_wire::{ApiError, names_out_of_memory};

pub(crate) use self::continuation::{Continuation, Outcome, Passed, Resumed, Resuming, Verdict};
pub(crate) use self::error_shape::ErrorShape;
pub(crate) use self::opening::{Opened, open, open_bytes};
pub(crate) use self::stream::{Story, Stream};
pub(crate) use self::time_limits::TimeLimits;
pub(crate) use self::watch::Watch;
use crate::dispatch::Used;
use crate::pipeline::deadline::{self, Overrun};
use crate::pipeline::facts::RequestFacts;

/// Why a worker's answer is of no use, or of no further use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It broke off.
    Broken(String),
    /// Nothing came for too long.
    Silent(Overrun),
    /// The worker says that it failed.
    Worker(String),
    /// The worker says that its memory is full: the next one may have room.
    OutOfMemory,
    /// The client's deadline passed.
    Late,
    /// The drain's deadline passed.
    Drained,
}

impl Fault {
    /// The worker failed, it says in these words.
    pub(crate) fn of_worker(why: String) -> Self {
        if names_out_of_memory(why.as_bytes()) { Self::OutOfMemory } else { Self::Worker(why) }
    }

    /// As the core sees it; `None` when the worker is not to blame.
    pub(crate) const fn failure(&self) -> Option<Failure> {
        match self {
            Self::Broken(_) => Some(Failure::Broken),
            Self::Silent(_) => Some(Failure::Silent),
            Self::Worker(_) => Some(Failure::Faulty),
            Self::OutOfMemory => Some(Failure::Saturated),
            Self::Late | Self::Drained => None,
        }
    }

    /// Who ends the answer.
    pub(crate) const fn ender(&self) -> Ender {
        match self {
            Self::Broken(_) | Self::Worker(_) => Ender::Server,
            Self::Silent(_) | Self::Late => Ender::ServerStalled,
            Self::OutOfMemory => Ender::Capacity,
            Self::Drained => Ender::Drain,
        }
    }

    /// How an answer ends that has begun, as the access line tells it.
    pub(crate) const fn end(&self) -> EndCode {
        EndCode { ender: self.ender(), phase: Phase::Data }
    }

    /// The limit of time that was passed, where that is the reason.
    pub(crate) const fn overrun(&self) -> Option<Overrun> {
        match self {
            Self::Silent(overrun) => Some(*overrun),
            _ => None,
        }
    }

    /// As metrics call what made a stream go on elsewhere.
    pub(crate) const fn cause(&self) -> &'static str {
        match self {
            Self::Broken(_) => "broken",
            Self::Silent(_) => "stalled",
            Self::Worker(_) => "failed",
            Self::OutOfMemory => "out_of_memory",
            Self::Late => "late",
            Self::Drained => "shutdown",
        }
    }

    /// As the client is told.
    pub(crate) fn error(&self) -> ApiError {
        match self {
            Self::Broken(why) => {
                ApiError::upstream(format!("the worker's answer broke off before its end: {why}"))
            }
            Self::Silent(overrun) => overrun.error(),
            Self::Worker(why) => ApiError::upstream(format!("the worker failed: {why}")),
            Self::OutOfMemory => ApiError::overloaded(
                "the worker has run out of memory; send the request again in a moment",
            ),
            Self::Late => deadline::missed(),
            Self::Drained => {
                ApiError::overloaded("the gateway is shutting down; send the request again")
            }
        }
    }
}

/// Token counts as the books have them.
pub(crate) fn used(told: UsageTold) -> Used {
    Used {
        prompt: Tokens::new(told.prompt),
        cached: told.cached.map(Tokens::new),
        completion: Tokens::new(told.completion),
    }
}

/// Has a request's record tell what its worker did for a client that left: what it told by then, and no less of the
/// answer than the events that were relayed. A dialect tells at its beginning that nothing was said yet.
pub(crate) fn note_left(record: &mut RequestFacts, used: Option<Used>, events: u32) {
    // Every other end has told its tokens.
    if record.end != (EndCode { ender: Ender::Nobody, phase: Phase::Data }) {
        return;
    }
    note_used(record, used);
    record.completion = record.completion.max(relayed(events));
}

/// Has a request's record tell what a worker did whose answer ends too early: what it told, and no less of the answer
/// than the events that were relayed. A dialect may tell of one token at its beginning, and then no more until its end.
pub(crate) fn note_broken(record: &mut RequestFacts, used: Option<Used>, events: u32) {
    note_used(record, used);
    record.completion = record.completion.max(relayed(events));
}

/// As many tokens as events were relayed, where any were.
fn relayed(events: u32) -> Option<Tokens> {
    (0 < events).then(|| Tokens::new(events))
}

/// Has a request's record tell them.
pub(crate) fn note_used(record: &mut RequestFacts, used: Option<Used>) {
    record.prompt = used.map(|used| used.prompt);
    record.completion = used.map(|used| used.completion);
    record.cached = used.and_then(|used| used.cached);
}
