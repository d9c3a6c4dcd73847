//! Service level objectives (SLO): the bounds that a request must meet to count as goodput.

use std::fmt;
use std::str::FromStr;

use super::recorder::{Fate, Sample};
use crate::float_conversion::float;

/// Bounds in milliseconds; an unset bound always holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Objectives {
    /// Time to the first token.
    pub ttft_ms: Option<f64>,
    /// Time per token after it.
    pub tpot_ms: Option<f64>,
    /// Time to the end.
    pub e2el_ms: Option<f64>,
}

/// A text that sets no objective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no objective; expected `ttft:500`, `tpot:50` or `e2el:10000`, in milliseconds")]
pub struct ObjectiveError(String);

impl Objectives {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what `ttft:500` or `ttft:500,tpot:50` says.
    ///
    /// # Errors
    /// When it is not that.
    pub fn add(&mut self, text: &str) -> Result<(), ObjectiveError> {
        for part in text.split([',', ' ']).filter(|part| !part.is_empty()) {
            let wrong = || ObjectiveError(part.to_owned());
            let (name, bound) = part.split_once(':').ok_or_else(wrong)?;
            let bound = bound.parse().ok().filter(|bound| 0.0 < *bound).ok_or_else(wrong)?;
            match name {
                "ttft" => self.ttft_ms = Some(bound),
                "tpot" => self.tpot_ms = Some(bound),
                "e2el" => self.e2el_ms = Some(bound),
                _ => return Err(wrong()),
            }
        }
        Ok(())
    }

    /// Whether a request came to its answer and met them all.
    pub fn are_met_by(&self, sample: &Sample) -> bool {
        let within = |bound: Option<f64>, value: Option<f64>| {
            bound.is_none_or(|bound| value.is_none_or(|value| value <= bound))
        };
        let ms = |micros: u64| float(micros) / 1e3;
        sample.fate == Fate::Completed
            && self.can_tell_of(sample)
            && within(self.ttft_ms, sample.ttft().map(|time| ms(time.get())))
            && within(self.tpot_ms, sample.tpot_us().map(|time| time / 1e3))
            && within(self.e2el_ms, Some(ms(sample.latency().get())))
    }

    /// Whether a request tells if it met them. An answer without a first token, as one that was recorded and not
    /// streamed, tells nothing of the time before it and between tokens.
    pub(crate) fn can_tell_of(&self, sample: &Sample) -> bool {
        let is_split = 1 < sample.output.get();
        let needs_first = self.ttft_ms.is_some() || (self.tpot_ms.is_some() && is_split);
        sample.fate != Fate::Completed || sample.first_token.is_some() || !needs_first
    }
}

impl FromStr for Objectives {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let mut objectives = Self::default();
        objectives.add(text)?;
        Ok(objectives)
    }
}

/// As it would be typed.
impl fmt::Display for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("ttft", self.ttft_ms), ("tpot", self.tpot_ms), ("e2el", self.e2el_ms)];
        let mut space = "";
        for (name, bound) in all {
            if let Some(bound) = bound {
                write!(f, "{space}{name}:{bound}")?;
                space = " ";
            }
        }
        Ok(())
    }
}
