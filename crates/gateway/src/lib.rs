//! The gateway: it listens, asks the core, forwards, and obeys.
//!
//! A request is read whole, looked into, sent to the worker that the core names, and its answer is
//! relayed as it comes. There is no policy here: which worker, whether again, who is up, are
//! decisions of `overdraft_core`; this crate reports to it and does as it says.
//!
//! Start reading at [`run`], then `forward` (the path of a request), `attempt` (one worker asked),
//! `relay` (the answer on its way back) and `upstream` (how a worker is spoken to).
//!
//! **Invariants.** A broken stream never ends cleanly. Nothing that a client wrote in a head reaches
//! a worker as the client wrote it. All that a request holds is given back when it is dropped.

mod attempt;
mod catalogue;
mod deadline;
mod forward;
mod headers;
mod intake;
pub mod kv_events;
mod probe;
mod relay;
mod service;
mod settings;
mod shared;
mod tally;
mod upstream;

use std::future::Future;
use std::sync::Arc;

use overdraft_http::Server;
use overdraft_telemetry::Clock;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use self::settings::{
    Credentials, GatewayError, GatewaySettings, Limits, Pool, ProbeSettings, Timeouts,
    WorkerSettings,
};
pub use overdraft_http::Drained;

use self::service::Gateway;
use self::shared::Shared;

/// Serves on `listener` until `shutdown` resolves, then drains.
///
/// # Errors
/// [`GatewayError`] where the settings cannot work; nothing has been served then.
pub async fn run(
    listener: TcpListener,
    settings: GatewaySettings,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<Drained, GatewayError> {
    let clock = Clock::start();
    let limits = settings.listen.clone();
    let shared = Arc::new(Shared::new(settings, clock)?);
    // Owns the probers: dropped when serving ends, and then they end.
    let mut probers = JoinSet::new();
    for (worker, _) in shared.upstreams() {
        probers.spawn(probe::watch(Arc::clone(&shared), *worker));
    }
    let gateway = Arc::new(Gateway { shared });
    let drained = Server::new(limits, clock).serve(listener, gateway, shutdown).await;
    probers.shutdown().await;
    Ok(drained)
}
