//! What does a step of so many rows cost on this machine?
//!
//! Asked once, before anything is served: the cache is empty, so it may be written to. Rows double
//! until the time is up; what lies beyond is guessed along the last line and corrected as it runs.

use overdraft_core::batch::{BatchLimits, Logits};
use overdraft_core::speculate::CostCurve;
use overdraft_telemetry::Clock;
use overdraft_units::{BlockId, Micros, TokenId, Tokens};

use crate::backend::{Backend, BatchSlot};

/// Time for the profile of one model; the step that exceeds it is the last.
pub const PROFILE_MAX: Micros = Micros::new(250_000);
/// Rows at most.
const ROWS_MAX: u32 = 256;
/// Each number of rows is measured so often, and the median counts.
const TIMES: usize = 5;
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
    let (began, mut points, mut logits) = (clock.now(), Vec::new(), Vec::new());
    let mut rows = 1;
    while rows <= ROWS_MAX.min(limits.step_tokens.get()) {
        let batch = vec![slot; usize::try_from(rows).expect("usize holds 32 bits")];
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let before = clock.now();
            if backend.forward(&batch, &mut logits).is_err() {
                return CostCurve::new(points);
            }
            times.push(clock.now().since(before).get().saturating_mul(1_000));
            if PROFILE_MAX <= clock.now().since(began) {
                break;
            }
        }
        times.sort_unstable();
        points.push((rows, times[times.len() / 2]));
        if PROFILE_MAX <= clock.now().since(began) {
            break;
        }
        rows *= 2;
    }
    CostCurve::new(points)
}
