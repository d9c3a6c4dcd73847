//! Adaptive safety margin: how many deviations above its mean a predicted KV cache peak may reach.
//!
//! A preemption at a worker means that its peak was predicted too low: each adds a quarter of a
//! deviation to the margin there, and each minute of work without preemptions takes a fiftieth away
//! (additive increase, slower decrease: preemptions are dear, and room is not).

use overdraft_units::{Instant, Micros};

/// Increase per preemption, in thousandths of a deviation.
const PREEMPTED_MILLI: u64 = 250;

/// Maximum increase per report, so that one burst of preemptions counts once.
const REPORT_MILLI_MAX: u64 = 1_000;

/// Increase per crash of a worker.
const DIED_MILLI: u32 = 1_000;

/// Decrease per minute of work without preemptions.
const CLEAN_MILLI: u32 = 20;
const CLEAN_TIME: Micros = Micros::new(60_000_000);

/// Maximum margin, of priority and preemptions together.
pub(crate) const CAUTION_MILLI_MAX: u32 = 4_000;

/// The safety margin learnt from a worker's preemptions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caution {
    milli: u32,
    counted: Option<u64>,
    clean_since: Instant,
}

/// Whether a worker had enough to do that it could have preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strain {
    /// More than half of its cache was in use.
    Working,
    /// There was room for everybody.
    Idle,
}

impl Caution {
    pub(crate) const fn new() -> Self {
        Self { milli: 0, counted: None, clean_since: Instant::ORIGIN }
    }

    /// In thousandths of a deviation.
    pub(crate) const fn milli(&self) -> u32 {
        self.milli
    }

    /// The worker has died in the middle of its work: it may have been overdrawn, and cannot say.
    pub(crate) fn died(&mut self, strain: Strain, now: Instant) {
        if strain == Strain::Working {
            self.milli = self.milli.saturating_add(DIED_MILLI).min(CAUTION_MILLI_MAX);
            self.clean_since = now;
        }
        // A worker that comes back counts anew.
        self.counted = None;
    }

    /// The worker has preempted so many requests since it started.
    pub(crate) fn note(&mut self, preemptions: Option<u64>, strain: Strain, now: Instant) {
        // One that started anew counts from zero; what it counted before we first looked is old.
        let before = self.counted.map(|before| if preemptions < Some(before) { 0 } else { before });
        let new = preemptions.zip(before).map_or(0, |(now, before)| now - before);
        self.counted = preemptions.or(self.counted);
        if 0 < new {
            let more = new.saturating_mul(PREEMPTED_MILLI).min(REPORT_MILLI_MAX);
            let more = u32::try_from(more).unwrap_or(CAUTION_MILLI_MAX);
            self.milli = self.milli.saturating_add(more).min(CAUTION_MILLI_MAX);
            self.clean_since = now;
        } else if strain == Strain::Idle {
            self.clean_since = now;
        } else if CLEAN_TIME <= now.since(self.clean_since) {
            self.milli = self.milli.saturating_sub(CLEAN_MILLI);
            self.clean_since = now;
        }
    }
}
