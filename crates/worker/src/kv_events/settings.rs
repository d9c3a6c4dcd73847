//! KV event settings: vLLM's `--kv-events-config`.
//!
//! The keys for vLLM's own queues (`hwm`, `max_queue_size`) are accepted and have no effect here:
//! our queues have fixed bounds.
//!
//! **Invariant:** a configuration that vLLM would take works here or is refused by name.

use serde_json::{Map, Value};

/// Batches kept for replays; vLLM's default.
const BUFFER_STEPS: usize = 10_000;

/// vLLM's default endpoint.
const ENDPOINT: &str = "tcp://*:5557";

/// How a worker publishes its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEventsSettings {
    /// Where subscribers connect, as `tcp://host:port`; host `*` is every address, port 0 a free one.
    pub endpoint: String,
    /// The replay endpoint; `None` for no replays.
    pub replay_endpoint: Option<String>,
    /// Batches kept for that.
    pub buffer_steps: usize,
    /// First frame of every batch.
    pub topic: String,
}

/// Events cannot be published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KvEventsError {
    /// An endpoint of a form that we do not know.
    #[error("`{endpoint}` is not an endpoint; expected `tcp://host:port`, or `tcp://*:port`")]
    Endpoint {
        /// What was given.
        endpoint: String,
    },
    /// Somebody listens there already, or nobody may.
    #[error("`{endpoint}` cannot be listened on: {error}; port 0 takes a free one")]
    Taken {
        /// What was given.
        endpoint: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A configuration that is no JSON object.
    #[error("not a configuration of KV events: {0}; expected a JSON object as vLLM takes it")]
    Json(#[from] serde_json::Error),
    /// A field with a value that it cannot have.
    #[error(
        "`{value}` is not a valid `{field}` of the configuration of KV events; expected {expected}"
    )]
    Field {
        /// Which field.
        field: String,
        /// What was given.
        value: String,
        /// What would do.
        expected: &'static str,
    },
}

impl KvEventsSettings {
    /// Publishes there, with no replays.
    pub fn at(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            replay_endpoint: None,
            buffer_steps: BUFFER_STEPS,
            topic: String::new(),
        }
    }

    /// Publishes to this machine only, on free ports, and replays: for a gateway in the same process.
    pub fn loopback() -> Self {
        let free = "tcp://127.0.0.1:0";
        Self { replay_endpoint: Some(free.to_owned()), ..Self::at(free) }
    }

    /// The same for the worker `place` of several in one process: each port is so much higher, as vLLM has
    /// it for its data-parallel ranks; port 0 stays a free one.
    ///
    /// # Errors
    /// [`KvEventsError::Endpoint`] without a port, or where that would be too high.
    pub fn beside(&self, place: u16) -> Result<Self, KvEventsError> {
        let moved = |endpoint: &String| {
            let fault = || KvEventsError::Endpoint { endpoint: endpoint.clone() };
            let (host, port) = endpoint.rsplit_once(':').ok_or_else(fault)?;
            let port: u16 = port.parse().map_err(|_| fault())?;
            let port = match port {
                0 => 0,
                _ => port.checked_add(place).ok_or_else(fault)?,
            };
            Ok::<_, KvEventsError>(format!("{host}:{port}"))
        };
        let replay_endpoint = self.replay_endpoint.as_ref().map(moved).transpose()?;
        Ok(Self { endpoint: moved(&self.endpoint)?, replay_endpoint, ..self.clone() })
    }

    /// Reads what vLLM takes as `--kv-events-config`; `None` where that turns events off.
    ///
    /// # Errors
    /// [`KvEventsError`] that names the field.
    pub fn from_json(text: &str) -> Result<Option<Self>, KvEventsError> {
        let fields: Map<String, Value> = serde_json::from_str(text)?;
        let mut settings = Self::at(ENDPOINT);
        let (mut enabled, mut publisher) = (false, None);
        for (field, value) in &fields {
            match (field.as_str(), value) {
                ("enable_kv_cache_events", Value::Bool(value)) => enabled = *value,
                ("enable_kv_cache_events", _) => return Err(bad(field, value, "true or false")),
                ("publisher" | "replay_endpoint", Value::Null) => {}
                ("publisher", Value::String(value)) => publisher = Some(value.as_str()),
                ("endpoint", Value::String(value)) => settings.endpoint.clone_from(value),
                ("replay_endpoint", Value::String(value)) => {
                    settings.replay_endpoint = Some(value.clone());
                }
                ("topic", Value::String(value)) => settings.topic.clone_from(value),
                ("publisher" | "endpoint" | "replay_endpoint" | "topic", _) => {
                    return Err(bad(field, value, "a string"));
                }
                ("buffer_steps", value) => settings.buffer_steps = count(field, value)?,
                ("hwm" | "max_queue_size", value) => drop(count(field, value)?),
                _ => return Err(bad(field, value, "no such field; see the help for those known")),
            }
        }
        match publisher {
            Some("null") => Ok(None),
            None | Some("zmq") => Ok(enabled.then_some(settings)),
            Some(other) => {
                Err(bad("publisher", &Value::String(other.to_owned()), "`zmq` or `null`"))
            }
        }
    }
}

fn count(field: &str, value: &Value) -> Result<usize, KvEventsError> {
    let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| bad(field, value, "a number"))
}

fn bad(field: &str, value: &Value, expected: &'static str) -> KvEventsError {
    KvEventsError::Field { field: field.to_owned(), value: value.to_string(), expected }
}
