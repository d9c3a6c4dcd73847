//! KV event subscriber: follows what each worker reports of its cache, and feeds the prefix index.
//!
//! One task per worker finds the address where it publishes, subscribes, and feeds the prefix
//! index. A worker without a publisher is asked again now and then, because one with a publisher
//! may replace it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use overdraft_core::fleet::WorkerId;
use overdraft_core::prefix::{Chunks, EventFeed, Knowledge};
use overdraft_units::BlockSize;
use overdraft_wire::kv_events::{Batch, Source, read_sources};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Fleet;
use crate::dispatch::Dispatcher;
use crate::fleet::kv_events::{Note, Sink, apply, follow};
use crate::settings::KvEvents;
use crate::upstream::fetch::fetch;

/// Every word that tells what came of a report.
pub(crate) const RESULTS: &[&str] =
    &["applied", "connected", "disconnected", "gap", "undecodable", "forgotten"];

const SOURCES: &str = "/kv_event_sources";

/// Bytes of the answer that says where a worker reports.
const SOURCES_BYTES_MAX: usize = 64 * 1024;

/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two questions while a worker is not up, and while it is and does not report.
const ASK_SOON: Duration = Duration::from_millis(200);
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Tokens to a block of a worker that has not said so: what vLLM has unless it is told otherwise.
const BLOCK_FIRST: BlockSize = BlockSize::new(16).expect("16 is not zero");

/// Follows what one worker reports until it is dropped.
pub(crate) async fn listen(fleet: Arc<Fleet>, worker: WorkerId) {
    let configured = fleet.dispatcher.member(worker).settings.kv_events.clone();
    loop {
        let source = match &configured {
            KvEvents::Off => return,
            KvEvents::At { endpoint, replay, topic } => Source {
                endpoint: endpoint.clone(),
                replay_endpoint: replay.clone(),
                topic: topic.clone(),
                ..Source::default()
            },
            KvEvents::Ask => ask(&fleet, worker).await,
        };
        let following = follow_in_its_blocks(&fleet, worker, &source);
        match configured {
            // Who comes back may report elsewhere.
            KvEvents::Ask => tokio::select! {
                never = following => match never {},
                () = until_down(&fleet, worker) => {}
            },
            _ => match following.await {},
        }
    }
}

async fn until_down(fleet: &Fleet, worker: WorkerId) {
    while fleet.dispatcher.view().fleet().worker(worker).health().is_up() {
        sleep(ASK_SOON).await;
    }
}

/// Follows a source for ever, in blocks of the size that turns out to be the worker's.
async fn follow_in_its_blocks(fleet: &Arc<Fleet>, worker: WorkerId, source: &Source) -> Infallible {
    let name = fleet.dispatcher.upstream(worker).name().to_owned();
    tracing::info!(worker = name, endpoint = source.endpoint, "it reports what its cache holds");
    let mut block_size = block_size(fleet, worker);
    loop {
        let (other, mut found) = watch::channel(block_size);
        found.mark_unchanged();
        let reports = Reports {
            dispatcher: Arc::clone(&fleet.dispatcher),
            worker,
            name: name.clone(),
            feed: EventFeed::new(block_size),
            other,
        };
        tokio::select! {
            never = follow(source.clone(), reports) => match never {},
            // Followed anew, so that what it holds already is told again, in its own blocks.
            _ = found.changed() => block_size = *found.borrow(),
        }
        tracing::info!(worker = name, tokens = block_size.get(), "its blocks are of another size");
    }
}

/// Tokens to a block of a worker's, as far as it has said so.
fn block_size(fleet: &Fleet, worker: WorkerId) -> BlockSize {
    let router = fleet.dispatcher.view();
    let scraped = router.fleet().worker(worker).scraped();
    scraped.and_then(|scraped| scraped.block_size).unwrap_or(BLOCK_FIRST)
}

/// Asks where a worker reports until it says so.
async fn ask(fleet: &Arc<Fleet>, worker: WorkerId) -> Source {
    loop {
        let up = fleet.dispatcher.view().fleet().worker(worker).health().is_up();
        if up {
            let upstream = fleet.dispatcher.upstream(worker);
            let fetching = fetch(&upstream, SOURCES, SOURCES_BYTES_MAX);
            if let Ok(Ok((StatusCode::OK, page))) = timeout(PATIENCE, fetching).await
                && let Ok(sources) = read_sources(&page)
            {
                match sources.as_slice() {
                    [] => {}
                    [source] => return source.reached_by(upstream.host()),
                    // Which rank a request goes to is decided behind the worker's door.
                    ranks => tracing::warn!(
                        worker = upstream.name(),
                        ranks = ranks.len(),
                        "it reports by rank; what it holds is estimated"
                    ),
                }
            }
        }
        sleep(if up { ASK_AGAIN } else { ASK_SOON }).await;
    }
}

/// Hears one worker's batches.
struct Reports {
    dispatcher: Arc<Dispatcher>,
    worker: WorkerId,
    name: String,
    feed: EventFeed,
    /// Told when the worker's blocks turn out to be of another size.
    other: watch::Sender<BlockSize>,
}

impl Sink for Reports {
    fn batch(&mut self, batch: Batch) {
        let mut reports = self.dispatcher.cache_reports(self.worker, self.feed.block_size());
        if let Some(capacity) = reports.capacity() {
            self.feed.set_capacity(Chunks::new(capacity.get() / self.feed.block_size().get()));
        }
        let mismatch = apply(&mut self.feed, &batch, |event| reports.tell(event));
        if let Some(found) = mismatch.and_then(|mismatch| BlockSize::new(mismatch.found)) {
            self.other.send_replace(found);
        }
        drop(reports);
        self.dispatcher.metrics.routing.reported(&self.name, "applied");
    }

    fn restarted(&mut self) {
        let mut reports = self.dispatcher.cache_reports(self.worker, self.feed.block_size());
        self.feed.restart(|event| reports.tell(event));
    }

    fn forgotten(&mut self) {
        let mut reports = self.dispatcher.cache_reports_missed(self.worker);
        let before = reports.knowledge();
        self.feed.forget(|event| reports.tell(event));
        drop(reports);
        if before == Knowledge::Exact {
            tracing::warn!(
                worker = self.name,
                "reports of its cache are missing; what it holds is estimated"
            );
        }
        self.dispatcher.metrics.routing.reported(&self.name, "forgotten");
    }

    fn note(&mut self, note: Note) {
        let word = match note {
            Note::Connected => "connected",
            Note::Disconnected => "disconnected",
            Note::Gap => "gap",
            Note::Undecodable => "undecodable",
        };
        self.dispatcher.metrics.routing.reported(&self.name, word);
    }
}
