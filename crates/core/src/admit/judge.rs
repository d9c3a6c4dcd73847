//! Admission test: whether one worker takes one more request.
//!
//! A request is held only if starting it now costs others more than holding costs it. Starting
//! costs others where the worker would run out of cache, because a preempted request loses the
//! computed part of its answer: the predicted peak with the request must fit (R3). And it costs
//! others where it delays a request with a greater claim: one that already waits for the worker,
//! one of a tenant below its fair share beside one above it (R11), and one of a greater priority,
//! before whose prompt few others may be queued (R6). A request that would wait at the worker for a seat waits
//! here, where the order is by priority (R13). An idle worker takes whatever it can hold.

use overdraft_units::{Instant, Micros, Tokens};

use super::safety_margin::CAUTION_MILLI_MAX;
use super::worker_queue::Ahead;
use super::{AdmitSettings, Mode, Portion, Priority, Prospect, RETRY_AFTER_MAX};
use crate::estimate::{LENGTH_MAX, Pace};
use crate::fleet::Worker;

/// What a request asks of a worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) priority: Priority,
    /// Where its tenant stands among those who ask.
    pub(crate) portion: Portion,
    pub(crate) prospect: Prospect,
    /// Tokens of its prompt that no request in flight holds there.
    pub(crate) own: Tokens,
    /// Tokens that it needs, as those who wait are counted.
    pub(crate) tokens: u64,
    /// Who waits for the worker before it.
    pub(crate) ahead: Ahead,
    /// How long it may have to wait there at most to be of interest.
    pub(crate) wait_max: Micros,
}

impl Asked {
    /// Tokens of those who start before it, where it cannot pass them.
    const fn behind(&self) -> u64 {
        if self.ahead.holds(self.tokens) { self.ahead.tokens } else { 0 }
    }
}

/// A worker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) answer: Answer,
    /// Tokens that it would hold at its peak with the request, caution included; `None` where
    /// nobody had to look.
    pub(crate) peak: Option<u64>,
    /// Whether its forecast was read, which costs something.
    pub(crate) looked: bool,
}

/// Whether it takes the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It does.
    Taken,
    /// Not before so long.
    Later(Micros),
}

impl Judged {
    const TAKEN: Self = Self { answer: Answer::Taken, peak: None, looked: false };

    const fn later(wait: Micros) -> Self {
        Self { answer: Answer::Later(wait), peak: None, looked: false }
    }

    const fn by_peak(answer: Answer, peak: u64) -> Self {
        Self { answer, peak: Some(peak), looked: true }
    }
}

/// Judges one worker.
pub(crate) fn judge(
    worker: &Worker,
    asked: &Asked,
    settings: &AdmitSettings,
    fleet_pace: Pace,
    now: Instant,
) -> Judged {
    let is_idle = worker.requests_all() == 0 && settings.mode.waits();
    if settings.mode == Mode::Off || is_idle {
        return Judged::TAKEN;
    }
    let behind = asked.behind();
    let one_ends = || Judged::later(worker.drained_in(behind.max(1)).unwrap_or(RETRY_AFTER_MAX));
    match settings.mode {
        Mode::Static(requests) if requests <= worker.requests_all() => one_ends(),
        Mode::Off | Mode::Static(_) => Judged::TAKEN,
        Mode::Threshold => {
            over_threshold(worker, asked, settings).map_or(Judged::TAKEN, Judged::later)
        }
        Mode::Reserve => reserve(worker, asked, settings),
        Mode::Peak => {
            if let Some(wait) = delays_greater(worker, asked, settings, fleet_pace, now) {
                return Judged::later(wait);
            }
            if worker.sequences_max().is_some_and(|most| most <= worker.sequences_all()) {
                return one_ends();
            }
            if let Some(wait) = untold(worker, now) {
                return Judged::later(wait);
            }
            let known = worker.kv_capacity().is_some();
            let full = settings.requests_max.is_some_and(|most| most <= worker.requests_all());
            if worker.forecast().is_full() || (!known && full) {
                return one_ends();
            }
            let stale = worker.staleness(now).is_none_or(|age| settings.stale_after < age);
            peak(worker, asked, settings, Freshness::of(stale))
        }
    }
}

/// How long one that has come up is expected to take until it tells its load.
const TELLS_WITHIN: Micros = Micros::new(5_000_000);

/// Requests that it gets until then at most: those who waited for it would else all go to the first one that is up.
const UNTOLD_MAX: u32 = 64;

/// How long to wait where one has come up, has got many requests and has not said yet how many it has room for.
fn untold(worker: &Worker, now: Instant) -> Option<Micros> {
    if worker.scraped().is_some() || worker.requests_all() < UNTOLD_MAX {
        return None;
    }
    let left = TELLS_WITHIN.checked_sub(now.since(worker.came_up()))?;
    (left != Micros::ZERO).then_some(left)
}

/// Whether a worker's word is new enough to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freshness {
    Fresh,
    Stale,
}

impl Freshness {
    const fn of(stale: bool) -> Self {
        if stale { Self::Stale } else { Self::Fresh }
    }
}

/// What is added to the caution while a worker's word is stale.
const STALE_MILLI: u32 = 1_000;

/// What may be promised of a cache to one who asks.
fn budget(capacity: Tokens, asked: &Asked, settings: &AdmitSettings) -> u64 {
    let capacity = u64::from(capacity.get());
    let watermark = capacity * u64::from(settings.watermark_permille) / 1_000;
    capacity.saturating_sub(watermark).saturating_sub(left_to_others(capacity, asked, settings))
}

/// Tokens of a cache that a request leaves to those with a greater claim who are there: they would else have
/// to wait for something to come free, however little they ask for (R11).
fn left_to_others(capacity: u64, asked: &Asked, settings: &AdmitSettings) -> u64 {
    match asked.portion {
        Portion::Within => 0,
        Portion::Beyond { kept } | Portion::Outranked { kept } => {
            kept.min(capacity * u64::from(settings.fair_reserve_permille) / 1_000)
        }
    }
}

fn peak(worker: &Worker, asked: &Asked, settings: &AdmitSettings, word: Freshness) -> Judged {
    let Some(capacity) = worker.kv_capacity() else { return Judged::TAKEN };
    let budget = budget(capacity, asked, settings).saturating_add(worker.ends_unheard());
    let stale = if word == Freshness::Stale { STALE_MILLI } else { 0 };
    let base = u32::from(settings.caution_milli.of(asked.priority));
    let caution = base.saturating_add(worker.caution_milli()).saturating_add(stale);
    let caution = with_few(caution, worker.requests_all()).min(CAUTION_MILLI_MAX);
    let used = asked.own.get().min(LENGTH_MAX);
    // What others hold is only known from its word.
    let foreign = if word == Freshness::Stale { 0 } else { worker.correction().foreign() };
    let waits = asked.ahead.holds(asked.tokens);
    if waits {
        // It has to wait for what those before it need, whatever the peak adds to that.
        let least = worker.drained_in(asked.ahead.tokens).unwrap_or(RETRY_AFTER_MAX);
        if asked.wait_max <= least {
            return Judged { looked: true, ..Judged::later(least) };
        }
    }
    // No deviation is more than half of the greatest peak: far below the budget nobody has to look.
    let bound = worker.forecast().bound_with(&asked.prospect, used);
    let most = bound.saturating_mul(u64::from(2_000 + caution)) / 2_000;
    if !waits && most.saturating_add(foreign) <= budget {
        return Judged::TAKEN;
    }
    let peak = worker.forecast().peak_with(&asked.prospect, used).with_caution(caution);
    let peak = peak.saturating_add(foreign);
    let over = peak.saturating_sub(budget);
    let answer = if over == 0 && !waits {
        Answer::Taken
    } else {
        let over = over.saturating_add(asked.ahead.tokens).max(1);
        Answer::Later(worker.drained_in(over).unwrap_or(RETRY_AFTER_MAX))
    };
    Judged::by_peak(answer, peak)
}

/// The caution among so many requests. The sum of few lengths has a heavier tail than a normal one; it
/// is taken as Student's, whose quantile is `z + (z³ + z) / 4ν` at `ν` degrees of freedom (the first
/// term of its expansion, Abramowitz and Stegun 26.7.5).
fn with_few(milli: u32, requests: u32) -> u32 {
    let z = u64::from(milli);
    let tail =
        z * (1_000_000 + z * z) / 1_000_000 / 4 / u64::from(requests.saturating_sub(1).max(1));
    milli.saturating_add(u32::try_from(tail).unwrap_or(u32::MAX))
}

fn reserve(worker: &Worker, asked: &Asked, settings: &AdmitSettings) -> Judged {
    let Some(capacity) = worker.kv_capacity() else { return Judged::TAKEN };
    let declared = worker.forecast().sums().declared.saturating_add(asked.prospect.declared);
    let over = declared.saturating_sub(budget(capacity, asked, settings));
    let answer = if over == 0 {
        Answer::Taken
    } else {
        Answer::Later(worker.drained_in(over).unwrap_or(RETRY_AFTER_MAX))
    };
    Judged::by_peak(answer, declared)
}

/// When it will be below its threshold again, if it is not.
fn over_threshold(worker: &Worker, asked: &Asked, settings: &AdmitSettings) -> Option<Micros> {
    let used = u64::from(worker.scraped()?.kv_use_permille?);
    let over = used.checked_sub(settings.kv_threshold_permille.of(asked.priority).into())?;
    // Some engines tell the share that is in use, and not of how much.
    let capacity = worker.kv_capacity().map_or(0, |capacity| u64::from(capacity.get()));
    let tokens = (capacity * over / 1_000).max(1);
    (0 < over).then(|| worker.drained_in(tokens).unwrap_or(RETRY_AFTER_MAX))
}

/// When the prompts that wait there will be few enough, if somebody at a greater priority is there
/// and would wait for them. Those who start before it have to be computed as well.
fn delays_greater(
    worker: &Worker,
    asked: &Asked,
    settings: &AdmitSettings,
    fleet_pace: Pace,
    now: Instant,
) -> Option<Micros> {
    if !matches!(asked.portion, Portion::Outranked { .. }) {
        return None;
    }
    // What is on the way there keeps it busy until more can come.
    let allowed = settings.prefill_backlog.get().saturating_add(worker.round_trip().get());
    let allowed = Micros::new(allowed);
    let pace = worker.prefill_rate().pace_within(fleet_pace);
    let queued = pace.time_for(worker.queued(pace, now));
    let over = queued.checked_sub(allowed).filter(|over| *over != Micros::ZERO)?;
    Some(Micros::new(over.get().saturating_add(pace.time_for(asked.behind()).get())))
}
