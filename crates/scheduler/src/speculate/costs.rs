//! Step cost model: the time of a step by its number of rows, measured at start.
//!
//! The engine measures it at start at a few numbers of rows; between them it is interpolated
//! linearly, beyond them extrapolated. It is a table and not a formula: where kernels change their
//! shape a formula is wrong, and a controller that trusts it loses more than it gains. Each step
//! moves the table a little towards its measured time. Rows of drafted tokens are cheaper than as
//! many sequences, since they share their sequence's context: their share of the table's cost is
//! learnt apart from the table (`prices.rs`), or steps with drafts would make steps without look
//! cheaper than they are (`docs/design/speculation.md#r3`). All costs are at the machine's usual
//! pace.
//!
//! **Invariant:** the cost is monotonic in the number of rows.

use alloc::vec::Vec;

/// Billionths of a second: a row of a small model takes less than a microsecond.
pub type Nanos = u64;

/// A step moves the whole table by a thirty-second of its error, because a machine gets slower or
/// faster as a whole. If only the step's own number of rows moved, the slope after it would look
/// flat on a machine that gets slower, and drafts cheap, just where they get dearer.
const CORRECTION: u64 = 32;
/// Outlier clamp: a step's time counts as at most this many times the expected time, and at least
/// that fraction of it.
const DISTURBED: u64 = 2;

/// Bound of the correction: a cost stays within this factor of the measured one.
const FACTOR_LEAST: f64 = 1.0 / 64.0;
const FACTOR_MOST: f64 = 64.0;

/// A point was disturbed where twice its rows cost, by row, less than this part of what it costs more than half of them, …
const DISTURBED_PART: u64 = 5;
/// … unless that is less than this part of what half of them cost: so much is noise.
const NOISE_PART: u64 = 2;
/// A last segment counts as flat by chance if its slope is below this fraction of the slope before
/// it.
const FLAT_PART: u64 = 2;
/// Maximum weight of a step without drafts, in steps: it stands for the steps with drafts before
/// it.
const STANDS_FOR_MAX: u64 = 8;
/// What one more token costs that is only read is told from so many, and so many more.
const READ_ROWS: [u32; 2] = [16, 64];
/// A first pass moves what is known of first ones by such a part of what that was off.
const FIRST_MEMORY: Nanos = 16;
/// Denominator of the price of drafted rows, relative to as many sequences.
const GUESS_WHOLE: u32 = 1 << 16;

/// Cost by number of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostCurve {
    /// As it was measured, ascending in both.
    points: Vec<(u32, Nanos)>,
    /// How many times that everything takes. Apart from the points, or what is cut off each time they are moved would bend
    /// them: after twenty thousand passes of 15 µs sixteen rows stood at twice what they took.
    factor: f64,
}

/// What rows of guesses cost beside as many rows of sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuessPrice(u32);

/// What a pass of the draft model consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Sequences that a guess is drawn for.
    pub guessing: u32,
    /// Of those, the ones that have a second token read for it.
    pub second: u32,
    /// Tokens of others that are read.
    pub reading: u32,
}

/// What a step consists of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepCosts {
    /// The target over one row of each sequence, sampling included.
    pub verify: CostCurve,
    /// The draft model, one pass over one row of each sequence; nothing where there is none.
    pub draft: CostCurve,
    /// The draft model over so many tokens of one sequence that it only reads: nothing is drawn from them, so they are
    /// cheaper. As `draft` where it was not measured.
    pub read: CostCurve,
    /// What the first pass of a step takes besides: the target's step left little of the draft model in the caches.
    pub first: Nanos,
    /// What more rows of the same sequences cost beside what `verify` says.
    pub guess: GuessPrice,
}

impl Default for GuessPrice {
    fn default() -> Self {
        Self(GUESS_WHOLE)
    }
}

impl GuessPrice {
    /// So much of what as many sequences cost.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "prices are positive and at most four"
    )]
    pub(super) fn of_rows(part: f64) -> Self {
        Self((part * f64::from(GUESS_WHOLE)) as u32)
    }

    /// As a factor.
    fn part(self) -> f64 {
        f64::from(self.0) / f64::from(GUESS_WHOLE)
    }
}

impl StepCosts {
    /// What the target takes for none, one, two, … guesses beside a row of each of so many sequences and `beside` rows of
    /// prompts, less what the prompts take: they are computed in any case, and that a step is slow anyway makes no
    /// guess better. Endless.
    pub(super) fn steps(&self, sequences: u32, beside: u32) -> impl Iterator<Item = f64> {
        let (plain, part) = (float(self.verify.at(sequences)), self.guess.part());
        let first = float(self.verify.at(sequences + beside));
        self.verify.onwards(sequences + beside).map(move |cost| plain + part * (cost - first))
    }

    /// What the target takes for so many guesses beside so many other rows.
    pub(super) fn guesses(&self, beside: u32, guesses: u32) -> Nanos {
        let rows = self.verify.at(beside + guesses) - self.verify.at(beside);
        nanos(self.guess.part() * float(rows))
    }

    /// What the draft model takes to read so many tokens of a sequence.
    pub(super) fn reading(&self, tokens: u32) -> Nanos {
        let curve = if self.read.is_empty() { &self.draft } else { &self.read };
        curve.at(tokens)
    }

    /// What it takes for a second token of each of so many sequences in a pass, for each of them: one that is only read.
    pub(super) fn second(&self, sequences: u32) -> f64 {
        let draft = &self.draft;
        // More rows are never dearer by the row; a table may say so where it was measured badly.
        let drawn = (draft.at(2 * sequences) - draft.at(sequences)).min(draft.at(sequences));
        let drawn = float(drawn) / f64::from(sequences.max(1));
        let [few, many] = READ_ROWS.map(|rows| float(self.reading(rows)));
        drawn.min((many - few) / f64::from(READ_ROWS[1] - READ_ROWS[0]))
    }

    /// Takes note of what the passes of the draft model in a step took, in their order; tells what of that was reading.
    pub(super) fn measure_passes(&mut self, passes: impl Iterator<Item = (Pass, Nanos)>) -> Nanos {
        let mut read = 0;
        for (place, (pass, took)) in passes.enumerate() {
            let Pass { guessing, second, reading } = pass;
            let seconds = self.second(guessing.max(1)) * f64::from(second);
            let guesses = float(self.draft.at(guessing)) + seconds;
            let reads = float(self.reading(reading));
            if place == 0 && reading == 0 {
                self.measure_first(took.saturating_sub(nanos(guesses)));
                continue;
            }
            let took = if place == 0 { took.saturating_sub(self.first) } else { took };
            // What both take together is put down to each as far as it was expected to take it.
            let part = float(took) / (guesses + reads).max(1.0);
            read += nanos(part * reads);
            if reading == 0 {
                self.draft.correct(guessing, took);
            } else if !self.read.is_empty() {
                self.read.correct(reading, nanos(part * reads));
            }
        }
        read
    }

    /// A first pass took so much more than a later one would have.
    fn measure_first(&mut self, more: Nanos) {
        let most = self.first.saturating_mul(DISTURBED).max(self.draft.at(1));
        let off = float(more.min(most)) - float(self.first);
        self.first = nanos(float(self.first) + off / float(FIRST_MEMORY));
    }

    /// Takes note of what a step without prompts and without guesses took, the first after so many with guesses.
    pub(super) fn measure_plain(&mut self, sequences: u32, took: Nanos, unpinned: u64) {
        self.verify.correct_by(sequences, took, unpinned.clamp(1, STANDS_FOR_MAX));
    }
}

impl CostCurve {
    /// A curve through measured points `(rows, cost)`, in any order; none is free.
    pub fn new(mut points: Vec<(u32, Nanos)>) -> Self {
        points.sort_unstable();
        points.dedup_by_key(|point| point.0);
        let mut curve = Self { points, factor: 1.0 };
        curve.settle();
        curve.straighten();
        curve
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// What `rows` cost together; nothing for none.
    pub fn at(&self, rows: u32) -> Nanos {
        let behind = self.points.partition_point(|point| point.0 < rows);
        let measured = self.measured(behind, rows);
        nanos(self.factor * float(measured)).max(measured.min(1))
    }

    /// What they cost as it was measured, where so many points are of fewer rows.
    fn measured(&self, behind: usize, rows: u32) -> Nanos {
        match (rows, self.points.get(behind)) {
            (0, _) => 0,
            (_, Some(&(at, cost))) if at == rows => cost,
            (_, Some(&after)) => match behind.checked_sub(1) {
                None => after.1,
                Some(before) => between(&self.points[before], &after, rows),
            },
            (_, None) => self.beyond(rows),
        }
    }

    /// What `rows` cost together, and one more, and so on. Endless.
    pub(super) fn onwards(&self, rows: u32) -> impl Iterator<Item = f64> {
        let mut behind = self.points.partition_point(|point| point.0 < rows);
        (rows..).map(move |rows| {
            behind += usize::from(self.points.get(behind).is_some_and(|point| point.0 < rows));
            self.factor * float(self.measured(behind, rows))
        })
    }

    /// Takes note of what a step of `rows` took.
    pub fn correct(&mut self, rows: u32, took: Nanos) {
        self.correct_by(rows, took, 1);
    }

    /// The same of a step that stands for so many.
    fn correct_by(&mut self, rows: u32, took: Nanos, weight: u64) {
        let expected = self.at(rows);
        if rows == 0 || expected == 0 {
            return;
        }
        // However many it stands for, one that was disturbed moves the table no further than any other.
        let most = expected.saturating_add(expected / weight);
        let took = undisturbed(took, expected).clamp(expected - expected / weight, most);
        let off = float(took) / float(expected) - 1.0;
        let moved = self.factor * (1.0 + off * float(weight) / float(CORRECTION));
        self.factor = moved.clamp(FACTOR_LEAST, FACTOR_MOST);
    }

    /// Along the last stretch, unless that is flat beside all from half as many rows on: the last points are timed least
    /// often, and where one came to as much as the next every row beyond them would be free. In proportion where
    /// there is only a point.
    fn beyond(&self, rows: u32) -> Nanos {
        let Some((&last, before)) = self.points.split_last() else { return 0 };
        let slope = |from: (u32, Nanos)| (last.1 - from.1) / u64::from((last.0 - from.0).max(1));
        let stretch = slope(before.last().copied().unwrap_or_default());
        let half = before.iter().rev().find(|point| point.0 <= last.0 / 2);
        let usual = half.map_or(stretch, |&half| slope(half));
        let slope = if stretch < usual / FLAT_PART { usual } else { stretch };
        last.1.saturating_add(slope.saturating_mul(u64::from(rows - last.0)))
    }

    /// A step that is disturbed takes longer, and a long one is disturbed more often: a point that is far above half its
    /// rows, while twice its rows are hardly above it, comes down to the line between those two. Where the table is
    /// flat guesses are free, and no price that is learnt of them makes up for it.
    fn settle(&mut self) {
        for place in 0..self.points.len() {
            let (rows, cost) = self.points[place];
            let of = |rows: u32| {
                let found = self.points.binary_search_by_key(&rows, |point| point.0);
                found.ok().map(|place| self.points[place].1)
            };
            let (true, Some(half), Some(double)) =
                (rows.is_multiple_of(2), of(rows / 2), of(rows.saturating_mul(2)))
            else {
                continue;
            };
            let (before, behind) = (cost.saturating_sub(half), double.saturating_sub(cost));
            // Behind it are twice as many rows.
            let flat = behind.saturating_mul(DISTURBED_PART) < before.saturating_mul(2);
            if flat && half / NOISE_PART < before && half < double {
                self.points[place].1 = half + (double - half) / 3;
            }
        }
    }

    /// More rows never cost less.
    fn straighten(&mut self) {
        let mut least = 1;
        for point in &mut self.points {
            point.1 = point.1.max(least);
            least = point.1;
        }
    }
}

/// What a step counts as that was perhaps disturbed.
fn undisturbed(took: Nanos, expected: Nanos) -> Nanos {
    took.clamp(expected / DISTURBED, expected.saturating_mul(DISTURBED))
}

/// On the line between two points.
fn between(before: &(u32, Nanos), after: &(u32, Nanos), rows: u32) -> Nanos {
    let part = f64::from(rows - before.0) / f64::from(after.0 - before.0);
    before.1 + nanos(float(after.1 - before.1) * part)
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a step, and it is noisy")]
pub(super) fn float(nanos: Nanos) -> f64 {
    nanos as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what is below zero is nothing, and what is beyond all numbers the largest"
)]
pub(super) fn nanos(float: f64) -> Nanos {
    float as Nanos
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// A row costs a hundred beside a base of five hundred; the profile knows nothing of first passes.
    fn costs(read: Vec<(u32, Nanos)>) -> StepCosts {
        let draft = CostCurve::new(vec![(1, 600), (64, 6_900)]);
        StepCosts { draft, read: CostCurve::new(read), ..StepCosts::default() }
    }

    /// What passes really take: a first one two thousand more, and a token that is only read ten.
    fn took(pass: Pass, is_first: bool) -> (Pass, Nanos) {
        let rows = u64::from(pass.guessing);
        let read = 10 * u64::from(pass.second + pass.reading);
        let first = if is_first { 2_000 } else { 0 };
        (pass, 500 + 100 * rows + read + first)
    }

    #[test]
    fn the_first_pass_of_a_step_is_told_from_those_behind_it() {
        let mut costs = costs(vec![(16, 660), (64, 1_140)]);
        let first = Pass { guessing: 4, second: 2, reading: 0 };
        let later = Pass { guessing: 4, ..Pass::default() };
        for _ in 0..200 {
            let read = costs.measure_passes([took(first, true), took(later, false)].into_iter());
            assert_eq!(read, 0);
        }
        assert!(costs.first.abs_diff(2_000) < 40, "{}", costs.first);
        assert!(costs.draft.at(4).abs_diff(900) < 20, "{}", costs.draft.at(4));
        // Few first passes say little: one that is disturbed by far is no reason to stop guessing.
        costs.measure_passes([(first, 1_000_000)].into_iter());
        assert!(costs.first < 2_200, "{}", costs.first);
    }

    #[test]
    fn a_table_that_is_moved_ever_so_often_keeps_its_shape() {
        let points = vec![(1, 15_000), (4, 33_000), (16, 100_000)];
        let mut curve = CostCurve::new(points.clone());
        for step in 0..50_000 {
            curve.correct(1, if step % 2 == 0 { 14_000 } else { 16_000 });
        }
        for (rows, cost) in points {
            let beside = float(curve.at(rows)) / float(curve.at(1)) * 15_000.0 / float(cost);
            assert!((0.99..1.01).contains(&beside), "{rows} rows: {beside} of what they were");
        }
    }

    #[test]
    fn what_is_only_read_has_a_price_of_its_own() {
        // Profiled at three times what it is.
        let mut dear = costs(vec![(16, 1_980), (64, 3_420)]);
        assert!(dear.second(8) < 100.0, "a second token is read, not drawn from");
        let pass = Pass { guessing: 0, second: 0, reading: 64 };
        for _ in 0..400 {
            let read = dear.measure_passes([took(pass, true)].into_iter());
            assert!(0 < read);
        }
        // Without any first pass that only guessed, what a first one takes besides is put down to reading.
        assert!(dear.reading(64).abs_diff(3_140) < 40, "{}", dear.reading(64));
        assert_eq!(dear.draft.at(64), 6_900);
        let mut unread = costs(Vec::new());
        assert_eq!(unread.reading(64), 6_900, "as guessing, where nobody measured it");
        unread.measure_passes([took(pass, true)].into_iter());
        assert_eq!(unread.draft.at(64), 6_900);
    }
}
