//! Scrape, probe, timeout, limit, shutdown and retry sections.
//!
//! The defaults are those of the gateway's own settings; a test in the binary compares them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{ByteSize, Share, TimeLimit, TimeSpan};

/// How the workers' metrics are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scrape {
    /// How often, while a worker has work.
    pub interval: TimeSpan,
    /// How often, while it has none; not shorter than `interval`.
    pub idle_interval: TimeSpan,
    /// How long a worker may take to answer.
    pub timeout: TimeSpan,
    /// Bytes of its answer at most.
    pub bytes_max: ByteSize,
    /// What becomes of a worker whose metrics cannot be had.
    pub failure: ScrapeFailure,
}

/// What becomes of a worker whose metrics cannot be had. One that answers with something that cannot be read keeps
/// its last word in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScrapeFailure {
    /// Its last word stands, and gets older.
    #[default]
    Keep,
    /// It is passed over until they are had again: no answer in time, or a status other than 200.
    Unhealthy,
}

impl Default for Scrape {
    fn default() -> Self {
        Self {
            interval: TimeSpan::from_millis(200),
            idle_interval: TimeSpan::from_secs(2),
            timeout: TimeSpan::from_secs(2),
            bytes_max: ByteSize::from_bytes(4 << 20),
            failure: ScrapeFailure::Keep,
        }
    }
}

/// How the workers' health is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// From the end of one probe to the next.
    pub interval: TimeSpan,
    /// How long a worker may take to answer.
    pub timeout: TimeSpan,
}

impl Default for Probe {
    fn default() -> Self {
        Self { interval: TimeSpan::from_millis(500), timeout: TimeSpan::from_secs(2) }
    }
}

/// Patience with workers and clients. `auto` is what a request needs by what was measured of its worker, and never
/// shorter than its least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// To make a connection; an address of the name that keeps silent has the next one tried beside it after 250 ms or
    /// sooner.
    pub connect: TimeSpan,
    /// From sending a request to the first token of a stream; `auto` is at least `1m`, and more for a long prompt or
    /// a queue of them. A whole answer has until `total`, unless its worker's engine stands still for as long.
    pub first_byte: TimeLimit,
    /// Between two events of a stream; `auto` is at least `15s`, and more while the worker computes long prompts.
    pub idle: TimeLimit,
    /// From sending a request to the end of its answer; `auto` is at least `10m`, and more where `max_tokens` takes
    /// longer at the slowest that the worker was seen to go.
    pub total: TimeLimit,
    /// From the head of a client's request to the end of its body.
    pub body: TimeSpan,
    /// How long a client's connection may lie idle between two requests.
    pub client_idle: TimeSpan,
    /// How long a client may leave an answer unread before it is cut off.
    pub client_stall: TimeSpan,
}

impl Timeouts {
    /// The least that `first_byte: auto` comes to.
    pub const FIRST_BYTE_LEAST: TimeSpan = TimeSpan::from_secs(60);
    /// The least that `idle: auto` comes to.
    pub const IDLE_LEAST: TimeSpan = TimeSpan::from_secs(15);
    /// The least that `total: auto` comes to.
    pub const TOTAL_LEAST: TimeSpan = TimeSpan::from_secs(600);
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: TimeSpan::from_secs(1),
            first_byte: TimeLimit::Auto,
            idle: TimeLimit::Auto,
            total: TimeLimit::Auto,
            body: TimeSpan::from_secs(60),
            client_idle: TimeSpan::from_secs(75),
            client_stall: TimeSpan::from_secs(30),
        }
    }
}

/// How much is taken on at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests in flight. One tenant, or one address without keys, may have as many with
    /// unfinished bodies as places are free.
    pub requests: u32,
    /// Streams among them.
    pub streams: u32,
    /// Connections of clients; without it, twice `requests`, and never more than the limit on open files allows. The
    /// next one takes the place of one that is idle; where none is, it is answered what is asked for health and
    /// metrics, and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Bytes of one request's body, and of the kept responses that it goes on from.
    pub body_bytes: ByteSize,
    /// Bytes of all request bodies in memory, and of the kept responses that requests go on from or ask for. One tenant, or
    /// one address without keys, may hold as many as are free.
    pub bodies_bytes: ByteSize,
    /// Bytes of one event of a stream; pictures and sounds come as one.
    pub event_bytes: ByteSize,
    /// Tokens of a prompt at most; a longer one is refused. Without it, what a worker's cache holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u32>,
    /// Tokens of an answer that a request may ask for, from 1; one that asks for more is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// `max_tokens` of a request that names none, as it is sent to the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_default: Option<u32>,
}

impl Limits {
    /// Connections of clients at most, as they are set or as follows from `requests`.
    pub const fn connections_max(&self) -> u32 {
        match self.connections {
            Some(connections) => connections,
            None => self.requests.saturating_mul(2),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 4_096,
            streams: 2_048,
            connections: None,
            body_bytes: ByteSize::from_bytes(32 << 20),
            bodies_bytes: ByteSize::from_bytes(512 << 20),
            event_bytes: ByteSize::from_bytes(8 << 20),
            prompt_tokens: None,
            max_tokens: None,
            max_tokens_default: None,
        }
    }
}

/// How the gateway leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// How long it goes on accepting after a SIGTERM, while `/readyz` and `/healthz` say that it
    /// leaves, so that load balancers notice; `10s` in a container.
    pub lame_duck: TimeSpan,
    /// How long requests may go on after that; then streams end with an error.
    pub drain: TimeSpan,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { lame_duck: TimeSpan::from_secs(0), drain: TimeSpan::from_secs(30) }
    }
}

/// How freely failed attempts are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Attempts after the first, at most.
    pub attempts_extra: u8,
    /// Retries in flight, as a share of all attempts in flight.
    pub share: Share,
    /// Retries in flight that are always allowed.
    pub floor: u32,
}

impl Default for Retry {
    fn default() -> Self {
        let share = Share::from_permille(200).unwrap_or_default();
        Self { attempts_extra: 2, share, floor: 3 }
    }
}
