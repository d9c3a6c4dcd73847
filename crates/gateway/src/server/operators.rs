//! Operators' listener: a thread of its own answers probes, scrapers and `/admin`.
//!
//! Thousands of streams whose tokens come at once keep the clients' threads busy for tenths of a second. A liveness probe
//! that waited behind them would have Kubernetes restart a gateway that is well.

use std::io;
use std::sync::Arc;
use std::thread;

use overdraft_http::Server;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::{Face, Gateway, GatewayService};
use crate::settings::{AdminSettings, GatewayError};

/// Serves at `listener` until the other side of `ended` is gone. What is returned resolves when the last answer is out.
///
/// # Errors
/// [`GatewayError::Operators`] where the system gives no thread, or no way to wait for connections there.
pub(crate) fn serve(
    gateway: &Arc<Gateway>,
    listener: TcpListener,
    ended: oneshot::Receiver<()>,
) -> Result<oneshot::Receiver<()>, GatewayError> {
    let failed = |error: io::Error| GatewayError::Operators { why: error.to_string() };
    let listener = listener.into_std().map_err(failed)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let listener = {
        let _within = runtime.enter();
        TcpListener::from_std(listener).map_err(failed)?
    };
    let service = GatewayService { gateway: Arc::clone(gateway), face: Face::Operators };
    let server = Server::new(AdminSettings::limits(), gateway.dispatcher.clock);
    let ended = async {
        // Nothing is ever sent.
        let _ = ended.await;
    };
    let (left, gone) = oneshot::channel::<()>();
    let serving = move || {
        runtime.block_on(server.serve(listener, Arc::new(service), ended));
        drop(left);
    };
    thread::Builder::new().name("operators".to_owned()).spawn(serving).map_err(failed)?;
    Ok(gone)
}
