//! Weight packing: turns a tensor into tiles in parallel, each written once in place.

use super::quantized::Tile;
use crate::pool::{Disjoint, Pool};
use crate::simd::LANES;
use std::mem::MaybeUninit;

/// A tensor's bytes and shape; lengths were checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) raw: &'a [u8],
    pub(super) rows: usize,
    pub(super) row_bytes: usize,
    pub(super) columns: usize,
}

impl Source<'_> {
    /// Tiles of a blockwise format.
    pub(super) fn quantized<T: Tile>(&self, pool: &Pool) -> Vec<T> {
        let per_tile = self.columns / T::COLUMNS;
        build(self.rows.div_ceil(LANES), per_tile, pool, |tile, places| {
            for (block, place) in places.iter_mut().enumerate() {
                let mut packed = T::ZERO;
                for lane in 0..LANES.min(self.rows - tile * LANES) {
                    let row = &self.raw[(tile * LANES + lane) * self.row_bytes..][..self.row_bytes];
                    packed.put(lane, &row[block * T::BLOCK_BYTES..][..T::BLOCK_BYTES]);
                }
                place.write(packed);
            }
        })
    }

    /// Tiles of plain numbers, `BYTES` each: for each column, the numbers of 16 rows.
    pub(super) fn dense<T: Copy + Default + Send + Sync, const BYTES: usize>(
        &self,
        number: fn([u8; BYTES]) -> T,
        pool: &Pool,
    ) -> Vec<[T; LANES]> {
        build(self.rows.div_ceil(LANES), self.columns, pool, |tile, places| {
            for (index, places) in places.chunks_mut(DENSE_COLUMNS).enumerate() {
                let packed = self.turn(tile, index * DENSE_COLUMNS, places.len(), number);
                for (place, column) in places.iter_mut().zip(packed) {
                    place.write(column);
                }
            }
        })
    }

    /// `count` columns from `first` on of a dense tile.
    fn turn<T: Copy + Default, const BYTES: usize>(
        &self,
        tile: usize,
        first: usize,
        count: usize,
        number: fn([u8; BYTES]) -> T,
    ) -> [[T; LANES]; DENSE_COLUMNS] {
        let mut packed = [[T::default(); LANES]; DENSE_COLUMNS];
        let rows = self.raw.chunks_exact(self.row_bytes).skip(tile * LANES).take(LANES);
        for (lane, row) in rows.enumerate() {
            let (numbers, _) = row.as_chunks::<BYTES>();
            for (column, bytes) in packed.iter_mut().zip(&numbers[first..first + count]) {
                column[lane] = number(*bytes);
            }
        }
        packed
    }
}

/// Columns of a dense tile that are turned at a time, within the first-level cache.
const DENSE_COLUMNS: usize = 64;

/// `tiles * per_tile` items; `fill(tile, places)` writes every place of a tile.
fn build<T: Send>(
    tiles: usize,
    per_tile: usize,
    pool: &Pool,
    fill: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) -> Vec<T> {
    let count = tiles * per_tile;
    let mut items: Vec<T> = Vec::with_capacity(count);
    let places: Disjoint<'_, MaybeUninit<T>> =
        Disjoint::new(&mut items.spare_capacity_mut()[..count]);
    pool.run(tiles, |tile| {
        // SAFETY: each tile is one part, run once, and its places are no other tile's.
        fill(tile, unsafe { places.slice(tile * per_tile..(tile + 1) * per_tile) });
    });
    // SAFETY: `run` returned, so both fillers above, which visit every place of their tile, have
    // written every tile (a panic would not get here).
    unsafe { items.set_len(count) };
    items
}
