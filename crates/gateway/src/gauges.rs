//! What do metrics say of the workers right now?
//!
//! Gauges of the fleet are read off when somebody asks; counting them along would cost each request
//! what only a scrape needs. The core is locked while figures are copied, and not while they are
//! entered.

use overdraft_core::admit::Priority;
use overdraft_core::fleet::{Worker, WorkerId};
use overdraft_telemetry::metrics::{PrefixGauges, StoreGauges, WorkerGauges, WorkerPressure};

use crate::admission::Lobby;
use crate::shared::Shared;
use crate::{care, cascade, explain, scaling};

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
        let pressure = WorkerPressure {
            worker: gauges.worker.clone(),
            overcommit_permille: worker.overcommit_permille(),
            peak_permille: peak_permille(worker),
        };
        (up, (worker.breaker().state().name(), gauges, pressure))
    };
    let (ups, told): (Vec<bool>, Vec<_>) = router.fleet().workers().map(gauges).unzip();
    let memory = router.prefixes().memory();
    let (lengths, waiting_tokens) = Lobby::lengths(router.queue());
    drop(router);
    shared.metrics.forget_workers();
    for (up, (_, one, _)) in ups.into_iter().zip(&told) {
        shared.metrics.worker_inflight(&one.worker, one.requests);
        shared.metrics.worker_up(&one.worker, up);
    }
    let names = Priority::ALL.map(Priority::name);
    let queue = names.into_iter().zip(lengths);
    let pressures: Vec<WorkerPressure> = told.iter().map(|(_, _, one)| one.clone()).collect();
    shared.admission.set(queue, waiting_tokens, &pressures);
    let breakers = told.iter().map(|(state, one, _)| (one.worker.as_str(), *state));
    shared.sharing.set(breakers, &store(shared));
    let gauges: Vec<WorkerGauges> = told.into_iter().map(|(_, one, _)| one).collect();
    let pieces = shared.tokenizers.pieces().counts();
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let index = PrefixGauges {
        bytes: count(memory.bytes),
        keys: count(memory.keys),
        piece_bytes: pieces.bytes,
        pieces: [pieces.hits, pieces.misses],
    };
    shared.routing.set(&gauges, index);
    cascade::set_gauges(shared);
    shared.trials.set_gauges();
    shared.cache.metrics.set(&shared.cache.gauges(), shared.clock.now());
    shared.care.set(&scaling::pools(shared), &care::memory_gauges(shared));
}

/// What a worker is predicted to hold at most, over what it can, in thousandths.
fn peak_permille(worker: &Worker) -> Option<u64> {
    let capacity = u64::from(worker.kv_capacity()?.get());
    worker.predicted_peak().mean.saturating_mul(1_000).checked_div(capacity)
}

fn store(shared: &Shared) -> StoreGauges {
    StoreGauges {
        degraded: shared.store.is_degraded(),
        gateways: shared.store.gateways(),
        faults: shared.store.faults().map(|(fault, count)| (fault.name(), count)).collect(),
        mended: shared.store.mended(),
    }
}
