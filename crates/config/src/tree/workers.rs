//! Worker section: static workers, their maintenance, and spot termination notices.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use overdraft_units::port_of;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::cache::CacheSalt;
use super::maintenance::{Memory, Restart};
use super::secret::Secret;
use super::tls::WorkerTls;
use crate::quantity::TimeSpan;

/// A worker with a fixed address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "three settings that do not interact")]
pub struct Worker {
    /// `http://host:port` or `https://host:port`, without a path.
    pub url: String,
    /// What it is called in headers, metrics and logs; unique. Without it, its host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The key it asks for, as vLLM does with `--api-key`: sent as `authorization: Bearer …` with every
    /// request and probe. Without it, a worker that asks for one is shown the clients' own tokens, where
    /// the gateway has no `keys`. Best given as `${NAME}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// The header in which it is shown that key, as in `x-api-key` or `api-key`; without one, as a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_header: Option<String>,
    /// Whom an `https` address is believed, and the certificate that it is shown.
    #[serde(default, skip_serializing_if = "WorkerTls::is_default")]
    pub tls: WorkerTls,
    /// What it is for.
    #[serde(default)]
    pub pool: Pool,
    /// The model it is expected to serve; a worker that serves another one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Only these of the models that it lists are asked of it and told to clients; all, where none is named. For a
    /// provider that lists dozens and stands in for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<String>,
    /// Where it tells which blocks its cache holds: `auto` asks it, `off` never listens.
    #[serde(default)]
    pub kv_events: KvEvents,
    /// Whether it was started to schedule by priority, as vLLM is with
    /// `--scheduling-policy priority`; it is then told each request's.
    #[serde(default)]
    pub priority_scheduling: bool,
    /// Whether it is told cache salts, so that its tenants share no prefixes; `off` for one that refuses
    /// fields it does not know. The gateway never gives salts up by itself: it logs that they are refused.
    #[serde(default)]
    pub cache_salt: CacheSalt,
    /// Whether it is asked for the token counts of streams whose clients did not ask for them.
    #[serde(default)]
    pub stream_options: StreamOptions,
    /// Whether it shares the blocks of its cache with the other workers of its model that do, as
    /// `overdraft worker` does with `--kv-share` and `--kv-peers`: what one has computed counts as
    /// fetchable for the others, and they are told who has it.
    #[serde(default)]
    pub kv_share: bool,
    /// Sequences that it computes at once, as vLLM's `--max-num-seqs`; without it, that is learnt from how its queue
    /// behaves. What would wait for a seat waits in the gateway, by its priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_num_seqs: Option<NonZeroU32>,
    /// Where its memory can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// How it is restarted when its memory has fragmented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Whether it is sent a request of `warm_up` before it takes traffic.
    #[serde(default)]
    pub warm_up: bool,
}

/// What workers that are found have in common, as it is said of one with a fixed address. In addresses,
/// labels and arguments, `{host}`, `{port}` and `{name}` stand for each worker's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "three settings that do not interact")]
pub struct Each {
    /// The key they ask for, as vLLM does with `--api-key`. Best given as `${NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// The header in which they are shown that key; without one, as a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_header: Option<String>,
    /// Speaks `https` to all workers of the source: whom they are believed, and the certificate that they are
    /// shown; `{}` trusts the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<WorkerTls>,
    /// Only these of the models that they list are asked of them; all, where none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<String>,
    /// Where they tell which blocks their caches hold, as in `tcp://{host}:5557`: `auto` asks them, `off`
    /// never listens.
    pub kv_events: KvEvents,
    /// Whether they were started to schedule by priority, as vLLM is with
    /// `--scheduling-policy priority`; they are then told each request's.
    pub priority_scheduling: bool,
    /// Whether they are told cache salts.
    pub cache_salt: CacheSalt,
    /// Whether they are asked for the token counts of streams whose clients did not ask for them.
    pub stream_options: StreamOptions,
    /// Whether they share the blocks of their caches with the other workers of their model that do.
    pub kv_share: bool,
    /// Sequences that each computes at once, as vLLM's `--max-num-seqs`; without it, that is learnt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_seqs: Option<NonZeroU32>,
    /// Where their memory can be read, as in `http://{host}:9400/metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// How they are restarted when their memory has fragmented.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Whether they are sent a request of `warm_up` before they take traffic.
    pub warm_up: bool,
}

impl Worker {
    /// A worker of the target pool of which nothing else is said.
    pub(crate) fn at(url: String) -> Self {
        Self {
            url,
            name: None,
            api_key: None,
            api_key_header: None,
            tls: WorkerTls::default(),
            pool: Pool::default(),
            model: None,
            serves: Vec::new(),
            kv_events: KvEvents::default(),
            priority_scheduling: false,
            cache_salt: CacheSalt::default(),
            stream_options: StreamOptions::default(),
            kv_share: false,
            max_num_seqs: None,
            memory: None,
            restart: None,
            warm_up: false,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        let host = || {
            let url = self.url.trim_start_matches("http://");
            url.trim_start_matches("https://").trim_end_matches('/')
        };
        self.name.as_deref().unwrap_or_else(host)
    }
}

/// What a worker is for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// Its answers are the ones clients want.
    #[default]
    Target,
    /// A cheap model that may answer first.
    Draft,
}

/// Whether a worker is asked for the token counts of streams whose clients did not ask for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamOptions {
    /// By `stream_options.include_usage`, until it refuses that.
    #[default]
    Auto,
    /// It is not: the tokens of its streams are counted by their events.
    Off,
}

/// Where a worker tells which blocks its cache holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KvEvents {
    /// The worker is asked where.
    #[default]
    Auto,
    /// Nobody listens.
    Off,
    /// There.
    At(KvEventSource),
}

/// The address of a worker's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KvEventSource {
    /// Where events are published, as in `tcp://10.0.0.5:5557`.
    pub endpoint: String,
    /// Where lost events can be asked for again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_endpoint: Option<String>,
    /// Only events under this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

const KV_EVENT_WORDS: &[&str] = &["auto", "off"];

impl<'de> Deserialize<'de> for KvEvents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = KvEvents;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`auto`, `off`, or a table with the key `endpoint`")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<KvEvents, E> {
                match word {
                    "auto" => Ok(KvEvents::Auto),
                    "off" => Ok(KvEvents::Off),
                    other => Err(E::unknown_variant(other, KV_EVENT_WORDS)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<KvEvents, A::Error> {
                KvEventSource::deserialize(MapAccessDeserializer::new(map)).map(KvEvents::At)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Serialize for KvEvents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Off => serializer.serialize_str("off"),
            Self::At(source) => source.serialize(serializer),
        }
    }
}

impl JsonSchema for KvEvents {
    fn schema_name() -> Cow<'static, str> {
        "KvEvents".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let source = generator.subschema_for::<KvEventSource>();
        json_schema!({
            "description": "`auto`, `off`, or where the events are published.",
            "anyOf": [{ "type": "string", "enum": KV_EVENT_WORDS }, source]
        })
    }
}

/// Notice that the machine of local workers will be taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Termination {
    /// Whose metadata service is asked.
    pub cloud: Cloud,
    /// The service's address, where it is not the cloud's own.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "super::web_url::shown")]
    pub endpoint: Option<String>,
    /// How often it is asked.
    pub interval: TimeSpan,
    /// The names of the workers that run on this machine and are drained on notice.
    pub workers: Vec<String>,
}

impl Default for Termination {
    fn default() -> Self {
        Self {
            cloud: Cloud::default(),
            endpoint: None,
            interval: TimeSpan::from_secs(5),
            workers: Vec::new(),
        }
    }
}

/// Whose metadata service is asked.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cloud {
    /// Nobody's.
    #[default]
    Off,
    /// Amazon's.
    Aws,
    /// Google's.
    Gcp,
    /// Microsoft's.
    Azure,
}

/// Why a text is no worker's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; expected an address as in `http://127.0.0.1:8001`")]
pub struct WorkerUrlError {
    why: &'static str,
}

/// The host (without brackets) and the port behind `http://host:port` or `https://host:port`.
///
/// # Errors
/// Says what is wrong with it, never what it holds: there may be a password in it.
pub fn host_and_port(url: &str) -> Result<(String, u16), WorkerUrlError> {
    let fault = |why| WorkerUrlError { why };
    let uri: http::Uri = url.parse().map_err(|_| fault("it is not a URL"))?;
    let port_default = match uri.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return Err(fault("its scheme is neither `http` nor `https`")),
    };
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(fault("it has a path"));
    }
    let authority = uri.authority().ok_or_else(|| fault("it has no host"))?;
    if authority.as_str().contains('@') {
        return Err(fault("it has a user name"));
    }
    let host = authority.host().trim_matches(['[', ']']);
    if host.is_empty() {
        return Err(fault("it has no host"));
    }
    let port = port_of(authority.as_str(), port_default)
        .map_err(|_| fault("its port is not a number from 1 to 65535"))?;
    Ok((host.to_owned(), port))
}
