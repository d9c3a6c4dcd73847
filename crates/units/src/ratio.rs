//! Ratio: a part of a whole as a fixed-point number, for shares, chances and probabilities.
//!
//! Decisions are made with integers, so that every gateway and every machine that saw the same
//! numbers decides alike. A millionth is fine enough to tell a loss of one in a hundred from one in
//! ninety-nine.

/// A part of a whole, in millionths; between none and all of it.
///
/// ```
/// use overdraft_units::Ratio;
///
/// assert_eq!(Ratio::of(1, 4), Ratio::percent(25));
/// assert_eq!(Ratio::percent(50).times(Ratio::percent(50)), Ratio::permille(250));
/// assert_eq!(Ratio::of(3, 2), Ratio::WHOLE);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ratio(u32);

/// Millionths in a whole.
const WHOLE: u32 = 1_000_000;

impl Ratio {
    /// None of it; never.
    pub const NONE: Self = Self(0);
    /// All of it; always.
    pub const WHOLE: Self = Self(WHOLE);

    /// So many millionths, at most all of them.
    pub const fn millionths(millionths: u32) -> Self {
        Self(if millionths > WHOLE { WHOLE } else { millionths })
    }

    /// So many thousandths, at most all of them.
    pub const fn permille(thousandths: u32) -> Self {
        Self::millionths(thousandths.saturating_mul(1_000))
    }

    /// So many hundredths, at most all of them.
    pub const fn percent(hundredths: u32) -> Self {
        Self::millionths(hundredths.saturating_mul(10_000))
    }

    /// `part` of `whole`, rounded down, at most all of it; none of nothing.
    #[inline]
    pub fn of(part: u64, whole: u64) -> Self {
        let part = part.min(whole);
        // Narrow division where it suffices: the speculation controller divides hundreds of times a step.
        let millionths = match part.checked_mul(u64::from(WHOLE)) {
            Some(parts) => parts.checked_div(whole).unwrap_or(0),
            None => u64::try_from(u128::from(part) * u128::from(WHOLE) / u128::from(whole))
                .unwrap_or(u64::from(WHOLE)),
        };
        Self(u32::try_from(millionths).unwrap_or(WHOLE))
    }

    /// Millionths.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// As a factor between 0 and 1.
    pub fn factor(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// What is left of the whole; the chance that it does not happen.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(WHOLE - self.0)
    }

    /// This part of that part; the chance that both happen, where neither depends on the other.
    #[must_use]
    #[inline]
    pub fn times(self, other: Self) -> Self {
        let product = u64::from(self.0) * u64::from(other.0) / u64::from(WHOLE);
        Self(u32::try_from(product).unwrap_or(WHOLE))
    }

    /// The sum, at most all of it.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self::millionths(self.0.saturating_add(other.0))
    }

    /// How far apart the two are.
    #[must_use]
    pub const fn apart(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// Half-way between the two.
    #[must_use]
    pub fn between(self, other: Self) -> Self {
        Self(self.0.midpoint(other.0))
    }

    /// Whether a number drawn evenly from all 64-bit numbers says that it happens.
    pub fn happens(self, drawn: u64) -> bool {
        let place = u128::from(drawn) * u128::from(WHOLE);
        (place >> 64) < u128::from(self.0)
    }
}
