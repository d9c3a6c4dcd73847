//! `Q4_K`: blocks of 256 columns; each 32 have a six-bit scale and minimum and four-bit integers,
//! and the block has a binary16 scale for its scales and one for its minimums.

use super::super::nibbles::{self, Nibbles};
use super::super::quantized::{STEP_VECTORS, Tile};
use super::{half_bits, half_value, scale_and_minimum};
use crate::activations::Block;
use crate::simd::{LANES, Simd};

/// Steps of a block.
const STEPS: usize = 8;

/// Sixteen rows of a block.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in crate::matrix) struct Q4K {
    nibbles: [Nibbles; STEPS],
    scales: [[u8; LANES]; STEPS],
    minimums: [[u8; LANES]; STEPS],
    scale: [u16; LANES],
    minimum_scale: [u16; LANES],
}

impl Tile for Q4K {
    const ZERO: Self = Self {
        nibbles: [[[0; 64]; 4]; STEPS],
        scales: [[0; LANES]; STEPS],
        minimums: [[0; LANES]; STEPS],
        scale: [0; LANES],
        minimum_scale: [0; LANES],
    };
    const COLUMNS: usize = 256;
    const BLOCK_BYTES: usize = 144;
    const SCALES: usize = 1;
    const CHUNK: usize = 4;
    const MINIMUMS: bool = true;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.scale[lane] = half_bits(block, 0);
        self.minimum_scale[lane] = half_bits(block, 2);
        for step in 0..STEPS {
            let (scale, minimum) = scale_and_minimum(&block[4..16], step);
            self.scales[step][lane] = scale;
            self.minimums[step][lane] = minimum;
            // Two steps share 32 bytes: the even one has the lower halves.
            let bytes = &block[16 + step / 2 * 32..][..32];
            let columns = nibbles::halves(bytes, step % 2 * 4);
            nibbles::put(&mut self.nibbles[step], lane, &columns);
        }
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        let step = column / 32;
        let value = nibbles::value(&self.nibbles[step], lane, column % 32);
        let scale = half_value(self.scale[lane]) * f32::from(self.scales[step][lane]);
        let minimum = half_value(self.minimum_scale[lane]) * f32::from(self.minimums[step][lane]);
        scale * f32::from(value) - minimum
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, step: usize) -> [S::Bytes; STEP_VECTORS] {
        nibbles::decode(simd, &self.nibbles[step])
    }

    #[inline(always)]
    fn scale<S: Simd>(&self, simd: S, step: usize, _half: usize) -> S::Floats {
        simd.mul(simd.widen_f16(&self.scale), simd.widen_u8(&self.scales[step]))
    }

    #[inline(always)]
    fn minimum<S: Simd>(&self, simd: S, step: usize) -> S::Floats {
        let negative = simd.sub(simd.splat(0.0), simd.widen_f16(&self.minimum_scale));
        simd.mul(negative, simd.widen_u8(&self.minimums[step]))
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
