//! `IQ4_XS`: blocks of 256 columns; each 32 have a six-bit scale and four-bit indices of non-linear
//! levels, and the block has a binary16 scale for its scales.

use super::super::levels;
use super::super::nibbles::{self, Nibbles};
use super::super::quantized::{STEP_VECTORS, Tile};
use super::{half_bits, half_value};
use crate::activations::Block;
use crate::simd::{LANES, Simd};

/// Steps of a block.
const STEPS: usize = 8;

/// Sixteen rows of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(in crate::matrix) struct Iq4Xs {
    indices: [Nibbles; STEPS],
    scales: [[i8; LANES]; STEPS],
    scale: [u16; LANES],
}

impl Tile for Iq4Xs {
    const ZERO: Self =
        Self { indices: [[[0; 64]; 4]; STEPS], scales: [[0; LANES]; STEPS], scale: [0; LANES] };
    const COLUMNS: usize = 256;
    const BLOCK_BYTES: usize = 136;
    const SCALES: usize = 1;
    const CHUNK: usize = 1;
    const MINIMUMS: bool = false;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.scale[lane] = half_bits(block, 0);
        let high = half_bits(block, 2);
        for step in 0..STEPS {
            // Four bits of a scale lie in a nibble, two more in the word before; 32 means zero.
            let low = block[4 + step / 2] >> (step % 2 * 4) & 15;
            let [high, _] = (high >> (2 * step) & 3).to_le_bytes();
            self.scales[step][lane] = (low | high << 4).cast_signed() - 32;
            let indices = nibbles::split(&block[8 + step * 16..][..16]);
            nibbles::put(&mut self.indices[step], lane, &indices);
        }
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        let (step, column) = (column / 32, column % 32);
        let scale = half_value(self.scale[lane]) * f32::from(self.scales[step][lane]);
        levels::value(&self.indices[step], lane, column) * scale
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, step: usize) -> [S::Bytes; STEP_VECTORS] {
        levels::decode(simd, &self.indices[step])
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, simd: S, step: usize, _half: usize) -> S::Floats {
        simd.mul(simd.widen_f16(&self.scale), simd.widen_i8(&self.scales[step]))
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
