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

/// Everything that can be configured; every key is optional.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Overdraft configuration")]
pub struct Config {
    /// The version of the file's form. A release reads its own and the one before it.
    #[serde(deserialize_with = "version::version")]
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// Where clients connect: an IP address and a port; port 0 takes a free one.
    #[serde(deserialize_with = "address::address")]
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// What encrypts the connections of clients; without it, they speak plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// HTTP/2 with clients.
    pub http2: Http2,
    /// Who may use `/admin`, and where.
    pub admin: Admin,
    /// The operator's page.
    pub dashboard: Dashboard,
    /// Compression of answers.
    pub compression: Compression,
    /// Which pages of browsers may ask.
    pub cors: Cors,
    /// Which headers pass between clients and workers.
    pub headers: Headers,
    /// Traces of requests for an OpenTelemetry collector.
    pub tracing: Tracing,
    /// The keys that clients present; without any, everybody may ask.
    pub keys: Vec<Key>,
    /// A file with more keys: a list in the form of `keys` with `key_sha256` alone, as `overdraft keys` writes it. Each
    /// change of it is in force within two seconds; while it is empty, it lets nobody in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_file: Option<PathBuf>,
    /// Whose tokens are believed beside keys; with it, only requests with a key or a token are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// The keys of that file.
    #[serde(skip)]
    pub file_keys: Vec<Key>,
    /// The model of requests that name none; without it they are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_default: Option<String>,
    /// What is special about a model, by the name that workers serve it under.
    pub models: BTreeMap<String, Model>,
    /// Small models that are asked first, by the name that clients ask for: a model's, or a new
    /// one.
    pub cascades: BTreeMap<String, Cascade>,
    /// Other models or cascades that are tried on a share of the requests, by the name that clients
    /// ask for.
    pub canaries: BTreeMap<String, ModelCanary>,
    /// The file in which what cascades learnt outlives a restart; a store of several gateways keeps
    /// it as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cascade_state: Option<PathBuf>,
    /// What tokens and workers cost.
    pub prices: Prices,
    /// How workers are chosen, for every model that says nothing else.
    pub routing: Routing,
    /// Workers with a fixed address.
    pub workers: Vec<Worker>,
    /// Where other workers are found.
    pub discovery: Vec<Discovery>,
    /// How the workers' metrics are read.
    pub scrape: Scrape,
    /// How the workers' health is watched.
    pub probe: Probe,
    /// Patience with workers.
    pub timeouts: Timeouts,
    /// How much is taken on at once; the next request is told to come back.
    pub limits: Limits,
    /// How the gateway leaves.
    pub shutdown: Shutdown,
    /// Which requests are taken on, and which wait for how long.
    pub admission: Admission,
    /// How freely failed attempts are made again.
    pub retry: Retry,
    /// How streams that break off go on at another worker.
    pub resume: Resume,
    /// When a second attempt is sent for a late first token.
    pub hedging: Hedging,
    /// When a worker that fails its requests is taken out.
    pub breaker: Breaker,
    /// What gateways before the same workers share.
    pub store: Store,
    /// Whether answers are given again.
    pub cache: Cache,
    /// What is kept of the answers of `/v1/responses`.
    pub responses: Responses,
    /// What keeps tenants from observing each other at workers.
    pub isolation: Isolation,
    /// Notice that the machine of local workers will be taken away.
    pub termination: Termination,
    /// What autoscalers are told.
    pub scaling: Scaling,
    /// When a worker that has `memory` and `restart` is drained and restarted.
    pub fragmentation: Fragmentation,
    /// The request that is sent to a worker before it takes traffic.
    pub warm_up: WarmUp,
    /// How deep the workers inside this process guess what their model says.
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
