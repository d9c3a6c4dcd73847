//! Typed configuration tree: every key, its type and its default, one file per section.
//!
//! Every key has a default, which is the behaviour without a file; the comments here are the
//! reference that users read (`docs/reference/config.md`).

mod address;
mod admin;
mod admission;
mod cache;
mod canaries;
mod cascade;
mod compression;
mod cors;
mod dashboard;
mod discovery;
mod headers;
mod hedging;
mod http2;
mod jwt;
mod keys;
mod limits;
mod maintenance;
mod models;
mod prices;
mod responses;
mod resume;
mod routing;
mod secret;
mod speculation;
mod store;
mod tls;
mod tracing;
mod version;
mod web_url;
mod workers;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::admin::Admin;
pub use self::admission::{Admission, AdmissionMode, AdmissionQueue, FirstTokenWait, KvThreshold};
pub use self::cache::{Cache, CacheMode, CacheSalt, Isolation, Reuse};
pub use self::canaries::{CanaryPrices, ModelCanary};
pub use self::cascade::{
    Cascade, CascadeLabels, CascadeMode, CascadePrices, CascadeScoring, CascadeShadow,
    CascadeSlowdown, CascadeThreshold, CascadeTokenizers, CascadeWindow, TokenPrices,
};
pub use self::compression::Compression;
pub use self::cors::Cors;
pub use self::dashboard::Dashboard;
pub use self::discovery::{Discovery, Dns, Kubernetes, Port, Scheme, WatchedFile};
pub use self::headers::Headers;
pub use self::hedging::{Hedging, HedgingMode};
pub use self::http2::Http2;
pub use self::jwt::{Jwt, JwtAlgorithm, JwtDefaults};
pub use self::keys::{Key, Priority};
pub use self::limits::{Limits, Probe, Retry, Scrape, ScrapeFailure, Shutdown, Timeouts};
pub use self::maintenance::{Fragmentation, Hook, HookCommand, Memory, Restart, Scaling, WarmUp};
pub use self::models::{DialectWay, Dialects, Model, ModelTimeouts, Tokenizer};
pub use self::prices::Prices;
pub use self::responses::Responses;
pub use self::resume::{Resume, ResumeMode};
pub use self::routing::{Canary, FitScore, Policy, Prefix, Routing, Sticky, StickyKey, Tokenize};
pub use self::secret::Secret;
pub use self::speculation::Speculation;
pub use self::store::{Breaker, Store, StoreUrl};
pub use self::tls::{Tls, WorkerTls};
pub use self::tracing::{GenAi, Parents, Tracing};
pub use self::workers::{
    Cloud, Each, KvEventSource, KvEvents, Pool, StreamOptions, Termination, Worker, WorkerUrlError,
    host_and_port,
};

/// All that can be configured; every key is optional.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Overdraft configuration")]
pub struct Config {
    /// Version of the file format. A release reads its own version and the one before it.
    #[serde(deserialize_with = "version::version")]
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Address for clients: an IP address and a port; port 0 takes a free port.
    #[serde(deserialize_with = "address::address")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// Encryption of client connections; without this section clients speak plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// HTTP/2 with clients.
    pub http2: Http2,
    /// Access to `/admin`, and its address.
    pub admin: Admin,
    /// The operator's dashboard.
    pub dashboard: Dashboard,
    /// Compression of answers.
    pub compression: Compression,
    /// Web pages that may send requests from browsers.
    pub cors: Cors,
    /// Headers that pass between clients and workers.
    pub headers: Headers,
    /// Traces of requests for an OpenTelemetry collector.
    pub tracing: Tracing,
    /// API keys of clients; without keys, every client is served.
    pub keys: Vec<Key>,
    /// File with more keys: a list in the form of `keys` with `key_sha256` alone, as `overdraft keys` writes it. A
    /// change of the file is in force within two seconds. While the file is empty, no client is let in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_file: Option<PathBuf>,
    /// JSON Web Tokens that are accepted beside keys. With this section, only requests with a key or a token are
    /// served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// The keys of that file.
    #[serde(skip)]
    pub file_keys: Vec<Key>,
    /// Model for requests that name none; without this key such requests are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_default: Option<String>,
    /// Settings of single models, by the name under which workers serve them.
    pub models: BTreeMap<String, Model>,
    /// Small models that are asked before large ones, by the name that clients ask for: a model's, or a new one.
    pub cascades: BTreeMap<String, Cascade>,
    /// Other models or cascades on trial for a share of the requests, by the name that clients ask for.
    pub canaries: BTreeMap<String, ModelCanary>,
    /// File that keeps the learnt state of cascades over a restart. A store of several gateways keeps it as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cascade_state: Option<PathBuf>,
    /// Prices of tokens and workers.
    pub prices: Prices,
    /// Choice of workers, for every model without its own setting.
    pub routing: Routing,
    /// Workers with a fixed address.
    pub workers: Vec<Worker>,
    /// Sources of further workers.
    pub discovery: Vec<Discovery>,
    /// Reading of the workers' metrics.
    pub scrape: Scrape,
    /// Health checks of workers.
    pub probe: Probe,
    /// Time limits of workers and clients.
    pub timeouts: Timeouts,
    /// Limits of load; a further request is refused with a time to come back.
    pub limits: Limits,
    /// Shutdown of the gateway.
    pub shutdown: Shutdown,
    /// Admission of requests: which start, and which wait for how long.
    pub admission: Admission,
    /// Retries of failed attempts.
    pub retry: Retry,
    /// Continuation of broken streams at another worker.
    pub resume: Resume,
    /// Second attempts for late first tokens.
    pub hedging: Hedging,
    /// Circuit breaker, which takes out a worker that fails its requests.
    pub breaker: Breaker,
    /// State that gateways before the same workers share.
    pub store: Store,
    /// Whether stored answers are given again (response cache).
    pub cache: Cache,
    /// Stored responses of `/v1/responses`.
    pub responses: Responses,
    /// Isolation of tenants at workers.
    pub isolation: Isolation,
    /// Notice that the cloud will take away the machine of local workers (spot termination).
    pub termination: Termination,
    /// Signals for autoscalers.
    pub scaling: Scaling,
    /// Restart of workers with fragmented memory, for workers that have `memory` and `restart`.
    pub fragmentation: Fragmentation,
    /// Request that a worker gets before it takes traffic.
    pub warm_up: WarmUp,
    /// Speculative decoding in the workers inside this process.
    pub speculation: Speculation,
}

impl Config {
    /// Whether workers are named here, or found by a discovery that is.
    pub fn names_workers(&self) -> bool {
        !(self.workers.is_empty() && self.discovery.is_empty())
    }

    /// Whether only requests with a key or a token are served.
    pub fn needs_key(&self) -> bool {
        !self.keys.is_empty() || self.keys_file.is_some() || self.jwt.is_some()
    }

    /// The keys that are named here, then those of `keys_file`.
    pub fn all_keys(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter().chain(&self.file_keys)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            version: version::NEWEST,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8_080)),
            tls: None,
            http2: Http2::default(),
            admin: Admin::default(),
            dashboard: Dashboard::default(),
            compression: Compression::default(),
            cors: Cors::default(),
            headers: Headers::default(),
            tracing: Tracing::default(),
            keys: Vec::new(),
            keys_file: None,
            jwt: None,
            file_keys: Vec::new(),
            model_default: None,
            models: BTreeMap::new(),
            cascades: BTreeMap::new(),
            canaries: BTreeMap::new(),
            cascade_state: None,
            prices: Prices::default(),
            routing: Routing::default(),
            workers: Vec::new(),
            discovery: Vec::new(),
            scrape: Scrape::default(),
            probe: Probe::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            shutdown: Shutdown::default(),
            admission: Admission::default(),
            retry: Retry::default(),
            resume: Resume::default(),
            hedging: Hedging::default(),
            breaker: Breaker::default(),
            store: Store::default(),
            cache: Cache::default(),
            responses: Responses::default(),
            isolation: Isolation::default(),
            termination: Termination::default(),
            scaling: Scaling::default(),
            fragmentation: Fragmentation::default(),
            warm_up: WarmUp::default(),
            speculation: Speculation::default(),
        }
    }
}
