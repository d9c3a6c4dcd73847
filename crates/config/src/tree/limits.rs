//! Scrape, probe, timeout, limit, shutdown and retry sections.
//!
//! The defaults are those of the gateway's own settings; a test in the binary compares them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{ByteSize, Share, TimeLimit, TimeSpan};

/// Reading of the workers' metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Scrape {
    /// Time between two scrapes while a worker has work.
    pub interval: TimeSpan,
    /// Time between two scrapes while a worker has no work; not shorter than `interval`.
    pub idle_interval: TimeSpan,
    /// Maximum time for a worker's answer.
    pub timeout: TimeSpan,
    /// Maximum bytes of the answer.
    pub bytes_max: ByteSize,
    /// Treatment of a worker whose metrics cannot be read.
    pub failure: ScrapeFailure,
}

/// Treatment of a worker whose metrics cannot be read. If the answer itself cannot be parsed, the last report
/// stays in force in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScrapeFailure {
    /// Its last report stays in force, and gets older.
    #[default]
    Keep,
    /// The worker is passed over until its metrics can be read again. This holds after no answer in time, or a status
    /// other than 200.
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

/// Health checks of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// Time from the end of one probe to the next.
    pub interval: TimeSpan,
    /// Maximum time for a worker's answer.
    pub timeout: TimeSpan,
}

impl Default for Probe {
    fn default() -> Self {
        Self { interval: TimeSpan::from_millis(500), timeout: TimeSpan::from_secs(2) }
    }
}

/// Time limits of workers and clients. `auto` is the time that a request needs at the measured speed of its
/// worker, and never shorter than its minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// To make a connection. If an address of a host name does not answer, the next address is tried beside it after
    /// 250 ms or sooner.
    pub connect: TimeSpan,
    /// From sending a request to the first token of a stream; `auto` is at least `1m`, and more for a long prompt or
    /// a queue of prompts. A non-streamed answer has until `total`, unless its worker's engine computes nothing for
    /// this time.
    pub first_byte: TimeLimit,
    /// Between two events of a stream; `auto` is at least `15s`, and more while the worker computes long prompts.
    pub idle: TimeLimit,
    /// From sending a request to the end of its answer; `auto` is at least `10m`, and more if `max_tokens` takes
    /// longer at the slowest measured speed of the worker.
    pub total: TimeLimit,
    /// From the head of a client's request to the end of its body.
    pub body: TimeSpan,
    /// How long a client's connection may be idle between two requests.
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

/// Limits of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum requests in flight. One tenant, or one address without keys, may have as many with unfinished bodies
    /// as places are free.
    pub requests: u32,
    /// Maximum streams among them.
    pub streams: u32,
    /// Maximum connections of clients; by default twice `requests`, and never more than the limit on open files
    /// allows. A further connection takes the place of an idle one. If none is idle, it gets answers to health checks
    /// and metrics, and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// Maximum bytes of one request's body, and of the stored responses that it continues.
    pub body_bytes: ByteSize,
    /// Maximum bytes of all request bodies in memory, and of the stored responses that requests continue or fetch.
    /// One tenant, or one address without keys, may hold as many as are free.
    pub bodies_bytes: ByteSize,
    /// Maximum bytes of one event of a stream; pictures and sounds come as one event.
    pub event_bytes: ByteSize,
    /// Maximum tokens of a prompt; a longer one is refused. By default the capacity of a worker's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u32>,
    /// Maximum tokens of an answer that a request may ask for, from 1; a request for more is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// `max_tokens` that the worker gets for a request that names none.
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

/// Shutdown of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// How long the gateway still accepts connections after a SIGTERM, while `/readyz` and `/healthz` answer 503, so
    /// that load balancers notice; `10s` in a container.
    pub lame_duck: TimeSpan,
    /// How long requests may continue after that; then streams end with an error.
    pub drain: TimeSpan,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { lame_duck: TimeSpan::from_secs(0), drain: TimeSpan::from_secs(30) }
    }
}

/// Retries of failed attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Maximum attempts after the first.
    pub attempts_extra: u8,
    /// Maximum retries in flight, as a share of all attempts in flight.
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
