//! What can be set about a gateway, and what is it when nothing is?
//!
//! Every bound and every deadline has a name here. Settings are checked once, when the gateway
//! starts; nothing downstream of [`GatewaySettings::check`] meets an impossible value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use overdraft_core::breaker::BreakerSettings;
use overdraft_core::fleet::WORKERS_MAX;
use overdraft_core::fragment::FragmentSettings;
use overdraft_core::route::RetrySettings;
use overdraft_scaler::ScaleSettings;
use overdraft_store::{Store, StoreSettings};

use crate::admission::AdmissionSettings;
use crate::bounds::RequestBounds;
use crate::cache::CacheSettings;
use crate::care::{Care, RestartHook, WarmUpSettings};
use crate::cascade::CascadeSettings;
use crate::discovery::{Source, SourceError};
use crate::isolation::{IsolationSettings, SaltPolicy};
use crate::keys::{KEYS_MAX, KeySettings, Keyring};
use crate::notice::{Cloud, NoticeSettings};
use crate::routes::RoutingSettings;
use crate::scrape::ScrapeSettings;
use crate::trial::CanarySettings;

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
    /// When a worker that fails its requests is taken out.
    pub breaker: BreakerSettings,
    /// What is shared with other gateways, and where.
    pub store: StoreSettings,
    /// Which answers are given again.
    pub cache: CacheSettings,
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
    /// Who may use `/admin` and have decisions explained.
    pub admin: AdminSettings,
    /// What becomes of the client's credentials.
    pub credentials: Credentials,
    /// The keys that clients present; without any, everybody is served.
    pub keys: Vec<KeySettings>,
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
    /// A gateway before `workers` with everything else at its default.
    pub fn new(workers: Vec<WorkerSettings>) -> Self {
        Self {
            workers,
            discovery: Vec::new(),
            model_default: None,
            listen: overdraft_http::Limits::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            retry: RetrySettings::default(),
            breaker: BreakerSettings::default(),
            store: StoreSettings::default(),
            cache: CacheSettings::default(),
            isolation: IsolationSettings::default(),
            probe: ProbeSettings::default(),
            scrape: ScrapeSettings::default(),
            routing: RoutingSettings::default(),
            cascades: BTreeMap::new(),
            canaries: BTreeMap::new(),
            cascade_state: None,
            termination: None,
            admin: AdminSettings::default(),
            credentials: Credentials::default(),
            keys: Vec::new(),
            admission: AdmissionSettings::default(),
            scaling: ScaleSettings::default(),
            repair: FragmentSettings::default(),
            warm_up: WarmUpSettings::default(),
        }
    }

    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<(), GatewayError> {
        if self.workers.is_empty() && self.discovery.is_empty() {
            return Err(GatewayError::NoWorkers);
        }
        if WORKERS_MAX < self.workers.len() {
            return Err(GatewayError::TooManyWorkers { count: self.workers.len() });
        }
        let mut names = BTreeSet::new();
        for worker in &self.workers {
            if !names.insert(worker.name.as_str()) {
                return Err(GatewayError::DuplicateName { name: worker.name.clone() });
            }
            worker.check()?;
        }
        for source in &self.discovery {
            source.check()?;
        }
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
        if self.probe.interval.is_zero() {
            return Err(GatewayError::ProbeInterval);
        }
        if self.scrape.interval.is_zero() || self.scrape.idle_interval.is_zero() {
            return Err(GatewayError::ScrapeInterval);
        }
        Keyring::check(&self.keys)
    }
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// `http://host:port`, without a path.
    pub url: String,
    /// What it is called in headers, metrics and logs; unique.
    pub name: String,
    /// What it is for.
    pub pool: Pool,
    /// The model it is there for; one that does not serve it is sent nothing.
    pub model: Option<String>,
    /// Where it reports what its cache holds.
    pub kv_events: KvEvents,
    /// Whether it schedules by the `priority` of requests, and is told it.
    pub priority_scheduling: bool,
    /// Whether it is told the salts of tenants.
    pub cache_salt: SaltPolicy,
    /// Whether it shares the blocks of its cache with the others of its model that do.
    pub kv_share: bool,
    /// What is done for it beyond sending it requests.
    pub care: Care,
}

/// Where a worker reports what its cache holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KvEvents {
    /// Where it says itself, if it does (`GET /kv_event_sources`).
    #[default]
    Ask,
    /// Here.
    At {
        /// Of the publisher, as `tcp://host:port`.
        endpoint: String,
        /// Of who repeats what was missed.
        replay: Option<String>,
        /// What its messages begin with.
        topic: String,
    },
    /// Nowhere.
    Off,
}

impl WorkerSettings {
    /// A target worker named after its host and port.
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let name = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self {
            url,
            name,
            pool: Pool::Target,
            model: None,
            kv_events: KvEvents::Ask,
            priority_scheduling: false,
            cache_salt: SaltPolicy::Told,
            kv_share: false,
            care: Care::default(),
        }
    }

    /// Refuses a name or an address that cannot work.
    pub(crate) fn check(&self) -> Result<Address, GatewayError> {
        // Names are told in headers, metrics and logs.
        if self.name.is_empty() || !self.name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(GatewayError::WorkerName { name: self.name.clone() });
        }
        if let Some(RestartHook::Command { argv, .. }) = &self.care.restart
            && argv.first().is_none_or(String::is_empty)
        {
            return Err(GatewayError::EmptyHook { name: self.name.clone() });
        }
        Address::parse(&self.url)
    }
}

/// What a worker is for: told in metrics; routing goes by the models that a worker serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// Its answers are the ones clients want.
    #[default]
    Target,
    /// A cheap model that may answer first.
    Draft,
}

impl Pool {
    /// As metrics call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Draft => "draft",
        }
    }
}

/// What becomes of the client's `authorization`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// It ends here: a client's key is no business of a worker's log.
    #[default]
    Strip,
    /// It goes to the worker, for workers that check keys themselves.
    Forward,
}

/// Bounds on what is relayed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests in flight at once; the next is told to come back.
    pub requests: usize,
    /// Streams among them.
    pub streams: usize,
    /// What one request may ask for.
    pub of_request: RequestBounds,
    /// Bytes of a whole answer that are held back to check it; a longer one is relayed as it comes.
    pub answer_bytes: usize,
    /// Bytes of one event of a stream.
    pub event_bytes: usize,
    /// Bytes of the head of a worker's answer.
    pub answer_head_bytes: usize,
    /// Idle connections kept open to one worker.
    pub idle_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 4_096,
            streams: 2_048,
            of_request: RequestBounds::default(),
            answer_bytes: 1024 * 1024,
            event_bytes: 1024 * 1024,
            answer_head_bytes: 64 * 1024,
            idle_connections: 256,
        }
    }
}

/// Patience with workers.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// To make a connection.
    pub connect: Duration,
    /// From sending a request to the first byte of its answer's body: a first token, or the whole.
    pub first_byte: Duration,
    /// Between two events of a stream.
    pub idle: Duration,
    /// From sending a request to the end of its answer.
    pub total: Duration,
    /// How long a connection to a worker may lie idle; below the 5 s after which uvicorn, vLLM's
    /// server, closes its end.
    pub keep_alive: Duration,
}

impl Default for Timeouts {
    /// The first byte gets a minute: a worker on two CPU cores computes about 30 prompt tokens a
    /// second, so a prompt of 1,500 tokens takes most of it, and a queue before it the rest. A
    /// limit that follows each worker's measured prefill rate replaces the constant.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(1),
            first_byte: Duration::from_mins(1),
            idle: Duration::from_secs(15),
            total: Duration::from_mins(10),
            keep_alive: Duration::from_secs(4),
        }
    }
}

/// How workers are watched.
#[derive(Clone, Copy, Debug)]
pub struct ProbeSettings {
    /// From the end of one probe to the next.
    pub interval: Duration,
    /// How long a worker may take to answer.
    pub timeout: Duration,
    /// Bytes of its answer at most.
    pub answer_bytes: usize,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            timeout: Duration::from_secs(2),
            answer_bytes: 1024 * 1024,
        }
    }
}

/// What is done when the cloud takes this machine away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationSettings {
    /// Whose machine it is.
    pub cloud: Cloud,
    /// How it is asked.
    pub notice: NoticeSettings,
    /// The workers on this machine, by name; none named: those at a loopback address.
    pub workers: Vec<String>,
}

/// Who may use `/admin` and have decisions explained.
#[derive(Clone, Default)]
pub struct AdminSettings {
    /// Whoever presents this as a bearer token. Without one, whoever comes over the loopback
    /// interface.
    pub token: Option<String>,
}

impl std::fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "…");
        f.debug_struct("AdminSettings").field("token", &token).finish()
    }
}

/// Why a gateway cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Nobody to forward to.
    #[error("no worker is configured; name at least one, as in `--worker http://127.0.0.1:8001`")]
    NoWorkers,
    /// More workers than a fleet holds.
    #[error("{count} workers are configured; at most {WORKERS_MAX} fit one gateway")]
    TooManyWorkers {
        /// How many there are.
        count: usize,
    },
    /// The address cannot be spoken to.
    #[error("`{url}` is not a worker's address: {why}; expected one as in `http://127.0.0.1:8001`")]
    WorkerUrl {
        /// As configured.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two workers answer to one name.
    #[error("two workers are called `{name}`; give each a name of its own")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// The name cannot be told in a header.
    #[error("`{name}` is not a worker's name; expected printable ASCII")]
    WorkerName {
        /// As configured.
        name: String,
    },
    /// Anybody would know it.
    #[error(
        "`admin.token` is empty; expected a secret, or nothing at all to trust the loopback only"
    )]
    EmptyToken,
    /// More keys than one gateway holds.
    #[error("{count} keys are configured; at most {KEYS_MAX} fit one gateway")]
    TooManyKeys {
        /// How many there are.
        count: usize,
    },
    /// Nobody could tell whose request it is.
    #[error("one key is given twice, to `{one}` and to `{other}`; give each key once")]
    DuplicateKey {
        /// A tenant.
        one: String,
        /// The same, or another.
        other: String,
    },
    /// A source of workers that can never name one.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A restart hook that runs nothing.
    #[error(
        "the restart command of worker `{name}` is empty; expected a program and its arguments"
    )]
    EmptyHook {
        /// The worker.
        name: String,
    },
    /// Certificates of the store that cannot be used.
    #[error(transparent)]
    Store(#[from] overdraft_store::OpenError),
    /// Asking the store without a pause.
    #[error("an interval of the store is zero; expected some time between exchanges, as in 30 ms")]
    StoreInterval,
    /// Answers that could never be given again.
    #[error("answers are kept for no time at all; expected a `ttl`, as in 1 h, or the mode `off`")]
    CacheLife,
    /// Probing without a pause.
    #[error("the probe interval is zero; expected some time between probes, as in 500 ms")]
    ProbeInterval,
    /// Scraping without a pause.
    #[error("a scrape interval is zero; expected some time between scrapes, as in 200 ms")]
    ScrapeInterval,
}

/// Where a worker listens.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) authority: Authority,
}

impl Address {
    fn parse(url: &str) -> Result<Self, GatewayError> {
        let fault = |why| GatewayError::WorkerUrl { url: url.to_owned(), why };
        let uri: http::Uri = url.parse().map_err(|_| fault("it is not a URL"))?;
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err(fault("the scheme is not `http`"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(fault("it has a path"));
        }
        let authority = uri.authority().ok_or_else(|| fault("it has no host"))?.clone();
        if authority.as_str().contains('@') {
            return Err(fault("it has a user name"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        Ok(Self { host, port: authority.port_u16().unwrap_or(80), authority })
    }
}
