//! KV event sources: the `ZeroMQ` endpoints where an engine publishes, by data-parallel rank.
//!
//! `GET /kv_event_sources` answers with a JSON object of one publisher configuration for each
//! data-parallel rank, by its number (vLLM from 0.32 on), or with an array of objects that name their
//! rank (our worker). Both are read. Addresses may be bind addresses such as `tcp://*:5557`; the
//! subscriber then uses the host by which it reaches the engine.
//!
//! **Invariant:** fields and objects that we do not know do not hide the ones we do.

use std::collections::BTreeMap;

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
    #[error(
        "not a list of KV event sources: {0}; expected `{{\"0\": {{\"endpoint\": ..}}, ..}}` or \
         `[{{\"endpoint\": ..}}, ..]`"
    )]
    Malformed(#[from] serde_json::Error),
    /// An object by something else than ranks.
    #[error(
        "the KV event sources are not named by data-parallel ranks; expected `{{\"0\": {{..}}}}`"
    )]
    NoRank,
    /// A publisher without an address.
    #[error("the KV event source of rank `{rank}` has no `endpoint`; expected `tcp://host:port`")]
    NoEndpoint {
        /// Its data-parallel rank.
        rank: u32,
    },
    /// More than an engine can have.
    #[error("`{found}` KV event sources are too many; expected at most {SOURCES_MAX}")]
    TooMany {
        /// How many.
        found: usize,
    },
}

/// The answer of `/kv_event_sources`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    ByRank(BTreeMap<String, Config>),
    List(Vec<Config>),
}

/// One rank's publisher, as its engine was configured.
#[derive(Deserialize)]
struct Config {
    data_parallel_rank: Option<u32>,
    endpoint: Option<String>,
    replay_endpoint: Option<String>,
    topic: Option<String>,
    publisher: Option<String>,
    enable_kv_cache_events: Option<bool>,
}

impl Config {
    /// The source, where the rank publishes.
    fn source(self, rank: u32) -> Option<Result<Source, SourcesError>> {
        if self.enable_kv_cache_events == Some(false) || self.publisher.as_deref() == Some("null") {
            return None;
        }
        let data_parallel_rank = self.data_parallel_rank.unwrap_or(rank);
        Some(match self.endpoint {
            None => Err(SourcesError::NoEndpoint { rank: data_parallel_rank }),
            Some(endpoint) => Ok(Source {
                data_parallel_rank,
                endpoint,
                replay_endpoint: self.replay_endpoint,
                topic: self.topic.unwrap_or_default(),
            }),
        })
    }
}

/// Reads the answer of `/kv_event_sources` in either shape: the ranks that publish, in order.
///
/// # Errors
/// Says why these bytes are no list of sources.
pub fn read_sources(json: &[u8]) -> Result<Vec<Source>, SourcesError> {
    let mut configs: Vec<(u32, Config)> = match serde_json::from_slice(json)? {
        Answer::ByRank(ranks) => {
            let ranks = ranks.into_iter().map(|(rank, config)| Some((rank.parse().ok()?, config)));
            ranks.collect::<Option<_>>().ok_or(SourcesError::NoRank)?
        }
        Answer::List(list) => (0..).zip(list).collect(),
    };
    if SOURCES_MAX < configs.len() {
        return Err(SourcesError::TooMany { found: configs.len() });
    }
    configs.sort_by_key(|(rank, _)| *rank);
    configs.into_iter().filter_map(|(rank, config)| config.source(rank)).collect()
}

/// Writes the answer of `/kv_event_sources`.
pub fn write_sources(sources: &[Source]) -> Vec<u8> {
    serde_json::to_vec(sources).expect("strings and numbers are JSON")
}

impl Source {
    /// The publisher of another rank of the same engine, where this is the first one's: vLLM counts ports up.
    #[must_use]
    pub fn of_rank(&self, rank: u32) -> Self {
        let replay_endpoint = self.replay_endpoint.as_deref();
        Self {
            data_parallel_rank: rank,
            endpoint: count_up(&self.endpoint, rank),
            replay_endpoint: replay_endpoint.map(|endpoint| count_up(endpoint, rank)),
            topic: self.topic.clone(),
        }
    }

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

fn count_up(endpoint: &str, rank: u32) -> String {
    let counted = endpoint.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse::<u16>().ok()?.checked_add(u16::try_from(rank).ok()?)?;
        Some(format!("{host}:{port}"))
    });
    counted.unwrap_or_else(|| endpoint.to_owned())
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
