//! What does a step of so many rows cost on this machine?
//!
//! Asked once, before anything is served: the cache is empty, so it may be written to. Few rows are
//! always measured, however slow the model: a table that ends before the rows that drafts take says
//! that each of them costs as much as a step. More rows, and each again, while there is time.

use std::collections::BTreeSet;

use overdraft_core::batch::{BatchLimits, Logits};
use overdraft_core::speculate::{CostCurve, Nanos};
use overdraft_telemetry::Clock;
use overdraft_units::{BlockId, Micros, TokenId, Tokens};

use crate::backend::{Backend, BatchSlot};

/// Time for the profile of one model, where one step of each few rows does not take longer.
pub const PROFILE_MAX: Micros = Micros::new(2_000_000);
/// Of that for more than a few rows. Whether to guess is decided by few rows, and of those a table that was disturbed says
/// that some are dear and the next one free.
const MANY_ROWS_MAX: Micros = Micros::new(250_000);
/// Rows that are always measured: those of one sequence with a full draft, and of a few without.
const ROWS_LEAST: u32 = 16;
/// Rows at most.
const ROWS_MAX: u32 = 256;
/// Each number of rows is measured so often, and the median counts. The least is of whichever moment memory was quickest
/// in, another one for each number of rows: eight rows beside one came to 1.7 to 2.4 for engines that started one
/// after the other, by medians to 2.3, give or take 0.1.
const TIMES: usize = 21;
/// A step that takes longer is hardly longer for the memory that it touches first.
const COLD_MAX: Micros = Micros::new(20_000);
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
    let (began, mut logits) = (clock.now(), Vec::new());
    let most = ROWS_MAX.min(limits.step_tokens.get());
    // Powers of two and what lies half-way: a bend between two points is not on their line.
    let points = (0..=ROWS_MAX.ilog2()).flat_map(|power| [1 << power, (1 << power) * 3 / 2]);
    let points: BTreeSet<u32> = points.filter(|rows| *rows <= most).collect();
    let mut times: Vec<(u32, Vec<Nanos>)> =
        points.into_iter().map(|rows| (rows, Vec::new())).collect();
    let mut last = None;
    'profile: for round in 0..TIMES {
        for (rows, times) in &mut times {
            let (spent, last_took) = (clock.now().since(began), last.unwrap_or(Micros::ZERO));
            let over = if ROWS_LEAST < *rows {
                MANY_ROWS_MAX < spent + last_took + last_took
            } else {
                0 < round && PROFILE_MAX < spent + last_took
            };
            if over {
                break;
            }
            let count = usize::try_from(*rows).expect("usize holds 32 bits");
            // Weights and threads are asleep at first, and each greater number of rows touches memory that was
            // never touched: that step is for nobody. Where steps are long, it is a small part of them.
            let is_cold = last.is_none() || round == 0 && last_took < COLD_MAX;
            for _ in 0..=usize::from(is_cold) {
                let before = clock.now();
                if backend.forward(&vec![slot; count], &mut logits).is_err() {
                    // What was measured is still true.
                    break 'profile;
                }
                last = Some(clock.now().since(before));
            }
            times.extend(last.map(cost));
        }
    }
    CostCurve::new(
        times.into_iter().filter_map(|(rows, times)| Some((rows, median(times)?))).collect(),
    )
}

/// The middle one; the lesser of two.
fn median(mut times: Vec<Nanos>) -> Option<Nanos> {
    times.sort_unstable();
    times.get(times.len().checked_sub(1)? / 2).copied()
}

/// What took so long costs that much, and at least a microsecond, which is as fine as the clock is. With
/// less the table's corrections would be lost to rounding at one end and pile up at the other.
pub(super) fn cost(took: Micros) -> Nanos {
    took.get().max(1).saturating_mul(1_000)
}
