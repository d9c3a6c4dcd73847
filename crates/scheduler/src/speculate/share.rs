//! Fixed-point share, in 65,536ths.
//!
//! Chances are multiplied a few times and then compared: sixteen bits of fraction are more than any
//! estimate here is worth, and give the same answer on every machine.

/// Between nothing and a whole, both included.
///
/// ```
/// use overdraft_scheduler::speculate::Share;
///
/// assert_eq!(Share::of(1, 2), Share::percent(50));
/// assert_eq!(Share::of(3, 2), Share::WHOLE);
/// ```
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
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "at most a whole, and sixteen bits of it"
    )]
    pub fn of(part: u64, whole: u64) -> Self {
        // A division of floats takes a third of what one of integers does, and there are hundreds in a step.
        let parts = part.min(whole) as f64 / whole.max(1) as f64 * f64::from(WHOLE);
        Self(parts as u32)
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

    /// As a factor.
    pub fn part(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
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
