//! Nibble packing: how four-bit weights are stored in a tile and unpacked to bytes.
//!
//! A step of 32 columns takes four vectors of 64 bytes. Byte `4 * row + c` of vector `i` holds
//! column `4 * i + c` in its lower half and column `16 + 4 * i + c` in its upper.

use super::quantized::STEP_VECTORS;
use crate::simd::Simd;

/// One step's nibbles of 16 rows.
pub(super) type Nibbles = [[u8; 64]; STEP_VECTORS / 2];

/// Byte of a vector that holds a column of a row.
pub(super) fn byte_of(lane: usize, column: usize) -> usize {
    lane * 4 + column % 4
}

/// Stores the lower four bits of a row's 32 columns.
#[inline]
pub(super) fn put(nibbles: &mut Nibbles, lane: usize, columns: &[u8; 32]) {
    for (vector, bytes) in nibbles.iter_mut().enumerate() {
        let low = &columns[vector * 4..][..4];
        let high = &columns[16 + vector * 4..][..4];
        let target = &mut bytes[lane * 4..][..4];
        for at in 0..4 {
            target[at] = (low[at] & 15) | high[at] << 4;
        }
    }
}

/// One column's four bits.
pub(super) fn value(nibbles: &Nibbles, lane: usize, column: usize) -> u8 {
    let byte = nibbles[column % 16 / 4][byte_of(lane, column)];
    if column < 16 { byte & 15 } else { byte >> 4 }
}

/// A step's nibbles as bytes: columns 0..4, 4..8, … of all rows.
#[inline(always)]
pub(super) fn decode<S: Simd>(simd: S, nibbles: &Nibbles) -> [S::Bytes; STEP_VECTORS] {
    let packed = [
        simd.bytes(&nibbles[0]),
        simd.bytes(&nibbles[1]),
        simd.bytes(&nibbles[2]),
        simd.bytes(&nibbles[3]),
    ];
    [
        simd.mask(packed[0], 15),
        simd.mask(packed[1], 15),
        simd.mask(packed[2], 15),
        simd.mask(packed[3], 15),
        simd.shift_right::<4>(packed[0], 15),
        simd.shift_right::<4>(packed[1], 15),
        simd.shift_right::<4>(packed[2], 15),
        simd.shift_right::<4>(packed[3], 15),
    ]
}

/// The lower or, shifted by 4, the upper halves of 32 bytes.
#[inline]
pub(super) fn halves(bytes: &[u8], shift: usize) -> [u8; 32] {
    let mut halves = [0; 32];
    for (half, byte) in halves.iter_mut().zip(bytes) {
        *half = byte >> shift & 15;
    }
    halves
}

/// The 32 columns of a block of 16 bytes whose lower halves come first: `Q4_0` and its kin.
#[inline]
pub(super) fn split(bytes: &[u8]) -> [u8; 32] {
    let mut columns = [0; 32];
    for (column, byte) in bytes.iter().enumerate() {
        columns[column] = byte & 15;
        columns[column + 16] = byte >> 4;
    }
    columns
}
