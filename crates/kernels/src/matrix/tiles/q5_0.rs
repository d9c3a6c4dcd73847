//! `Q5_0`: blocks of 32 columns, a binary16 scale and five-bit integers plus 16.

use super::super::fifth_bits::{self, FifthBits};
use super::super::nibbles::{self, Nibbles};
use super::super::quantized::{STEP_VECTORS, Tile};
use super::{half_bits, half_value, word};
use crate::activations::Block;
use crate::simd::{LANES, Simd};

/// Sixteen rows of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(in crate::matrix) struct Q5_0 {
    nibbles: Nibbles,
    fifth: FifthBits,
    scales: [u16; LANES],
}

impl Tile for Q5_0 {
    const ZERO: Self = Self { nibbles: [[0; 64]; 4], fifth: [0; 64], scales: [0; LANES] };
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 22;
    const SCALES: usize = 1;
    const CHUNK: usize = 4;
    const MINIMUMS: bool = false;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.scales[lane] = half_bits(block, 0);
        fifth_bits::put(&mut self.fifth, lane, word(block, 2));
        nibbles::put(&mut self.nibbles, lane, &nibbles::split(&block[6..22]));
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        let value = nibbles::value(&self.nibbles, lane, column)
            + fifth_bits::value(&self.fifth, lane, column);
        (f32::from(value) - 16.0) * half_value(self.scales[lane])
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, _step: usize) -> [S::Bytes; STEP_VECTORS] {
        fifth_bits::join(simd, nibbles::decode(simd, &self.nibbles), &self.fifth)
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, simd: S, _step: usize, _half: usize) -> S::Floats {
        simd.widen_f16(&self.scales)
    }

    #[inline(always)]
    fn seed<S: Simd>(simd: S, block: &Block, _half: usize) -> S::Ints {
        simd.splat_int(2 * block.minus_8_sum)
    }
    #[inline(always)]
    fn dot<S: Simd>(simd: S, sum: S::Ints, weights: &[S::Bytes], values: &[i32]) -> S::Ints {
        simd.dot::<4>(sum, weights, values)
    }
}
