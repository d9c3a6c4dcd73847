//! Seeded random numbers: counter-based (`ChaCha8`), by seed, position and purpose.
//!
//! The `ChaCha8` stream of a position gives its uniform numbers, one for each purpose: computing
//! the position again, after preemption or in another batch, draws the same.

use overdraft_units::TokenId;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::scan;

/// What a number is drawn for; the numbers of one position have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The token at the position.
    Choose,
    /// A draft's token there.
    Guess,
    /// Whether that is kept.
    Keep,
    /// The token that comes if it is not.
    Instead,
}

/// A number in `0..1` that depends on nothing but the seed, the position and the purpose.
pub(super) fn uniform(seed: u64, position: u64, purpose: Purpose) -> f64 {
    /// Two to the power of minus 53: the spacing of the doubles just below one.
    const SPACING: f64 = f64::EPSILON / 2.0;
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(position);
    for _ in 0..purpose as u8 {
        generator.next_u64();
    }
    let bits = generator.next_u64() >> (u64::BITS - f64::MANTISSA_DIGITS);
    exact(bits) * SPACING
}

/// Draws from the softmax of the whole row at a temperature, by the inverse of its cumulative
/// distribution: first the stretch, then the token in it. `masses` is scratch.
pub(super) fn from_row(
    row: &[f32],
    temperature: f32,
    uniform: f64,
    masses: &mut Vec<f64>,
) -> Option<TokenId> {
    let best = scan::maximum(row);
    if best == f32::NEG_INFINITY {
        return None;
    }
    let scale = temperature.recip();
    let mass = |part: &[f32]| scan::stretch_mass(part, f32::MIN, best, scale);
    masses.clear();
    masses.extend(row.chunks(scan::STRETCH).map(mass));

    let mut target = uniform * masses.iter().sum::<f64>();
    let mut stretch = 0;
    for (index, &mass) in masses.iter().enumerate() {
        if mass > 0.0 {
            stretch = index;
            if target < mass {
                break;
            }
            target -= mass;
        }
    }
    let start = stretch * scan::STRETCH;
    let part = &row[start..row.len().min(start + scan::STRETCH)];
    let mut drawn = None;
    for (index, &value) in part.iter().enumerate() {
        let weight = if value >= f32::MIN { scan::exp((value - best) * scale) } else { 0.0 };
        if weight > 0.0 {
            drawn = Some(scan::token(start + index));
            target -= f64::from(weight);
            if target < 0.0 {
                break;
            }
        }
    }
    drawn
}

#[expect(clippy::cast_precision_loss, reason = "the caller leaves as many bits as a double has")]
fn exact(bits: u64) -> f64 {
    bits as f64
}
