//! Outputs of a panel, and the tiles of one row of tiles.

use crate::pool::Disjoint;
use crate::simd::LANES;

/// Where a panel's results go: row-major, `stride` outputs a row.
#[derive(Clone, Copy)]
pub(super) struct Outputs<'a> {
    pub(super) output: &'a Disjoint<'a, f32>,
    pub(super) stride: usize,
}

impl Outputs<'_> {
    /// Stores a tile's sixteen outputs of one input row; the padding of the last tile is dropped.
    #[inline(always)]
    pub(super) fn put(&self, row: usize, tile: usize, values: &[f32; LANES]) {
        let first = tile * LANES;
        let end = self.stride.min(first + LANES);
        let start = row * self.stride;
        // SAFETY: a plan gives each tile to one panel and the pool runs each panel once, so these
        // columns of the row are written by this thread alone.
        let target = unsafe { self.output.slice(start + first..start + end) };
        // A length that the compiler knows is two stores, any other a call.
        match <&mut [f32; LANES]>::try_from(&mut *target) {
            Ok(whole) => *whole = *values,
            Err(_) => target.copy_from_slice(&values[..end - first]),
        }
    }
}

/// The tiles of one row of tiles.
#[inline(always)]
pub(super) fn tile_row<T>(all: &[T], per_tile: usize, tile: usize) -> &[T] {
    &all[tile * per_tile..][..per_tile]
}
