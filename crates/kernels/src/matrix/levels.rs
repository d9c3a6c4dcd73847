//! Non-linear levels: the sixteen values that a four-bit index of the `IQ4` formats stands for.

use super::nibbles::{self, Nibbles};
use super::quantized::STEP_VECTORS;
use crate::simd::Simd;

/// The levels plus 128, so that they are unsigned bytes: ggml's `kvalues_iq4nl`, denser around zero.
const LEVELS: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// One column's level.
pub(super) fn value(indices: &Nibbles, lane: usize, column: usize) -> f32 {
    f32::from(LEVELS[usize::from(nibbles::value(indices, lane, column))]) - 128.0
}

/// A step's levels plus 128, from their indices.
#[inline(always)]
pub(super) fn decode<S: Simd>(simd: S, indices: &Nibbles) -> [S::Bytes; STEP_VECTORS] {
    let indices = nibbles::decode(simd, indices);
    [
        simd.look_up(&LEVELS, indices[0]),
        simd.look_up(&LEVELS, indices[1]),
        simd.look_up(&LEVELS, indices[2]),
        simd.look_up(&LEVELS, indices[3]),
        simd.look_up(&LEVELS, indices[4]),
        simd.look_up(&LEVELS, indices[5]),
        simd.look_up(&LEVELS, indices[6]),
        simd.look_up(&LEVELS, indices[7]),
    ]
}
