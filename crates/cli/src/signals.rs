//! Signal handling: the first SIGTERM or interrupt starts a drain, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::fault::Fault;
use crate::service_manager::{self, State};

/// A stop that many can wait for.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Resolves once a stop is asked for.
    pub(crate) async fn asked(mut self) {
        // The sender lives as long as the watching task; its end means the same as a signal.
        let _ = self.0.wait_for(|asked| *asked).await;
    }
}

/// Watches for signals in a task of `tasks`.
///
/// # Errors
/// When the signal handlers cannot be installed.
pub(crate) fn watch(tasks: &mut JoinSet<()>) -> Result<Stop, Fault> {
    let listen = |kind| {
        signal(kind).map_err(|error| Fault::running(format!("signals cannot be watched: {error}")))
    };
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    let (ask, asked) = watch::channel(false);
    tasks.spawn(async move {
        next(&mut terminate, &mut interrupt).await;
        service_manager::tell(State::Stopping);
        tracing::info!("stopping: no new requests, streams may finish; again to stop at once");
        ask.send_replace(true);
        next(&mut terminate, &mut interrupt).await;
        tracing::warn!("stopping at once");
        end_now();
    });
    Ok(Stop(asked))
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user asked twice; there is nothing to return to"
)]
fn end_now() -> ! {
    std::process::exit(130)
}
