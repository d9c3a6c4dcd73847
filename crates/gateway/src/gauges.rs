//! What do metrics say of the workers right now?
//!
//! Gauges of the fleet are read off when somebody asks; counting them along would cost each request
//! what only a scrape needs. The core is locked while figures are copied, and not while they are
//! entered.

use overdraft_core::fleet::{Worker, WorkerId};
use overdraft_telemetry::metrics::{PrefixGauges, StoreGauges, WorkerGauges};

use crate::explain;
use crate::shared::Shared;

/// Sets the gauges of routing anew.
pub(crate) fn set(shared: &Shared) {
    let now = shared.clock.now();
    let router = shared.router();
    let fleet_pace = router.fleet().prefill_rate().pace();
    let gauges = |(id, worker): (WorkerId, &Worker)| {
        let up = worker.health().is_up() && !worker.is_draining();
        let gauges = WorkerGauges {
            worker: shared.upstream(id).name().to_owned(),
            requests: worker.requests(),
            requests_foreign: worker.requests_all() - worker.requests(),
            tokens: worker.tokens(),
            queued_tokens: worker.queued(worker.prefill_rate().pace_within(fleet_pace), now),
            kv_used: worker.kv_used(),
            kv_capacity: worker.kv_capacity(),
            staleness: worker.staleness(now),
            prefill_rate: worker.prefill_rate().tokens_per_second(),
            knowledge: explain::knowledge(router.prefixes().knowledge(id)),
        };
        (up, worker.breaker().state().name(), gauges)
    };
    let workers: Vec<(bool, &'static str, WorkerGauges)> =
        router.fleet().workers().map(gauges).collect();
    let memory = router.prefixes().memory();
    drop(router);
    shared.metrics.forget_workers();
    for (up, _, one) in &workers {
        shared.metrics.worker_inflight(&one.worker, one.requests);
        shared.metrics.worker_up(&one.worker, *up);
    }
    let breakers = workers.iter().map(|(_, state, one)| (one.worker.as_str(), *state));
    shared.sharing.set(breakers, &store(shared));
    let gauges: Vec<WorkerGauges> = workers.into_iter().map(|(_, _, one)| one).collect();
    let pieces = shared.tokenizers.pieces().counts();
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let index = PrefixGauges {
        bytes: count(memory.bytes),
        keys: count(memory.keys),
        piece_bytes: pieces.bytes,
        pieces: [pieces.hits, pieces.misses],
    };
    shared.routing.set(&gauges, index);
}

fn store(shared: &Shared) -> StoreGauges {
    StoreGauges {
        degraded: shared.store.is_degraded(),
        gateways: shared.store.gateways(),
        faults: shared.store.faults().map(|(fault, count)| (fault.name(), count)).collect(),
        mended: shared.store.mended(),
    }
}
