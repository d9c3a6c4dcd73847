//! Timeline: sums over equal intervals, in bounded memory.
//!
//! Intervals are seconds, so that the most in a second is what it says however long a run is. When they run out, after
//! twelve days, they are doubled in length: memory is bounded and the whole run is covered.

use overdraft_units::Instant;

use crate::float_conversion::{float, length};

/// Spans at most.
const SPANS_MAX: usize = 1 << 20;

/// A span at first, in microseconds.
const SPAN_FIRST: u64 = 1_000_000;

/// Points of the rates over time at most.
const POINTS_MAX: usize = 512;

/// Sums by time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    span: u64,
    sums: Vec<u64>,
}

/// Something that was observed over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// As JSON has it; the unit is in the name.
    pub key: &'static str,
    /// What, and in which unit.
    pub name: &'static str,
    /// Seconds and values.
    pub points: Vec<(f64, f64)>,
}

/// Points of a series in JSON at most.
const JSON_POINTS_MAX: usize = 200;

impl Series {
    /// Every so many points, and the last, so that there are no more than JSON may have.
    pub(super) fn thinned(&self) -> Vec<(f64, f64)> {
        thinned(&self.points)
    }
}

/// The same of any points.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stride = points.len().div_ceil(JSON_POINTS_MAX - 1).max(1);
    let mut kept: Vec<_> = points.iter().step_by(stride).copied().collect();
    if let Some(last) = points.last().filter(|_| !(points.len() - 1).is_multiple_of(stride)) {
        kept.push(*last);
    }
    kept
}

impl Timeline {
    pub(crate) const fn new() -> Self {
        Self { span: SPAN_FIRST, sums: Vec::new() }
    }

    pub(crate) fn add(&mut self, at: Instant, count: u64) {
        let at = at.since(Instant::ORIGIN).get();
        loop {
            let place = usize::try_from(at / self.span).unwrap_or(usize::MAX);
            if place < SPANS_MAX {
                if self.sums.len() <= place {
                    self.sums.resize(place + 1, 0);
                }
                self.sums[place] += count;
                return;
            }
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.sums = self.sums.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.span *= 2;
    }

    /// The most that came in one second, or a second of a wider span; none where nothing was added.
    pub(crate) fn most_in_a_second(&self) -> Option<f64> {
        let most = self.sums.iter().max()?;
        Some(float(*most) / self.seconds())
    }

    /// Seconds, and how much came in each second of the span that begins then; spans are so wide that there are no
    /// more than [`POINTS_MAX`].
    pub(crate) fn rates(&self) -> Vec<(f64, f64)> {
        let mut wide = self.clone();
        while POINTS_MAX < wide.sums.len() {
            wide.widen();
        }
        let seconds = wide.seconds();
        let point =
            |(place, sum): (usize, &u64)| (float(length(place)) * seconds, float(*sum) / seconds);
        wide.sums.iter().enumerate().map(point).collect()
    }

    /// How long a span is.
    fn seconds(&self) -> f64 {
        float(self.span) / 1e6
    }
}
