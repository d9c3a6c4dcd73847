//! Test data and naive oracles: everything in `f64`, straight from the formats' definitions.
#![allow(dead_code, reason = "each test file uses its share")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "test data is small"
)]

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
        WeightFormat::Q4_0 | WeightFormat::Q8_0 => scale(numbers, 0, 0.1),
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

fn half(bytes: &[u8]) -> f64 {
    f64::from(f16::from_le_bytes([bytes[0], bytes[1]]).to_f32())
}

/// ggml's `get_scale_min_k4`.
fn scale_min_k4(j: usize, q: &[u8]) -> (f64, f64) {
    let (d, m) = if j < 4 {
        (q[j] & 63, q[j + 4] & 63)
    } else {
        ((q[j + 4] & 0xf) | ((q[j - 4] >> 6) << 4), (q[j + 4] >> 4) | ((q[j] >> 6) << 4))
    };
    (f64::from(d), f64::from(m))
}

/// One block's weights, after ggml's `dequantize_row_*`.
fn dequantize_block(format: WeightFormat, x: &[u8]) -> Vec<f64> {
    let mut y = vec![0.0; format.block_columns()];
    match format {
        WeightFormat::F32 => {
            y[0] = f64::from(f32::from_le_bytes(x.try_into().expect("a block of four bytes")));
        }
        WeightFormat::F16 => y[0] = half(x),
        WeightFormat::Bf16 => y[0] = f64::from(bf16::from_le_bytes([x[0], x[1]]).to_f32()),
        WeightFormat::Q4_0 => {
            for j in 0..16 {
                y[j] = f64::from(i32::from(x[2 + j] & 15) - 8) * half(x);
                y[j + 16] = f64::from(i32::from(x[2 + j] >> 4) - 8) * half(x);
            }
        }
        WeightFormat::Q8_0 => {
            for j in 0..32 {
                y[j] = f64::from(x[2 + j] as i8) * half(x);
            }
        }
        WeightFormat::Q4K => {
            let (d, min) = (half(x), half(&x[2..]));
            for (is, at) in (0..8).step_by(2).zip((0..256).step_by(64)) {
                let q = &x[16 + at / 2..];
                let ((sc1, m1), (sc2, m2)) =
                    (scale_min_k4(is, &x[4..]), scale_min_k4(is + 1, &x[4..]));
                for l in 0..32 {
                    y[at + l] = d * sc1 * f64::from(q[l] & 15) - min * m1;
                    y[at + 32 + l] = d * sc2 * f64::from(q[l] >> 4) - min * m2;
                }
            }
        }
        WeightFormat::Q5K => {
            let (d, min, qh) = (half(x), half(&x[2..]), &x[16..48]);
            for (is, at) in (0..8).step_by(2).zip((0..256).step_by(64)) {
                let q = &x[48 + at / 2..];
                let ((sc1, m1), (sc2, m2)) =
                    (scale_min_k4(is, &x[4..]), scale_min_k4(is + 1, &x[4..]));
                for l in 0..32 {
                    let (h1, h2) = (qh[l] >> is & 1, qh[l] >> (is + 1) & 1);
                    y[at + l] = d * sc1 * f64::from((q[l] & 15) + 16 * h1) - min * m1;
                    y[at + 32 + l] = d * sc2 * f64::from((q[l] >> 4) + 16 * h2) - min * m2;
                }
            }
        }
        WeightFormat::Q6K => {
            for n in 0..2 {
                let (ql, qh, sc) = (&x[n * 64..], &x[128 + n * 32..], &x[192 + n * 8..]);
                for l in 0..32 {
                    let quants = [
                        (ql[l] & 15) | (qh[l] & 3) << 4,
                        (ql[l + 32] & 15) | (qh[l] >> 2 & 3) << 4,
                        (ql[l] >> 4) | (qh[l] >> 4 & 3) << 4,
                        (ql[l + 32] >> 4) | (qh[l] >> 6 & 3) << 4,
                    ];
                    for (run, quant) in quants.into_iter().enumerate() {
                        let scale = f64::from(sc[l / 16 + 2 * run] as i8);
                        let quant = f64::from(i32::from(quant) - 32);
                        y[n * 128 + run * 32 + l] = half(&x[208..]) * scale * quant;
                    }
                }
            }
        }
    }
    y
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
