//! Test data and naive oracles: everything in `f64`, straight from the formats' definitions.
#![allow(dead_code, reason = "each test file uses its share")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "test data is small"
)]

mod formats;

use formats::dequantize_block;
use half::{bf16, f16};
use overdraft_kernels::{Instructions, Pool, WeightFormat};

/// A small generator of test numbers (xorshift).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }
    /// Within -1..1.
    pub(crate) fn float(&mut self) -> f32 {
        self.next() as f32 / 2_147_483_648.0 - 1.0
    }
    /// Mostly small, some large: as activations are.
    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count)
            .map(|_| {
                let value = self.float();
                if self.next().is_multiple_of(40) { value * 10.0 } else { value * value * value }
            })
            .collect()
    }
}

/// A pool on each instruction set that the machine has.
pub(crate) fn pools(threads: usize) -> Vec<Pool> {
    let sets = Instructions::ALL.into_iter().filter(|set| set.is_available());
    sets.map(|set| Pool::with_instructions(threads, set)).collect()
}

/// The bytes of a tensor with plausible scales and otherwise random bits.
pub(crate) fn tensor(
    format: WeightFormat,
    rows: usize,
    columns: usize,
    numbers: &mut Numbers,
) -> Vec<u8> {
    if format == WeightFormat::Q8_0 {
        return quantize_q8_0(&numbers.floats(rows * columns));
    }
    let blocks = rows * columns / format.block_columns();
    let mut raw = Vec::with_capacity(blocks * format.block_bytes());
    for _ in 0..blocks {
        raw.extend(block(format, numbers));
    }
    raw
}

fn block(format: WeightFormat, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..format.block_bytes()).map(|_| numbers.next() as u8).collect();
    let mut scale = |numbers: &mut Numbers, at: usize, size: f32| {
        let bits = f16::from_f32(numbers.float() * size).to_le_bytes();
        bytes[at..at + 2].copy_from_slice(&bits);
    };
    match format {
        WeightFormat::F32 => return numbers.float().to_le_bytes().to_vec(),
        WeightFormat::F16 => return f16::from_f32(numbers.float()).to_le_bytes().to_vec(),
        WeightFormat::Bf16 => return bf16::from_f32(numbers.float()).to_le_bytes().to_vec(),
        WeightFormat::Q4_0
        | WeightFormat::Q5_0
        | WeightFormat::Q8_0
        | WeightFormat::Iq4Nl
        | WeightFormat::Iq4Xs => {
            let size = if format == WeightFormat::Iq4Xs { 0.001 } else { 0.1 };
            scale(numbers, 0, size);
        }
        WeightFormat::Q4_1 | WeightFormat::Q5_1 => {
            scale(numbers, 0, 0.1);
            scale(numbers, 2, 1.0);
        }
        WeightFormat::Q4K | WeightFormat::Q5K => {
            scale(numbers, 0, 0.002);
            scale(numbers, 2, 0.002);
        }
        WeightFormat::Q6K => scale(numbers, 208, 0.0005),
    }
    bytes
}

/// ggml's reference quantizer for `Q8_0`.
pub(crate) fn quantize_q8_0(weights: &[f32]) -> Vec<u8> {
    let mut raw = Vec::new();
    for block in weights.chunks_exact(32) {
        let greatest = block.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
        let scale = greatest / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        raw.extend(f16::from_f32(scale).to_le_bytes());
        raw.extend(block.iter().map(|weight| (weight * inverse).round() as i8 as u8));
    }
    raw
}

/// All weights of a tensor, row-major.
pub(crate) fn dequantize(format: WeightFormat, raw: &[u8]) -> Vec<f64> {
    raw.chunks_exact(format.block_bytes())
        .flat_map(|block| dequantize_block(format, block))
        .collect()
}

/// The bits, for comparisons that mean it.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
