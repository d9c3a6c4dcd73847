//! Does this worker take one more request, and if not, when might it?
//!
//! Three lines, and one that is idle passes them all: the predicted peak with the request must fit
//! into the cache (R3); the share of the cache that the worker itself reported must be below its
//! priority's threshold (R5); and the prompts that wait there must be computed soon, because what
//! waits there cannot be put in order any more (R6).

use overdraft_units::{Instant, Micros, Tokens};

use super::caution::CAUTION_MILLI_MAX;
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
}

/// A worker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) answer: Answer,
    /// Tokens that it would hold at its peak with the request, caution included; `None` where
    /// nobody had to look.
    pub(crate) peak: Option<u64>,
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
    const TAKEN: Self = Self { answer: Answer::Taken, peak: None };

    const fn later(wait: Micros) -> Self {
        Self { answer: Answer::Later(wait), peak: None }
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
    if settings.mode == Mode::Off || worker.requests_all() == 0 {
        return Judged::TAKEN;
    }
    let one_ends = || Judged::later(worker.drained_in(1).unwrap_or(RETRY_AFTER_MAX));
    match settings.mode {
        Mode::Static(requests) if requests <= worker.requests_all() => one_ends(),
        Mode::Off | Mode::Static(_) => Judged::TAKEN,
        Mode::Threshold => {
            over_threshold(worker, asked, settings).map_or(Judged::TAKEN, Judged::later)
        }
        Mode::Reserve => reserve(worker, asked, settings),
        Mode::Peak => {
            if let Some(wait) = backlog(worker, asked, settings, (fleet_pace, now)) {
                return Judged::later(wait);
            }
            let known = worker.kv_capacity().is_some();
            let full = settings.requests_max.is_some_and(|most| most <= worker.requests_all());
            if worker.forecast().is_full() || (!known && full) {
                return one_ends();
            }
            let stale = worker.staleness(now).is_none_or(|age| settings.stale_after < age);
            if !stale && let Some(wait) = over_threshold(worker, asked, settings) {
                return Judged::later(wait);
            }
            peak(worker, asked, settings, Freshness::of(stale))
        }
    }
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
    let kept = settings.watermark_permille.saturating_add(left_to_others(asked, settings));
    u64::from(capacity.get()) * 1_000_u64.saturating_sub(u64::from(kept)) / 1_000
}

/// What one who has more than its share leaves free, in thousandths: those who have not
/// would else have to wait for something to come free, however little they ask for (R11).
const fn left_to_others(asked: &Asked, settings: &AdmitSettings) -> u16 {
    match asked.portion {
        Portion::Within => 0,
        Portion::Beyond => settings.fair_reserve_permille,
    }
}

fn peak(worker: &Worker, asked: &Asked, settings: &AdmitSettings, word: Freshness) -> Judged {
    let Some(capacity) = worker.kv_capacity() else { return Judged::TAKEN };
    let budget = budget(capacity, asked, settings);
    let stale = if word == Freshness::Stale { STALE_MILLI } else { 0 };
    let base = u32::from(settings.caution_milli.of(asked.priority));
    let caution = base.saturating_add(worker.caution_milli()).saturating_add(stale);
    let caution = with_few(caution, worker.requests_all()).min(CAUTION_MILLI_MAX);
    let used = asked.own.get().min(LENGTH_MAX);
    // What others hold is only known from its word.
    let foreign = if word == Freshness::Stale { 0 } else { worker.correction().foreign() };
    // No deviation is more than half of the greatest peak: far below the budget nobody has to look.
    let bound = worker.forecast().bound_with(&asked.prospect, used);
    let most = bound.saturating_mul(u64::from(2_000 + caution)) / 2_000;
    if most.saturating_add(foreign) <= budget {
        return Judged::TAKEN;
    }
    let peak = worker.forecast().peak_with(&asked.prospect, used).with_caution(caution);
    let peak = peak.saturating_add(foreign);
    let over = peak.saturating_sub(budget);
    let answer = if over == 0 {
        Answer::Taken
    } else {
        Answer::Later(worker.drained_in(over).unwrap_or(RETRY_AFTER_MAX))
    };
    Judged { answer, peak: Some(peak) }
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
    Judged { answer, peak: Some(declared) }
}

/// When it will be below its threshold again, if it is not.
fn over_threshold(worker: &Worker, asked: &Asked, settings: &AdmitSettings) -> Option<Micros> {
    let scraped = worker.scraped()?;
    let threshold = settings.kv_threshold_permille.of(asked.priority);
    let threshold = threshold.saturating_sub(left_to_others(asked, settings));
    let over = scraped.kv_use_permille?.checked_sub(threshold)?;
    let capacity = u64::from(scraped.kv_capacity.unwrap_or_default().get());
    let over = capacity * u64::from(over) / 1_000;
    (0 < over).then(|| worker.drained_in(over).unwrap_or(RETRY_AFTER_MAX))
}

/// One who has more than its share may put so small a part of the backlog before others.
const BACKLOG_SHARE: u64 = 8;

/// When the prompts that wait there will be few enough, if they are not.
fn backlog(
    worker: &Worker,
    asked: &Asked,
    settings: &AdmitSettings,
    (fleet_pace, now): (Pace, Instant),
) -> Option<Micros> {
    let allowed = match asked.portion {
        Portion::Within => settings.prefill_backlog,
        Portion::Beyond => Micros::new(settings.prefill_backlog.get() / BACKLOG_SHARE),
    };
    let pace = worker.prefill_rate().pace_within(fleet_pace);
    let queued = pace.time_for(worker.queued(pace, now));
    let over = queued.checked_sub(allowed)?;
    (over != Micros::ZERO).then_some(over)
}
