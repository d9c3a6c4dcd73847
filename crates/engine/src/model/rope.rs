//! Rotary frequencies: how a model file scales positions, as radians per position and a magnitude.
//!
//! A pair of dimensions turns by `base ^ (-2 pair / rotated)` a position. A file may stretch that for
//! all pairs (linear), or divide it pair by pair (Llama 3.1 and later, a tensor of divisors). Or it
//! stretches the slow pairs and leaves the fast ones (`YaRN`, arXiv 2309.00071, as llama.cpp reads it).

use std::f64::consts::TAU;

use super::numbers;
use super::shape::Keys;
use crate::gguf::{Gguf, OpenError};

/// Turns within the trained context from which a pair is left alone, where the file is silent.
const BETA_FAST_DEFAULT: f32 = 32.0;
/// Turns within the trained context up to which a pair is stretched wholly, likewise.
const BETA_SLOW_DEFAULT: f32 = 1.0;
/// Growth of the magnitude with the logarithm of the stretch.
const MAGNITUDE_GROWTH: f64 = 0.1;

/// Which numbers of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RopeStyle {
    /// Neighbours: 0 with 1, 2 with 3.
    Interleaved,
    /// The first half with the second half.
    Halves,
}

/// How positions enter queries and keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rope {
    pub(crate) style: RopeStyle,
    /// Radians per position for each rotated pair.
    pub(crate) frequencies: Vec<f32>,
    /// Factor of what is rotated.
    pub(crate) magnitude: f32,
}

/// A stretch of positions: the method of `rope.scaling.type`.
enum Scaling {
    /// All pairs alike; a factor of 1 is none.
    Linear { factor: f64 },
    /// Slow pairs only.
    Yarn(Yarn),
}

/// A stretch of the pairs that turn slowly, and of none that turn fast.
struct Yarn {
    factor: f64,
    /// Pairs up to this one are left alone.
    first: f64,
    /// Pairs from this one on are stretched wholly.
    last: f64,
    magnitude: f64,
}

impl Rope {
    /// Reads what the file says of heads of `head` numbers.
    pub(super) fn read(
        gguf: &Gguf,
        keys: &Keys<'_>,
        style: RopeStyle,
        head: usize,
    ) -> Result<Self, OpenError> {
        let base = positive(keys, "rope.freq_base", 10_000.0)?;
        let rotated = keys.optional("rope.dimension_count")?.unwrap_or(head);
        if head < rotated || !rotated.is_multiple_of(2) {
            return Err(keys.wrong(
                "rope.dimension_count",
                rotated,
                "an even number within a head",
            ));
        }
        let divisors = divisors(gguf, rotated / 2)?;
        let scaling = Scaling::read(keys, base, rotated)?;
        let frequency = |(pair, divisor): (usize, f32)| {
            let plain = frequency(base, pair, rotated) / f64::from(divisor);
            narrow(scaling.stretched(plain, pair))
        };
        let frequencies = divisors.into_iter().enumerate().map(frequency).collect();
        Ok(Self { style, frequencies, magnitude: narrow(scaling.magnitude()) })
    }
}

impl Scaling {
    fn read(keys: &Keys<'_>, base: f64, rotated: usize) -> Result<Self, OpenError> {
        match keys.text("rope.scaling.type")? {
            Some("linear") => {
                Ok(Self::Linear { factor: positive(keys, "rope.scaling.factor", 1.0)? })
            }
            Some("yarn") => Ok(Self::Yarn(Yarn::read(keys, base, rotated)?)),
            None | Some("none") => {
                Ok(Self::Linear { factor: positive(keys, "rope.scale_linear", 1.0)? })
            }
            Some(other) => Err(OpenError::UnsupportedFeature {
                feature: format!("rope scaling of type `{other}`"),
            }),
        }
    }

    fn stretched(&self, frequency: f64, pair: usize) -> f64 {
        match self {
            Self::Linear { factor } => frequency / factor,
            Self::Yarn(yarn) => yarn.stretched(frequency, pair),
        }
    }

    fn magnitude(&self) -> f64 {
        match self {
            Self::Linear { .. } => 1.0,
            Self::Yarn(yarn) => yarn.magnitude,
        }
    }
}

impl Yarn {
    fn read(keys: &Keys<'_>, base: f64, rotated: usize) -> Result<Self, OpenError> {
        let factor = positive(keys, "rope.scaling.factor", 1.0)?.max(1.0);
        let trained = match keys.optional("rope.scaling.original_context_length")? {
            Some(positions) => positions,
            None => keys.dimension("context_length")?,
        };
        let fast = positive(keys, "rope.scaling.yarn_beta_fast", BETA_FAST_DEFAULT)?;
        let slow = positive(keys, "rope.scaling.yarn_beta_slow", BETA_SLOW_DEFAULT)?;
        let turning = |turns: f64| pair_turning(turns, trained, base, rotated);
        let given = positive(keys, "rope.scaling.attn_factor", 1.0)?;
        // A model that scales its attention by itself says how much of the growth that undoes.
        let undone = keys.float("rope.scaling.yarn_log_multiplier")?.map_or(0.0, f64::from);
        let grown = |share: f64| 1.0 + MAGNITUDE_GROWTH * share * factor.ln();
        Ok(Self {
            factor,
            first: turning(fast).floor().max(0.0),
            last: turning(slow).ceil().min(wide(rotated) - 1.0),
            magnitude: given * grown(1.0) / grown(undone),
        })
    }

    fn stretched(&self, frequency: f64, pair: usize) -> f64 {
        let width = (self.last - self.first).max(0.001);
        let share = ((wide(pair) - self.first) / width).clamp(0.0, 1.0);
        frequency / self.factor * share + frequency * (1.0 - share)
    }
}

/// The pair, counted in fractions, that makes so many turns within the trained context.
fn pair_turning(turns: f64, trained: usize, base: f64, rotated: usize) -> f64 {
    wide(rotated) * (wide(trained) / (turns * TAU)).ln() / (2.0 * base.ln())
}

/// A divisor for each pair: 1 unless the file has a tensor of them.
fn divisors(gguf: &Gguf, pairs: usize) -> Result<Vec<f32>, OpenError> {
    let name = "rope_freqs.weight";
    if !gguf.has(name) {
        return Ok(vec![1.0; pairs]);
    }
    numbers::to_f32(&gguf.tensor(name, &[pairs])?, name)
}

fn positive(keys: &Keys<'_>, suffix: &str, default: f32) -> Result<f64, OpenError> {
    let found = keys.float(suffix)?.unwrap_or(default);
    if found.is_finite() && 0.0 < found {
        return Ok(f64::from(found));
    }
    Err(keys.wrong(suffix, found, "a positive number"))
}

/// `base ^ (-2 pair / rotated)`, in double precision: at high positions the error of a
/// single-precision power shows in the angles.
fn frequency(base: f64, pair: usize, rotated: usize) -> f64 {
    base.powf(-2.0 * wide(pair) / wide(rotated))
}

#[expect(clippy::cast_precision_loss, reason = "dimensions and positions are far below 2^52")]
fn wide(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "in effect a model weight")]
fn narrow(number: f64) -> f32 {
    number as f32
}
