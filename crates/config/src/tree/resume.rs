//! Resume section: whether streams that break off go on at another worker, and at what cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::TimeSpan;

/// Continuation of broken streams at another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    /// Whether broken streams continue. With `x-overdraft-resume: off`, a client's own stream ends with an error
    /// instead.
    pub mode: ResumeMode,
    /// Maximum attempts to resume one request, from 1 to 7, failed ones included. They count as retries
    /// (`retry.share`, `retry.floor`).
    #[schemars(range(min = 1, max = 7))]
    pub attempts: u8,
    /// Maximum tokens of prompt and answer that all resumes of one request may compute again.
    pub tokens: u32,
    /// How long the streams of a draining worker may stay before other workers continue them. A stream that cannot be
    /// continued exactly ends at the draining worker.
    pub drain_after: TimeSpan,
    /// How long a broken stream waits for another worker that is up, or for its own worker to restart, before it ends
    /// with an error. The limits of the whole answer hold meanwhile.
    pub patience: TimeSpan,
}

/// Whether streams are resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResumeMode {
    /// If the continuation is exact: by token ids, by text, or by an equal second answer.
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
