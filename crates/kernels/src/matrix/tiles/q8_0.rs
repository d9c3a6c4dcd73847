//! `Q8_0`: blocks of 32 columns, a binary16 scale and eight-bit integers, stored here plus 128.

use super::super::nibbles::byte_of;
use super::super::quantized::{STEP_VECTORS, Tile};
use super::{half_bits, half_value};
use crate::activations::Block;
use crate::simd::{LANES, Simd};

/// Sixteen rows of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(in crate::matrix) struct Q8_0 {
    /// Vector `i` holds columns `4 * i..4 * i + 4`.
    values: [[u8; 64]; STEP_VECTORS],
    scales: [u16; LANES],
}

impl Tile for Q8_0 {
    const ZERO: Self = Self { values: [[128; 64]; STEP_VECTORS], scales: [0; LANES] };
    const COLUMNS: usize = 32;
    const BLOCK_BYTES: usize = 34;
    const SCALES: usize = 1;
    const CHUNK: usize = 1;
    const MINIMUMS: bool = false;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.scales[lane] = half_bits(block, 0);
        for (column, byte) in block[2..34].iter().enumerate() {
            self.values[column / 4][byte_of(lane, column)] = byte ^ 128;
        }
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        let value = self.values[column / 4][byte_of(lane, column)];
        (f32::from(value) - 128.0) * half_value(self.scales[lane])
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, _step: usize) -> [S::Bytes; STEP_VECTORS] {
        [
            simd.bytes(&self.values[0]),
            simd.bytes(&self.values[1]),
            simd.bytes(&self.values[2]),
            simd.bytes(&self.values[3]),
            simd.bytes(&self.values[4]),
            simd.bytes(&self.values[5]),
            simd.bytes(&self.values[6]),
            simd.bytes(&self.values[7]),
        ]
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
