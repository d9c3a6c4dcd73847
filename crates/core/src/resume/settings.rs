//! Resume settings: whether streams are resumed, and how much of it one request may cost.

use overdraft_units::Micros;

/// Whether streams are resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A stream that breaks off ends with an error.
    Off,
    /// It goes on at another worker where that is exact.
    #[default]
    Auto,
}

/// Limits of resuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeSettings {
    /// Whether streams are resumed at all.
    pub mode: Mode,
    /// Attempts to resume one request at most, those that failed included.
    pub attempts_max: u8,
    /// Tokens of prompt and answer that all resumes of one request may have computed again.
    pub tokens_max: u32,
    /// How long the streams of a draining worker may stay before they are handed over.
    pub drain_after: Micros,
    /// How long a stream whose worker broke off waits for a worker that is up.
    pub patience: Micros,
}

impl Default for ResumeSettings {
    /// Three attempts, Dynamo's suggestion; a long prompt may be computed again a few times; a drain
    /// leaves short answers where they are; a worker that is restarted is often back within seconds.
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            attempts_max: 3,
            tokens_max: 262_144,
            drain_after: Micros::new(10_000_000),
            patience: Micros::new(10_000_000),
        }
    }
}
