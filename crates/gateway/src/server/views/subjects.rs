//! Views of one subject each: queue, cache, cascade, speculation, cost.

use std::collections::BTreeMap;

use overdraft_core::admit::Priority;
use overdraft_core::fleet::WorkerId;
use overdraft_core::route::PrefixFate;
use overdraft_dash::views::{
    CacheView, CascadeView, CostRow, CostView, PoolCostRow, QueueView, Refusals, SpeculationRow,
    SpeculationView, Waiting,
};
use overdraft_telemetry::metrics::PoolHours;
use overdraft_telemetry::unix_milliseconds;
use overdraft_units::Tokens;
use overdraft_wire::prometheus::engine::WorkerReport;

use crate::cascade;
use crate::dispatch::WaitQueue;
use crate::pipeline::request_log::{Usage, UsageKey, UsageOfDay, UsageSum};
use crate::server::Gateway;
use crate::server::history::Drafted;
use crate::settings::{GatewaySettings, Pool};

const DAY_MS: u64 = 86_400_000;

/// Seconds of an hour.
const HOUR: f64 = 3_600.0;

/// Who waits, and who was refused.
pub(super) fn queue(gateway: &Gateway) -> QueueView {
    let (lengths, waiting_tokens) = WaitQueue::lengths(gateway.dispatcher.view().queue());
    let waiting = Priority::ALL.into_iter().zip(lengths).rev();
    let refusals = gateway.pipeline.log.refusals().into_iter();
    QueueView {
        at_ms: unix_milliseconds(),
        waiting: waiting
            .map(|(priority, requests)| Waiting { priority: priority.name().to_owned(), requests })
            .collect(),
        waiting_tokens,
        refusals: refusals
            .map(|((reason, priority), requests)| Refusals {
                reason: reason.to_owned(),
                priority: priority.to_owned(),
                requests,
            })
            .collect(),
        started_ms: gateway.started_ms,
    }
}

/// What reuse brings.
pub(super) fn cache(gateway: &Gateway) -> CacheView {
    let mut view = gateway.cache.view();
    view.at_ms = unix_milliseconds();
    for (_, report) in reports(gateway) {
        view.prefix_queried_tokens += report.prefix_queries.unwrap_or(0);
        view.prefix_hit_tokens += report.prefix_hits.unwrap_or(0);
    }
    let (logged, _) = gateway.pipeline.log.since(0);
    let mut fates: BTreeMap<&'static str, u64> = BTreeMap::new();
    for one in &logged {
        let tokens = |count: Option<Tokens>| u64::from(count.unwrap_or_default().get());
        view.recent_prompt_tokens += tokens(one.prompt);
        view.recent_cached_tokens += tokens(one.cached);
        let decided = one.trail.notes().iter().rev().find_map(|note| note.prefix);
        if let Some(fate) = decided.map(PrefixFate::name) {
            *fates.entry(fate).or_default() += 1;
        }
    }
    view.fates = fates.into_iter().map(|(fate, count)| (fate.to_owned(), count)).collect();
    view
}

/// Every cascade.
pub(super) fn cascade(gateway: &Gateway) -> CascadeView {
    let cascades = cascade::rows(&gateway.cascade, gateway.dispatcher.clock.now());
    CascadeView { at_ms: unix_milliseconds(), cascades }
}

/// Every worker that guesses ahead.
pub(super) fn speculation(gateway: &Gateway) -> SpeculationView {
    SpeculationView { at_ms: unix_milliseconds(), workers: speculation_rows(gateway) }
}

pub(super) fn speculation_rows(gateway: &Gateway) -> Vec<SpeculationRow> {
    let row = |(id, report): (WorkerId, WorkerReport)| {
        let draft_tokens = report.draft_tokens?;
        let accepted_tokens = report.accepted_tokens.unwrap_or(0);
        let worker = gateway.dispatcher.upstream(id).name().to_owned();
        let recent = gateway
            .history
            .drafted(&worker, Drafted { drafted: draft_tokens, accepted: accepted_tokens });
        let router = gateway.dispatcher.view();
        Some(SpeculationRow {
            models: router.fleet().worker(id).models().to_vec(),
            requests: router.fleet().worker(id).requests_all(),
            drafts: report.drafts.unwrap_or(0),
            draft_tokens,
            accepted_tokens,
            accepted_by_position: report.accepted_by_position,
            acceptance_5m: recent.and_then(|recent| share(recent.accepted, recent.drafted)),
            drafted_5m: recent.map(|recent| recent.drafted),
            depth: report.draft_depth,
            policy: report.draft_policy,
            reason: report.draft_reason,
            worker,
        })
    };
    reports(gateway).into_iter().filter_map(row).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (0 < whole).then(|| part as f64 / whole as f64)
}

/// What each engine last reported of itself.
fn reports(gateway: &Gateway) -> Vec<(WorkerId, WorkerReport)> {
    let ids: Vec<WorkerId> =
        gateway.dispatcher.view().fleet().workers().map(|(id, _)| id).collect();
    let report = |id: WorkerId| Some((id, gateway.dispatcher.member(id).report()?));
    ids.into_iter().filter_map(report).collect()
}

/// Use and cost, today and the day before.
pub(super) fn cost(gateway: &Gateway) -> CostView {
    let usage = gateway.pipeline.log.usage();
    let at_ms = unix_milliseconds();
    let today = at_ms / DAY_MS;
    let Usage { today: latest, yesterday } = usage;
    let (latest_day, day_before) = (latest.day, yesterday.day);
    let days = [(latest_day, rows(latest)), (day_before, rows(yesterday))];
    let of = |day: u64| {
        let known = days.iter().find(|(known, _)| *known == day);
        known.map(|(_, rows)| rows.clone()).unwrap_or_default()
    };
    let pools = gateway.fleet.hours.pools().into_iter();
    CostView {
        at_ms,
        since_ms: (today * DAY_MS).max(gateway.started_ms),
        has_prices: has_prices(&gateway.settings.settings()),
        pools: pools.map(|(pool, (workers, hours))| pool_cost(pool, workers, hours)).collect(),
        today: of(today),
        yesterday: of(today.saturating_sub(1)),
    }
}

fn has_prices(settings: &GatewaySettings) -> bool {
    !settings.prices.is_empty() || settings.cascades.values().any(|one| one.prices.is_some())
}

fn pool_cost(pool: Pool, workers: u32, hours: PoolHours) -> PoolCostRow {
    PoolCostRow {
        pool: pool.name().to_owned(),
        workers,
        worker_hours: hours.worker_seconds / HOUR,
        idle_hours: hours.idle_seconds / HOUR,
        dollars_per_hour: hours.dollars_per_hour,
        dollars: hours.dollars,
    }
}

fn rows(day: UsageOfDay) -> Vec<CostRow> {
    let row = |(key, sum): (UsageKey, UsageSum)| CostRow {
        tenant: key.tenant.as_ref().to_owned(),
        model: key.model.into(),
        by: key.by.to_owned(),
        requests: sum.requests,
        prompt_tokens: sum.prompt,
        cached_tokens: sum.cached,
        completion_tokens: sum.completion,
        priced: sum.priced,
        cost_microusd: sum.cost,
        cost_target_only_microusd: sum.cost_alone,
    };
    day.rows.into_iter().map(row).collect()
}
