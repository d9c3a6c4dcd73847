//! Repairs: drains and restarts of workers whose memory has fragmented.
//!
//! One task asks the core twice a second for due actions and executes them: it begins and ends
//! drains, and calls restart hooks, each in a task that it owns.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::fleet::{Probe, WorkerId};
use overdraft_core::memory_drift::{Cure, Hooked, Outcome, Place, Step};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::hook::{Occasion, call};
use crate::fleet::Fleet;
use crate::settings::Pool;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Repairs what needs it until it is dropped.
pub(crate) async fn keep(fleet: Arc<Fleet>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // At most one to a pool.
    let mut hooks = JoinSet::new();
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            Some(called) = hooks.join_next() => {
                if let Ok((worker, said)) = called {
                    hooked(&fleet, worker, said);
                }
            }
        }
        while let Some((worker, step)) = next(&fleet) {
            take(&fleet, worker, step, &mut hooks);
        }
    }
}

fn next(fleet: &Fleet) -> Option<(WorkerId, Step)> {
    let settings = fleet.settings().repair;
    let now = fleet.dispatcher.clock.now();
    let place = |id| {
        let member = fleet.dispatcher.member(id);
        let cure = match member.settings.maintenance.restart {
            Some(_) => Cure::Restart,
            None => Cure::Nothing,
        };
        let pool = match member.settings.pool {
            Pool::Target => 0,
            Pool::Draft => 1,
        };
        Place { pool, cure }
    };
    fleet
        .dispatcher
        .repair(|router| fleet.repairs.watch().look(router.fleet(), place, &settings, now))
}

fn take(fleet: &Arc<Fleet>, worker: WorkerId, step: Step, hooks: &mut JoinSet<(WorkerId, Hooked)>) {
    let member = fleet.dispatcher.member(worker);
    let name = member.upstream.name();
    match step {
        Step::Drain { drift_permille } => {
            tracing::warn!(
                worker = name,
                drift_permille,
                "the worker's memory has fragmented: it is drained and will be restarted"
            );
        }
        Step::Restart => {
            let Some(hook) = member.settings.maintenance.restart.clone() else {
                // It was unset while the worker drained.
                fleet.repairs.watch().hooked(worker, Hooked::Failed);
                return;
            };
            tracing::warn!(worker = name, "worker is being restarted");
            let occasion = Occasion {
                worker: name.to_owned(),
                url: member.settings.url.clone(),
                pool: member.settings.pool.name(),
                reason: "memory_fragmentation",
            };
            hooks.spawn(async move { (worker, call(&hook, &occasion).await) });
        }
        Step::Rejoin(outcome) => {
            fleet.metrics.repaired(outcome);
            if outcome == Outcome::Restarted {
                tracing::info!(
                    worker = name,
                    "worker was restarted; it gets requests again unless it is drained"
                );
            } else {
                tracing::warn!(
                    worker = name,
                    outcome = outcome.name(),
                    "worker was not restarted; it gets requests again unless it is drained"
                );
            }
        }
    }
}

fn hooked(fleet: &Fleet, worker: WorkerId, said: Hooked) {
    let member = fleet.dispatcher.view().fleet().is_member(worker);
    if said == Hooked::Gone && member {
        // Before anybody takes the word of the old process, which is gone, for the new one's.
        fleet.dispatcher.probed(worker, Probe::Unreachable);
    }
    fleet.repairs.watch().hooked(worker, said);
}
