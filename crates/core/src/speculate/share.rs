//! A part of a whole, in 65,536ths.
//!
//! Chances are multiplied a few times and then compared: sixteen bits of fraction are more than any
//! estimate here is worth, and give the same answer on every machine.

/// Between nothing and a whole, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

/// Parts in a whole.
const WHOLE: u32 = 1 << 16;

impl Share {
    /// None of it.
    pub const NONE: Self = Self(0);
    /// All of it.
    pub const WHOLE: Self = Self(WHOLE);

    /// `part` of `whole`, at most all of it; none of nothing.
    pub fn of(part: u64, whole: u64) -> Self {
        // Eight bytes hold the product of all that is ever counted here; beyond, digits are dropped.
        let digits = (u64::BITS - whole.leading_zeros()).saturating_sub(u64::BITS - 17);
        let (part, whole) = (part.min(whole) >> digits, whole >> digits);
        let parts = (part * u64::from(WHOLE)).checked_div(whole).unwrap_or(0);
        Self(u32::try_from(parts).unwrap_or(WHOLE))
    }

    /// So many hundredths, at most a hundred.
    pub const fn percent(hundredths: u32) -> Self {
        let hundredths = if hundredths > 100 { 100 } else { hundredths };
        Self(WHOLE / 100 * hundredths + WHOLE % 100 * hundredths / 100)
    }

    /// Parts of 65,536.
    pub const fn parts(self) -> u32 {
        self.0
    }

    /// Parts of a million, for metrics.
    pub fn millionths(self) -> u32 {
        let millionths = (u64::from(self.0) * 1_000_000) >> 16;
        u32::try_from(millionths).expect("at most a million")
    }

    /// This part of that part.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let product = (u64::from(self.0) * u64::from(other.0)) >> 16;
        Self(u32::try_from(product).unwrap_or(WHOLE))
    }

    /// Half-way between the two.
    #[must_use]
    pub fn between(self, other: Self) -> Self {
        Self(self.0.midpoint(other.0))
    }
}
