//! Vectorised `exp`: sixteen lanes, bit-identical on every instruction set.
//!
//! `exp(x) = 2^n * exp(r)` with `n` the integer nearest to `x / ln 2`, and a polynomial for the
//! rest. The relative error is below 3e-7 in -87..=88; outside the result is clamped to 1.2e-38 and
//! 1.7e38, never infinite. A NaN stays a NaN.

use super::Simd;

/// Adding this rounds an `f32` to an integer held in the lowest bits.
const ROUNDING: f32 = 12_582_912.0;
/// The high part of ln 2; few bits, so that `n` times it is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
/// What `LN_2_HIGH` lacks, negative because the high part is too large.
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Coefficients of `(exp(r) - 1 - r) / r^2`, highest power first (Cephes `expf`).
const COEFFICIENTS: [f32; 6] =
    [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5];

/// `exp` of each lane.
#[inline(always)]
pub(crate) fn exponential<S: Simd>(simd: S, x: S::Floats) -> S::Floats {
    let x = simd.min(simd.splat(88.0), simd.max(simd.splat(-87.0), x));
    let shifted = simd.fma(x, simd.splat(std::f32::consts::LOG2_E), simd.splat(ROUNDING));
    let n = simd.sub(shifted, simd.splat(ROUNDING));
    let r = simd.fma(n, simd.splat(-LN_2_HIGH), x);
    let r = simd.fma(n, simd.splat(-LN_2_LOW), r);
    let mut p = simd.splat(COEFFICIENTS[0]);
    for coefficient in &COEFFICIENTS[1..] {
        p = simd.fma(p, r, simd.splat(*coefficient));
    }
    let p = simd.add(simd.fma(p, simd.mul(r, r), r), simd.splat(1.0));
    let biased = simd.add_int(simd.bits(shifted), simd.splat_int(127));
    simd.mul(p, simd.floats_of_bits(simd.shift_to_exponent(biased)))
}
