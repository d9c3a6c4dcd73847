//! Dequantization as the formats define it: one block's weights in `f64`, after ggml's
//! `dequantize_row_*`.

use half::{bf16, f16};
use overdraft_kernels::WeightFormat;

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

/// ggml's `kvalues_iq4nl`.
const IQ4_LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Both nibbles' levels of the sixteen bytes of 32 columns.
fn iq4_levels(y: &mut [f64], quants: &[u8], scale: f64) {
    for j in 0..16 {
        y[j] = scale * f64::from(IQ4_LEVELS[usize::from(quants[j] & 15)]);
        y[j + 16] = scale * f64::from(IQ4_LEVELS[usize::from(quants[j] >> 4)]);
    }
}

/// The fifth bits of columns `j` and `j + 16`, in their place above the nibbles.
fn fifth_bits(qh: &[u8], j: usize) -> (u8, u8) {
    let bits = u32::from_le_bytes([qh[0], qh[1], qh[2], qh[3]]);
    ((((bits >> j) << 4) & 16) as u8, ((bits >> (j + 12)) & 16) as u8)
}

/// One block's weights.
pub(super) fn dequantize_block(format: WeightFormat, x: &[u8]) -> Vec<f64> {
    let mut y = vec![0.0; format.block_columns()];
    match format {
        WeightFormat::F32 => {
            y[0] = f64::from(f32::from_le_bytes(x.try_into().expect("a block of four bytes")));
        }
        WeightFormat::F16 => y[0] = half(x),
        WeightFormat::Bf16 => y[0] = f64::from(bf16::from_le_bytes([x[0], x[1]]).to_f32()),
        WeightFormat::Q4_0 => q4_0(&mut y, x),
        WeightFormat::Q4_1 => q4_1(&mut y, x),
        WeightFormat::Q5_0 => q5_0(&mut y, x),
        WeightFormat::Q5_1 => q5_1(&mut y, x),
        WeightFormat::Q8_0 => q8_0(&mut y, x),
        WeightFormat::Q4K => q4_k(&mut y, x),
        WeightFormat::Q5K => q5_k(&mut y, x),
        WeightFormat::Q6K => q6_k(&mut y, x),
        WeightFormat::Iq4Nl => iq4_levels(&mut y, &x[2..], half(x)),
        WeightFormat::Iq4Xs => iq4_xs(&mut y, x),
    }
    y
}

fn q4_0(y: &mut [f64], x: &[u8]) {
    for j in 0..16 {
        y[j] = f64::from(i32::from(x[2 + j] & 15) - 8) * half(x);
        y[j + 16] = f64::from(i32::from(x[2 + j] >> 4) - 8) * half(x);
    }
}

fn q4_1(y: &mut [f64], x: &[u8]) {
    for j in 0..16 {
        y[j] = f64::from(x[4 + j] & 15) * half(x) + half(&x[2..]);
        y[j + 16] = f64::from(x[4 + j] >> 4) * half(x) + half(&x[2..]);
    }
}

fn q5_0(y: &mut [f64], x: &[u8]) {
    for j in 0..16 {
        let (h0, h1) = fifth_bits(&x[2..], j);
        y[j] = f64::from(i32::from((x[6 + j] & 15) | h0) - 16) * half(x);
        y[j + 16] = f64::from(i32::from((x[6 + j] >> 4) | h1) - 16) * half(x);
    }
}

fn q5_1(y: &mut [f64], x: &[u8]) {
    for j in 0..16 {
        let (h0, h1) = fifth_bits(&x[4..], j);
        y[j] = f64::from((x[8 + j] & 15) | h0) * half(x) + half(&x[2..]);
        y[j + 16] = f64::from((x[8 + j] >> 4) | h1) * half(x) + half(&x[2..]);
    }
}

fn q8_0(y: &mut [f64], x: &[u8]) {
    for j in 0..32 {
        y[j] = f64::from(x[2 + j] as i8) * half(x);
    }
}

fn q4_k(y: &mut [f64], x: &[u8]) {
    let (d, min) = (half(x), half(&x[2..]));
    for (is, at) in (0..8).step_by(2).zip((0..256).step_by(64)) {
        let q = &x[16 + at / 2..];
        let ((sc1, m1), (sc2, m2)) = (scale_min_k4(is, &x[4..]), scale_min_k4(is + 1, &x[4..]));
        for l in 0..32 {
            y[at + l] = d * sc1 * f64::from(q[l] & 15) - min * m1;
            y[at + 32 + l] = d * sc2 * f64::from(q[l] >> 4) - min * m2;
        }
    }
}

fn q5_k(y: &mut [f64], x: &[u8]) {
    let (d, min, qh) = (half(x), half(&x[2..]), &x[16..48]);
    for (is, at) in (0..8).step_by(2).zip((0..256).step_by(64)) {
        let q = &x[48 + at / 2..];
        let ((sc1, m1), (sc2, m2)) = (scale_min_k4(is, &x[4..]), scale_min_k4(is + 1, &x[4..]));
        for l in 0..32 {
            let (h1, h2) = (qh[l] >> is & 1, qh[l] >> (is + 1) & 1);
            y[at + l] = d * sc1 * f64::from((q[l] & 15) + 16 * h1) - min * m1;
            y[at + 32 + l] = d * sc2 * f64::from((q[l] >> 4) + 16 * h2) - min * m2;
        }
    }
}

fn q6_k(y: &mut [f64], x: &[u8]) {
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

fn iq4_xs(y: &mut [f64], x: &[u8]) {
    let high = u16::from_le_bytes([x[2], x[3]]);
    for ib in 0..8 {
        let low = u16::from(x[4 + ib / 2] >> (4 * (ib % 2)) & 15);
        let scale = i32::from(low | (high >> (2 * ib) & 3) << 4) - 32;
        let scale = half(x) * f64::from(scale);
        iq4_levels(&mut y[ib * 32..], &x[8 + ib * 16..], scale);
    }
}
