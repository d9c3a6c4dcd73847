//! Health checking: whether a worker is up, by probes and refused connections.
//!
//! A probe says whether the process answers and is ready. A refused connection is proof that it is
//! gone and takes effect at once, whether a probe or a request met it. A connection that does not
//! come about takes effect as fast and proves nothing of the process: the network may have lost it.
//! Slowness is evidence and must repeat. The
//! [circuit breaker](crate::breaker) counts whether requests succeed: a worker may be up and
//! ejected.
//!
//! Invariant: only [`Health::Up`] is chosen while any worker that serves the model is up.

use overdraft_units::Instant;

/// Consecutive probes that a worker may miss; on a small machine a long prefill can keep a healthy
/// worker from answering for a second or two.
pub const MISSED_PROBES_MAX: u8 = 3;

/// What is known of a worker's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It has not been ready since it joined.
    Unproven,
    /// It may be chosen.
    Up {
        /// Unanswered probes since the last answered one.
        missed: u8,
    },
    /// It is passed over.
    Failing {
        /// When that began.
        since: Instant,
        /// Why.
        cause: Cause,
    },
}

/// Why a worker is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nobody listens at its address.
    Unreachable,
    /// No connection to it comes about, which may be the network's doing.
    NoConnection,
    /// It says so itself.
    Unready,
    /// It leaves probes unanswered.
    Silent,
    /// It does not serve the model it is configured for.
    WrongModel,
    /// It does not tell its load, where that is asked of it.
    Unmeasured,
}

impl Cause {
    /// As lists and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::NoConnection => "no_connection",
            Self::Unready => "unready",
            Self::Silent => "silent",
            Self::WrongModel => "wrong_model",
            Self::Unmeasured => "unmeasured",
        }
    }

    /// Whether the process that comes back is a new one with an empty cache.
    pub const fn loses_the_cache(self) -> bool {
        matches!(self, Self::Unreachable | Self::WrongModel)
    }
}

/// What health learns from: probes, scrapes and attempts alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// A probe found it ready.
    Ready,
    /// A probe found it unready.
    Unready,
    /// A probe was not answered in time.
    Missed,
    /// A connection was refused.
    Gone,
    /// A connection did not come about, and nobody refused it.
    NoConnection,
    /// An attempt was answered.
    Answered,
    /// A probe found it ready with another model than it is configured for.
    WrongModel,
    /// It did not tell its load.
    Unmeasured,
    /// It told its load.
    Measured,
}

impl Health {
    /// In perfect health.
    const WELL: Self = Self::Up { missed: 0 };

    /// Whether the worker may be chosen.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Up { .. })
    }

    /// Whether it is kept out for serving another model than it is configured for.
    pub const fn is_wrong_model(self) -> bool {
        matches!(self, Self::Failing { cause: Cause::WrongModel, .. })
    }

    /// Whether the worker answers, if badly: worth a try when nobody is up.
    pub const fn is_last_resort(self) -> bool {
        matches!(self, Self::Failing { cause: Cause::Silent, .. })
    }

    /// The state that follows.
    pub(super) fn after(self, signal: Signal, now: Instant) -> Self {
        let failing = |cause| Self::Failing { since: now, cause };
        match (self, signal) {
            // Unproven => Up: the first good probe. Nothing else proves that it can serve.
            (Self::Unproven, Signal::Ready) => Self::WELL,
            // Unproven => Failing: it will not come right by waiting, so it is told.
            (Self::Unproven, Signal::WrongModel) => failing(Cause::WrongModel),
            (Self::Unproven, _) => self,

            // Up => Up
            (Self::Up { .. }, Signal::Ready) => Self::WELL,
            (Self::Up { .. }, Signal::Answered | Signal::Measured) => self,
            // Up => Up | Failing
            (Self::Up { missed }, Signal::Missed) => match missed + 1 {
                MISSED_PROBES_MAX => failing(Cause::Silent),
                missed => Self::Up { missed },
            },
            // Up => Failing: proof.
            (Self::Up { .. }, Signal::Unready) => failing(Cause::Unready),
            (Self::Up { .. }, Signal::Gone) => failing(Cause::Unreachable),
            // Up => Failing: no proof, but each request that is sent there waits as long in vain.
            (Self::Up { .. }, Signal::NoConnection) => failing(Cause::NoConnection),
            (Self::Up { .. }, Signal::WrongModel) => failing(Cause::WrongModel),
            (Self::Up { .. }, Signal::Unmeasured) => failing(Cause::Unmeasured),

            // Failing => Up | Failing: a good probe is no good scrape.
            (Self::Failing { cause: Cause::Unmeasured, .. }, Signal::Measured) => Self::WELL,
            (
                Self::Failing { cause: Cause::Unmeasured, .. },
                Signal::Ready | Signal::Answered | Signal::Unmeasured,
            ) => self,
            // Failing => Up
            (Self::Failing { .. }, Signal::Ready) => Self::WELL,
            // An answer that was under way proves nothing against "gone" or "unready": that is
            // how a worker that drains looks.
            (Self::Failing { cause: Cause::Silent, .. }, Signal::Answered) => Self::WELL,
            (Self::Failing { .. }, Signal::Answered) => self,
            // Failing => Failing: keep `since`, tell the newest proof.
            (Self::Failing { since, .. }, Signal::Gone) => {
                Self::Failing { since, cause: Cause::Unreachable }
            }
            // What is proven stays so.
            (Self::Failing { cause, .. }, Signal::NoConnection) if cause.loses_the_cache() => self,
            (Self::Failing { since, .. }, Signal::NoConnection) => {
                Self::Failing { since, cause: Cause::NoConnection }
            }
            (Self::Failing { since, .. }, Signal::Unready) => {
                Self::Failing { since, cause: Cause::Unready }
            }
            (Self::Failing { since, .. }, Signal::WrongModel) => {
                Self::Failing { since, cause: Cause::WrongModel }
            }
            (Self::Failing { .. }, Signal::Missed | Signal::Unmeasured | Signal::Measured) => self,
        }
    }
}
