//! `Q6_K`: blocks of 256 columns; each 16 have an eight-bit scale and six-bit integers plus 32, and
//! the block has a binary16 scale for its scales.

use super::super::nibbles::{self, Nibbles, byte_of};
use super::super::quantized::{STEP_VECTORS, Tile};
use super::{half_bits, half_value};
use crate::activations::Block;
use crate::simd::{LANES, Simd};

/// Steps of a block.
const STEPS: usize = 8;
/// The fifth and sixth bit.
const HIGH_BITS: u8 = 48;

/// Sixteen rows of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(in crate::matrix) struct Q6K {
    nibbles: [Nibbles; STEPS],
    /// Bits `2 * i` and up of byte `4 * row + c` of vector `v`: the fifth and sixth bit of column
    /// `16 * v + 4 * i + c` of the step.
    high: [[[u8; 64]; 2]; STEPS],
    scales: [[[i8; LANES]; 2]; STEPS],
    scale: [u16; LANES],
}

impl Tile for Q6K {
    const ZERO: Self = Self {
        nibbles: [[[0; 64]; 4]; STEPS],
        high: [[[0; 64]; 2]; STEPS],
        scales: [[[0; LANES]; 2]; STEPS],
        scale: [0; LANES],
    };
    const COLUMNS: usize = 256;
    const BLOCK_BYTES: usize = 210;
    const SCALES: usize = 2;
    const CHUNK: usize = 2;
    const MINIMUMS: bool = false;

    fn put(&mut self, lane: usize, block: &[u8]) {
        let (low, rest) = block.split_at(128);
        let (high, scales) = rest.split_at(64);
        self.scale[lane] = half_bits(block, 208);
        for step in 0..STEPS {
            // Each half of the block has four runs of 32 columns: two runs share 32 bytes of low
            // halves (runs 0 and 2 the first 32, 1 and 3 the second), all four share `high`.
            let (half, run) = (step / 4, step % 4);
            let low = &low[half * 64 + run % 2 * 32..][..32];
            let high = &high[half * 32..][..32];
            let columns = nibbles::halves(low, run / 2 * 4);
            nibbles::put(&mut self.nibbles[step], lane, &columns);
            for (vector, bytes) in self.high[step].iter_mut().enumerate() {
                let high = &high[vector * 16..][..16];
                let target = &mut bytes[lane * 4..][..4];
                for (at, byte) in high.iter().enumerate() {
                    target[at % 4] |= (byte >> (run * 2) & 3) << (at / 4 * 2);
                }
            }
            for part in 0..2 {
                self.scales[step][part][lane] = scales[step * 2 + part].cast_signed();
            }
        }
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        let (step, column) = (column / 32, column % 32);
        let high = self.high[step][column / 16][byte_of(lane, column)] >> (column % 16 / 4 * 2) & 3;
        let value = nibbles::value(&self.nibbles[step], lane, column) | high << 4;
        let scale = half_value(self.scale[lane]) * f32::from(self.scales[step][column / 16][lane]);
        scale * (f32::from(value) - 32.0)
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, step: usize) -> [S::Bytes; STEP_VECTORS] {
        let low = nibbles::decode(simd, &self.nibbles[step]);
        let high = [simd.bytes(&self.high[step][0]), simd.bytes(&self.high[step][1])];
        [
            simd.or(low[0], simd.shift_left::<4>(high[0], HIGH_BITS)),
            simd.or(low[1], simd.shift_left::<2>(high[0], HIGH_BITS)),
            simd.or(low[2], simd.mask(high[0], HIGH_BITS)),
            simd.or(low[3], simd.shift_right::<2>(high[0], HIGH_BITS)),
            simd.or(low[4], simd.shift_left::<4>(high[1], HIGH_BITS)),
            simd.or(low[5], simd.shift_left::<2>(high[1], HIGH_BITS)),
            simd.or(low[6], simd.mask(high[1], HIGH_BITS)),
            simd.or(low[7], simd.shift_right::<2>(high[1], HIGH_BITS)),
        ]
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, simd: S, step: usize, half: usize) -> S::Floats {
        simd.mul(simd.widen_f16(&self.scale), simd.widen_i8(&self.scales[step][half]))
    }

    #[inline(always)]
    fn seed<S: Simd>(simd: S, block: &Block, half: usize) -> S::Ints {
        simd.splat_int(block.minus_32_sums[half])
    }
    #[inline(always)]
    fn dot<S: Simd>(simd: S, sum: S::Ints, weights: &[S::Bytes], values: &[i32]) -> S::Ints {
        simd.dot::<2>(sum, weights, values)
    }
}
