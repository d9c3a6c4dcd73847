//! Conversions between counts and floats.

/// A count as a number to divide by.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// How many there are of something in memory.
pub fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The nearest count; zero for what is negative or no number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from float saturates, which is what is wanted"
)]
pub fn whole(value: f64) -> u64 {
    value.round() as u64
}

/// The nearest count that fits 32 bits.
pub fn whole32(value: f64) -> u32 {
    u32::try_from(whole(value)).unwrap_or(u32::MAX)
}
