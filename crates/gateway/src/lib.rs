//! The gateway: it listens, asks the core, forwards, and obeys.
//!
//! A request is read whole, looked into, sent to the worker that the core names, and its answer is
//! relayed as it comes. There is no policy here: which worker, whether again, who is up, are
//! decisions of `overdraft_core`; this crate reports to it and does as it says.
//!
//! Start reading at [`run`], then `forward` (the path of a request), `fingerprint` (what routing
//! knows of it), `attempt` (one worker asked), `relay` (the answer on its way back), `roster` (who
//! the workers are) and `upstream` (how one is spoken to).
//!
//! **Invariants.** A broken stream never ends cleanly. Nothing that a client wrote in a head reaches
//! a worker as the client wrote it. All that a request holds is given back when it is dropped.

mod admin;
mod admission;
mod attempt;
mod beginnings;
mod board;
mod bounds;
mod cache;
mod care;
mod cascade;
mod catalogue;
mod content;
mod deadline;
mod discovery;
mod explain;
mod fetch;
mod fingerprint;
mod forward;
mod gauges;
mod headers;
mod intake;
mod isolation;
mod keeper;
mod keys;
pub mod kv_events;
mod lease;
mod notice;
mod probe;
mod refusal;
mod relay;
mod reports;
mod roster;
mod routes;
mod scaling;
mod scrape;
mod service;
mod settings;
mod shared;
mod tally;
mod tokenizing;
mod trial;
mod upstream;
mod usage;

use std::future::Future;
use std::sync::Arc;

use overdraft_http::Server;
use overdraft_telemetry::Clock;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use self::admission::AdmissionSettings;
pub use self::bounds::RequestBounds;
pub use self::cache::{CacheMode, CacheSettings};
pub use self::care::{
    Care, MemorySource, PlaceError, RestartHook, Token, WarmUp, WarmUpSettings, WebPlace,
    WebhookSettings,
};
pub use self::cascade::{CascadeSettings, Labels};
pub use self::discovery::{
    DnsPatience, DnsSettings, Each, FileSettings, KubernetesSettings, ServicePort, Source,
    SourceError, Template,
};
pub use self::isolation::{IsolationSettings, STRIPPED, SaltPolicy};
pub use self::keys::{
    Budget, Budgets, KEYS_MAX, KeyDigest, KeySettings, Level, RetryAfter, Standing,
};
pub use self::notice::{Cloud, NoticeSettings};
pub use self::routes::{
    ModelSettings, RoutingSettings, SessionKey, TEXT_CHUNK, TokenizerPlace, Tokenizing,
};
pub use self::scrape::{ScrapeFailure, ScrapeSettings};
pub use self::settings::{
    AdminSettings, Credentials, GatewayError, GatewaySettings, KvEvents, Limits, Pool,
    ProbeSettings, TerminationSettings, Timeouts, WorkerSettings,
};
pub use self::trial::CanarySettings;
pub use overdraft_http::Drained;
pub use overdraft_scaler::ScaleSettings;

use self::service::Gateway;
use self::shared::Shared;

/// The sockets that a gateway is given.
#[derive(Debug)]
pub struct Listeners {
    /// Where clients connect.
    pub clients: TcpListener,
    /// Where KEDA asks how many workers the pools want, if anywhere.
    pub scaler: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(clients: TcpListener) -> Self {
        Self { clients, scaler: None }
    }
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
    let shared = Arc::new(Shared::new(first, clock)?);
    let Listeners { clients, scaler } = listeners.into();
    let keeper = keeper::start(&shared, settings, scaler);
    let gateway = Arc::new(Gateway { shared });
    let drained = Server::new(limits, clock).serve(clients, gateway, shutdown).await;
    keeper.end().await;
    Ok(drained)
}
