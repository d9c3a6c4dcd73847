//! Fifth-bit packing: the high bits of five-bit weights, beside the nibbles of a tile.
//!
//! A step of 32 columns takes one vector of 64 bytes. Bit `i` of byte `4 * row + c` is the fifth bit
//! of column `4 * i + c`.

use super::nibbles::byte_of;
use super::quantized::STEP_VECTORS;
use crate::simd::Simd;

/// One step's fifth bits of 16 rows.
pub(super) type FifthBits = [u8; 64];

/// The fifth bit's value.
const FIFTH_BIT: u8 = 16;

/// Stores a row's fifth bits: bit `column` of `bits` belongs to that column.
pub(super) fn put(fifth: &mut FifthBits, lane: usize, bits: u32) {
    for column in 0..32 {
        let bit = u8::from(bits >> column & 1 == 1);
        fifth[byte_of(lane, column)] |= bit << (column / 4);
    }
}

/// What one column's fifth bit adds to its nibble: 16 or nothing.
pub(super) fn value(fifth: &FifthBits, lane: usize, column: usize) -> u8 {
    (fifth[byte_of(lane, column)] >> (column / 4) & 1) * FIFTH_BIT
}

/// A step's nibbles, decoded, with their fifth bits.
#[inline(always)]
pub(super) fn join<S: Simd>(
    simd: S,
    low: [S::Bytes; STEP_VECTORS],
    fifth: &FifthBits,
) -> [S::Bytes; STEP_VECTORS] {
    let fifth = simd.bytes(fifth);
    [
        simd.or(low[0], simd.shift_left::<4>(fifth, FIFTH_BIT)),
        simd.or(low[1], simd.shift_left::<3>(fifth, FIFTH_BIT)),
        simd.or(low[2], simd.shift_left::<2>(fifth, FIFTH_BIT)),
        simd.or(low[3], simd.shift_left::<1>(fifth, FIFTH_BIT)),
        simd.or(low[4], simd.mask(fifth, FIFTH_BIT)),
        simd.or(low[5], simd.shift_right::<1>(fifth, FIFTH_BIT)),
        simd.or(low[6], simd.shift_right::<2>(fifth, FIFTH_BIT)),
        simd.or(low[7], simd.shift_right::<3>(fifth, FIFTH_BIT)),
    ]
}
