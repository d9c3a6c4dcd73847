//! Settings of the gateway, with their defaults and the check that every start and reload passes.
//!
//! Every limit and every timeout has a name here; each section has a file of its own. Nothing
//! downstream of [`GatewaySettings::check`] meets an impossible value.

mod admin;
mod admission;
mod cache;
mod canary;
mod cascade;
mod cascade_log;
mod compression;
mod cors;
mod dashboard;
mod discovery;
mod error;
mod headers;
mod isolation;
mod jwt;
mod keys;
mod limits;
mod live;
mod maintenance;
mod prices;
mod responses;
mod routes;
mod scrape;
mod spot_termination;
mod tracing;
mod web_address;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use overdraft_core::breaker::BreakerSettings;
use overdraft_core::fleet::WORKERS_MAX;
use overdraft_core::hedge::HedgeSettings;
use overdraft_core::memory_drift::FragmentSettings;
use overdraft_core::resume::ResumeSettings;
use overdraft_core::route::RetrySettings;
use overdraft_http::Http2Limits;
use overdraft_scaler::ScaleSettings;
use overdraft_store::{Store, StoreSettings};
use overdraft_tls::{ClientTls, ServerSettings};

pub use self::admin::AdminSettings;
pub use self::admission::AdmissionSettings;
pub use self::cache::{CacheMode, CacheSettings};
pub use self::canary::CanarySettings;
pub(crate) use self::cascade::drafts;
pub use self::cascade::{CascadeSettings, Labels};
pub use self::cascade_log::{CascadeLog, CascadeLogEntry};
pub use self::compression::CompressionSettings;
pub use self::cors::CorsSettings;
pub use self::dashboard::DashboardSettings;
pub(crate) use self::dashboard::REQUESTS_KEPT_MAX;
pub use self::discovery::{
    DnsPatience, DnsSettings, Each, FileSettings, KubernetesSettings, ServicePort, Source, Template,
};
pub use self::error::{GatewayError, SourceError};
pub use self::headers::{HeaderPattern, HeaderSettings};
pub use self::isolation::{IsolationSettings, STRIPPED, SaltPolicy};
pub use self::jwt::{JwtAlgorithm, JwtSettings, KeySetPlace, KeySetSettings};
pub use self::keys::{Budget, Door, KEYS_MAX, KeyDigest, KeySettings};
pub use self::limits::{Credentials, Limits, ProbeSettings, RequestBounds, Timeouts};
pub(crate) use self::live::LiveSettings;
pub use self::maintenance::{
    Maintenance, MemorySource, RestartHook, Token, WarmUp, WarmUpSettings, WebhookSettings,
};
pub use self::prices::PriceSettings;
pub use self::responses::ResponsesSettings;
pub(crate) use self::routes::Routes;
pub use self::routes::{
    ModelSettings, RoutingSettings, SessionKey, TEXT_CHUNK, TokenizerPlace, Tokenizing,
};
pub use self::scrape::{ScrapeFailure, ScrapeSettings};
pub use self::spot_termination::{Cloud, NoticeSettings, TerminationSettings};
pub use self::tracing::{GenAi, TracingSettings};
pub use self::web_address::{WebAddress, WebAddressError};
pub(crate) use self::worker::Address;
pub use self::worker::{KvEvents, Pool, StreamOptions, WorkerSettings, WorkerTraits};

/// Everything that can be set about a gateway.
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// The workers behind it that are known by name.
    pub workers: Vec<WorkerSettings>,
    /// Where others are found while it runs. Without any, there must be a worker.
    pub discovery: Vec<Source>,
    /// The model of requests that name none; without it they are refused.
    pub model_default: Option<String>,
    /// Bounds towards clients: connections, heads, bodies, drain.
    pub listen: overdraft_http::Limits,
    /// Bounds on what is relayed.
    pub limits: Limits,
    /// Patience with workers.
    pub timeouts: Timeouts,
    /// How freely failed attempts are made again.
    pub retry: RetrySettings,
    /// How streams that break off go on.
    pub resume: ResumeSettings,
    /// When a second attempt is sent for a late first token.
    pub hedging: HedgeSettings,
    /// When a worker that fails its requests is taken out.
    pub breaker: BreakerSettings,
    /// What is shared with other gateways, and where.
    pub store: StoreSettings,
    /// Which answers are given again.
    pub cache: CacheSettings,
    /// How the answers of `/v1/responses` are kept; fixed when the gateway starts.
    pub responses: ResponsesSettings,
    /// How tenants are kept apart at the workers.
    pub isolation: IsolationSettings,
    /// How workers are watched.
    pub probe: ProbeSettings,
    /// How their load is learnt.
    pub scrape: ScrapeSettings,
    /// How requests are routed.
    pub routing: RoutingSettings,
    /// Small models that are asked first, by the name that clients ask for.
    pub cascades: BTreeMap<String, CascadeSettings>,
    /// What is tried on a share of the requests, by the name that clients ask for.
    pub canaries: BTreeMap<String, CanarySettings>,
    /// Where what they learnt is kept, besides the store that gateways share.
    pub cascade_state: Option<PathBuf>,
    /// Whether a cloud's notice that it takes this machine away drains workers.
    pub termination: Option<TerminationSettings>,
    /// What clients' connections are encrypted by, if they are; fixed when the gateway starts, but for what is in
    /// its files.
    pub tls: Option<ServerSettings>,
    /// Who may use `/admin` and have decisions explained.
    pub admin: AdminSettings,
    /// The dashboard, and what is kept for it.
    pub dashboard: DashboardSettings,
    /// Which answers are compressed.
    pub compression: CompressionSettings,
    /// Which pages of browsers may ask.
    pub cors: CorsSettings,
    /// Which headers pass between clients and workers, where that is not as usual.
    pub headers: Option<Arc<HeaderSettings>>,
    /// What tokens and workers cost.
    pub prices: PriceSettings,
    /// Traces of requests, where they are wanted; fixed when the gateway starts.
    pub tracing: Option<TracingSettings>,
    /// What becomes of the client's credentials.
    pub credentials: Credentials,
    /// The keys that clients present.
    pub keys: Vec<KeySettings>,
    /// Who is served without one.
    pub door: Door,
    /// Whose tokens are believed beside keys, if anybody's.
    pub jwt: Option<JwtSettings>,
    /// How requests wait where there is no room.
    pub admission: AdmissionSettings,
    /// What pools are scaled by.
    pub scaling: ScaleSettings,
    /// When workers whose memory has fragmented are restarted.
    pub repair: FragmentSettings,
    /// The request that warms a worker up.
    pub warm_up: WarmUpSettings,
}

impl GatewaySettings {
    /// How many name workers: these settings, and each discovery.
    pub(crate) const fn worker_sources(&self) -> usize {
        1 + self.discovery.len()
    }

    /// A gateway before `workers` with everything else at its default.
    pub fn new(workers: Vec<WorkerSettings>) -> Self {
        Self {
            workers,
            discovery: Vec::new(),
            model_default: None,
            listen: overdraft_http::Limits {
                http2: Some(Http2Limits::default()),
                ..overdraft_http::Limits::default()
            },
            tls: None,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            retry: RetrySettings::default(),
            resume: ResumeSettings::default(),
            hedging: HedgeSettings::default(),
            breaker: BreakerSettings::default(),
            store: StoreSettings::default(),
            cache: CacheSettings::default(),
            responses: ResponsesSettings::default(),
            isolation: IsolationSettings::default(),
            probe: ProbeSettings::default(),
            scrape: ScrapeSettings::default(),
            routing: RoutingSettings::default(),
            cascades: BTreeMap::new(),
            canaries: BTreeMap::new(),
            cascade_state: None,
            termination: None,
            admin: AdminSettings::default(),
            dashboard: DashboardSettings::default(),
            compression: CompressionSettings::default(),
            cors: CorsSettings::default(),
            headers: None,
            prices: PriceSettings::default(),
            tracing: None,
            credentials: Credentials::default(),
            keys: Vec::new(),
            door: Door::default(),
            jwt: None,
            admission: AdmissionSettings::default(),
            scaling: ScaleSettings::default(),
            repair: FragmentSettings::default(),
            warm_up: WarmUpSettings::default(),
        }
    }

    /// Whether requests without a key are served.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.door(), Door::OpenWithoutKeys) && self.keys.is_empty()
    }

    /// Who is served without a key or a token.
    pub(crate) const fn door(&self) -> Door {
        if self.jwt.is_some() { Door::Closed } else { self.door }
    }

    /// Refuses what cannot work. Reads the files of certificates that workers are spoken to with.
    ///
    /// # Errors
    /// [`GatewayError`] where no gateway starts with these settings, or goes on by them.
    pub fn check(&self) -> Result<(), GatewayError> {
        if self.workers.is_empty() && self.discovery.is_empty() {
            return Err(GatewayError::NoWorkers);
        }
        if WORKERS_MAX < self.workers.len() {
            return Err(GatewayError::TooManyWorkers { count: self.workers.len() });
        }
        self.check_workers()?;
        if self.admin.token.as_deref() == Some("") {
            return Err(GatewayError::EmptyToken);
        }
        if self.store.board_interval.is_zero() || self.store.share_interval.is_zero() {
            return Err(GatewayError::StoreInterval);
        }
        Store::open(&self.store)?;
        if self.cache.life.is_zero() {
            return Err(GatewayError::CacheLife);
        }
        if self.responses.life.is_zero() {
            return Err(GatewayError::ResponsesLife);
        }
        if self.probe.interval.is_zero() {
            return Err(GatewayError::ProbeInterval);
        }
        if self.scrape.interval.is_zero() || self.scrape.idle_interval.is_zero() {
            return Err(GatewayError::ScrapeInterval);
        }
        self.jwt.as_ref().map_or(Ok(()), jwt::check)?;
        keys::check(&self.keys)
    }

    /// The same of the workers, and of those that will be found. Files of certificates are read once, however many
    /// workers have them.
    fn check_workers(&self) -> Result<(), GatewayError> {
        let mut names = BTreeSet::new();
        let mut proved = BTreeSet::new();
        for worker in &self.workers {
            if !names.insert(worker.name.as_str()) {
                return Err(GatewayError::DuplicateName { name: worker.name.clone() });
            }
            if worker.check()?.is_encrypted && proved.insert(&worker.traits.tls) {
                worker.prove_tls()?;
            }
        }
        for source in &self.discovery {
            source.check()?;
            let Some(tls) = source.tls().filter(|tls| proved.insert(*tls)) else { continue };
            let whose = || format!("workers of {source}");
            ClientTls::new(tls.clone())
                .map_err(|error| GatewayError::Tls { whose: whose(), error })?;
        }
        Ok(())
    }
}
