//! Limits of size, number and time on requests, answers and probes.

use std::time::Duration;

/// What becomes of the client's `authorization`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// It ends here: a client's key is no business of a worker's log.
    #[default]
    Strip,
    /// It goes to the worker, for workers that check keys themselves.
    Forward,
}

/// Bounds on what is relayed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests in flight at once; the next is told to come back.
    pub requests: usize,
    /// Streams among them.
    pub streams: usize,
    /// What one request may ask for.
    pub of_request: RequestBounds,
    /// Bytes of a whole answer that are held back to check it; a longer one is relayed as it comes.
    pub answer_bytes: usize,
    /// Bytes of one event of a stream.
    pub event_bytes: usize,
    /// Bytes of the head of a worker's answer.
    pub answer_head_bytes: usize,
    /// Idle connections kept open to one worker.
    pub idle_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 4_096,
            streams: 2_048,
            of_request: RequestBounds::default(),
            answer_bytes: 1024 * 1024,
            event_bytes: 8 * 1024 * 1024,
            answer_head_bytes: 64 * 1024,
            idle_connections: 256,
        }
    }
}

/// Patience with connections to workers; how long answers may take is a matter of their model's route.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// To make a connection.
    pub connect: Duration,
    /// How long a connection to a worker may lie idle; below the 5 s after which uvicorn, vLLM's
    /// server, closes its end.
    pub keep_alive: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(1), keep_alive: Duration::from_secs(4) }
    }
}

/// How workers are watched.
#[derive(Clone, Copy, Debug)]
pub struct ProbeSettings {
    /// From the end of one probe to the next.
    pub interval: Duration,
    /// How long a worker may take to answer.
    pub timeout: Duration,
    /// Bytes of its answer at most.
    pub answer_bytes: usize,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            timeout: Duration::from_secs(2),
            answer_bytes: 1024 * 1024,
        }
    }
}

/// What one request may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestBounds {
    /// Tokens of a prompt at most.
    pub prompt_tokens: Option<u32>,
    /// Tokens of an answer at most.
    pub max_tokens: Option<u32>,
    /// Tokens of an answer to a request that does not say.
    pub max_tokens_default: Option<u32>,
}
