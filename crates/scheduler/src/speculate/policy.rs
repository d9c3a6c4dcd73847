//! Speculation policy: the rule that sets the draft depth (off, fixed, threshold, adaptive).

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::acceptance::DEPTH_MAX;

/// Maximum ranges of one table.
const RANGES_MAX: usize = 64;

/// A rule for the depth of drafts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// No drafts.
    Off,
    /// A fixed number of tokens.
    Fixed(usize),
    /// The write-up's rule (D2): by accepted over drafted tokens of the last hundred answers;
    /// deeper above 0.75, shallower below 0.6, off below 0.4.
    Threshold,
    /// The same thresholds on the conditional acceptance rate of a token after an accepted prefix.
    ThresholdPerToken,
    /// By the number of sequences alone.
    BatchTable(DepthTable),
    /// Whatever brings the most tokens a second, by measured chances and costs.
    #[default]
    Goodput,
}

/// A depth for each number of sequences, in the form of vLLM's
/// `num_speculative_tokens_per_batch_size`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepthTable {
    /// First number of sequences, and the depth from there on; ascending, the first is one.
    steps: Vec<(u32, usize)>,
}

/// Not the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(String);

impl Policy {
    /// As flags and metrics call it, without its numbers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Fixed(_) => "fixed",
            Self::Threshold => "threshold",
            Self::ThresholdPerToken => "threshold-per-token",
            Self::BatchTable(_) => "batch-table",
            Self::Goodput => "goodput",
        }
    }
}

impl DepthTable {
    /// From ranges `(first, last, depth)` that ascend and begin with one; a gap keeps the depth
    /// before it. `None` where they do not.
    pub fn new(ranges: &[(u32, u32, usize)]) -> Option<Self> {
        let begins = ranges.first().is_some_and(|first| first.0 == 1);
        let sound = ranges.iter().all(|range| range.0 <= range.1 && range.2 <= DEPTH_MAX);
        let ascends = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
        let fits = ranges.len() <= RANGES_MAX;
        let steps = ranges.iter().map(|range| (range.0, range.2)).collect();
        (begins && sound && ascends && fits).then_some(Self { steps })
    }

    /// The depth for so many sequences.
    pub fn depth(&self, sequences: u32) -> usize {
        let behind = self.steps.partition_point(|step| step.0 <= sequences.max(1));
        behind.checked_sub(1).map_or(0, |place| self.steps[place].1)
    }
}

/// What vLLM's documentation gives as an example, cut at our depth.
impl Default for DepthTable {
    fn default() -> Self {
        Self { steps: [(1, 8), (9, 5), (33, 3), (65, 2), (129, 0)].to_vec() }
    }
}

/// `off`, `fixed:3`, `threshold`, `threshold-per-token`, `batch-table`,
/// `batch-table:1-8=5,9-32=2,33-64=0`, `goodput`.
impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let (name, numbers) = match text.split_once(':') {
            Some((name, numbers)) => (name, Some(numbers)),
            None => (text, None),
        };
        let parsed = match (name, numbers) {
            ("off", None) => Some(Self::Off),
            ("fixed", Some(depth)) => {
                depth.parse().ok().filter(|depth| *depth <= DEPTH_MAX).map(Self::Fixed)
            }
            ("threshold", None) => Some(Self::Threshold),
            ("threshold-per-token", None) => Some(Self::ThresholdPerToken),
            ("batch-table", None) => Some(Self::BatchTable(DepthTable::default())),
            ("batch-table", Some(ranges)) => table(ranges).map(Self::BatchTable),
            ("goodput", None) => Some(Self::Goodput),
            _ => None,
        };
        parsed.ok_or_else(|| PolicyError(text.to_string()))
    }
}

fn table(text: &str) -> Option<DepthTable> {
    let range = |text: &str| {
        let (numbers, depth) = text.split_once('=')?;
        let (first, last) = numbers.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?, depth.parse().ok()?))
    };
    DepthTable::new(&text.split(',').map(range).collect::<Option<Vec<_>>>()?)
}

/// The text that is read back as the same.
impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())?;
        match self {
            Self::Fixed(depth) => write!(out, ":{depth}"),
            Self::BatchTable(table) => {
                let last = |place: usize, first: u32| {
                    table.steps.get(place + 1).map_or(first.max(1 << 16), |next| next.0 - 1)
                };
                for (place, (first, depth)) in table.steps.iter().enumerate() {
                    let sign = if place == 0 { ':' } else { ',' };
                    write!(out, "{sign}{first}-{}={depth}", last(place, *first))?;
                }
                Ok(())
            }
            Self::Off | Self::Threshold | Self::ThresholdPerToken | Self::Goodput => Ok(()),
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "`{}` is not a speculation policy; expected `off`, `fixed:N` with N up to {DEPTH_MAX}, \
             `threshold`, `threshold-per-token`, `batch-table`, `batch-table:1-8=4,9-64=0` or \
             `goodput`",
            self.0
        )
    }
}

impl core::error::Error for PolicyError {}
