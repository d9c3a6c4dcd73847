//! KV event sources: asks a worker where it publishes what its cache holds.
//!
//! A worker without a publisher is asked again now and then, because one with a publisher may replace it.
//! Why nothing is followed is logged once, and again when it changes. An answer that names several
//! data-parallel ranks makes each of them a worker of its own ([`ranks`](super::ranks)).

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use overdraft_core::fleet::{Health, WorkerId};
use overdraft_wire::kv_events::{Source, SourcesError, read_sources};
use tokio::time::{sleep, timeout};

use super::Fleet;
use super::kv_event_subscriber::ASK_SOON;
use crate::upstream::fetch::{FetchError, fetch};

const SOURCES: &str = "/kv_event_sources";

/// Bytes of the answer that says where a worker reports.
const SOURCES_BYTES_MAX: usize = 64 * 1024;

/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two questions while a worker has never been up; it is probed as often.
const ASK_FIRST: Duration = Duration::from_millis(50);

/// Between two questions while a worker is up and does not report.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Why a worker's reports are not followed.
#[derive(Debug, thiserror::Error)]
enum NoSource {
    /// It cannot be asked.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It has no such endpoint, or it is closed to us.
    #[error("{SOURCES} answers {0}; expected 200, or `kv_events.endpoint` in the configuration")]
    Status(StatusCode),
    /// The answer is of a shape unknown here.
    #[error(transparent)]
    Answer(#[from] SourcesError),
    /// Events are off.
    #[error("it publishes no KV events; vLLM does with `--kv-events-config`")]
    None,
    /// Events of other ranks only.
    #[error("none of its KV event sources is of data-parallel rank {0}")]
    NotThisRank(u32),
}

impl NoSource {
    /// Whether that is what it is meant to be, as far as we can know.
    const fn is_usual(&self) -> bool {
        matches!(self, Self::None | Self::Status(StatusCode::NOT_FOUND))
    }
}

/// What is remembered between two questions to one worker.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// What was logged last; it is logged again only when it changes.
    complaint: String,
}

impl Asked {
    /// Asks where a worker reports until it says so.
    pub(super) async fn source(&mut self, fleet: &Arc<Fleet>, worker: WorkerId) -> Source {
        loop {
            let health = || fleet.dispatcher.view().fleet().worker(worker).health();
            // Before it is up, too: what it stores for its first request must not be missed.
            let fault = match ask(fleet, worker).await {
                Ok(source) => {
                    self.complaint.clear();
                    return source;
                }
                Err(fault) => fault,
            };
            let pause = match health() {
                Health::Up { .. } => {
                    self.complain(fleet.dispatcher.upstream(worker).name(), &fault);
                    ASK_AGAIN
                }
                Health::Unproven => ASK_FIRST,
                Health::Failing { .. } => ASK_SOON,
            };
            sleep(pause).await;
        }
    }

    fn complain(&mut self, worker: &str, fault: &NoSource) {
        let complaint = fault.to_string();
        if self.complaint == complaint {
            return;
        }
        if fault.is_usual() {
            tracing::info!(worker, why = complaint, "what the worker's cache holds is estimated");
        } else {
            tracing::warn!(worker, why = complaint, "what the worker's cache holds is estimated");
        }
        self.complaint = complaint;
    }
}

/// Asks once.
async fn ask(fleet: &Fleet, worker: WorkerId) -> Result<Source, NoSource> {
    let member = fleet.dispatcher.member(worker);
    let fetching = fetch(&member.upstream, SOURCES, SOURCES_BYTES_MAX);
    let fetched = timeout(PATIENCE, fetching).await;
    let (status, page) = fetched.map_err(|_elapsed| FetchError::TimedOut(PATIENCE))??;
    if status != StatusCode::OK {
        return Err(NoSource::Status(status));
    }
    let sources = read_sources(&page)?;
    let count = u32::try_from(sources.len()).unwrap_or(u32::MAX);
    if count == 0 {
        return Err(NoSource::None);
    }
    let rank = member.settings.data_parallel_rank;
    if 1 < count || rank.is_some() {
        // Each becomes a worker of its own, or stops being one, and this one is then another.
        fleet.ranks.learn(member.settings.url.trim_end_matches('/'), count);
    }
    let ours = |source: &&Source| source.data_parallel_rank == rank.unwrap_or(0);
    let source = match (sources.as_slice(), rank) {
        // An external balancer gives each rank an address of its own.
        ([source], None) => source,
        (sources, _) => {
            sources.iter().find(ours).ok_or(NoSource::NotThisRank(rank.unwrap_or(0)))?
        }
    };
    Ok(source.reached_by(member.upstream.host()))
}
