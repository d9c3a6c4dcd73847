//! What does a step of so many rows cost?
//!
//! Measured when the engine starts, at a few numbers of rows; between them a straight line, beyond
//! them the last one goes on. A table and not a formula: where kernels change their shape a formula is
//! wrong, and a controller that believes it loses more than it gains. Each step that runs moves the
//! table a little towards what it took (`docs/design/speculation.md#r3`).
//!
//! **Invariant:** more rows never cost less.

use alloc::vec::Vec;

/// Billionths of a second: a row of a small model takes less than a microsecond.
pub type Nanos = u64;

/// A step moves the whole table by a fiftieth of what it was off.
const CORRECTION: u64 = 50;
/// And its neighbours a quarter as much besides. Machines get slower and faster as a whole, which is
/// learnt at once; were the neighbours to move much more than the rest, the depth in use would look
/// dearer than those that are not.
const CORRECTION_NEAR: u64 = 4 * CORRECTION;
/// A step that took more than this many times what was expected, or less than that part of it, was
/// disturbed by something else, and counts as so much.
const DISTURBED: u64 = 2;

/// Cost by number of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CostCurve {
    /// Ascending in both.
    points: Vec<(u32, Nanos)>,
}

/// What a step consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCosts {
    /// The target over all rows, sampling included.
    pub verify: CostCurve,
    /// The draft model, one pass over one row of each sequence; nothing where there is none.
    pub draft: CostCurve,
}

impl CostCurve {
    /// A curve through measured points `(rows, cost)`, in any order; none is free.
    pub fn new(mut points: Vec<(u32, Nanos)>) -> Self {
        points.sort_unstable();
        points.dedup_by_key(|point| point.0);
        let mut curve = Self { points };
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
        match (rows, self.points.get(behind)) {
            (0, _) => 0,
            (_, Some(&(at, cost))) if at == rows => cost,
            (_, Some(&after)) => match behind.checked_sub(1) {
                None => after.1,
                Some(before) => between(self.points[before], after, rows),
            },
            (_, None) => self.beyond(rows),
        }
    }

    /// Takes note of what a step of `rows` took.
    pub fn correct(&mut self, rows: u32, took: Nanos) {
        let expected = self.at(rows);
        if rows == 0 || expected == 0 {
            return;
        }
        let took = took.clamp(expected / DISTURBED, expected.saturating_mul(DISTURBED));
        let moved = |cost: Nanos, part: u64| {
            let wanted = u128::from(cost) * u128::from(took) / u128::from(expected);
            let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
            (cost - cost / part).saturating_add(wanted / part).max(1)
        };
        let behind = self.points.partition_point(|point| point.0 < rows);
        for (place, point) in self.points.iter_mut().enumerate() {
            point.1 = moved(point.1, CORRECTION);
            if place == behind || place + 1 == behind {
                point.1 = moved(point.1, CORRECTION_NEAR);
            }
        }
        self.straighten();
    }

    /// Along the last stretch; in proportion where there is only a point.
    fn beyond(&self, rows: u32) -> Nanos {
        let Some((&last, before)) = self.points.split_last() else { return 0 };
        let start = before.last().copied().unwrap_or((0, 0));
        let slope = last.1.saturating_sub(start.1) / u64::from((last.0 - start.0).max(1));
        last.1.saturating_add(slope.saturating_mul(u64::from(rows - last.0)))
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

/// On the line between two points.
fn between(before: (u32, Nanos), after: (u32, Nanos), rows: u32) -> Nanos {
    let (width, way) = (u128::from(after.0 - before.0), u128::from(rows - before.0));
    let rise = u128::from(after.1 - before.1) * way / width;
    before.1 + u64::try_from(rise).expect("less than the whole rise")
}
