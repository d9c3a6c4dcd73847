//! Configuration hot reload while the gateway runs: watch, validate, apply, report.
//!
//! A change that is bad, or by which the gateway could not serve, leaves what is in force; it is told
//! once, with its place. A SIGHUP looks at once.

use overdraft_config::{Change, Config, LOOK_EVERY, Loaded, Loader, Watcher};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::fault::Fault;
use crate::service_manager::{self, State};

/// Why the file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    Tick,
    Hangup,
}

/// A SIGHUP ends a process that does not listen to it; from here on it is listened to.
///
/// # Errors
/// When the signal handler cannot be installed.
pub(crate) fn hangups() -> Result<Signal, Fault> {
    signal(SignalKind::hangup())
        .map_err(|error| Fault::running(format!("signals cannot be watched: {error}")))
}

/// Watches the file that `loaded` came from until it is dropped; `changed` puts in force what is
/// good and what `judge` does not refuse.
pub(crate) async fn watch(
    loader: Loader,
    loaded: Loaded,
    mut hangups: Signal,
    judge: impl Fn(&Config) -> Result<(), String> + Clone + Send + 'static,
    changed: impl Fn(&Config) + Send,
) {
    let mut watcher = Watcher::new(loader, loaded);
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let occasion = tokio::select! {
            _ = ticks.tick() => Occasion::Tick,
            _ = hangups.recv() => Occasion::Hangup,
        };
        if occasion == Occasion::Hangup {
            service_manager::tell(State::Reloading);
        }
        // The file may lie on a disk that takes its time, and so may those that it names.
        let judge = judge.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let now = Instant::now().into_std();
            let change = match occasion {
                Occasion::Tick => watcher.look(now, judge),
                Occasion::Hangup => watcher.reload(now, judge),
            };
            (watcher, change)
        });
        let Ok((back, change)) = looked.await else { return };
        watcher = back;
        if occasion == Occasion::Hangup {
            service_manager::tell(State::Ready);
        }
        match change {
            Some(change) => {
                if let Change::Taken { loaded, .. } = &change {
                    changed(&loaded.config);
                }
                tell(&change, watcher.in_force());
            }
            None if occasion == Occasion::Hangup => tracing::info!("configuration unchanged"),
            None => {}
        }
    }
}

fn tell(change: &Change, in_force: &Loaded) {
    let file = in_force.path.display();
    match change {
        Change::Taken { keys, restart, .. } => {
            tracing::info!(%file, keys = keys.join(", "), "configuration changed and in force");
            if !restart.is_empty() {
                let keys = restart.join(", ");
                tracing::warn!(%file, keys, "these changes need a restart");
            }
        }
        Change::Restored => tracing::info!(%file, "configuration is again what it was"),
        Change::Refused(errors) => {
            let why = errors.summary();
            tracing::error!(%file, why, "configuration refused; the last good one stays");
        }
    }
}
