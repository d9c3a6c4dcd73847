//! The kernels' arithmetic in plain Rust: the oracle of the other instruction sets, and the path
//! of every machine without them.

use super::{Kernel, LANES, RowsKernel, Simd, WithRows};
use half::f16;

/// The token: needs nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Applies `operation` lane by lane.
#[inline(always)]
fn zip(a: [f32; 16], b: [f32; 16], operation: impl Fn(f32, f32) -> f32) -> [f32; 16] {
    let mut out = a;
    for lane in 0..LANES {
        out[lane] = operation(a[lane], b[lane]);
    }
    out
}

/// Applies `operation` byte by byte.
#[inline(always)]
fn map_bytes(a: [u8; 64], operation: impl Fn(u8) -> u8) -> [u8; 64] {
    let mut out = a;
    for byte in &mut out {
        *byte = operation(*byte);
    }
    out
}

/// Adds the four products of each lane; `offset` is taken from every weight first.
#[inline(always)]
fn dot(mut sum: [i32; 16], weights: [u8; 64], values: i32, offset: i32) -> [i32; 16] {
    let values = values.to_le_bytes().map(|byte| i32::from(byte.cast_signed()));
    for lane in 0..LANES {
        let mut products = 0;
        for index in 0..4 {
            products += (i32::from(weights[lane * 4 + index]) - offset) * values[index];
        }
        sum[lane] = sum[lane].wrapping_add(products);
    }
    sum
}

impl Simd for Portable {
    type Floats = [f32; 16];
    type Ints = [i32; 16];
    type Bytes = [u8; 64];

    #[inline]
    fn vectorize<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline]
    fn run_rows<K: RowsKernel>(self, rows: usize, kernel: &K) -> usize {
        match rows {
            4.. => self.vectorize(WithRows::<K, 4>(kernel)),
            2 | 3 => self.vectorize(WithRows::<K, 2>(kernel)),
            _ => self.vectorize(WithRows::<K, 1>(kernel)),
        }
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 16] {
        [value; 16]
    }
    #[inline(always)]
    fn load(self, source: &[f32; 16]) -> [f32; 16] {
        *source
    }
    #[inline(always)]
    fn store(self, value: [f32; 16], target: &mut [f32; 16]) {
        *target = value;
    }
    #[inline(always)]
    fn add(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: [f32; 16], b: [f32; 16], mut c: [f32; 16]) -> [f32; 16] {
        for lane in 0..LANES {
            c[lane] = a[lane].mul_add(b[lane], c[lane]);
        }
        c
    }
    #[inline(always)]
    fn max(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn bits(self, value: [f32; 16]) -> [i32; 16] {
        value.map(|lane| lane.to_bits().cast_signed())
    }
    #[inline(always)]
    fn floats_of_bits(self, value: [i32; 16]) -> [f32; 16] {
        value.map(|lane| f32::from_bits(lane.cast_unsigned()))
    }
    #[inline(always)]
    fn widen_f16(self, source: &[u16; 16]) -> [f32; 16] {
        source.map(|bits| f16::from_bits(bits).to_f32())
    }
    #[inline(always)]
    fn narrow_f16(self, value: [f32; 16]) -> [u16; 16] {
        value.map(|lane| f16::from_f32(lane).to_bits())
    }
    #[inline(always)]
    fn widen_bf16(self, source: &[u16; 16]) -> [f32; 16] {
        source.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
    #[inline(always)]
    fn widen_u8(self, source: &[u8; 16]) -> [f32; 16] {
        source.map(f32::from)
    }
    #[inline(always)]
    fn widen_i8(self, source: &[i8; 16]) -> [f32; 16] {
        source.map(f32::from)
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> [i32; 16] {
        [value; 16]
    }
    #[inline(always)]
    fn add_int(self, mut a: [i32; 16], b: [i32; 16]) -> [i32; 16] {
        for lane in 0..LANES {
            a[lane] = a[lane].wrapping_add(b[lane]);
        }
        a
    }
    #[inline(always)]
    fn shift_to_exponent(self, a: [i32; 16]) -> [i32; 16] {
        a.map(|lane| lane << 23)
    }
    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "to the nearest `f32` is the contract")]
    fn to_floats(self, a: [i32; 16]) -> [f32; 16] {
        a.map(|lane| lane as f32)
    }

    #[inline(always)]
    fn narrow_bytes(self, a: [i32; 16]) -> [u8; 16] {
        a.map(|lane| lane.to_le_bytes()[0])
    }
    #[inline(always)]
    fn sum_int(self, a: [i32; 16]) -> i32 {
        a.into_iter().fold(0, i32::wrapping_add)
    }
    #[inline(always)]
    fn greatest(self, value: [f32; 16]) -> f32 {
        value.into_iter().fold(value[0], |a, b| if b > a { b } else { a })
    }

    #[inline(always)]
    fn bytes(self, source: &[u8; 64]) -> [u8; 64] {
        *source
    }
    #[inline(always)]
    fn mask(self, a: [u8; 64], mask: u8) -> [u8; 64] {
        map_bytes(a, |byte| byte & mask)
    }
    #[inline(always)]
    fn or(self, mut a: [u8; 64], b: [u8; 64]) -> [u8; 64] {
        for (byte, other) in a.iter_mut().zip(b) {
            *byte |= other;
        }
        a
    }
    #[inline(always)]
    fn shift_right<const COUNT: u32>(self, a: [u8; 64], mask: u8) -> [u8; 64] {
        map_bytes(a, |byte| (byte >> COUNT) & mask)
    }
    #[inline(always)]
    fn shift_left<const COUNT: u32>(self, a: [u8; 64], mask: u8) -> [u8; 64] {
        map_bytes(a, |byte| (byte << COUNT) & mask)
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], indices: [u8; 64]) -> [u8; 64] {
        map_bytes(indices, |index| table[usize::from(index)])
    }
    #[inline(always)]
    fn dot<const COUNT: usize>(
        self,
        mut sum: [i32; 16],
        weights: &[[u8; 64]],
        values: &[i32],
    ) -> [i32; 16] {
        for index in 0..COUNT {
            sum = dot(sum, weights[index], values[index], 0);
        }
        sum
    }
    #[inline(always)]
    fn seed_signed(self, _minus_128_sum: i32) -> [i32; 16] {
        [0; 16]
    }
    #[inline(always)]
    fn dot_signed(self, sum: [i32; 16], weights: [u8; 64], values: i32) -> [i32; 16] {
        dot(sum, weights, values, 128)
    }
    #[inline(always)]
    fn prefetch(self, _address: *const u8) {}
}
