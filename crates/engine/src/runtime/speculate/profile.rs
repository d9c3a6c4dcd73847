//! Step cost profiling: measures the time of a step by its number of rows at start.
//!
//! It runs once, before anything is served: the cache is empty, so it may be written to. Small
//! numbers of rows are always measured, however slow the model: a table without the rows that
//! drafts take would charge each of them as much as a step. More rows and repetitions follow while
//! there is time.

use std::collections::BTreeSet;
use std::slice::SliceIndex;

use overdraft_scheduler::batch::{BatchLimits, Logits};
use overdraft_scheduler::speculate::{CostCurve, Nanos};
use overdraft_telemetry::Clock;
use overdraft_units::{BlockId, Micros, TokenId, Tokens};

use crate::backend::{Backend, BatchSlot};

/// Time budget for the profile of one model, unless one step of each small number of rows takes
/// longer.
pub const PROFILE_MAX: Micros = Micros::new(2_000_000);
/// Rows that are always measured: those of one sequence with a full draft, and of a few without. Whether to guess is
/// decided by these, and of those a table that was disturbed says that some are dear and the next one free.
const ROWS_LEAST: u32 = 16;
/// Rows at most.
const ROWS_MAX: u32 = 256;
/// Each number of rows is measured so often, and the end of the quickest third counts. The least is of whichever moment
/// memory was quickest in, another one for each number of rows: eight rows beside one came to 1.7 to 2.4 for
/// engines that started one after the other, by thirds to 2.25, give or take 0.1. So do medians, but half of the longer
/// steps may be disturbed while shorter ones are not, and then all between those two is free.
const TIMES: usize = 21;
/// Part of the times that are quicker than what counts.
const QUICKER_PART: usize = 3;
/// More rows than always count where they were measured so often, or as often as the few: of less it is whatever
/// disturbed one of them.
const TIMES_LEAST: usize = 3;
/// A step that takes longer is hardly longer for the memory that it touches first.
const COLD_MAX: Micros = Micros::new(20_000);
/// Time for that of what reading takes, and one more pass.
const READING_MAX: Micros = Micros::new(200_000);
/// Tokens that are read at once, from few to as many as a draft model reads in a step.
const READ_TOKENS: [u32; 3] = [16, 64, 256];
/// Positions before the measured one, where the context has as many.
const BEHIND: u32 = 128;

/// The backend's costs; nothing where it fails.
pub(super) fn measure(backend: &mut dyn Backend, limits: BatchLimits, clock: Clock) -> CostCurve {
    let shape = backend.shape();
    let size = shape.block_size;
    let positions = shape.blocks.get().saturating_mul(size.get()).min(shape.context.get());
    let start = BEHIND.min(positions.saturating_sub(1));
    let pages = size.pages_for(Tokens::new(start + 1)).get();
    let table: Vec<BlockId> = (0..pages).map(BlockId).collect();
    // All rows are one and the same position: what they write is the same, too.
    let slot = BatchSlot { tokens: &[TokenId(0)], start, table: &table, logits: Logits::Last };
    let mut logits = Vec::new();
    let step = |rows: u32| {
        let count = usize::try_from(rows).expect("usize holds 32 bits");
        let before = clock.now();
        backend.forward(&vec![slot; count], &mut logits).ok()?;
        Some(clock.now().since(before))
    };
    let mut profile = Profile::new(ROWS_MAX.min(limits.step_tokens.get()));
    // Where the backend fails, what was measured before is still true.
    let _: Option<()> = profile.fill(step);
    profile.curve()
}

/// What it takes to read so many tokens of one sequence, of which only the last yields logits; nothing where the backend
/// fails.
pub(super) fn measure_reading(
    backend: &mut dyn Backend,
    limits: BatchLimits,
    clock: Clock,
) -> CostCurve {
    let shape = backend.shape();
    let positions = shape.blocks.get().saturating_mul(shape.block_size.get());
    let most = positions.min(shape.context.get()).min(limits.step_tokens.get());
    let mut logits = Vec::new();
    let mut read = |tokens: &[TokenId]| {
        let count = Tokens::new(u32::try_from(tokens.len()).expect("few"));
        let table: Vec<_> = (0..shape.block_size.pages_for(count).get()).map(BlockId).collect();
        let slot = BatchSlot { tokens, start: 0, table: &table, logits: Logits::Last };
        let before = clock.now();
        backend.forward(&[slot], &mut logits).ok()?;
        Some(clock.now().since(before))
    };
    let (mut points, mut spent) = (Vec::with_capacity(READ_TOKENS.len()), Micros::ZERO);
    for count in READ_TOKENS.into_iter().filter(|count| *count <= most) {
        let tokens = vec![TokenId(0); usize::try_from(count).expect("few")];
        let mut times = Vec::with_capacity(TIMES_LEAST + 1);
        while times.len() <= TIMES_LEAST && spent <= READING_MAX {
            let Some(took) = read(&tokens) else { break };
            spent += took;
            times.push(took);
        }
        // The first one is for nobody.
        let counted = times.split_off(times.len().min(1));
        points.extend(counts(counted).map(|took| (count, cost(took))));
    }
    CostCurve::new(points)
}

/// What was measured, by number of rows.
#[derive(Debug)]
struct Profile {
    points: Vec<Point>,
    /// So many of them are of few rows.
    few: usize,
}

/// One number of rows.
#[derive(Debug)]
struct Point {
    rows: u32,
    times: Vec<Micros>,
    spent: Micros,
}

impl Profile {
    /// Powers of two and what lies half-way, up to so many: a bend between two points is not on their line.
    fn new(most: u32) -> Self {
        let rows = (0..=ROWS_MAX.ilog2()).flat_map(|power| [1 << power, (1 << power) * 3 / 2]);
        let rows: BTreeSet<u32> = rows.filter(|rows| *rows <= most).collect();
        let few = rows.range(..=ROWS_LEAST).count();
        let point = |rows| Point { rows, times: Vec::new(), spent: Micros::ZERO };
        Self { points: rows.into_iter().map(point).collect(), few }
    }

    /// Few rows in rounds, and after each round more rows until they took as long as the few. Ends where a
    /// `step` fails.
    fn fill(&mut self, mut step: impl FnMut(u32) -> Option<Micros>) -> Option<()> {
        // Weights and threads are asleep at first.
        step(1)?;
        for round in 0..TIMES {
            for place in 0..self.few {
                let spent = self.spent(..self.few) + self.spent(self.few..);
                if 0 < round && PROFILE_MAX < spent + self.expected(place) {
                    return Some(());
                }
                self.time(place, &mut step)?;
            }
            let few = self.spent(..self.few);
            let most = PROFILE_MAX.checked_sub(few).unwrap_or(Micros::ZERO).min(few);
            while let Some(place) = self.next_of_many() {
                if most < self.spent(self.few..) + self.expected(place) {
                    break;
                }
                self.time(place, &mut step)?;
            }
        }
        Some(())
    }

    fn time(&mut self, place: usize, step: &mut impl FnMut(u32) -> Option<Micros>) -> Option<()> {
        let expected = self.expected(place);
        let Point { rows, times, spent } = &mut self.points[place];
        // Each greater number of rows touches memory that was never touched, and the fewest come behind the most, which leave
        // nothing of the weights in the caches: one row came to more than two. That step is for nobody. Where steps are
        // long, it is a small part of them.
        if (times.is_empty() || place == 0) && expected < COLD_MAX {
            *spent += step(*rows)?;
        }
        let took = step(*rows)?;
        *spent += took;
        times.push(took);
        Some(())
    }

    /// What comes next of more than few rows: each gets as much time as every other, a number once the one before was
    /// timed often enough to count.
    fn next_of_many(&self) -> Option<usize> {
        let times = |place: usize| self.points[place].times.len();
        let many = self.few..self.points.len();
        let counts = |place: &usize| *place == self.few || TIMES_LEAST <= times(*place - 1);
        let able = many.take_while(counts).filter(|place| times(*place) < TIMES);
        able.min_by_key(|place| self.points[*place].spent + self.expected(*place))
    }

    /// What one more step of it takes: as long as the last, or what its rows come to beside those timed before it.
    fn expected(&self, place: usize) -> Micros {
        let mut behind = self.points[..=place].iter().rev();
        let known = behind.find_map(|point| Some((point.rows, point.times.last()?.get())));
        known.map_or(Micros::ZERO, |(rows, took)| {
            Micros::new(took.saturating_mul(u64::from(self.points[place].rows)) / u64::from(rows))
        })
    }

    fn spent(&self, range: impl SliceIndex<[Point], Output = [Point]>) -> Micros {
        self.points[range].iter().fold(Micros::ZERO, |all, point| all + point.spent)
    }

    fn curve(self) -> CostCurve {
        let least = self.points.first().map_or(0, |point| point.times.len()).min(TIMES_LEAST);
        let timed = self.points.into_iter().filter(|point| least <= point.times.len());
        let costs = timed.filter_map(|point| Some((point.rows, cost(counts(point.times)?))));
        CostCurve::new(costs.collect())
    }
}

/// Where the quickest third ends; the least of up to three.
fn counts(mut times: Vec<Micros>) -> Option<Micros> {
    times.sort_unstable();
    times.get(times.len().checked_sub(1)? / QUICKER_PART).copied()
}

/// What took so long costs that much, and at least a microsecond, which is as fine as the clock is. With
/// less the table's corrections would be lost to rounding at one end and pile up at the other.
pub(super) fn cost(took: Micros) -> Nanos {
    took.get().max(1).saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use overdraft_scheduler::speculate::{CostCurve, Nanos};
    use overdraft_units::Micros;

    use super::{PROFILE_MAX, Profile, ROWS_MAX, TIMES, TIMES_LEAST};

    /// A machine that takes so long for so many rows in its `n`th step.
    fn profile(mut takes: impl FnMut(u32, u64) -> Option<u64>) -> (Profile, Micros) {
        let (mut profile, mut all, mut steps) = (Profile::new(ROWS_MAX), 0, 0);
        let _: Option<()> = profile.fill(|rows| {
            steps += 1;
            let took = takes(rows, steps)?;
            all += took;
            Some(Micros::new(took))
        });
        (profile, Micros::new(all))
    }

    /// Four milliseconds and half a one for each row, in nanoseconds.
    fn usual(rows: u32) -> Nanos {
        (4_000 + 500 * u64::from(rows)) * 1_000
    }

    fn is_near(curve: &CostCurve, rows: u32) -> bool {
        curve.at(rows).abs_diff(usual(rows)) <= usual(rows) / 50
    }

    #[test]
    fn steps_that_were_disturbed_do_not_count() {
        // A third of the steps take three times as long, an eleventh half: where the quickest third ends is neither.
        let (profile, _) = profile(|rows, step| {
            let (took, drawn) = (usual(rows) / 1_000, (step * 0x9E37_79B9) >> 16);
            let quicker = if drawn.is_multiple_of(11) { took / 2 } else { took };
            Some(if drawn.is_multiple_of(3) { 3 * took } else { quicker })
        });
        let curve = profile.curve();
        for rows in [1, 2, 3, 4, 6, 8, 12, 16] {
            assert!(is_near(&curve, rows), "{rows} rows cost {}", curve.at(rows));
        }
    }

    #[test]
    fn more_rows_are_timed_several_times_in_as_much_time_as_few_take() {
        let (profile, all) = profile(|rows, _| Some(usual(rows) / 1_000));
        let times = |point: &super::Point| (point.rows, point.times.len());
        let times: Vec<(u32, usize)> = profile.points.iter().map(times).collect();
        assert!(times[..profile.few].iter().all(|(_, times)| TIMES * 3 / 4 <= *times), "{times:?}");
        assert!(times.iter().all(|(rows, times)| 96 < *rows || TIMES_LEAST <= *times), "{times:?}");
        assert!(all <= PROFILE_MAX + Micros::new(4_500), "{all}");
        let (few, many) = (profile.spent(..profile.few), profile.spent(profile.few..));
        assert!(many <= few, "{many} beside {few}");
    }

    #[test]
    fn what_many_rows_leave_in_the_caches_does_not_make_a_few_dear() {
        // A step behind one of more rows takes half as long again.
        let mut before = 0;
        let (profile, _) = profile(|rows, _| {
            let after = core::mem::replace(&mut before, rows);
            let took = usual(rows) / 1_000;
            Some(if rows < after { took + took / 2 } else { took })
        });
        let curve = profile.curve();
        for rows in [1, 2, 16] {
            assert!(is_near(&curve, rows), "{rows} rows cost {}", curve.at(rows));
        }
    }

    #[test]
    fn more_rows_that_were_timed_once_are_left_out() {
        // What is timed last is disturbed.
        let (profile, _) =
            profile(|rows, _| Some(usual(rows) / 1_000 * if 96 < rows { 3 } else { 1 }));
        let timed = profile.points.iter().map(|point| point.times.len());
        assert!(timed.clone().any(|times| (1..TIMES_LEAST).contains(&times)), "{profile:?}");
        let curve = profile.curve();
        assert!(is_near(&curve, 128), "128 rows cost {}", curve.at(128));
    }

    #[test]
    fn a_model_that_takes_long_is_timed_once_for_each_few_rows() {
        let (profile, _) = profile(|_, _| Some(500_000));
        assert!(profile.points[..profile.few].iter().all(|point| point.times.len() == 1));
        assert_eq!(profile.curve().at(16), 500_000_000);
    }

    #[test]
    fn what_was_timed_before_a_failure_counts() {
        let (profile, _) = profile(|rows, step| (step < 40).then_some(usual(rows) / 1_000));
        let curve = profile.curve();
        assert!(is_near(&curve, 1) && is_near(&curve, 16), "{curve:?}");
        let (profile, _) = super::tests::profile(|_, _| None);
        assert!(profile.curve().is_empty());
    }
}
