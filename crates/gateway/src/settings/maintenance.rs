//! Maintenance settings: memory metrics, restart hooks and warm-up of workers.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use overdraft_wire::prometheus::memory::MemoryNames;

use super::web_address::{WebAddress, WebAddressError};

/// What is done for one worker beyond sending it requests.
///
/// Of workers that are not found yet, places `P` are templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance<P = WebAddress> {
    /// Where its memory can be read.
    pub memory: Option<MemorySource<P>>,
    /// How it is restarted when its memory has fragmented.
    pub restart: Option<RestartHook<P>>,
    /// Whether it is sent a request before it takes traffic.
    pub warm_up: WarmUp,
}

impl<P> Default for Maintenance<P> {
    fn default() -> Self {
        Self { memory: None, restart: None, warm_up: WarmUp::default() }
    }
}

impl<P> Maintenance<P> {
    /// The maintenance of one worker: its own places, and texts that may name it.
    pub(crate) fn settle(
        &self,
        place: impl Fn(&P) -> Result<WebAddress, WebAddressError>,
        text: impl Fn(&str) -> String,
    ) -> Result<Maintenance, WebAddressError> {
        let memory = self.memory.as_ref().map(|memory| {
            let labels = memory.labels.iter().map(|(name, value)| (name.clone(), text(value)));
            Ok(MemorySource {
                place: place(&memory.place)?,
                names: memory.names.clone(),
                labels: labels.collect(),
                interval: memory.interval,
            })
        });
        let restart = self.restart.as_ref().map(|restart| {
            Ok(match restart {
                RestartHook::Webhook(hook) => RestartHook::Webhook(WebhookSettings {
                    place: place(&hook.place)?,
                    token: hook.token.clone(),
                    timeout: hook.timeout,
                }),
                RestartHook::Command { argv, timeout } => {
                    let argv = argv.iter().map(|word| text(word)).collect();
                    RestartHook::Command { argv, timeout: *timeout }
                }
            })
        });
        let (memory, restart) = (memory.transpose()?, restart.transpose()?);
        Ok(Maintenance { memory, restart, warm_up: self.warm_up })
    }
}

/// Where a worker's memory can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySource<P = WebAddress> {
    /// The exporter's page.
    pub place: P,
    /// The metrics' names, where they are not those of a known exporter.
    pub names: MemoryNames,
    /// Labels that pick the worker's devices.
    pub labels: Vec<(String, String)>,
    /// From one reading to the next.
    pub interval: Duration,
}

/// How a worker is restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartHook<P = WebAddress> {
    /// The service that listens there does it.
    Webhook(WebhookSettings<P>),
    /// A program does it, run as it is, without a shell.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
        /// How long it may run.
        timeout: Duration,
    },
}

/// A service that restarts or starts a worker when told to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings<P = WebAddress> {
    /// Where it is told.
    pub place: P,
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

    /// As `authorization` has it; `None` where it cannot be sent.
    pub fn bearer(&self) -> Option<HeaderValue> {
        self.header("Bearer ")
    }

    /// As a header of its own has it; `None` where it cannot be sent.
    pub(crate) fn bare(&self) -> Option<HeaderValue> {
        self.header("")
    }

    fn header(&self, scheme: &str) -> Option<HeaderValue> {
        let is_sendable = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value = HeaderValue::from_str(&format!("{scheme}{}", self.0)).ok()?;
        value.set_sensitive(true);
        is_sendable.then_some(value)
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
