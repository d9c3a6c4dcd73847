//! Background tasks: what keeps the fleet, the caches and the cascades up to date beside requests.
//!
//! One task takes in what settings and discoveries name and keeps the membership; each discovery and each
//! worker has tasks of its own that it owns. When the background ends, all of them do.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::discovery::{self, Found, FoundWorker, Reporter};
use crate::fleet::membership::Membership;
use crate::fleet::{
    Fleet, drain_on_notice, find_wanted_tokenizers, maintenance, scaling, watch_worker,
    worker_hours,
};
use crate::server::{Gateway, keep_history};
use crate::settings::{GatewaySettings, Source};
use crate::sync::PeerSync;
use crate::{cache, cascade};

/// Changes of membership that wait to be taken in, at most; discoveries wait beyond that.
const MEMBERSHIPS_MAX: usize = 64;

/// How long until it is tried again what a worker could not do: join, or go by its settings.
const TRY_AGAIN: Duration = Duration::from_secs(3);

/// How often the core's memory, and that of responses, is swept of what has been forgotten.
const TICK: Duration = Duration::from_secs(1);

/// How long the last spans may take to reach the collector when the gateway ends.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// The settings are source zero of workers, discoveries follow.
const SETTINGS: usize = 0;

/// The number of the first of these.
const FIRST_SOURCE: usize = SETTINGS + 1;

/// What ends the watching when it goes.
#[derive(Debug)]
pub(crate) struct Background {
    gateway: Arc<Gateway>,
    tasks: JoinSet<()>,
    /// Sends spans; ends after all that makes them.
    exporter: JoinSet<()>,
    /// Tells it to.
    no_more_spans: oneshot::Sender<()>,
}

impl Background {
    /// Ends every task and waits until it has.
    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
        self.gateway.cache.end().await;
        cascade::save(&self.gateway.cascade).await;
        self.gateway.dispatcher.members.dismiss();
        // An exporter that has ended is told nothing.
        let _ended = self.no_more_spans.send(());
        if timeout(LAST_SPANS, self.exporter.join_next()).await.is_err() {
            tracing::warn!(
                "the last spans are lost: the trace collector did not take them in time"
            );
        }
        self.exporter.shutdown().await;
    }
}

/// Starts to keep `gateway` up to date, following `settings`; autoscalers are told at `scaler`.
pub(crate) fn start(
    gateway: &Arc<Gateway>,
    settings: watch::Receiver<GatewaySettings>,
    scaler: Option<TcpListener>,
) -> Background {
    let mut tasks = JoinSet::new();
    let (fleet, cascade) = (&gateway.fleet, &gateway.cascade);
    tasks.spawn(keep(Arc::clone(gateway), settings));
    tasks.spawn(tick(Arc::clone(gateway)));
    tasks.spawn(keep_history(Arc::clone(gateway)));
    tasks.spawn(find_wanted_tokenizers(Arc::clone(fleet)));
    tasks.spawn(maintenance::keep(Arc::clone(fleet)));
    tasks.spawn(maintenance::keep_waking(Arc::clone(fleet)));
    if let Some(listener) = scaler {
        let source = Arc::new(scaling::ScaleSource(Arc::clone(fleet)));
        tasks.spawn(overdraft_scaler::serve(listener, source, std::future::pending()));
    }
    tasks.spawn(cascade::keep(Arc::clone(cascade)));
    tasks.spawn(cascade::shadow::keep(Arc::clone(cascade)));
    tasks.spawn(cascade::remember(Arc::clone(cascade)));
    let peers = PeerSync {
        dispatcher: Arc::clone(&gateway.dispatcher),
        budgets: Arc::clone(&gateway.pipeline.budgets),
        revocations: Arc::clone(&gateway.pipeline.revocations),
        status: Arc::clone(&gateway.store),
    };
    tasks.spawn(peers.run());
    tasks.spawn(keep_issuer_keys(Arc::clone(gateway)));
    tasks.spawn(cache::heed_purges(Arc::clone(&gateway.cache)));
    if let Some(termination) = gateway.settings.settings().termination.clone() {
        tasks.spawn(drain_on_notice(Arc::clone(fleet), termination));
    }
    let (exporter, no_more_spans) = export_spans(gateway);
    Background { gateway: Arc::clone(gateway), tasks, exporter, no_more_spans }
}

/// Sends spans to the collector, if there is one, until the sender is used.
fn export_spans(gateway: &Gateway) -> (JoinSet<()>, oneshot::Sender<()>) {
    let mut tasks = JoinSet::new();
    let (sender, ended) = oneshot::channel();
    let exporter = gateway.spans.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(exporter) = exporter {
        tasks.spawn(exporter.run(async {
            // Without a sender the end has come as well.
            let _ = ended.await;
        }));
    }
    (tasks, sender)
}

async fn keep(gateway: Arc<Gateway>, mut settings: watch::Receiver<GatewaySettings>) {
    let (sink, mut found) = mpsc::channel(MEMBERSHIPS_MAX);
    let mut ranks = gateway.fleet.ranks.subscribe();
    let mut roster = Roster::start(gateway, sink);
    loop {
        tokio::select! {
            Ok(()) = ranks.changed() => roster.update(),
            Some(news) = found.recv() => roster.found(news),
            () = sleep(TRY_AGAIN), if roster.membership.is_lacking() => roster.update(),
            next = changed(&mut settings) => roster.adopt(next, &mut found).await,
        }
    }
}

/// The next settings. Where their sender is gone there are none, and the rest goes on.
async fn changed(settings: &mut watch::Receiver<GatewaySettings>) -> GatewaySettings {
    if settings.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
    settings.borrow_and_update().clone()
}

/// Who names workers, and the fleet that follows from it.
struct Roster {
    gateway: Arc<Gateway>,
    membership: Membership,
    discoveries: JoinSet<()>,
    sink: mpsc::Sender<Found>,
    /// What each source found last, by its number.
    last: BTreeMap<usize, Vec<FoundWorker>>,
}

impl Roster {
    fn start(gateway: Arc<Gateway>, sink: mpsc::Sender<Found>) -> Self {
        let discoveries = discover(&gateway.fleet, &sink);
        let (membership, last) = (Membership::default(), BTreeMap::new());
        let mut roster = Self { gateway, membership, discoveries, sink, last };
        roster.name();
        roster
    }

    /// Takes in what the settings name.
    fn name(&mut self) {
        let workers = self.gateway.settings.settings().workers.clone();
        self.membership.named(&self.gateway.fleet, SETTINGS, workers, watch_worker);
    }

    /// Takes in what a source found.
    fn found(&mut self, news: Found) {
        let Found { source, workers, unsettled } = news;
        self.last.insert(source, unsettled);
        self.membership.named(&self.gateway.fleet, source, workers, watch_worker);
    }

    fn update(&mut self) {
        self.membership.update(&self.gateway.fleet, watch_worker);
    }

    /// Puts other settings in force, if they can work.
    async fn adopt(&mut self, next: GatewaySettings, found: &mut mpsc::Receiver<Found>) {
        if let Err(error) = next.check() {
            tracing::error!(%error, "the new settings cannot work; the old ones stay");
            return;
        }
        let before = Arc::clone(&self.gateway.settings.settings());
        let rediscover = next.discovery != before.discovery;
        self.gateway.adopt(next);
        if rediscover {
            self.discoveries.shutdown().await;
            // The last words of those before, which go by other numbers from here on.
            while let Ok(news) = found.try_recv() {
                self.found(news);
            }
            self.succeed(&before.discovery);
        }
        self.name();
        let discoveries = self.discoveries.len();
        tracing::info!(discoveries, "new settings are in force");
    }

    /// Starts the sources of the settings now. What a source of `before` named stands until its successor has spoken.
    fn succeed(&mut self, before: &[Source]) {
        self.discoveries = discover(&self.gateway.fleet, &self.sink);
        let settings = Arc::clone(&self.gateway.settings.settings());
        let successors = discovery::successors(before, &settings.discovery);
        let number = |source: usize| {
            let place = successors.get(&source.checked_sub(FIRST_SOURCE)?)?;
            Some(FIRST_SOURCE + place)
        };
        self.membership.renumber(number);
        let last = std::mem::take(&mut self.last).into_iter();
        self.last = last.filter_map(|(source, found)| Some((number(source)?, found))).collect();
        for (place, source) in settings.discovery.iter().enumerate() {
            let number = FIRST_SOURCE + place;
            // Those that the settings name are told at once.
            let Some(found) = self.last.get(&number).filter(|found| !found.is_empty()) else {
                continue;
            };
            match discovery::settle_anew(source, found) {
                Ok(workers) => self.membership.note(number, workers),
                Err(error) => tracing::warn!(
                    %source, error, "workers found before keep their settings until the source tells them anew"
                ),
            }
        }
    }
}

/// Starts every discovery; the ones before end when what this returns replaces them.
fn discover(fleet: &Fleet, sink: &mpsc::Sender<Found>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let mut standings = Vec::new();
    for (index, source) in fleet.settings().discovery.iter().enumerate() {
        let (reporter, standing) = Reporter::new(FIRST_SOURCE + index, source, sink.clone());
        standings.push((source.to_string(), standing));
        tasks.spawn(discovery::watch(source.clone(), reporter));
    }
    fleet.sources.replace(standings);
    tasks
}

/// Keeps the keys of the issuer of tokens up to date, where tokens are believed.
async fn keep_issuer_keys(gateway: Arc<Gateway>) {
    let mut verifier = gateway.pipeline.jwt.subscribe();
    loop {
        let cache = verifier.borrow_and_update().as_ref().map(|jwt| Arc::clone(jwt.cache()));
        let keep = async {
            match cache {
                Some(cache) => cache.keep().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = keep => {}
            changed = verifier.changed() => if changed.is_err() { return },
        }
    }
}

async fn tick(gateway: Arc<Gateway>) {
    let fleet = &gateway.fleet;
    loop {
        sleep(TICK).await;
        fleet.dispatcher.tick();
        worker_hours::look(fleet);
        // So that what metrics ask for falls in time, read or not.
        scaling::pools(fleet);
        gateway.responses.sweep();
    }
}
