//! Wait time: how long a request may wait, and for how much longer it is kept.
//!
//! A fixed time says nothing of the line: the next in line when it is over would be started in a
//! moment. So a request is kept beyond its patience for as long as the line before it moves fast
//! enough to start it within [`KEPT_TIMES`] its patience (`queue.rs`), and never beyond that.

use overdraft_units::Micros;

use crate::fleet::WorkerId;

/// How many times its patience a request waits, at most.
pub const KEPT_TIMES: u64 = 2;

/// How long a request may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTime {
    /// However slow the line before it is.
    pub patience: Micros,
    /// Where the line moves fast enough to start it by then; no less than the patience.
    pub most: Micros,
}

impl WaitTime {
    /// For a request of such patience.
    pub const fn of(patience: Micros) -> Self {
        Self { patience, most: Micros::new(patience.get().saturating_mul(KEPT_TIMES)) }
    }

    /// So long, whatever the line does.
    pub const fn exactly(time: Micros) -> Self {
        Self { patience: time, most: time }
    }

    /// The same for a request that has so much time left.
    #[must_use]
    pub fn within(self, left: Micros) -> Self {
        Self { patience: self.patience.min(left), most: self.most.min(left) }
    }
}

/// What a request waits for at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// Its prefix lies there.
    Prefix,
    /// Room, wherever it comes first.
    Room,
}

impl Awaits {
    /// As metrics and explanations call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefix => "prefix",
            Self::Room => "room",
        }
    }
}

/// Where a request waits, for what and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The worker; [`WorkerId::NOBODY`] until one is up.
    pub at: WorkerId,
    /// What it waits for there.
    pub awaits: Awaits,
    /// How long.
    pub time: WaitTime,
}

impl Wait {
    /// For room at a worker.
    pub const fn for_room(at: WorkerId, time: WaitTime) -> Self {
        Self { at, awaits: Awaits::Room, time }
    }
}
