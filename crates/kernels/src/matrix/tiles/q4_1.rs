//! `Q4_1`: blocks of 32 columns, a binary16 scale, a binary16 minimum and four-bit integers.

use super::super::nibbles::{self, Nibbles};
use super::super::quantized::{STEP_VECTORS, Tile};
use super::{half_bits, half_value};
use crate::activations::Block;
use crate::simd::{LANES, Simd};

/// Sixteen rows of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in crate::matrix) struct Q4_1 {
    nibbles: Nibbles,
    scales: [u16; LANES],
    minimums: [u16; LANES],
}

impl Tile for Q4_1 {
    const ZERO: Self = Self { nibbles: [[0; 64]; 4], scales: [0; LANES], minimums: [0; LANES] };
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 20;
    const SCALES: usize = 1;
    const CHUNK: usize = 4;
    const MINIMUMS: bool = true;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.scales[lane] = half_bits(block, 0);
        self.minimums[lane] = half_bits(block, 2);
        nibbles::put(&mut self.nibbles, lane, &nibbles::split(&block[4..20]));
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        let value = nibbles::value(&self.nibbles, lane, column);
        f32::from(value) * half_value(self.scales[lane]) + half_value(self.minimums[lane])
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, _step: usize) -> [S::Bytes; STEP_VECTORS] {
        nibbles::decode(simd, &self.nibbles)
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, simd: S, _step: usize, _half: usize) -> S::Floats {
        simd.widen_f16(&self.scales)
    }

    #[inline(always)]
    fn minimum<S: Simd>(&self, simd: S, _step: usize) -> S::Floats {
        simd.widen_f16(&self.minimums)
    }

    #[inline(always)]
    fn seed<S: Simd>(simd: S, _block: &Block, _half: usize) -> S::Ints {
        simd.splat_int(0)
    }
    #[inline(always)]
    fn dot<S: Simd>(simd: S, sum: S::Ints, weights: &[S::Bytes], values: &[i32]) -> S::Ints {
        simd.dot::<4>(sum, weights, values)
    }
}
