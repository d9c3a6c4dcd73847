//! Passes over a row of logits: maximum, argmax, mass and a token's rank.
//!
//! A row holds 128,000 entries and more, and every sequence has one per step: the passes work on
//! lanes that the compiler turns into vector instructions, and `exp` is a polynomial of our own, so
//! that the same row gives the same bits on every machine. NaN entries are skipped.

use overdraft_units::TokenId;

/// Entries worked on at once.
const LANES: usize = 16;
/// Entries whose mass is summed in single precision before it is added to the total.
pub(super) const STRETCH: usize = 1024;

/// The largest entry that is a number; minus infinity when there is none.
pub(super) fn maximum(row: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = row.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |best, &value| best.max(value))
}

/// The likeliest token, the lowest of equals; `None` when no entry is above minus infinity.
pub(super) fn argmax(row: &[f32]) -> Option<TokenId> {
    let best = maximum(row);
    if best == f32::NEG_INFINITY {
        return None;
    }
    // Equality is exact: `best` is one of the entries.
    row.iter().position(|&value| value >= best).map(token)
}

/// The place of `index` among all entries, the largest being one; equals rank by their number.
pub(super) fn rank(row: &[f32], index: usize) -> u32 {
    let value = row[index];
    let (before, after) = row.split_at(index);
    // Counts as wide as the entries, so that both share vector lanes.
    let ahead = before.iter().map(|&other| u32::from(other >= value)).sum::<u32>();
    let behind = after.iter().map(|&other| u32::from(other > value)).sum::<u32>();
    ahead + behind + 1
}

/// The sum over entries of at least `floor` of `exp((entry - reference) * scale)`.
pub(super) fn mass(row: &[f32], floor: f32, reference: f32, scale: f32) -> f64 {
    row.chunks(STRETCH).map(|part| stretch_mass(part, floor, reference, scale)).sum()
}

/// [`mass`] of at most [`STRETCH`] entries.
pub(super) fn stretch_mass(part: &[f32], floor: f32, reference: f32, scale: f32) -> f64 {
    let weight = |value: f32| if value >= floor { exp((value - reference) * scale) } else { 0.0 };
    let mut lanes = [0.0_f32; LANES];
    let (chunks, rest) = part.as_chunks::<LANES>();
    for chunk in chunks {
        let weights = chunk.map(weight);
        for (lane, weight) in lanes.iter_mut().zip(weights) {
            *lane += weight;
        }
    }
    lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>()
        + rest.iter().map(|&value| f64::from(weight(value))).sum::<f64>()
}

/// `e^x` for `x <= 0`, within two units in the last place; exactly zero below `-87`.
///
/// Range reduction by powers of two and a polynomial of degree seven. Rounding to the nearest
/// integer is done by adding `1.5 * 2^23`, whose low bits then hold the integer: no conversion
/// instruction, so the loop around it vectorises.
#[inline]
pub(super) fn exp(x: f32) -> f32 {
    const SMALLEST: f32 = -87.0;
    const ROUNDER: f32 = 12_582_912.0;
    // ln 2 split so that `n * HIGH` is exact for the `n` that occur.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const BIAS: u32 = 127;

    let clamped = if x > SMALLEST { x } else { SMALLEST };
    let shifted = clamped * core::f32::consts::LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    let r = (clamped - whole * LN2_HIGH) - whole * LN2_LOW;
    let tail = ((r * (1.0 / 5040.0) + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0;
    let polynomial = (((tail * r + 1.0 / 6.0) * r + 0.5) * r + 1.0) * r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(BIAS);
    let power = f32::from_bits(exponent << 23);
    if x >= SMALLEST { polynomial * power } else { 0.0 }
}

/// The token at a place of the row.
pub(super) fn token(index: usize) -> TokenId {
    TokenId(u32::try_from(index).expect("a vocabulary has fewer than 2^32 tokens"))
}

/// The place of a token in a row.
pub(super) fn place(token: TokenId) -> usize {
    usize::try_from(token.0).expect("usize holds 32 bits")
}

/// Single precision is what logits have; rounding to it loses nothing one could use.
#[expect(clippy::cast_possible_truncation, reason = "rounding is meant")]
pub(super) fn single(value: f64) -> f32 {
    value as f32
}
