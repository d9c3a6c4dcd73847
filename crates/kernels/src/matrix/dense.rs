//! Dense matrix product: weights in `f32`, binary16 or bfloat16.
//!
//! For each column it widens the weights of 16 rows, and adds their products with each input row's
//! value to the row's running sum (fused multiply-add). With few input rows several tiles are in
//! flight, because a single sum would wait for its own last addition.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are calls that the compiler leaves in hot loops"
)]

use super::outputs::{Outputs, tile_row};
use crate::activations::{Activations, GROUP_ROWS};
use crate::simd::{Kernel, LANES, RowsKernel, Simd};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use std::ops::Range;
use std::ptr::from_ref;

/// Prefetch distance of weights, in bytes.
const PREFETCH_BYTES: usize = 2048;

/// A plain number of a weight matrix.
pub(super) trait Number: Copy + Send + Sync {
    /// Sixteen of them as `f32`.
    fn widen<S: Simd>(simd: S, source: &[Self; LANES]) -> S::Floats;
    /// One as `f32`.
    fn value(self) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    fn widen<S: Simd>(simd: S, source: &[Self; LANES]) -> S::Floats {
        simd.load(source)
    }
    fn value(self) -> f32 {
        self
    }
}

/// Binary16, as bits.
impl Number for u16 {
    #[inline(always)]
    fn widen<S: Simd>(simd: S, source: &[Self; LANES]) -> S::Floats {
        simd.widen_f16(source)
    }
    fn value(self) -> f32 {
        half::f16::from_bits(self).to_f32()
    }
}

impl Number for bf16 {
    #[inline(always)]
    fn widen<S: Simd>(simd: S, source: &[Self; LANES]) -> S::Floats {
        simd.widen_bf16(source.reinterpret_cast().try_into().expect("sixteen of sixteen"))
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}

/// A run of tiles times all input rows, on one thread.
pub(super) struct DensePanel<'a, N> {
    /// The matrix's tiles, column after column within a tile.
    pub(super) all: &'a [[N; LANES]],
    /// The matrix's columns.
    pub(super) columns: usize,
    /// The tiles to compute.
    pub(super) tiles: Range<usize>,
    pub(super) input: &'a Activations,
    pub(super) outputs: Outputs<'a>,
}

impl<N: Number> Kernel for DensePanel<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        for group in 0..self.input.groups() {
            let rows = self.input.group_rows(group);
            let mut first = 0;
            while first < rows {
                let panel = &self;
                first += simd.run_rows(rows - first, &Rows { panel, group, first });
            }
        }
    }
}

/// Rows of a group from `first` on times a panel.
struct Rows<'a, N> {
    panel: &'a DensePanel<'a, N>,
    group: usize,
    first: usize,
}

impl<N: Number> RowsKernel for Rows<'_, N> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize>(&self, simd: S) {
        let mut tile = self.panel.tiles.start;
        let end = self.panel.tiles.end;
        while ROWS <= 2 && tile + 4 <= end {
            self.tiles_at_once::<S, ROWS, 4>(simd, tile);
            tile += 4;
        }
        while ROWS <= 8 && tile + 2 <= end {
            self.tiles_at_once::<S, ROWS, 2>(simd, tile);
            tile += 2;
        }
        while tile < end {
            self.tiles_at_once::<S, ROWS, 1>(simd, tile);
            tile += 1;
        }
    }
}

impl<N: Number> Rows<'_, N> {
    /// `COUNT` tiles from `tile` on, the sums in registers.
    #[inline(always)]
    fn tiles_at_once<S: Simd, const ROWS: usize, const COUNT: usize>(&self, simd: S, tile: usize) {
        let input = self.panel.input;
        let (width, columns) = (input.group_rows(self.group), self.panel.columns);
        let floats = &input.group_floats(self.group)[..columns * width];
        let mut weights: [&[[N; LANES]]; COUNT] = [&[]; COUNT];
        for index in 0..COUNT {
            weights[index] = tile_row(self.panel.all, columns, tile + index);
        }
        let mut sums = [[simd.splat(0.0); ROWS]; COUNT];
        for column in 0..columns {
            let values = &floats[column * width + self.first..][..ROWS];
            for index in 0..COUNT {
                let weights = &weights[index][column];
                simd.prefetch(from_ref(weights).cast::<u8>().wrapping_add(PREFETCH_BYTES));
                let weight = N::widen(simd, weights);
                for row in 0..ROWS {
                    let value = simd.splat(values[row]);
                    sums[index][row] = simd.fma(weight, value, sums[index][row]);
                }
            }
        }
        for index in 0..COUNT {
            for row in 0..ROWS {
                let mut values = [0.0; LANES];
                simd.store(sums[index][row], &mut values);
                let row = self.group * GROUP_ROWS + self.first + row;
                self.panel.outputs.put(row, tile + index, &values);
            }
        }
    }
}

/// One row's weights.
pub(super) fn dequantize_row<N: Number>(
    all: &[[N; LANES]],
    columns: usize,
    row: usize,
    out: &mut [f32],
) {
    for (numbers, weight) in tile_row(all, columns, row / LANES).iter().zip(out) {
        *weight = numbers[row % LANES].value();
    }
}
