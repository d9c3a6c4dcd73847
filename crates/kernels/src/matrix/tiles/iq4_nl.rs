//! `IQ4_NL`: blocks of 32 columns, a binary16 scale and four-bit indices of non-linear levels.

use super::super::levels;
use super::super::nibbles::{self, Nibbles};
use super::super::quantized::{STEP_VECTORS, Tile};
use super::{half_bits, half_value};
use crate::activations::Block;
use crate::simd::{LANES, Simd};

/// Sixteen rows of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(in crate::matrix) struct Iq4Nl {
    indices: Nibbles,
    scales: [u16; LANES],
}

impl Tile for Iq4Nl {
    const ZERO: Self = Self { indices: [[0; 64]; 4], scales: [0; LANES] };
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 18;
    const SCALES: usize = 1;
    const CHUNK: usize = 1;
    const MINIMUMS: bool = false;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.scales[lane] = half_bits(block, 0);
        nibbles::put(&mut self.indices, lane, &nibbles::split(&block[2..18]));
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        levels::value(&self.indices, lane, column) * half_value(self.scales[lane])
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, _step: usize) -> [S::Bytes; STEP_VECTORS] {
        levels::decode(simd, &self.indices)
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, simd: S, _step: usize, _half: usize) -> S::Floats {
        simd.widen_f16(&self.scales)
    }

    #[inline(always)]
    fn seed<S: Simd>(simd: S, block: &Block, _half: usize) -> S::Ints {
        simd.seed_signed(block.minus_128_sum)
    }
    #[inline(always)]
    fn dot<S: Simd>(simd: S, sum: S::Ints, weights: &[S::Bytes], values: &[i32]) -> S::Ints {
        simd.dot_signed(sum, weights[0], values[0])
    }
}
