//! KV event sources: the `ZeroMQ` endpoints where an engine publishes, by data-parallel rank.
//!
//! `GET /kv_event_sources` answers with a JSON array, one object for each data-parallel rank, as
//! vLLM does from 0.33 on. Addresses may be bind addresses such as `tcp://*:5557`; the subscriber
//! then uses the host by which it reaches the engine.
//!
//! **Invariant:** fields and objects that we do not know do not hide the ones we do.

use serde::{Deserialize, Serialize};

/// Most sources of one engine: data-parallel ranks.
pub const SOURCES_MAX: usize = 64;

/// One publisher of KV events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Which data-parallel rank publishes there.
    #[serde(default)]
    pub data_parallel_rank: u32,
    /// Where batches come from, as `tcp://host:port`.
    pub endpoint: String,
    /// The replay socket, if there is one.
    #[serde(default)]
    pub replay_endpoint: Option<String>,
    /// The topic: the prefix of the first frame of a batch.
    #[serde(default)]
    pub topic: String,
}

/// An answer that is no list of sources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourcesError {
    /// Not even JSON, or of another shape.
    #[error("not a list of KV event sources: {0}; expected `[{{\"endpoint\": ..}}, ..]`")]
    Malformed(#[from] serde_json::Error),
    /// More than an engine can have.
    #[error("`{found}` KV event sources are too many; expected at most {SOURCES_MAX}")]
    TooMany {
        /// How many.
        found: usize,
    },
}

/// Reads the answer of `/kv_event_sources`.
///
/// # Errors
/// Says why these bytes are no list of sources.
pub fn read_sources(json: &[u8]) -> Result<Vec<Source>, SourcesError> {
    let sources: Vec<Source> = serde_json::from_slice(json)?;
    match sources.len() {
        found if found > SOURCES_MAX => Err(SourcesError::TooMany { found }),
        _ => Ok(sources),
    }
}

/// Writes the answer of `/kv_event_sources`.
pub fn write_sources(sources: &[Source]) -> Vec<u8> {
    serde_json::to_vec(sources).expect("strings and numbers are JSON")
}

impl Source {
    /// The same source as seen from elsewhere: where it listens on all addresses, `host` is one.
    #[must_use]
    pub fn reached_by(&self, host: &str) -> Self {
        Self {
            endpoint: reach(&self.endpoint, host),
            replay_endpoint: self.replay_endpoint.as_deref().map(|endpoint| reach(endpoint, host)),
            ..self.clone()
        }
    }
}

fn reach(endpoint: &str, host: &str) -> String {
    for wildcard in ["tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:", "tcp://:::"] {
        if let Some(port) = endpoint.strip_prefix(wildcard) {
            let bare = host.contains(':') && !host.starts_with('[');
            return if bare {
                format!("tcp://[{host}]:{port}")
            } else {
                format!("tcp://{host}:{port}")
            };
        }
    }
    endpoint.to_owned()
}
