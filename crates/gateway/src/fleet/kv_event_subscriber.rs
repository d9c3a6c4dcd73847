//! KV event task of one worker: finds its publisher, subscribes, and feeds the prefix index.
//!
//! One task per worker finds the address where it publishes ([`kv_sources`](super::kv_sources)),
//! subscribes, and feeds the prefix index. It begins anew whenever the worker's process is gone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use overdraft_core::fleet::WorkerId;
use overdraft_core::prefix::{Chunks, Knowledge};
use overdraft_units::BlockSize;
use overdraft_wire::kv_events::{Batch, Source};
use tokio::time::sleep;

use super::Fleet;
use super::kv_sources::Asked;
use crate::dispatch::Dispatcher;
use crate::fleet::kv_events::{Feeds, Note, Sink, Topic, block_size_of, follow};
use crate::settings::{KvEvents, WorkerSettings};

/// Every word that tells what came of a report.
pub(crate) const RESULTS: &[&str] =
    &["applied", "connected", "disconnected", "gap", "undecodable", "forgotten"];

/// How often it is looked whether a worker is there.
pub(super) const ASK_SOON: Duration = Duration::from_millis(200);

/// Tokens to a block of a worker that has not said so: what vLLM has unless it is told otherwise.
const BLOCK_FIRST: BlockSize = BlockSize::new(16).expect("16 is not zero");

/// Follows what one worker reports, where its settings say that it does, until it is dropped.
pub(crate) async fn listen(fleet: Arc<Fleet>, worker: WorkerId) {
    let mut changes = fleet.dispatcher.member(worker).changes();
    loop {
        let settings = fleet.dispatcher.member(worker).settings.clone();
        let known = &settings.kv_events;
        let is_elsewhere = || fleet.dispatcher.member(worker).settings.kv_events != *known;
        tokio::select! {
            never = listen_as(&fleet, worker, &settings) => match never {},
            () = changes.until(is_elsewhere) => {}
        }
        if *known != KvEvents::Off {
            // What was heard so far will not be kept up to date.
            fleet.dispatcher.restarted(worker);
        }
    }
}

/// Follows what one worker reports where `settings` say.
async fn listen_as(fleet: &Arc<Fleet>, worker: WorkerId, settings: &WorkerSettings) -> Infallible {
    let mut asked = Asked::default();
    loop {
        let (source, topic) = match &settings.kv_events {
            KvEvents::Off => std::future::pending().await,
            KvEvents::At { endpoint, replay, topic } => {
                let rank = settings.data_parallel_rank.unwrap_or(0);
                let source = Source {
                    data_parallel_rank: rank,
                    endpoint: endpoint.clone(),
                    replay_endpoint: replay.clone(),
                    topic: topic.clone(),
                };
                (source.of_rank(rank), Topic::Configured)
            }
            KvEvents::Ask => (asked.source(fleet, worker).await, Topic::Told),
        };
        let lost = fleet.dispatcher.view().cache_losses(worker);
        tokio::select! {
            never = follow_one(fleet, worker, source, topic, lost) => match never {},
            // Who comes back may report elsewhere, and what it has reported is forgotten in any case.
            () = until_gone(fleet, worker, lost, &settings.kv_events) => {}
        }
    }
}

/// Until the worker's process is gone; one that is asked where it reports is asked again when it stops being up.
async fn until_gone(fleet: &Fleet, worker: WorkerId, lost: u32, configured: &KvEvents) {
    let mut was_up = false;
    loop {
        sleep(ASK_SOON).await;
        let router = fleet.dispatcher.view();
        let is_up = router.fleet().worker(worker).health().is_up();
        let went_down = was_up && !is_up && *configured == KvEvents::Ask;
        if router.cache_losses(worker) != lost || went_down {
            return;
        }
        was_up |= is_up;
    }
}

/// Follows a source for ever.
async fn follow_one(
    fleet: &Arc<Fleet>,
    worker: WorkerId,
    source: Source,
    topic: Topic,
    losses: u32,
) -> Infallible {
    let name = fleet.dispatcher.upstream(worker).name().to_owned();
    tracing::info!(
        worker = name,
        endpoint = source.endpoint,
        "worker reports what its cache holds"
    );
    let block_size = block_size(fleet, worker);
    let dispatcher = Arc::clone(&fleet.dispatcher);
    let reports = Reports { dispatcher, worker, losses, name, feeds: Feeds::new(block_size) };
    follow(source, topic, reports).await
}

/// Tokens to a block of a worker's, as far as it has said so.
fn block_size(fleet: &Fleet, worker: WorkerId) -> BlockSize {
    let router = fleet.dispatcher.view();
    let scraped = router.fleet().worker(worker).scraped();
    scraped.and_then(|scraped| scraped.block_size).unwrap_or(BLOCK_FIRST)
}

/// Hears one worker's batches.
struct Reports {
    dispatcher: Arc<Dispatcher>,
    worker: WorkerId,
    /// How often the worker had lost its cache when following began.
    losses: u32,
    name: String,
    feeds: Feeds,
}

impl Reports {
    /// Cuts by the worker's own blocks before the first of them is stored.
    fn fit(&mut self, batch: &Batch) {
        let other = block_size_of(batch).filter(|found| *found != self.feeds.block_size());
        if let Some(found) = other
            && self.feeds.is_empty()
        {
            tracing::info!(
                worker = self.name,
                tokens = found.get(),
                "size of the blocks of the worker's cache"
            );
            self.feeds = Feeds::new(found);
        }
    }
}

impl Sink for Reports {
    fn batch(&mut self, batch: Batch) {
        self.fit(&batch);
        let Some(mut reports) = self.dispatcher.cache_reports(self.worker, self.losses) else {
            return;
        };
        reports.in_blocks_of(self.feeds.block_size());
        if let Some(capacity) = reports.capacity() {
            self.feeds.set_capacity(Chunks::new(capacity.get() / self.feeds.block_size().get()));
        }
        self.feeds.apply(&batch, |group, event| reports.tell(group, event));
        drop(reports);
        let routing = &self.dispatcher.metrics.routing;
        routing.reported(&self.name, "applied");
        routing.skipped(&self.name, self.feeds.take_skipped());
    }

    fn restarted(&mut self) {
        let reports = self.dispatcher.cache_reports(self.worker, self.losses);
        let Some(mut reports) = reports else { return };
        reports.in_blocks_of(self.feeds.block_size());
        self.feeds.restart(|group, event| reports.tell(group, event));
    }

    fn forgotten(&mut self) {
        let reports = self.dispatcher.cache_reports(self.worker, self.losses);
        let Some(mut reports) = reports else { return };
        let before = reports.knowledge();
        self.feeds.forget(|group, event| reports.tell(group, event));
        drop(reports);
        if before == Knowledge::Exact {
            tracing::warn!(
                worker = self.name,
                "reports of the worker's cache are missing; what it holds is estimated"
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
