//! Who carries out repairs?
//!
//! One task asks the core twice a second what is to be done and does it: begins and ends drains,
//! and calls restart hooks, each in a task that this one owns.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::fleet::{Probe, WorkerId};
use overdraft_core::fragment::{Cure, Hooked, Outcome, Place, Step};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::hook::{Occasion, call};
use crate::settings::Pool;
use crate::shared::Shared;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Repairs what needs it until it is dropped.
pub(crate) async fn keep(shared: Arc<Shared>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // At most one to a pool.
    let mut hooks = JoinSet::new();
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            Some(called) = hooks.join_next() => {
                if let Ok((worker, said)) = called {
                    hooked(&shared, worker, said);
                }
            }
        }
        while let Some((worker, step)) = next(&shared) {
            take(&shared, worker, step, &mut hooks);
        }
    }
}

fn next(shared: &Shared) -> Option<(WorkerId, Step)> {
    let settings = shared.settings().repair;
    let now = shared.clock.now();
    let place = |id| {
        let member = shared.roster.member(id);
        let cure = match member.settings.care.restart {
            Some(_) => Cure::Restart,
            None => Cure::Nothing,
        };
        let pool = match member.settings.pool {
            Pool::Target => 0,
            Pool::Draft => 1,
        };
        Place { pool, cure }
    };
    let mut router = shared.router();
    let next = shared.repairs.watch().look(router.fleet(), place, &settings, now);
    match next {
        Some((worker, Step::Drain { .. })) => router.drain(worker),
        Some((worker, Step::Rejoin(_))) => router.rejoin(worker),
        _ => {}
    }
    next
}

fn take(
    shared: &Arc<Shared>,
    worker: WorkerId,
    step: Step,
    hooks: &mut JoinSet<(WorkerId, Hooked)>,
) {
    let member = shared.roster.member(worker);
    let name = member.upstream.name();
    match step {
        Step::Drain { drift_permille } => {
            tracing::warn!(
                worker = name,
                drift_permille,
                "its memory has fragmented: it is drained and will be restarted"
            );
        }
        Step::Restart => {
            let Some(hook) = member.settings.care.restart.clone() else { return };
            tracing::warn!(worker = name, "restarting it");
            let occasion = Occasion {
                worker: name.to_owned(),
                url: member.settings.url.clone(),
                pool: member.settings.pool.name(),
                reason: "memory_fragmentation",
            };
            hooks.spawn(async move { (worker, call(&hook, &occasion).await) });
        }
        Step::Rejoin(outcome) => {
            shared.care.repaired(outcome);
            if outcome == Outcome::Restarted {
                tracing::info!(worker = name, "it runs afresh and is sent requests again");
            } else {
                tracing::warn!(
                    worker = name,
                    outcome = outcome.name(),
                    "it was not restarted; it is sent requests again"
                );
            }
        }
    }
}

fn hooked(shared: &Shared, worker: WorkerId, said: Hooked) {
    let member = shared.router().fleet().is_member(worker);
    if said == Hooked::Gone && member {
        // Before anybody takes the word of the old process, which is gone, for the new one's.
        shared.probed(worker, Probe::Unreachable);
    }
    shared.repairs.watch().hooked(worker, said);
}
