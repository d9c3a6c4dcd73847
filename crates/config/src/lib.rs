//! Configuration: parsing, validation, the typed tree and hot reload.
//!
//! A file in YAML or TOML becomes a tree of nodes with places (`yaml`, `toml_file`). The
//! environment adds to it (`environment`), and types are put on it (`read`, [`Config`]). What can
//! be read and still not be meant is found (`check`). [`Watcher`] keeps the last good one while the
//! file changes.
//!
//! **Invariants.** Every fault names its file, line and column, or the environment variable it
//! comes from. Everything is read within bounds. No secret is ever shown. Nothing here decides how
//! the gateway behaves: what a key means is the business of who reads it.

mod check;
mod environment;
mod error;
mod keys_file;
mod load;
mod node;
mod open_telemetry;
mod place;
mod quantity;
mod quoting;
mod read;
mod secrets;
mod toml_file;
mod tree;
mod view;
mod watch;
mod worker_source;
mod yaml;

pub use self::environment::{OVERRIDE_PREFIX, Variables};
pub use self::error::{ConfigError, ConfigErrors, FAULTS_MAX};
pub use self::keys_file::{KEYS_FILE_BYTES_MAX, KeysFile};
pub use self::load::{FILE_BYTES_MAX, Loaded, Loader};
pub use self::quantity::{
    ByteSize, Factor, Price, QuantityError, Share, TimeLimit, TimeSpan, Timestamp,
};
pub use self::tree::{
    Admin, Admission, AdmissionMode, AdmissionQueue, Breaker, Cache, CacheMode, CacheSalt, Canary,
    CanaryPrices, Cascade, CascadeLabels, CascadeMode, CascadePrices, CascadeScoring,
    CascadeShadow, CascadeSlowdown, CascadeThreshold, CascadeTokenizers, CascadeWindow, Cloud,
    Compression, Config, Cors, Dashboard, DialectWay, Dialects, Discovery, Dns, Each,
    FirstTokenWait, FitScore, Fragmentation, GenAi, Headers, Hedging, HedgingMode, Hook,
    HookCommand, Http2, Isolation, Jwt, JwtAlgorithm, JwtDefaults, Key, Kubernetes, KvEventSource,
    KvEvents, KvThreshold, Limits, Memory, Model, ModelCanary, ModelTimeouts, Parents, Policy,
    Pool, Port, Prefix, Prices, Priority, Probe, Responses, Restart, Resume, ResumeMode, Retry,
    Reuse, Routing, Scaling, Scheme, Scrape, ScrapeFailure, Secret, Shutdown, Speculation, Sticky,
    StickyKey, Store, StoreUrl, StreamOptions, Termination, Timeouts, Tls, TokenPrices, Tokenize,
    Tokenizer, Tracing, WarmUp, WatchedFile, Worker, WorkerTls, WorkerUrlError, host_and_port,
};
pub use self::watch::{Change, LOOK_EVERY, Stale, Watcher};
pub use self::worker_source::WorkerSource;
