//! Metric scrapes: how loaded each worker is, by its own `/metrics`.
//!
//! One task per worker reads its `/metrics`, often while it has requests of ours and rarely while
//! it has none. An unusable page changes nothing: the last good one stays and ages, and its age is
//! data (C1). Where `scrape.failure` says so, a worker without any page is not eligible. A page
//! that stays the same to the byte while we keep sending requests counts as missing, because its
//! exporter has stopped counting.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use overdraft_core::fleet::{Progress, Scraped, WorkerId};
use overdraft_core::resume::Engine;
use overdraft_units::{Instant, Micros};
use overdraft_wire::prometheus::engine::{Dialect, ReportError, WorkerReport, report_of};
use tokio::time::{sleep, timeout};
use xxhash_rust::xxh3::xxh3_64;

use super::{Fleet, scoring_abilities};
use crate::settings::ScrapeFailure;
use crate::upstream::fetch::{FetchError, fetch};

const METRICS: &str = "/metrics";

/// A page that has not changed for so long, while requests were begun, is frozen.
const FROZEN_AFTER: Micros = Micros::new(10_000_000);

/// Why a scrape taught nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScrapeFault {
    /// It was not had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The worker has no metrics, or they are elsewhere.
    #[error("the answer to /metrics is {0}; expected 200")]
    Status(StatusCode),
    /// It is no page of a known engine's.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// It says the same for ever.
    #[error("the page has not changed to the byte for 10 s, while requests were sent")]
    Frozen,
}

impl ScrapeFault {
    /// Whether nothing was told, and not only nothing that can be read.
    const fn is_silence(&self) -> bool {
        match self {
            Self::Fetch(FetchError::TooLong(_)) | Self::Report(_) | Self::Frozen => false,
            Self::Fetch(_) | Self::Status(_) => true,
        }
    }

    /// As metrics call it.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Fetch(FetchError::TooLong(_)) => "too_long",
            Self::Fetch(FetchError::TimedOut(_)) => "timeout",
            Self::Fetch(_) => "unreachable",
            Self::Status(_) => "status",
            Self::Report(_) => "unreadable",
            Self::Frozen => "frozen",
        }
    }
}

/// Every word that tells what came of a scrape.
pub(crate) const RESULTS: &[&str] =
    &["ok", "too_long", "timeout", "unreachable", "status", "unreadable", "frozen"];

/// What is remembered between scrapes of one worker.
#[derive(Debug, Default)]
struct Memory {
    /// The page's hash, since when it is so, and how many requests the worker had been sent then.
    page: Option<(u64, Instant, u64)>,
    /// The fault told last.
    told: Option<&'static str>,
    /// When it was last asked what it runs.
    asked: Option<Instant>,
    /// What it has computed so far, and since when it is no more though it has work.
    computed: Option<(u64, Instant)>,
    /// Tokens that it had taken in and generated, by its own count, ...
    counted: u64,
    /// ... and how often it was known to have lost its cache then.
    losses: u32,
}

/// Scrapes one worker until it is dropped.
pub(crate) async fn watch(fleet: Arc<Fleet>, worker: WorkerId) {
    let mut memory = Memory::default();
    loop {
        scrape(&fleet, worker, &mut memory).await;
        rest(&fleet, worker).await;
    }
}

/// Waits for the next scrape. A worker that was idle is looked at anew as soon as it has work: a load
/// that comes at once must not stay unseen for as long as an idle worker may.
async fn rest(fleet: &Fleet, worker: WorkerId) {
    let settings = fleet.settings().scrape;
    let begun = fleet.dispatcher.clock.now();
    loop {
        sleep(settings.interval.min(settings.idle_interval)).await;
        let rested = Duration::from(fleet.dispatcher.clock.now().since(begun));
        let is_busy = fleet.dispatcher.view().fleet().worker(worker).requests_all() > 0;
        if is_busy || settings.idle_interval <= rested {
            return;
        }
    }
}

async fn scrape(fleet: &Fleet, worker: WorkerId, memory: &mut Memory) {
    let name = fleet.dispatcher.upstream(worker);
    let seen = look(fleet, worker, memory).await;
    let told = match &seen {
        Ok(_) => None,
        Err(fault) => Some(fault.kind()),
    };
    fleet.dispatcher.metrics.routing.scraped(name.name(), told.unwrap_or("ok"));
    judge(fleet, worker, seen.as_ref().err());
    match &seen {
        Ok(report) => {
            let losses = fleet.dispatcher.view().cache_losses(worker);
            if memory.is_another(report, losses) {
                tracing::info!(
                    worker = name.name(),
                    "worker was restarted; what its cache held is forgotten"
                );
                fleet.dispatcher.restarted(worker);
            }
            let scraped = scraped(report, fleet.dispatcher.clock.now());
            fleet.dispatcher.scraped(worker, scraped, report.kv_fetch_rate.unwrap_or(0));
            fleet.dispatcher.member(worker).reported(report.clone());
            note_standstill(fleet, worker, report, memory.stands_still(report, scraped.at));
            fleet.dispatcher.member(worker).resume_ability().runs(engine(report.dialect));
            scoring_abilities::identify(fleet, worker, report.dialect, &mut memory.asked).await;
        }
        Err(fault)
            if memory.told != told
                && fleet.dispatcher.view().fleet().worker(worker).health().is_up() =>
        {
            tracing::warn!(worker = name.name(), %fault,
                "the worker's metrics cannot be read; its last report stays in use");
        }
        Err(_) => {}
    }
    // Time has passed in any case, and with it some of what was queued.
    fleet.dispatcher.call_waiting();
    if memory.told.is_some() && told.is_none() {
        tracing::info!(worker = name.name(), "the worker's metrics can be read again");
    }
    memory.told = told;
}

/// Tells who waits for a worker's answers when its engine has stood still for longer than any of its steps should take:
/// its API server is as healthy as ever.
fn note_standstill(fleet: &Fleet, worker: WorkerId, report: &WorkerReport, still: Micros) {
    let counted = report.steps.map_or(Progress::Tokens, |_| Progress::Steps);
    let (settings, now) = (fleet.settings().routing.route.deadlines, fleet.dispatcher.clock.now());
    let limit = fleet.dispatcher.view().standstill_limit(worker, settings, counted, now);
    let member = fleet.dispatcher.member(worker);
    member.note_pause(still != Micros::ZERO);
    member.note_standstill(limit.after < still);
}

const fn engine(dialect: Dialect) -> Engine {
    match dialect {
        Dialect::Vllm => Engine::Vllm,
        Dialect::Sglang => Engine::Sglang,
        Dialect::LlamaServer => Engine::LlamaServer,
    }
}

/// Passes a worker over that tells nothing, where that is asked for.
fn judge(fleet: &Fleet, worker: WorkerId, fault: Option<&ScrapeFault>) {
    let is_asked = fleet.settings().scrape.failure == ScrapeFailure::Unhealthy;
    let told = match fault {
        Some(fault) if fault.is_silence() => !is_asked,
        Some(_) => return,
        None => true,
    };
    fleet.dispatcher.measured(worker, told);
}

async fn look(
    fleet: &Fleet,
    worker: WorkerId,
    memory: &mut Memory,
) -> Result<WorkerReport, ScrapeFault> {
    let settings = fleet.settings().scrape;
    let upstream = fleet.dispatcher.upstream(worker);
    let fetching = fetch(&upstream, METRICS, settings.page_bytes);
    let fetched = timeout(settings.timeout, fetching).await;
    let (status, page) = fetched.map_err(|_elapsed| FetchError::TimedOut(settings.timeout))??;
    if status != StatusCode::OK {
        return Err(ScrapeFault::Status(status));
    }
    let report = report_of(&page, fleet.dispatcher.member(worker).settings.data_parallel_rank)?;
    let sent = fleet.dispatcher.view().fleet().worker(worker).started_last();
    if memory.is_frozen(&page, sent, fleet.dispatcher.clock.now()) {
        return Err(ScrapeFault::Frozen);
    }
    Ok(report)
}

impl Memory {
    /// For how long a worker that has work has computed nothing, by its own counters.
    fn stands_still(&mut self, report: &WorkerReport, now: Instant) -> Micros {
        let counters = [report.generation_tokens, report.prompt_tokens, report.steps];
        let computed = counters.into_iter().flatten().reduce(u64::wrapping_add);
        let has_work = 0 < report.running + report.waiting;
        let Some(computed) = computed.filter(|_| has_work) else {
            self.computed = None;
            return Micros::ZERO;
        };
        match self.computed {
            Some((before, since)) if before == computed => now.since(since),
            _ => {
                self.computed = Some((computed, now));
                Micros::ZERO
            }
        }
    }

    /// Whether the report is of another process than the one before, and nobody has noticed: its counters began
    /// anew, and it has lost its cache as often as before.
    fn is_another(&mut self, report: &WorkerReport, losses: u32) -> bool {
        let is_noticed = std::mem::replace(&mut self.losses, losses) != losses;
        let tokens = [report.prompt_tokens, report.generation_tokens].into_iter().flatten();
        let counted = tokens.fold(0, u64::saturating_add);
        counted < std::mem::replace(&mut self.counted, counted) && !is_noticed
    }

    fn is_frozen(&mut self, page: &Bytes, sent: u64, now: Instant) -> bool {
        let hash = xxh3_64(page);
        match self.page {
            // Requests came since it was first seen so: from then on time counts.
            Some((known, since, sent_then)) if known == hash && sent_then != sent => {
                FROZEN_AFTER < now.since(since)
            }
            _ => {
                self.page = Some((hash, now, sent));
                false
            }
        }
    }
}

fn scraped(report: &WorkerReport, at: Instant) -> Scraped {
    Scraped {
        at,
        running: report.running,
        waiting: report.waiting,
        kv_use_permille: report.kv_use_permille,
        kv_capacity: report.kv_capacity,
        block_size: report.block_size,
        preemptions: report.preemptions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Faults: 46
    #[test]
    fn a_page_is_frozen_when_it_stays_the_same_while_requests_are_sent() {
        let mut memory = Memory::default();
        let page = Bytes::from_static(b"same");
        let second = |count: u64| Instant::ORIGIN + Micros::new(count * 1_000_000);
        assert!(!memory.is_frozen(&page, 1, second(0)));
        assert!(!memory.is_frozen(&page, 1, second(60)), "nobody sent anything");
        assert!(!memory.is_frozen(&page, 2, second(61)), "it was sent something just now");
        assert!(memory.is_frozen(&page, 3, second(71)));
        assert!(!memory.is_frozen(&Bytes::from_static(b"new"), 2, second(62)));
        assert!(!memory.is_frozen(&Bytes::from_static(b"new"), 3, second(70)), "not for long");
    }

    // Faults: 49
    #[test]
    fn counters_that_begin_anew_are_another_process() {
        let mut memory = Memory::default();
        let mut is_another = |prompts: u64, generated: u64, losses: u32| {
            let page = format!(
                "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n\
                 vllm:prompt_tokens_total {prompts}\nvllm:generation_tokens_total {generated}\n"
            );
            memory.is_another(&report_of(page.as_bytes(), None).unwrap(), losses)
        };
        assert!(!is_another(100, 10, 0));
        assert!(!is_another(100, 10, 0));
        assert!(!is_another(150, 20, 0));
        assert!(is_another(30, 5, 0));
        assert!(!is_another(31, 5, 1), "that was told");
        assert!(!is_another(3, 0, 2), "a refused connection has shown it before");
        assert!(is_another(1, 0, 2));
    }
}
