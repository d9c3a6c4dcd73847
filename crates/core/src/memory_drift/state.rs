//! Memory repair state machine of one worker: watching, draining, restarting.

use overdraft_units::{Instant, Micros};

use super::{FragmentSettings, Outcome, Reading, Step};
use crate::fleet::Worker;
use crate::restart::Restarts;

/// How far a repair has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Watching,
    Draining {
        since: Instant,
    },
    Restarting {
        since: Instant,
        /// The old process is known to have ended.
        gone: bool,
        /// The hook restarted nothing.
        failed: bool,
    },
}

/// One worker.
#[derive(Debug)]
pub(super) struct State {
    /// The worker's name as a number: a place may be given to another.
    pub(super) tag: u64,
    pub(super) phase: Phase,
    up_since: Option<Instant>,
    /// Baseline of memory in use, in thousandths: the minimum since the worker settled.
    baseline: Option<u16>,
    reading: Option<Reading>,
    /// Since when the drift has been too much.
    past_since: Option<Instant>,
    restarts: Restarts,
    restarted: Option<Instant>,
    not_before: Instant,
}

impl State {
    pub(super) const fn new(tag: u64) -> Self {
        Self {
            tag,
            phase: Phase::Watching,
            up_since: None,
            baseline: None,
            reading: None,
            past_since: None,
            restarts: Restarts::NONE,
            restarted: None,
            not_before: Instant::ORIGIN,
        }
    }

    pub(super) fn read(&mut self, worker: &Worker, reading: Reading, settings: &FragmentSettings) {
        if !worker.health().is_up() {
            return self.begin_anew();
        }
        let up_since = *self.up_since.get_or_insert(reading.at);
        let own = own(reading, settings);
        if settings.settle <= reading.at.since(up_since) {
            self.baseline = Some(self.baseline.map_or(own, |least| least.min(own)));
        }
        self.reading = Some(reading);
        let too_much = self.drift_permille(settings) > Some(settings.threshold_permille);
        self.past_since = too_much.then(|| self.past_since.unwrap_or(reading.at));
    }

    pub(super) fn drift_permille(&self, settings: &FragmentSettings) -> Option<u16> {
        Some(own(self.reading?, settings).saturating_sub(self.baseline?))
    }

    /// What was known is true of a process that is gone.
    fn begin_anew(&mut self) {
        (self.up_since, self.baseline, self.reading, self.past_since) = (None, None, None, None);
    }

    /// Watching: is it time to drain?
    pub(super) fn begin(
        &mut self,
        worker: &Worker,
        may_begin: bool,
        settings: &FragmentSettings,
        now: Instant,
    ) -> Option<Step> {
        if !worker.health().is_up() {
            self.begin_anew();
            return None;
        }
        let Some(reading) = self.reading.filter(|reading| reading.is_fresh(now)) else {
            self.past_since = None;
            return None;
        };
        let past_since = self.past_since?;
        // One reading alone may be of a peak, however long the next one takes to come.
        let lasts = past_since < reading.at && settings.lasting <= now.since(past_since);
        let due = lasts && self.not_before <= now;
        // A worker that drains already does so by another order.
        if !due || !may_begin || worker.is_draining() {
            return None;
        }
        self.phase = Phase::Draining { since: now };
        Some(Step::Drain { drift_permille: self.drift_permille(settings)? })
    }

    /// Draining: has it finished, or is it needed?
    pub(super) fn drain(
        &mut self,
        worker: &Worker,
        since: Instant,
        spare: bool,
        settings: &FragmentSettings,
        now: Instant,
    ) -> Option<Step> {
        if !worker.is_drained_for_repair() {
            return Some(self.end(Outcome::CalledOff, settings, now));
        }
        let up = worker.health().is_up();
        if up && !spare {
            return Some(self.end(Outcome::Needed, settings, now));
        }
        let empty = worker.requests_all() == 0;
        if up && !empty && now.since(since) < settings.drain {
            return None;
        }
        self.phase = Phase::Restarting { since: now, gone: !up, failed: false };
        Some(Step::Restart)
    }

    /// Restarting: is it back?
    pub(super) fn restart(
        &mut self,
        worker: &Worker,
        settings: &FragmentSettings,
        now: Instant,
    ) -> Option<Step> {
        let Phase::Restarting { since, gone, failed } = &mut self.phase else { return None };
        let up = worker.health().is_up();
        // Up with the old process still there is what it looks like before the hook has worked.
        *gone |= !up;
        let outcome = if *failed {
            Outcome::HookFailed
        } else if *gone && up {
            Outcome::Restarted
        } else if settings.ready <= now.since(*since) {
            Outcome::TimedOut
        } else {
            return None;
        };
        Some(self.end(outcome, settings, now))
    }

    fn end(&mut self, outcome: Outcome, settings: &FragmentSettings, now: Instant) -> Step {
        let lived = self.restarted.map_or(Micros::ZERO, |restarted| now.since(restarted));
        self.not_before = now + self.restarts.pause(lived, settings.backoff);
        self.restarted = Some(now);
        self.phase = Phase::Watching;
        self.past_since = None;
        if outcome == Outcome::Restarted {
            self.begin_anew();
        }
        Step::Rejoin(outcome)
    }
}

/// Memory in use beyond what the cache has taken, in thousandths.
fn own(reading: Reading, settings: &FragmentSettings) -> u16 {
    let kv = u32::from(reading.kv_permille) * u32::from(settings.kv_memory_permille) / 1_000;
    reading.memory_permille.saturating_sub(u16::try_from(kv).unwrap_or(u16::MAX))
}
