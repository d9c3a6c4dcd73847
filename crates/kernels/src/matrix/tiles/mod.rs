//! Quantized tile formats: memory layout, packing and decoding, one file per format.
//!
//! Each file has the tile's memory layout, the packing of a GGUF block into it, and the decoding of
//! a step of 32 columns. Block layouts are ggml's.

mod iq4_nl;
mod iq4_xs;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;

pub(super) use iq4_nl::Iq4Nl;
pub(super) use iq4_xs::Iq4Xs;
pub(super) use q4_0::Q4_0;
pub(super) use q4_1::Q4_1;
pub(super) use q4_k::Q4K;
pub(super) use q5_0::Q5_0;
pub(super) use q5_1::Q5_1;
pub(super) use q5_k::Q5K;
pub(super) use q6_k::Q6K;
pub(super) use q8_0::Q8_0;

use half::f16;

/// Binary16 bits from a file.
fn half_bits(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The number that binary16 bits stand for.
fn half_value(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// Thirty-two bits from a file.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The six-bit scale and minimum of step `step`, from the twelve bytes of a `Q4_K` or `Q5_K` block.
fn scale_and_minimum(packed: &[u8], step: usize) -> (u8, u8) {
    if step < 4 {
        return (packed[step] & 63, packed[step + 4] & 63);
    }
    let low = packed[step + 4];
    ((low & 15) | (packed[step - 4] >> 6) << 4, (low >> 4) | (packed[step] >> 6) << 4)
}
