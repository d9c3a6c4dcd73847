//! What can be set about the care for workers?

use std::fmt;
use std::time::Duration;

use overdraft_wire::prometheus::memory::MemoryNames;

use super::place::WebPlace;

/// What is done for one worker beyond sending it requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Care {
    /// Where its memory can be read.
    pub memory: Option<MemorySource>,
    /// How it is restarted when its memory has fragmented.
    pub restart: Option<RestartHook>,
    /// Whether it is sent a request before it takes traffic.
    pub warm_up: WarmUp,
}

/// Where a worker's memory can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySource {
    /// The exporter's page.
    pub place: WebPlace,
    /// The metrics' names, where they are not those of a known exporter.
    pub names: MemoryNames,
    /// Labels that pick the worker's devices.
    pub labels: Vec<(String, String)>,
    /// From one reading to the next.
    pub interval: Duration,
}

/// How a worker is restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartHook {
    /// Whoever listens there does it.
    Webhook(WebhookSettings),
    /// A program does it, run as it is, without a shell.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// How long it may run.
        timeout: Duration,
    },
}

/// Somebody who restarts a worker when told to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Where it is told.
    pub place: WebPlace,
    /// What shows that we may.
    pub token: Option<Token>,
    /// How long it may take to answer: it does so when the old process has ended, or at once with
    /// 202.
    pub timeout: Duration,
}

/// A secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Keeps a text from being shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Whether a worker is sent a request before it takes traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// When its process is new to us.
    Always,
    /// Only after a restart that was our doing.
    #[default]
    AfterRepair,
}

/// The request that warms a worker up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUpSettings {
    /// Its prompt.
    pub prompt: String,
    /// Tokens to generate.
    pub tokens: u32,
    /// How long the answer may take.
    pub timeout: Duration,
}

impl Default for WarmUpSettings {
    /// Long enough for a prefill of more than one block, and for captured decode steps.
    fn default() -> Self {
        let prompt = "Explain in one paragraph how a key-value cache speeds up text generation.";
        Self { prompt: prompt.to_owned(), tokens: 16, timeout: Duration::from_mins(2) }
    }
}
