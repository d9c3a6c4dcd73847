//! Gauges: what metrics say of the workers right now.
//!
//! Gauges of the fleet are computed at each scrape; updating them with every request would cost
//! each request what only a scrape needs. The core is locked while figures are copied, and not
//! while they are entered.

use overdraft_core::admit::Priority;
use overdraft_core::fleet::{Worker, WorkerId};
use overdraft_telemetry::metrics::{PrefixGauges, StoreGauges, WorkerGauges, WorkerPressure};

use super::Gateway;
use crate::cascade;
use crate::dispatch::{WaitQueue, explain};
use crate::fleet::{maintenance, scaling};

/// Sets the gauges of routing anew.
pub(crate) fn set(gateway: &Gateway) {
    let dispatcher = &gateway.dispatcher;
    let now = dispatcher.clock.now();
    let router = dispatcher.view();
    let fleet_pace = router.fleet().prefill_rate().pace();
    let gauges = |(id, worker): (WorkerId, &Worker)| {
        let up = worker.health().is_up() && !worker.is_draining();
        let gauges = WorkerGauges {
            worker: dispatcher.upstream(id).name().to_owned(),
            requests: worker.requests(),
            requests_foreign: worker.requests_all() - worker.requests(),
            tokens: worker.tokens(),
            queued_tokens: worker.queued(worker.prefill_rate().pace_within(fleet_pace), now),
            kv_used: worker.kv_used(),
            kv_capacity: worker.kv_capacity(),
            staleness: worker.staleness(now),
            prefill_rate: worker.prefill_rate().tokens_per_second(),
            knowledge: explain::knowledge(router.prefixes(), id),
        };
        let pressure = WorkerPressure {
            worker: gauges.worker.clone(),
            overcommit_permille: worker.overcommit_permille(),
            peak_permille: peak_permille(worker),
        };
        (up, (worker.breaker().state().name(), gauges, pressure))
    };
    let (ups, told): (Vec<bool>, Vec<_>) = router.fleet().workers().map(gauges).unzip();
    let memory = router.prefixes().memory();
    let (lengths, waiting_tokens) = WaitQueue::lengths(router.queue());
    drop(router);
    gateway.pipeline.requests.forget_workers();
    for (up, (_, one, _)) in ups.into_iter().zip(&told) {
        gateway.pipeline.requests.worker_inflight(&one.worker, one.requests);
        gateway.pipeline.requests.worker_up(&one.worker, up);
    }
    let names = Priority::ALL.map(Priority::name);
    let queue = names.into_iter().zip(lengths);
    let pressures: Vec<WorkerPressure> = told.iter().map(|(_, _, one)| one.clone()).collect();
    gateway.pipeline.admission.set(queue, waiting_tokens, &pressures);
    let breakers = told.iter().map(|(state, one, _)| (one.worker.as_str(), *state));
    dispatcher.metrics.breaker.set(breakers, &store(gateway));
    let gauges: Vec<WorkerGauges> = told.into_iter().map(|(_, one, _)| one).collect();
    let pieces = gateway.fleet.tokenizers.pieces().counts();
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let index = PrefixGauges {
        bytes: count(memory.bytes),
        keys: count(memory.keys),
        piece_bytes: pieces.bytes,
        pieces: [pieces.hits, pieces.misses],
        remote_prompts: gateway.fleet.tokenizers.remote().counts(),
    };
    dispatcher.metrics.routing.set(&gauges, index);
    cascade::set_gauges(&gateway.cascade);
    gateway.pipeline.canaries.set_gauges();
    gateway.cache.metrics.set(&gateway.cache.gauges(), dispatcher.clock.now());
    gateway
        .fleet
        .metrics
        .set(&scaling::pools(&gateway.fleet), &maintenance::memory_gauges(&gateway.fleet));
}

/// What a worker is predicted to hold at most, over what it can, in thousandths.
fn peak_permille(worker: &Worker) -> Option<u64> {
    let capacity = u64::from(worker.kv_capacity()?.get());
    worker.predicted_peak().mean.saturating_mul(1_000).checked_div(capacity)
}

fn store(gateway: &Gateway) -> StoreGauges {
    StoreGauges {
        degraded: gateway.store.is_degraded(),
        gateways: gateway.store.gateways(),
        faults: gateway.store.faults().map(|(fault, count)| (fault.name(), count)).collect(),
        mended: gateway.store.mended(),
    }
}
