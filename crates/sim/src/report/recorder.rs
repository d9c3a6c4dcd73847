//! Recorder: per-request samples and token times of a run.

use std::collections::BTreeMap;

use overdraft_units::{Instant, Micros, Tokens};

use super::cause::Cause;
use super::groups::Belongs;
use super::histogram::Histogram;
use super::timeline::Timeline;

/// Requests of one run at most.
pub const SAMPLES_MAX: u64 = 20_000_000;

/// Groups of requests with times between tokens of their own at most: tenants times stages.
const GAP_GROUPS_MAX: usize = 256;

/// One request that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was to be sent.
    pub intended: Instant,
    /// When it was.
    pub sent: Instant,
    /// When its first token came.
    pub first_token: Option<Instant>,
    /// When its last token came, or it was given up.
    pub ended: Instant,
    /// Tokens of the prompt.
    pub prompt: Tokens,
    /// Those that were found in a cache, where somebody says so.
    pub cached: Option<Tokens>,
    /// Tokens of the answer.
    pub output: Tokens,
    /// How it ended.
    pub fate: Fate,
    /// Why it got no answer, where it got none and somebody says so.
    pub cause: Option<Cause>,
    /// What it belongs to.
    pub belongs: Belongs,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// With its answer.
    Completed,
    /// Somebody said that there is no room for it.
    Refused,
    /// In any other way.
    Failed,
}

/// Takes in what happens.
#[derive(Clone, Debug)]
pub struct Recorder {
    pub(crate) samples: Vec<Sample>,
    pub(crate) gaps: Histogram,
    pub(crate) tokens: Timeline,
    /// The gaps of tenants and stages that have any; groups beyond [`GAP_GROUPS_MAX`] have none.
    pub(crate) gaps_of: BTreeMap<GapGroup, Histogram>,
    /// Samples beyond [`SAMPLES_MAX`].
    pub(crate) dropped: u64,
    /// Turns that were not asked because the one before them got no answer.
    pub(crate) unasked: u64,
}

/// Whose gaps are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GapGroup {
    pub(crate) tenant: Option<u16>,
    pub(crate) stage: Option<u16>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self {
            samples: Vec::new(),
            gaps: Histogram::default(),
            tokens: Timeline::new(),
            gaps_of: BTreeMap::new(),
            dropped: 0,
            unasked: 0,
        }
    }

    /// Tokens of an answer came.
    pub fn tokens(&mut self, at: Instant, tokens: u64) {
        self.tokens.add(at, tokens);
    }

    /// So long a time passed between two tokens of an answer, whose request belongs there.
    pub fn gap(&mut self, gap: Micros, belongs: Belongs) {
        self.gaps(gap, 1, belongs);
    }

    /// The same of so many answers.
    pub(crate) fn gaps(&mut self, gap: Micros, answers: u64, belongs: Belongs) {
        self.gaps.add_times(gap.get(), answers);
        let group = GapGroup { tenant: belongs.tenant, stage: belongs.stage };
        if group.tenant.is_none() && group.stage.is_none() {
            return;
        }
        let is_known = self.gaps_of.contains_key(&group);
        if is_known || self.gaps_of.len() < GAP_GROUPS_MAX {
            self.gaps_of.entry(group).or_default().add_times(gap.get(), answers);
        }
    }

    /// So many turns of a session are not asked, because the one before them got no answer.
    pub fn unasked(&mut self, turns: u64) {
        self.unasked += turns;
    }

    /// A request has ended.
    pub fn sample(&mut self, sample: Sample) {
        if crate::float_conversion::length(self.samples.len()) < SAMPLES_MAX {
            self.samples.push(sample);
        } else {
            self.dropped += 1;
        }
    }

    /// Only the requests that were to be sent from `at` on, without the gaps between their tokens: what
    /// is left when a fleet has come to what it is like.
    #[must_use]
    pub fn intended_from(&self, at: Instant) -> Self {
        let late = self.samples.iter().filter(|sample| at <= sample.intended);
        Self { samples: late.copied().collect(), ..Self::new() }
    }

    /// All requests that have ended.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// From the first request that was to be sent to the end of the last, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        seconds_of(&self.samples)
    }

    /// A number that is equal only for equal histories.
    pub fn digest(&self) -> u64 {
        let of = |time: Instant| time.since(Instant::ORIGIN).get();
        let fate = |fate: Fate| match fate {
            Fate::Completed => 0,
            Fate::Refused => 1,
            Fate::Failed => 2,
        };
        self.samples.iter().fold(0x6f76_6572, |digest, sample| {
            crate::workload::named(&[
                digest,
                of(sample.intended),
                of(sample.sent),
                sample.first_token.map_or(u64::MAX, of),
                of(sample.ended),
                u64::from(sample.prompt.get()),
                sample.cached.map_or(u64::MAX, |tokens| u64::from(tokens.get())),
                u64::from(sample.output.get()),
                fate(sample.fate),
            ])
        })
    }
}

/// From the first of these requests that was to be sent to the end of the last, in seconds.
pub(crate) fn seconds_of(samples: &[Sample]) -> f64 {
    let first = samples.iter().map(|sample| sample.intended).min();
    let last = samples.iter().map(|sample| sample.ended).max();
    let (first, last) = (first.unwrap_or(Instant::ORIGIN), last.unwrap_or(Instant::ORIGIN));
    crate::float_conversion::float(last.since(first).get()) / 1e6
}

impl Sample {
    /// Time to the first token.
    pub fn ttft(&self) -> Option<Micros> {
        self.first_token.map(|first| first.since(self.intended))
    }

    /// Time per token after the first, in microseconds; none for answers of one token.
    pub fn tpot_us(&self) -> Option<f64> {
        let after = self.output.get().checked_sub(1).filter(|&after| 0 < after)?;
        let span = self.ended.since(self.first_token?);
        Some(crate::float_conversion::float(span.get()) / f64::from(after))
    }

    /// Why it got no answer; none where it got one.
    pub fn cause(&self) -> Option<Cause> {
        (self.fate != Fate::Completed).then(|| self.cause.unwrap_or(Cause::Untold))
    }

    /// Time to the end.
    pub fn latency(&self) -> Micros {
        self.ended.since(self.intended)
    }
}
