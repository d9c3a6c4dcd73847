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
    /// Name of the worker in headers, metrics and logs; unique. By default its host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// API key of the worker, as with vLLM's `--api-key`: sent as `authorization: Bearer …` with every request and
    /// probe. Without this key, and if the gateway has no `keys`, a worker that requires one gets the clients' own
    /// tokens. Best given as `${NAME}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Header that carries the API key, as in `x-api-key` or `api-key`; by default the key is a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_header: Option<String>,
    /// Trusted authorities for an `https` address, and the gateway's own certificate.
    #[serde(default, skip_serializing_if = "WorkerTls::is_default")]
    pub tls: WorkerTls,
    /// Pool of the worker.
    #[serde(default)]
    pub pool: Pool,
    /// Model that the worker must serve; a worker that serves another one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models of the worker that clients may use, among those that it lists; by default all. For a provider that
    /// lists dozens and stands in for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<String>,
    /// KV events, by which the worker reports the blocks in its cache: `auto` asks the worker for the address, `off`
    /// never listens.
    #[serde(default)]
    pub kv_events: KvEvents,
    /// Whether the worker schedules by priority, as vLLM with `--scheduling-policy priority`; then it gets the
    /// priority of each request.
    #[serde(default)]
    pub priority_scheduling: bool,
    /// Whether the worker gets cache salts, so that its tenants share no prefixes; `off` for a worker that refuses
    /// unknown fields. The gateway never leaves salts out by itself: if the worker refuses them, the log says so.
    #[serde(default)]
    pub cache_salt: CacheSalt,
    /// Whether the worker is asked for token counts of streams whose clients did not ask for them.
    #[serde(default)]
    pub stream_options: StreamOptions,
    /// Whether the worker shares the blocks of its cache with other such workers of its model, as `overdraft worker`
    /// does with `--kv-share` and `--kv-peers`. Computed blocks of one worker then count as fetchable for the others,
    /// and the gateway tells them which worker has the blocks.
    #[serde(default)]
    pub kv_share: bool,
    /// Sequences that the worker computes at once, as vLLM's `--max-num-seqs`; by default the number is learnt from
    /// the behaviour of its queue. Requests above this number wait in the gateway, by priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_num_seqs: Option<NonZeroU32>,
    /// Metrics page with the memory of the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// How the worker is restarted when its memory has fragmented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Whether the worker gets the request of `warm_up` before it takes traffic.
    #[serde(default)]
    pub warm_up: bool,
}

/// Settings of discovered workers, as of one with a fixed address. In addresses, labels and arguments, `{host}`,
/// `{port}` and `{name}` stand for each worker's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "three settings that do not interact")]
pub struct Each {
    /// API key of these workers, as with vLLM's `--api-key`. Best given as `${NAME}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// Header that carries the API key; by default the key is a bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_header: Option<String>,
    /// Speaks `https` to all workers of the source: trusted authorities, and the gateway's own certificate; `{}`
    /// trusts the system's authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<WorkerTls>,
    /// Models of these workers that clients may use, among those that they list; by default all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<String>,
    /// KV events, by which these workers report the blocks in their caches, as in `tcp://{host}:5557`: `auto` asks
    /// the workers for the address, `off` never listens.
    pub kv_events: KvEvents,
    /// Whether these workers schedule by priority, as vLLM with `--scheduling-policy priority`; then they get the
    /// priority of each request.
    pub priority_scheduling: bool,
    /// Whether these workers get cache salts.
    pub cache_salt: CacheSalt,
    /// Whether these workers are asked for token counts of streams whose clients did not ask for them.
    pub stream_options: StreamOptions,
    /// Whether these workers share the blocks of their caches with other such workers of their model.
    pub kv_share: bool,
    /// Sequences that each worker computes at once, as vLLM's `--max-num-seqs`; by default the number is learnt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_num_seqs: Option<NonZeroU32>,
    /// Metrics page with the memory of each worker, as in `http://{host}:9400/metrics`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// How these workers are restarted when their memory has fragmented.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Whether these workers get the request of `warm_up` before they take traffic.
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

/// Pool of a worker.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// Workers whose answers clients want.
    #[default]
    Target,
    /// Workers of a cheap model that may answer first.
    Draft,
}

/// Whether a worker is asked for token counts of streams whose clients did not ask for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamOptions {
    /// The worker is asked by `stream_options.include_usage`, until it refuses that.
    #[default]
    Auto,
    /// The worker is not asked: the tokens of its streams are counted by their events.
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
    /// Address at which events are published, as in `tcp://10.0.0.5:5557`.
    pub endpoint: String,
    /// Address at which lost events can be requested again.
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

/// Notice that the cloud will take away the machine of local workers (spot termination).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Termination {
    /// Cloud whose metadata service is asked.
    pub cloud: Cloud,
    /// Address of the service, if it is not the cloud's own.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "super::web_url::shown")]
    pub endpoint: Option<String>,
    /// Time between two requests to it.
    pub interval: TimeSpan,
    /// Names of the workers that run on this machine and are drained on notice.
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

/// Cloud whose metadata service is asked.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cloud {
    /// No metadata service is asked.
    #[default]
    Off,
    /// Amazon.
    Aws,
    /// Google.
    Gcp,
    /// Microsoft.
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
