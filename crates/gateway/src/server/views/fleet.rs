//! Fleet view: every worker as the router sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use overdraft_core::fleet::{Health, Worker, WorkerId};
use overdraft_core::route::Router;
use overdraft_dash::views::{FleetView, SourceRow, StoreRow, WorkerRow};
use overdraft_telemetry::unix_milliseconds;
use overdraft_units::{Instant, Micros};

use super::request_filter::failed_at;
use super::{ms, quantile};
use crate::dispatch::explain;
use crate::server::Gateway;

/// Workers that are read while the core is locked once.
const LOCKED_MAX: usize = 16;

/// A report is late once so many should have come since, and never before this.
const LATE_INTERVALS: u32 = 3;
const LATE_AFTER: Duration = Duration::from_secs(5);

/// Requests of the log from which a worker's times are taken.
const RECENT: u64 = 2_000;

/// What is read of each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// What costs little.
    Plain,
    /// The predicted peak of its memory as well.
    WithPeak,
}

/// The workers, where they come from, and what gateways share.
pub(super) fn view(gateway: &Gateway) -> FleetView {
    let mut workers = rows(gateway, Depth::WithPeak);
    add_times(gateway, &mut workers);
    FleetView {
        at_ms: unix_milliseconds(),
        workers,
        sources: sources(gateway),
        store: store(gateway),
        valve_permille: 1_000,
    }
}

/// Each worker, in the order they joined.
pub(super) fn rows(gateway: &Gateway, depth: Depth) -> Vec<WorkerRow> {
    let now = gateway.dispatcher.clock.now();
    let ids: Vec<WorkerId> =
        gateway.dispatcher.view().fleet().workers().map(|(id, _)| id).collect();
    let mut rows = Vec::with_capacity(ids.len());
    for some in ids.chunks(LOCKED_MAX) {
        let router = gateway.dispatcher.view();
        let members = some.iter().filter(|id| router.fleet().is_member(**id));
        rows.extend(members.map(|&id| row(gateway, &router, id, depth, now)));
    }
    rows
}

fn row(gateway: &Gateway, router: &Router, id: WorkerId, depth: Depth, now: Instant) -> WorkerRow {
    let worker = router.fleet().worker(id);
    let member = gateway.dispatcher.member(id);
    let pace = worker.prefill_rate().pace_within(router.fleet().prefill_rate().pace());
    let scraped = worker.scraped();
    WorkerRow {
        worker: member.upstream.name().to_owned(),
        url: member.settings.url.clone(),
        pool: member.settings.pool.name().to_owned(),
        models: worker.models().to_vec(),
        state: state(worker).to_owned(),
        breaker: worker.breaker().state().name().to_owned(),
        requests: worker.requests(),
        requests_foreign: worker.requests_all().saturating_sub(worker.requests()),
        running: scraped.map(|scraped| scraped.running),
        waiting: scraped.map(|scraped| scraped.waiting),
        kv_capacity_tokens: worker.kv_capacity().map(|tokens| tokens.get().into()),
        kv_used_tokens: worker.kv_used(),
        kv_booked_tokens: worker.tokens(),
        kv_peak_tokens: (depth == Depth::WithPeak).then(|| worker.predicted_peak().mean),
        overcommit_permille: worker.overcommit_permille(),
        queued_tokens: worker.queued(pace, now),
        prefill_tokens_per_second: worker.prefill_rate().tokens_per_second(),
        knows: explain::knowledge(router.prefixes(), id).to_owned(),
        prefix_tokens: router.prefix_tokens(id),
        age_ms: worker.staleness(now).map(|age| age.get() / 1_000),
        is_late: is_late(gateway, worker, now),
        preemptions: scraped.and_then(|scraped| scraped.preemptions),
        draft_depth: member.report().and_then(|report| report.draft_depth),
        ..WorkerRow::default()
    }
}

/// Whether several of its reports have not come: one without requests is asked rarely.
fn is_late(gateway: &Gateway, worker: &Worker, now: Instant) -> bool {
    let scrape = gateway.settings.settings().scrape;
    let is_busy = 0 < worker.requests_all();
    let interval = if is_busy { scrape.interval } else { scrape.idle_interval };
    let patience = LATE_AFTER.max(interval * LATE_INTERVALS);
    worker.staleness(now).is_some_and(|age| patience < Duration::from(age))
}

fn state(worker: &Worker) -> &'static str {
    match worker.health() {
        Health::Failing { cause, .. } => cause.name(),
        _ if worker.is_draining() => "draining",
        Health::Unproven => "unproven",
        Health::Up { .. } => "up",
    }
}

/// Adds what the log of requests tells of each worker.
fn add_times(gateway: &Gateway, rows: &mut [WorkerRow]) {
    let log = &gateway.pipeline.log;
    let (_, next) = log.since(u64::MAX);
    let (recent, _) = log.since(next.saturating_sub(RECENT));
    let mut by_worker: BTreeMap<&str, (Vec<Micros>, u32)> = BTreeMap::new();
    for one in &recent {
        if let Some(worker) = one.worker.as_deref() {
            by_worker.entry(worker).or_default().0.extend(one.first_token);
        }
        for worker in failed_at(one) {
            by_worker.entry(worker).or_default().1 += 1;
        }
    }
    for row in rows {
        let Some((times, failed)) = by_worker.get_mut(row.worker.as_str()) else { continue };
        times.sort_unstable();
        row.ttft_p50_ms = quantile(times, 500).map(ms);
        row.ttft_p95_ms = quantile(times, 950).map(ms);
        row.failed_recently = *failed;
    }
}

/// The workers that are worst off: first those that take no requests, then the fullest.
pub(super) fn worst(mut rows: Vec<WorkerRow>, most: usize) -> Vec<WorkerRow> {
    let rank = |row: &WorkerRow| {
        let is_well = row.state == "up" && row.breaker == "closed";
        let use_permille = row
            .kv_used_tokens
            .zip(row.kv_capacity_tokens)
            .and_then(|(used, capacity)| used.saturating_mul(1_000).checked_div(capacity));
        (is_well, u64::MAX - use_permille.unwrap_or(0), u32::MAX - row.requests)
    };
    rows.sort_by_key(rank);
    rows.truncate(most);
    rows
}

pub(super) fn sources(gateway: &Gateway) -> Vec<SourceRow> {
    let standings = gateway.fleet.sources.standings().into_iter();
    let source = |(name, since, error): (String, Duration, Option<String>)| SourceRow {
        name,
        for_seconds: since.as_secs(),
        error,
    };
    standings.map(source).collect()
}

pub(super) fn store(gateway: &Gateway) -> StoreRow {
    StoreRow {
        place: gateway.settings.settings().store.place.to_string(),
        degraded: gateway.store.is_degraded(),
        gateways: gateway.store.gateways(),
    }
}

/// Tokens that all caches of a pool have room for, and those in use.
pub(super) fn memory<'a>(rows: impl Iterator<Item = &'a WorkerRow>) -> (u64, u64) {
    let known = rows.filter_map(|row| row.kv_capacity_tokens.zip(row.kv_used_tokens));
    known.fold((0, 0), |(capacity, used), (room, taken)| (capacity + room, used + taken.min(room)))
}
