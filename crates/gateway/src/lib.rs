//! The gateway: it listens, asks the core, forwards, and obeys.
//!
//! A request is read whole, looked into, sent to the worker that the core names, and its answer is
//! relayed as it comes. There is no policy here: which worker, whether again, who is up, are
//! decisions of `overdraft_core`; this crate reports to it and does as it says.
//!
//! | layer                | what it is                                                       |
//! |----------------------|------------------------------------------------------------------|
//! | `server`             | routes, the path of a request, admin endpoints, metrics           |
//! | `cascade`, `cache`   | drivers over the pipeline: a draft first, a kept answer first     |
//! | `pipeline`           | context, keys, inspection, queue, attempts, relay                 |
//! | `fleet`              | membership, probes, scrapes, KV events, maintenance               |
//! | `sync`               | breakers, loads and budgets shared with other gateways            |
//! | `dispatch`           | the one place where events enter the core and decisions leave it  |
//! | `discovery`, `upstream` | where workers are, and how one is spoken to                    |
//! | `trace`              | traces of sampled requests                                        |
//! | `settings`           | what can be set, with defaults and checks                         |
//!
//! A layer names those below it and none above; `cargo xtask tidy` refuses anything else. Start
//! reading at [`run`], then `server/forward.rs`.
//!
//! **Invariants.** A broken stream never ends cleanly. Nothing that a client wrote in a head reaches
//! a worker as the client wrote it. All that a request holds is given back when it is dropped.

mod background;
mod cache;
mod cascade;
mod discovery;
mod dispatch;
mod fleet;
mod pipeline;
mod server;
mod settings;
mod sync;
mod trace;
mod upstream;

use std::future::Future;
use std::sync::{Arc, OnceLock};

pub use overdraft_http::Drained;
use overdraft_http::Server;
pub use overdraft_scaler::ScaleSettings;
use overdraft_telemetry::Clock;
use overdraft_telemetry::metrics::Exposition;
use overdraft_tls::{Offers, ServerTls};
use overdraft_units::Micros;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

pub use self::discovery::look_up;
pub use self::fleet::kv_events;
pub use self::pipeline::jwt::issuer_keys;
pub use self::pipeline::keys::{Budgets, Level, RetryAfter, Standing};
use self::server::{Face, Gateway, GatewayService, serve_operators};
pub use self::settings::{
    AdminSettings, AdmissionSettings, Budget, CacheMode, CacheSettings, CanarySettings, CascadeLog,
    CascadeLogEntry, CascadeSettings, Cloud, CompressionSettings, CorsSettings, Credentials,
    DashboardSettings, DnsPatience, DnsSettings, Door, Each, FileSettings, GatewayError,
    GatewaySettings, GenAi, HeaderPattern, HeaderSettings, IsolationSettings, JwtAlgorithm,
    JwtSettings, KEYS_MAX, KeyDigest, KeySetPlace, KeySetSettings, KeySettings, KubernetesSettings,
    KvEvents, Labels, Limits, Maintenance, MemorySource, ModelSettings, NoticeSettings, Pool,
    PriceSettings, ProbeSettings, RequestBounds, ResponsesSettings, RestartHook, RoutingSettings,
    STRIPPED, SaltPolicy, ScrapeFailure, ScrapeSettings, ServicePort, SessionKey, Source,
    SourceError, StreamOptions, TEXT_CHUNK, Template, TerminationSettings, Timeouts, Token,
    TokenizerPlace, Tokenizing, TracingSettings, WarmUp, WarmUpSettings, WebAddress,
    WebAddressError, WebhookSettings, WorkerSettings, WorkerTraits,
};

/// The sockets that a gateway is given.
#[derive(Debug)]
pub struct Listeners {
    /// Where clients connect.
    pub clients: TcpListener,
    /// Where `/admin`, `/metrics` and probes are answered apart from clients; without it, where
    /// clients connect.
    pub admin: Option<TcpListener>,
    /// Where KEDA asks how many workers the pools want, if anywhere.
    pub scaler: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(clients: TcpListener) -> Self {
        Self { clients, admin: None, scaler: None }
    }
}

/// Every metric of a gateway with its type and its meaning, those included that have no series before something happens.
///
/// # Errors
/// Never with the defaults.
pub fn metric_catalogue() -> Result<String, GatewayError> {
    let nowhere = WorkerSettings::new("http://127.0.0.1:1".to_owned());
    let gateway = Gateway::new(GatewaySettings::new(vec![nowhere]), Clock::start())?;
    Ok(gateway.pipeline.requests.catalogue(Exposition::Text))
}

/// Serves on `listener` until `shutdown` resolves, then drains.
///
/// # Errors
/// [`GatewayError`] where the settings cannot work; nothing has been served then.
pub async fn run(
    listener: TcpListener,
    settings: GatewaySettings,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Drained, GatewayError> {
    // Kept to the end: without a sender, nothing ever changes.
    let (_keep, settings) = watch::channel(settings);
    run_reloading(listener, settings, shutdown).await
}

/// Like [`run`], with settings that may change: what is sent is put in force at once, without
/// disturbing requests that are under way. Where it cannot work it is refused, told in the log, and
/// what was in force stays so. The listener's own bounds and the size of the prefix index are taken
/// from the first settings alone.
///
/// # Errors
/// [`GatewayError`] where the first settings cannot work; nothing has been served then.
pub async fn run_reloading(
    listeners: impl Into<Listeners>,
    mut settings: watch::Receiver<GatewaySettings>,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Drained, GatewayError> {
    let clock = Clock::start();
    let first = settings.borrow_and_update().clone();
    let limits = first.listen.clone();
    let patience = limits.lame_duck.saturating_add(limits.drain);
    let offers = if limits.http2.is_some() { Offers::Http2 } else { Offers::Http1 };
    let tls = first.tls.clone().map(|tls| ServerTls::new(tls, offers)).transpose();
    let whose = || "the listener".to_owned();
    let tls = tls.map_err(|error| GatewayError::Tls { whose: whose(), error })?.map(Arc::new);
    let gateway = Arc::new(Gateway::new(first, clock)?);
    let Listeners { clients, admin, scaler } = listeners.into();
    let face = if admin.is_some() { Face::Clients } else { Face::Both };
    // Operators see how the last clients go, and scrapers how many were cut.
    let (over, ended) = oneshot::channel::<()>();
    let operators = admin.map(|admin| serve_operators(&gateway, admin, ended)).transpose()?;
    let background = background::start(&gateway, settings, scaler);
    let service = GatewayService { gateway: Arc::clone(&gateway), face };
    let left = OnceLock::new();
    let leaving = async {
        shutdown.await;
        gateway.leave();
        left.get_or_init(|| clock.now());
    };
    let server = Server::new(limits, clock).with_tls(tls);
    let drained = server.serve(clients, Arc::new(service), leaving).await;
    // Responses that nobody waits for have as long as those that somebody does.
    let since = left.get().map_or(Micros::ZERO, |left| clock.now().since(*left));
    gateway.responses.end(patience.saturating_sub(since.into())).await;
    // First, for the grace of the process may be over before a last scrape comes.
    background.end().await;
    if let Some(gone) = operators {
        gateway.scrapes.told(gateway.pipeline.requests.cut()).await;
        drop(over);
        // Nothing is ever sent.
        let _ = gone.await;
    }
    Ok(drained)
}
