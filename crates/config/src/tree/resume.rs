//! Resume section: whether streams that break off go on at another worker, and at what cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::TimeSpan;

/// How streams that break off go on at another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    /// Whether they do. A client says `x-overdraft-resume: off` to have its own stream end with an error instead.
    pub mode: ResumeMode,
    /// Attempts to resume one request at most, from 1 to 7, those that failed included. They count as retries do
    /// (`retry.share`, `retry.floor`).
    #[schemars(range(min = 1, max = 7))]
    pub attempts: u8,
    /// Tokens of prompt and answer that all resumes of one request may have computed again.
    pub tokens: u32,
    /// How long the streams of a draining worker may stay before they are handed over to others; those that cannot be
    /// continued exactly end where they are.
    pub drain_after: TimeSpan,
    /// How long a stream whose worker broke off waits for another that is up, or for its own to be restarted, before it
    /// ends with an error. The limits of the whole answer hold meanwhile.
    pub patience: TimeSpan,
}

/// Whether streams are resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeMode {
    /// Where that is exact: by token ids, by text, or by an equal second answer.
    #[default]
    Auto,
    /// Never: a stream that breaks off ends with an error.
    Off,
}

impl Default for Resume {
    fn default() -> Self {
        Self {
            mode: ResumeMode::Auto,
            attempts: 3,
            tokens: 262_144,
            drain_after: TimeSpan::from_secs(10),
            patience: TimeSpan::from_secs(10),
        }
    }
}
