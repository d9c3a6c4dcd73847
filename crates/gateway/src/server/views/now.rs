//! Now view: is it fine, and if not, what is not?

use overdraft_dash::views::{NowView, PoolRow, WorkerRow};
use overdraft_telemetry::unix_milliseconds;
use overdraft_units::Micros;

use super::fleet::{self, Depth};
use super::{ms, quantile, subjects};
use crate::dispatch::WaitQueue;
use crate::server::Gateway;
use crate::server::history::{WINDOW, unix_ms};
use crate::settings::Pool;

/// Workers that are listed as the worst off.
const WORST_MAX: usize = 10;

const WINDOW_MS: u64 = 1_000 * WINDOW as u64;

/// The state of all in one look.
pub(super) fn view(gateway: &Gateway) -> NowView {
    let rows = fleet::rows(gateway, Depth::Plain);
    let history = &gateway.history;
    let ends = history.ends();
    let (lengths, _) = WaitQueue::lengths(gateway.dispatcher.view().queue());
    let first = first_tokens(gateway);
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    NowView {
        at_ms: unix_milliseconds(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms: gateway.started_ms,
        gateways: gateway.store.gateways().max(1),
        serving: rows.iter().map(|row| u64::from(row.requests)).sum(),
        waiting: count(lengths.iter().sum()),
        refused_5m: ends.refused,
        ended_5m: ends.ended,
        failed_5m: ends.failed,
        ttft_p50_ms: quantile(&first, 500).map(ms),
        ttft_p95_ms: quantile(&first, 950).map(ms),
        usd_per_million_tokens: dollars(gateway),
        pools: pools(&rows),
        conditions: history.conditions(),
        workers: rows.len(),
        worst: fleet::worst(rows, WORST_MAX),
        sample: history.latest(),
    }
}

/// Times to the first token of the requests of the last five minutes that are kept, in order.
fn first_tokens(gateway: &Gateway) -> Vec<Micros> {
    let from = unix_milliseconds().saturating_sub(WINDOW_MS);
    let (logged, _) = gateway.pipeline.log.since(0);
    let recent = logged.iter().take_while(|one| from <= unix_ms(one.ended_at));
    let mut times: Vec<Micros> = recent.filter_map(|one| one.first_token).collect();
    times.sort_unstable();
    times
}

fn pools(rows: &[WorkerRow]) -> Vec<PoolRow> {
    let of = |pool: Pool| {
        let its = || rows.iter().filter(move |row| row.pool == pool.name());
        let (kv_capacity_tokens, kv_used_tokens) = fleet::memory(its());
        PoolRow {
            pool: pool.name().to_owned(),
            workers: its().count(),
            up: its().filter(|row| row.state == "up" && row.breaker == "closed").count(),
            kv_capacity_tokens,
            kv_used_tokens,
            requests: its().map(|row| u64::from(row.requests)).sum(),
        }
    };
    [Pool::Target, Pool::Draft].map(of).into_iter().filter(|pool| 0 < pool.workers).collect()
}

/// Dollars for a million tokens of the requests of today whose price is known.
#[expect(clippy::cast_precision_loss, reason = "a mean needs no more than 53 bits")]
fn dollars(gateway: &Gateway) -> Option<f64> {
    let priced = subjects::cost(gateway).today.into_iter().filter(|row| 0 < row.priced);
    let (tokens, cost) = priced.fold((0, 0), |(tokens, cost), row| {
        (tokens + row.prompt_tokens + row.completion_tokens, cost + row.cost_microusd)
    });
    // Millionths of a dollar for one token are dollars for a million.
    (0 < tokens).then(|| cost as f64 / tokens as f64)
}
