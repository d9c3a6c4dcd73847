//! Attempt: one request in flight at one worker, what it is booked with and how it ends.

use overdraft_units::{Instant, Micros, Tokens};

use super::WorkerId;
use crate::admit::{Place, Prospect};

/// The expected load of a request on a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Tokens of the prompt.
    pub prompt: Tokens,
    /// Cached prefix tokens that the worker should hold already; at most the prompt.
    pub cached: Tokens,
    /// Prefix tokens that requests in flight hold there already.
    pub pinned: Tokens,
    /// Tokens that will be generated.
    pub completion: Tokens,
    /// Whether the gateway will see when the first of them comes.
    pub first_token: FirstToken,
    /// How long its answers may get.
    pub prospect: Prospect,
}

/// Whether we learn when an answer's first token comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstToken {
    /// The answer is streamed.
    #[default]
    Seen,
    /// It comes whole: how long its prompt took, has to be guessed.
    Unseen,
}

impl Demand {
    /// Tokens that must be computed before the first one comes.
    pub fn prefill(self) -> Tokens {
        self.prompt.checked_sub(self.cached).unwrap_or_default()
    }

    /// Tokens of its cache that the worker must find for it, beyond those it holds.
    pub fn fresh(self) -> Tokens {
        Tokens::new(self.prefill().get().saturating_add(self.completion.get()))
    }

    /// Tokens that it holds in the end.
    pub fn whole(self) -> Tokens {
        Tokens::new(self.prompt.get().saturating_add(self.completion.get()))
    }
}

/// One request in flight on one worker: the receipt that [`super::Fleet::start`] gives and
/// [`super::Fleet::end`] takes back.
#[derive(Debug)]
#[must_use = "an attempt that is never ended stays on the worker's ledger for ever"]
pub struct Attempt {
    pub(super) worker: WorkerId,
    pub(super) demand: Demand,
    pub(super) turn: Turn,
    pub(super) started: Instant,
    /// Prefill tokens that stood before its first token, its own included.
    pub(super) ahead: u64,
    pub(super) phase: Phase,
    /// The number of the breaker's trial that it is, if it is one.
    pub(super) trial: Option<u32>,
    /// Its place in its worker's forecast, if there was one.
    pub(super) place: Option<Place>,
    /// Whether it may have had to wait for a seat.
    pub(super) may_wait: bool,
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Prefill,
    Decode,
}

impl Phase {
    /// The first: nobody sees where the prefill of an answer ends that comes whole.
    pub(super) const fn first(first_token: FirstToken) -> Self {
        match first_token {
            FirstToken::Seen => Self::Prefill,
            FirstToken::Unseen => Self::Decode,
        }
    }
}

impl Attempt {
    /// Where it runs.
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }

    /// What it was booked with.
    pub const fn demand(&self) -> Demand {
        self.demand
    }

    /// Whether it finds out if the worker still fails.
    pub const fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// How long it has been going on.
    pub fn age(&self, now: Instant) -> Micros {
        now.since(self.started)
    }
}

/// Whether an attempt is a request's first or comes after a failed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The request has not been sent anywhere yet.
    First,
    /// Another worker failed it before a byte of the answer had reached the client.
    Again,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The worker gave a result.
    Answered,
    /// It blames the request, which takes no engine: that says that it answers, and not that it serves.
    Declined,
    /// The worker did not do its part.
    Failed(Failure),
    /// We gave up for reasons of our own (the client left, we drain): says nothing of the worker.
    Abandoned,
}

/// What a worker did wrong, as far as it matters to what is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused: nobody listens there.
    Unreachable,
    /// No connection came about: not accepted in time, or there is no way there. Its process may be well.
    NoConnection,
    /// This gateway could not try: no address for the name, or no descriptor, port or buffer left. That says
    /// nothing of the worker.
    Local,
    /// The connection broke, or what came over it is not an answer.
    Broken,
    /// The connection stands and nothing came over it in time.
    Silent,
    /// It says that it is full (429, 503): true of its load, not of its health.
    Saturated,
    /// It does not accept us (401, 403): the operator's to mend.
    Misconfigured,
    /// It says that there is no such thing (404), or that the client may not have it: whose mistake that is
    /// shows what another worker says.
    Disputed,
    /// It says that it failed (500, 502, 504), that it waited for what it had been sent (408, 425), or ended the
    /// answer as aborted.
    Faulty,
}

impl Failure {
    /// As metrics and traces call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::NoConnection => "no_connection",
            Self::Local => "local",
            Self::Broken => "broken",
            Self::Silent => "silent",
            Self::Saturated => "saturated",
            Self::Misconfigured => "misconfigured",
            Self::Disputed => "disputed",
            Self::Faulty => "faulty",
        }
    }
}
