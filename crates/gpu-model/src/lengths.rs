//! Answer length distribution: simulated output lengths where the workload has none.
//!
//! Clients declare a far greater `max_tokens` than they use. A simulated answer therefore has a
//! length of its own, drawn from a hash of the prompt, so that the same prompt gets the same
//! length.

use std::fmt;
use std::str::FromStr;

use overdraft_units::{Tokens, split_mix};

use crate::profile::whole;

/// Maximum length of an answer.
const ANSWER_MAX: f64 = 1_000_000.0;

/// The distribution of lengths, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnswerLengths {
    /// All have this length.
    Fixed(Tokens),
    /// Their logarithms are normal.
    LogNormal {
        /// Half of them are shorter, in tokens.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
}

/// What was written is no distribution of lengths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a length of answers; expected a number of tokens above zero, or \
     `lognormal:MEDIAN:SIGMA` as in `lognormal:129:0.93`"
)]
pub struct LengthsError(String);

impl Default for AnswerLengths {
    /// As chats of a public trace (Azure 2023, conversation): half within 129 tokens, nine of ten
    /// within 424.
    fn default() -> Self {
        Self::LogNormal { median: 129.0, sigma: 0.93 }
    }
}

impl AnswerLengths {
    /// The length that belongs to a number; at least one token. Equal numbers get equal lengths, and
    /// numbers without order get lengths of this distribution.
    pub fn draw(&self, number: u64) -> Tokens {
        match *self {
            Self::Fixed(tokens) => tokens.max(Tokens::new(1)),
            Self::LogNormal { median, sigma } => {
                let drawn = median * (sigma * normal(number)).exp();
                Tokens::new(whole(drawn.clamp(1.0, ANSWER_MAX).round()))
            }
        }
    }
}

impl FromStr for AnswerLengths {
    type Err = LengthsError;

    fn from_str(text: &str) -> Result<Self, LengthsError> {
        let wrong = || LengthsError(text.to_owned());
        if let Ok(tokens) = text.parse::<u32>() {
            return if tokens == 0 { Err(wrong()) } else { Ok(Self::Fixed(Tokens::new(tokens))) };
        }
        let parameters = text.strip_prefix("lognormal:").and_then(|rest| rest.split_once(':'));
        let (median, sigma) = parameters.ok_or_else(wrong)?;
        let (median, sigma): (f64, f64) =
            (median.parse().map_err(|_| wrong())?, sigma.parse().map_err(|_| wrong())?);
        let sound = (1.0..=ANSWER_MAX).contains(&median) && (0.0..=10.0).contains(&sigma);
        if sound { Ok(Self::LogNormal { median, sigma }) } else { Err(wrong()) }
    }
}

impl fmt::Display for AnswerLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(tokens) => write!(f, "{}", tokens.get()),
            Self::LogNormal { median, sigma } => write!(f, "lognormal:{median}:{sigma}"),
        }
    }
}

/// A normal deviate that belongs to a number (Box and Muller).
fn normal(number: u64) -> f64 {
    let radius = (-2.0 * (1.0 - share(split_mix(number))).ln()).sqrt();
    radius * (std::f64::consts::TAU * share(split_mix(number ^ 0x5851_f42d_4c95_7f2d))).cos()
}

/// A number in `0..1`.
pub(crate) fn share(bits: u64) -> f64 {
    let high = u32::try_from(bits >> 32).unwrap_or(u32::MAX);
    f64::from(high) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_distributed_as_asked() {
        let lengths = AnswerLengths::default();
        let mut drawn: Vec<u32> = (0..20_000).map(|number| lengths.draw(number).get()).collect();
        drawn.sort_unstable();
        assert!((120..139).contains(&drawn[10_000]), "{}", drawn[10_000]);
        assert!((400..450).contains(&drawn[18_000]), "{}", drawn[18_000]);
        assert!(1 <= drawn[0]);
        assert_eq!(lengths.draw(7), lengths.draw(7));
    }

    #[test]
    fn what_is_written_is_read_or_refused() {
        let read = |text: &str| text.parse::<AnswerLengths>();
        assert_eq!(read("64"), Ok(AnswerLengths::Fixed(Tokens::new(64))));
        let both = AnswerLengths::LogNormal { median: 40.0, sigma: 0.5 };
        assert_eq!(read("lognormal:40:0.5"), Ok(both));
        assert_eq!(read(&both.to_string()), Ok(both));
        for wrong in ["0", "-3", "many", "lognormal:40", "lognormal:0:1", "lognormal:40:-1", ""] {
            let message = read(wrong).unwrap_err().to_string();
            assert!(message.starts_with(&format!("`{wrong}` is not")), "{message}");
        }
    }
}
