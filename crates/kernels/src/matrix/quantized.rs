//! Quantized matrix product: integer weights with eight-bit activations.
//!
//! For each tile of 16 rows and each step of 32 columns: decode the weights to bytes once, then for
//! each input row take exact integer dot products and add them, scaled, to the row's running sum:
//!
//! `sum += (dot * weight scale) * activation scale`, then, in formats with minimums,
//! `sum += minimum * (activation scale * sum of activations)`.
//!
//! All formats differ only in how a step is decoded and scaled: that is the trait [`Tile`].

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are calls that the compiler leaves in hot loops"
)]

use super::outputs::{Outputs, tile_row};
use crate::activations::{Activations, BLOCK_COLUMNS, Block, GROUP_ROWS};
use crate::simd::{Kernel, LANES, RowsKernel, Simd};
use std::ops::Range;

/// Registers' worth of weights in a step: eight times four columns of 16 rows.
pub(super) const STEP_VECTORS: usize = BLOCK_COLUMNS / 4;
/// Prefetch distance of weights, in bytes.
const PREFETCH_BYTES: usize = 4096;
/// A cache line.
const LINE_BYTES: usize = 64;

/// Sixteen rows of one block of a weight format.
pub(super) trait Tile: Copy + Send + Sync {
    /// All zeros, also when multiplied.
    const ZERO: Self;
    /// Columns of a block.
    const COLUMNS: usize;
    /// Bytes of one row's block in a file.
    const BLOCK_BYTES: usize;
    /// Scales of a step: 1, or 2 for its two halves.
    const SCALES: usize;
    /// Vectors whose products are summed at a time; see [`Simd::dot`] for how many may be.
    const CHUNK: usize;
    /// Whether a minimum is taken off.
    const MINIMUMS: bool;

    /// Packs one row's block from a file's bytes.
    fn put(&mut self, lane: usize, block: &[u8]);
    /// One weight as the format defines it.
    fn weight(&self, lane: usize, column: usize) -> f32;

    /// A step's weights as stored bytes: columns 0..4, 4..8, … of all rows.
    fn decode<S: Simd>(&self, simd: S, step: usize) -> [S::Bytes; STEP_VECTORS];
    /// The scale of a step or of its half.
    fn scale<S: Simd>(&self, simd: S, step: usize, half: usize) -> S::Floats;
    /// The negative minimum of a step.
    #[inline(always)]
    fn minimum<S: Simd>(&self, simd: S, _step: usize) -> S::Floats {
        simd.splat(0.0)
    }
    /// Where the dot product of a step or of its half starts: undoes the offset of stored bytes.
    fn seed<S: Simd>(simd: S, block: &Block, half: usize) -> S::Ints;
    /// Adds the products of `CHUNK` vectors of a step.
    fn dot<S: Simd>(simd: S, sum: S::Ints, weights: &[S::Bytes], values: &[i32]) -> S::Ints;
}

/// A run of tiles times all input rows, on one thread.
pub(super) struct QuantizedPanel<'a, T> {
    /// The matrix's tiles, block after block within a row of tiles.
    pub(super) all: &'a [T],
    /// The matrix's columns.
    pub(super) columns: usize,
    /// The rows of tiles to compute.
    pub(super) tiles: Range<usize>,
    pub(super) input: &'a Activations,
    pub(super) outputs: Outputs<'a>,
}

impl<T: Tile> Kernel for QuantizedPanel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for group in 0..self.input.groups() {
            for tile in self.tiles.clone() {
                self.tile_times_group(simd, tile, group);
            }
        }
    }
}

impl<T: Tile> QuantizedPanel<'_, T> {
    /// One row of tiles times one group of input rows, as many at once as the registers allow.
    #[inline(always)]
    fn tile_times_group<S: Simd>(&self, simd: S, tile: usize, group: usize) {
        let rows = self.input.group_rows(group);
        let mut first = 0;
        while first < rows {
            first += simd.run_rows(rows - first, &Rows { panel: self, tile, group, first });
        }
    }
}

/// One row of tiles times rows of a group from `first` on.
struct Rows<'a, T> {
    panel: &'a QuantizedPanel<'a, T>,
    tile: usize,
    group: usize,
    first: usize,
}

impl<T: Tile> RowsKernel for Rows<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize>(&self, simd: S) {
        let Self { panel, tile, group, first } = *self;
        let weights = tile_row(panel.all, panel.columns / T::COLUMNS, tile);
        let blocks = panel.input.group_blocks(group);
        let width = panel.input.group_rows(group);
        let steps = T::COLUMNS / BLOCK_COLUMNS;
        let mut sums = [simd.splat(0.0); ROWS];
        for index in 0..weights.len() {
            for step in 0..steps {
                prefetch_step(simd, &weights[index], step, steps);
                let at = (index * steps + step) * width + first;
                let blocks = blocks[at..at + ROWS].try_into().expect("a slice of ROWS");
                add_step::<S, T, ROWS>(simd, &weights[index], step, blocks, &mut sums);
            }
        }
        for row in 0..ROWS {
            let mut values = [0.0; LANES];
            simd.store(sums[row], &mut values);
            panel.outputs.put(group * GROUP_ROWS + first + row, tile, &values);
        }
    }
}

/// Asks for what lies as far ahead as this step's share of the tile.
#[inline(always)]
fn prefetch_step<S: Simd, T>(simd: S, tile: &T, step: usize, steps: usize) {
    let share = size_of::<T>() / steps;
    let ahead = std::ptr::from_ref(tile).cast::<u8>().wrapping_add(PREFETCH_BYTES + step * share);
    let mut line = 0;
    while line < share {
        simd.prefetch(ahead.wrapping_add(line));
        line += LINE_BYTES;
    }
}

/// A step's weights, ready to be multiplied.
struct Step<S: Simd> {
    weights: [S::Bytes; STEP_VECTORS],
    scales: [S::Floats; 2],
    minimum: S::Floats,
}

/// Adds one step of 32 columns to the sums of `ROWS` input rows.
///
/// Rows go four by four: enough dot products in flight to hide their latency, few enough for the
/// registers. The calls are written out because the compiler would not unroll so large a loop, and
/// in a loop the sums would live in memory.
#[inline(always)]
fn add_step<S: Simd, T: Tile, const ROWS: usize>(
    simd: S,
    tile: &T,
    number: usize,
    blocks: &[Block; ROWS],
    sums: &mut [S::Floats; ROWS],
) {
    let step = Step {
        weights: tile.decode(simd, number),
        scales: [tile.scale(simd, number, 0), tile.scale(simd, number, T::SCALES - 1)],
        minimum: tile.minimum(simd, number),
    };
    if ROWS >= 4 {
        add_rows::<S, T, 4>(simd, &step, blocks, sums, 0);
    }
    if ROWS >= 8 {
        add_rows::<S, T, 4>(simd, &step, blocks, sums, 4);
    }
    if ROWS >= 12 {
        add_rows::<S, T, 4>(simd, &step, blocks, sums, 8);
    }
    if ROWS >= 16 {
        add_rows::<S, T, 4>(simd, &step, blocks, sums, 12);
    }
    let rest = ROWS - ROWS % 4;
    match ROWS % 4 {
        3 => add_rows::<S, T, 3>(simd, &step, blocks, sums, rest),
        2 => add_rows::<S, T, 2>(simd, &step, blocks, sums, rest),
        1 => add_rows::<S, T, 1>(simd, &step, blocks, sums, rest),
        _ => {}
    }
}

/// Adds a step to the sums of `COUNT` rows from `first` on.
#[inline(always)]
fn add_rows<S: Simd, T: Tile, const COUNT: usize>(
    simd: S,
    step: &Step<S>,
    blocks: &[Block],
    sums: &mut [S::Floats],
    first: usize,
) {
    let blocks: &[Block; COUNT] = blocks[first..first + COUNT].try_into().expect("COUNT rows");
    let sums: &mut [S::Floats; COUNT] =
        (&mut sums[first..first + COUNT]).try_into().expect("COUNT rows");
    let width = STEP_VECTORS / T::SCALES;
    let mut totals = [simd.splat(0.0); COUNT];
    for half in 0..T::SCALES {
        let mut dots = [simd.splat_int(0); COUNT];
        for row in 0..COUNT {
            dots[row] = T::seed(simd, &blocks[row], half);
        }
        for chunk in 0..width / T::CHUNK {
            let at = half * width + chunk * T::CHUNK;
            let weights = &step.weights[at..at + T::CHUNK];
            for row in 0..COUNT {
                let values = &blocks[row].values[at..at + T::CHUNK];
                dots[row] = T::dot(simd, dots[row], weights, values);
            }
        }
        for row in 0..COUNT {
            let dot = simd.to_floats(dots[row]);
            totals[row] = match half {
                0 => simd.mul(dot, step.scales[0]),
                _ => simd.fma(dot, step.scales[half], totals[row]),
            };
        }
    }
    for row in 0..COUNT {
        sums[row] = simd.fma(totals[row], simd.splat(blocks[row].scale), sums[row]);
    }
    if T::MINIMUMS {
        for row in 0..COUNT {
            sums[row] = simd.fma(step.minimum, simd.splat(blocks[row].scaled_sum), sums[row]);
        }
    }
}

/// One row's weights as the format defines them.
pub(super) fn dequantize_row<T: Tile>(all: &[T], columns: usize, row: usize, out: &mut [f32]) {
    let blocks = tile_row(all, columns / T::COLUMNS, row / LANES);
    for (tile, out) in blocks.iter().zip(out.chunks_exact_mut(T::COLUMNS)) {
        for (column, weight) in out.iter_mut().enumerate() {
            *weight = tile.weight(row % LANES, column);
        }
    }
}
