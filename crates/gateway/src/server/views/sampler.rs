//! Sampler: what happened in the last second, and what holds now that an operator should know.
//!
//! The gateway samples itself, so that a graph has a past when the page is opened. A second's requests
//! are read off the log; where more end in one second than the log keeps, the sample counts all of them
//! and takes its times from those that are kept.

use std::sync::Arc;
use std::time::Duration;

use overdraft_dash::conditions::{Facts, conditions};
use overdraft_dash::views::{Sample, WorkerRow};
use overdraft_telemetry::unix_milliseconds;
use overdraft_units::Micros;

use super::fleet::{self, Depth};
use super::request_filter::{is_failed, is_refused};
use super::{ms, quantile, subjects};
use crate::cascade;
use crate::dispatch::WaitQueue;
use crate::pipeline::request_log::Logged;
use crate::server::Gateway;
use crate::server::history::Ends;
use crate::settings::Pool;

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Samples once a second while the dashboard is on. The background owns this.
pub(crate) async fn keep(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if gateway.settings.settings().dashboard.is_on {
            sample(&gateway);
        }
    }
}

fn sample(gateway: &Gateway) {
    let rows = fleet::rows(gateway, Depth::Plain);
    let history = &gateway.history;
    let next_before = history.next();
    let (logged, next) = gateway.pipeline.log.since(next_before);
    let mut sample = of_requests(&logged);
    sample.at_ms = unix_milliseconds();
    sample.ended = u32::try_from(next.saturating_sub(next_before)).unwrap_or(u32::MAX);
    add_fleet(gateway, &rows, &mut sample);
    let speculation = subjects::speculation_rows(gateway);
    history.take(sample, next, &rows, &speculation);
    let Ends { ended, refused, failed } = history.ends();
    let found = conditions(&Facts {
        workers: &rows,
        sources: &fleet::sources(gateway),
        store: Some(&fleet::store(gateway)),
        cascades: &cascade::rows(&gateway.cascade, gateway.dispatcher.clock.now()),
        speculation: &speculation,
        ended_5m: ended,
        refused_5m: refused,
        failed_5m: failed,
    });
    history.hold(found, unix_milliseconds());
}

/// What the requests tell that ended in one second.
fn of_requests(logged: &[Arc<Logged>]) -> Sample {
    let count = |holds: fn(&Logged) -> bool| {
        u32::try_from(logged.iter().filter(|one| holds(one)).count()).unwrap_or(u32::MAX)
    };
    let sum = |tokens: fn(&Logged) -> Option<overdraft_units::Tokens>| {
        logged
            .iter()
            .filter_map(|one| tokens(one))
            .fold(0_u32, |sum, tokens| sum.saturating_add(tokens.get()))
    };
    let mut first: Vec<Micros> = logged.iter().filter_map(|one| one.first_token).collect();
    first.sort_unstable();
    let mut each: Vec<Micros> = logged.iter().filter_map(|one| between_tokens(one)).collect();
    each.sort_unstable();
    Sample {
        ended: u32::try_from(logged.len()).unwrap_or(u32::MAX),
        refused: count(is_refused),
        failed: count(is_failed),
        ttft_p50_ms: quantile(&first, 500).map(ms),
        ttft_p95_ms: quantile(&first, 950).map(ms),
        tpot_p50_ms: quantile(&each, 500).map(ms),
        completion_tokens: sum(|one| one.completion),
        prompt_tokens: sum(|one| one.prompt),
        cached_tokens: sum(|one| one.cached),
        ..Sample::default()
    }
}

/// The mean time between two tokens of a streamed answer.
fn between_tokens(logged: &Logged) -> Option<Micros> {
    let (first, count) = (logged.first_token?, logged.completion?.get());
    let rest = u64::from(count.checked_sub(1)?);
    logged.total.get().saturating_sub(first.get()).checked_div(rest).map(Micros::new)
}

fn add_fleet(gateway: &Gateway, rows: &[WorkerRow], sample: &mut Sample) {
    let (lengths, _) = WaitQueue::lengths(gateway.dispatcher.view().queue());
    sample.waiting = u32::try_from(lengths.iter().sum::<usize>()).unwrap_or(u32::MAX);
    sample.serving = rows.iter().map(|row| row.requests).sum();
    let used = |pool: Pool| {
        let (capacity, used) = fleet::memory(rows.iter().filter(|row| row.pool == pool.name()));
        let permille = used.saturating_mul(1_000).checked_div(capacity)?;
        u32::try_from(permille).ok()
    };
    sample.kv_target_permille = used(Pool::Target);
    sample.kv_draft_permille = used(Pool::Draft);
}

#[cfg(test)]
mod tests {
    use overdraft_units::Tokens;

    use super::*;

    #[test]
    fn a_second_is_told_by_its_requests() {
        let one = |first: u64, total: u64| {
            Arc::new(Logged {
                first_token: Some(Micros::new(first * 1_000)),
                total: Micros::new(total * 1_000),
                completion: Some(Tokens::new(11)),
                end: overdraft_telemetry::EndCode::WHOLE,
                ..Logged::default()
            })
        };
        let sample = of_requests(&[one(100, 300), one(200, 600)]);
        assert_eq!((sample.ended, sample.refused, sample.completion_tokens), (2, 0, 22));
        assert_eq!((sample.ttft_p50_ms, sample.ttft_p95_ms), (Some(100.0), Some(200.0)));
        assert_eq!(sample.tpot_p50_ms, Some(20.0));
    }
}
