//! What do metrics say of the workers right now?
//!
//! Gauges of the fleet are read off when somebody asks; counting them along would cost each request
//! what only a scrape needs.

use std::sync::Arc;

use overdraft_core::fleet::{Worker, WorkerId};
use overdraft_telemetry::metrics::{PrefixGauges, WorkerGauges};

use crate::explain;
use crate::shared::Shared;
use crate::upstream::Upstream;

/// Sets the gauges of routing anew.
pub(crate) fn set(shared: &Shared) {
    let now = shared.clock.now();
    let router = shared.router();
    let fleet_pace = router.fleet().prefill_rate().pace();
    let members: Vec<(WorkerId, &Worker, Arc<Upstream>)> =
        router.fleet().workers().map(|(id, worker)| (id, worker, shared.upstream(id))).collect();
    shared.metrics.forget_workers();
    for (_, worker, upstream) in &members {
        let up = worker.health().is_up() && !worker.is_draining();
        shared.metrics.worker_inflight(upstream.name(), worker.requests());
        shared.metrics.worker_up(upstream.name(), up);
    }
    let gauges = members.iter().map(|(id, worker, upstream)| WorkerGauges {
        worker: upstream.name(),
        requests: worker.requests(),
        requests_foreign: worker.requests_all() - worker.requests(),
        tokens: worker.tokens(),
        queued_tokens: worker.queued(worker.prefill_rate().pace_within(fleet_pace), now),
        kv_used: worker.kv_used(),
        kv_capacity: worker.kv_capacity(),
        staleness: worker.staleness(now),
        prefill_rate: worker.prefill_rate().tokens_per_second(),
        knowledge: explain::knowledge(router.prefixes().knowledge(*id)),
    });
    let memory = router.prefixes().memory();
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let pieces = shared.tokenizers.pieces().counts();
    let index = PrefixGauges {
        bytes: count(memory.bytes),
        keys: count(memory.keys),
        piece_bytes: pieces.bytes,
        pieces: [pieces.hits, pieces.misses],
    };
    shared.routing.set(gauges, index);
}
