//! Admission control: whether a request starts now, waits in a queue, or is refused.
//!
//! Workers are overcommitted, because most answers are shorter than their `max_tokens`; this module
//! bounds the overcommitment. Every sequence in flight is booked with the tokens that it holds and
//! with samples of its final length; the *predicted peak* of a worker is the most that all of them
//! will hold at once (docs/design/admission.md). A request is started where the peak stays below
//! the cache, waits in a fair [`Queue`] where it does not, and is refused when it could not be
//! started in time.
//!
//! Invariant: a request's booking is released when it ends, whatever happened in between.

mod back_pressure;
mod correction;
mod fair_queue;
mod forecast;
mod judge;
mod length_sample;
mod model_queue;
mod pinned_prefixes;
mod queue;
mod safety_margin;
mod settings;
mod tenants;
#[cfg(test)]
mod tests;
mod wait_time;
mod worker_queue;

use core::fmt;
use core::str::FromStr;

use overdraft_units::Micros;

pub use self::back_pressure::{BackPressure, Full};
pub(crate) use self::correction::Correction;
pub(crate) use self::forecast::{Booking, Forecast, Place};
pub use self::forecast::{FORECAST_MAX, Peak, Prospect, WORLDS};
pub(crate) use self::judge::{Answer, Asked, judge};
pub(crate) use self::pinned_prefixes::Chain;
pub use self::queue::{AGING_EVERY, IsPinned, Queue, Refusal, Ticket, Waiter};
pub(crate) use self::safety_margin::{Caution, Strain};
pub use self::settings::{AdmitSettings, ByPriority, Mode, ParseModeError, QueueSettings};
pub use self::tenants::Portion;
pub(crate) use self::tenants::Tenants;
pub use self::wait_time::{Awaits, KEPT_TIMES, Wait, WaitTime};
pub(crate) use self::worker_queue::Ahead;
pub use self::worker_queue::Hold;

/// How much a request matters; the greater goes first and is refused last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// It may wait and may be refused: batches, experiments.
    Flex,
    /// What is not said otherwise.
    #[default]
    Default,
    /// Paid for, so that it does not wait.
    Priority,
}

impl Priority {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Flex, Self::Default, Self::Priority];

    /// As requests, configuration and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Default => "default",
            Self::Priority => "priority",
        }
    }

    /// Its place in [`Priority::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Flex => 0,
            Self::Default => 1,
            Self::Priority => 2,
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no priority has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPriority;

impl FromStr for Priority {
    type Err = UnknownPriority;

    fn from_str(name: &str) -> Result<Self, UnknownPriority> {
        Self::ALL.into_iter().find(|priority| priority.name() == name).ok_or(UnknownPriority)
    }
}

/// Who asks, as a number: equal for equal tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenant(pub u64);

/// Nobody is told to come back sooner.
pub const RETRY_AFTER_MIN: Micros = Micros::new(1_000_000);

/// Nobody is told to come back later: what is predicted for longer is not worth much.
pub const RETRY_AFTER_MAX: Micros = Micros::new(30_000_000);

/// When to come back, if there will be room after `wait`.
pub(crate) fn retry_after(wait: Micros) -> Micros {
    wait.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
}
