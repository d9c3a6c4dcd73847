//! `Q5_K`: as `Q4_K` with a fifth bit for each column.

use super::super::fifth_bits::{self, FifthBits};
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
pub(in crate::matrix) struct Q5K {
    nibbles: [Nibbles; STEPS],
    fifth: [FifthBits; STEPS],
    scales: [[u8; LANES]; STEPS],
    minimums: [[u8; LANES]; STEPS],
    scale: [u16; LANES],
    minimum_scale: [u16; LANES],
}

impl Tile for Q5K {
    const ZERO: Self = Self {
        nibbles: [[[0; 64]; 4]; STEPS],
        fifth: [[0; 64]; STEPS],
        scales: [[0; LANES]; STEPS],
        minimums: [[0; LANES]; STEPS],
        scale: [0; LANES],
        minimum_scale: [0; LANES],
    };
    const COLUMNS: usize = 256;
    const BLOCK_BYTES: usize = 176;
    const SCALES: usize = 1;
    const CHUNK: usize = 4;
    const MINIMUMS: bool = true;

    fn put(&mut self, lane: usize, block: &[u8]) {
        self.scale[lane] = half_bits(block, 0);
        self.minimum_scale[lane] = half_bits(block, 2);
        let high = &block[16..48];
        for step in 0..STEPS {
            let (scale, minimum) = scale_and_minimum(&block[4..16], step);
            self.scales[step][lane] = scale;
            self.minimums[step][lane] = minimum;
            let bytes = &block[48 + step / 2 * 32..][..32];
            let columns = nibbles::halves(bytes, step % 2 * 4);
            nibbles::put(&mut self.nibbles[step], lane, &columns);
            let bits = (0..32).map(|column| u32::from(high[column] >> step & 1) << column).sum();
            fifth_bits::put(&mut self.fifth[step], lane, bits);
        }
    }

    fn weight(&self, lane: usize, column: usize) -> f32 {
        let (step, column) = (column / 32, column % 32);
        let value = nibbles::value(&self.nibbles[step], lane, column)
            + fifth_bits::value(&self.fifth[step], lane, column);
        let scale = half_value(self.scale[lane]) * f32::from(self.scales[step][lane]);
        let minimum = half_value(self.minimum_scale[lane]) * f32::from(self.minimums[step][lane]);
        scale * f32::from(value) - minimum
    }

    #[inline(always)]
    fn decode<S: Simd>(&self, simd: S, step: usize) -> [S::Bytes; STEP_VECTORS] {
        let low = nibbles::decode(simd, &self.nibbles[step]);
        fifth_bits::join(simd, low, &self.fifth[step])
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
