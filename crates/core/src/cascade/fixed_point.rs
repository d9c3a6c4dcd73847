//! Fixed-point logistic and exponential functions.
//!
//! Twenty-four bits of fraction. A float's `exp` is not the same on every machine and is not there at
//! all without `std`; this is off by less than a millionth, and the same everywhere.

use super::features::{UNIT, logarithm};
use super::probability::WHOLE;
use overdraft_units::Ratio;

/// Bits of fraction.
pub(super) const BITS: u32 = 24;
/// One.
pub(super) const ONE: i64 = 1 << BITS;

/// The logarithm of two.
const LN_2: i64 = 11_629_080;
/// Argument beyond which the exponential is zero.
const FAR: i64 = 32 * ONE;

/// The product of two.
pub(super) fn times(one: i64, other: i64) -> i64 {
    let product = (i128::from(one) * i128::from(other)) >> BITS;
    i64::try_from(product).unwrap_or(if product < 0 { i64::MIN } else { i64::MAX })
}

/// `e` to the power of `-depth`, between nothing and one; one where `depth` is negative.
pub(super) fn decay(depth: i64) -> i64 {
    if FAR <= depth {
        return 0;
    }
    let depth = depth.max(0);
    let halvings = depth / LN_2;
    let rest = depth % LN_2;
    // Taylor's series by Horner: the rest is below 0.7, so the tenth term is below a billionth.
    let series = (1..=10).rev().fold(ONE, |sum, term| ONE - times(rest, sum) / term);
    series >> halvings
}

/// The chance whose log odds are `odds`.
pub(super) fn logistic(odds: i64) -> i64 {
    let small = decay(odds.saturating_abs());
    let large = ONE * ONE / (ONE + small);
    if odds < 0 { ONE - large } else { large }
}

/// The log odds of a chance of 2^24 that is neither nothing nor one: never falls, and off by less than a tenth.
pub(super) fn log_odds(chance: i64) -> i64 {
    let octaves = logarithm(chance.unsigned_abs()) - logarithm((ONE - chance).unsigned_abs());
    i64::from(octaves) * LN_2 / i64::from(UNIT)
}

/// Of 2^24, as a chance.
pub(super) fn chance(parts: i64) -> Ratio {
    let millionths = (parts.clamp(0, ONE) * i64::from(WHOLE)) >> BITS;
    Ratio::millionths(u32::try_from(millionths).unwrap_or(WHOLE))
}

/// A chance, of 2^24.
pub(super) fn parts(chance: Ratio) -> i64 {
    (i64::from(chance.get()) << BITS) / i64::from(WHOLE)
}

/// Millionths, of 2^24.
pub(super) fn millionths(micro: u64) -> i64 {
    i64::try_from((u128::from(micro) << BITS) / u128::from(WHOLE)).unwrap_or(i64::MAX)
}
