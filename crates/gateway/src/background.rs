//! Background tasks: what keeps the fleet, the caches and the cascades up to date beside requests.
//!
//! One task takes in what settings and discoveries name and keeps the membership; each discovery and each
//! worker has tasks of its own that it owns. When the background ends, all of them do.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::discovery::{self, Found, Reporter};
use crate::fleet::membership::Membership;
use crate::fleet::{
    Fleet, drain_on_notice, find_wanted_tokenizers, maintenance, scaling, watch_worker,
    worker_hours,
};
use crate::server::{Gateway, keep_history};
use crate::settings::GatewaySettings;
use crate::sync::PeerSync;
use crate::{cache, cascade};

/// Changes of membership that wait to be taken in, at most; discoveries wait beyond that.
const MEMBERSHIPS_MAX: usize = 64;

/// How often the core's memory is swept of what has been forgotten.
const TICK: Duration = Duration::from_secs(1);

/// How long the last spans may take to reach the collector when the gateway ends.
const LAST_SPANS: Duration = Duration::from_secs(2);

/// The settings are source zero of workers, discoveries follow.
const SETTINGS: usize = 0;

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
        self.gateway.responses.end().await;
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
    tasks.spawn(tick(Arc::clone(fleet)));
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
    let mut membership = Membership::default();
    let (sink, mut found) = mpsc::channel(MEMBERSHIPS_MAX);
    let mut discoveries = discover(&gateway.fleet, &sink);
    let workers = gateway.settings.settings().workers.clone();
    membership.named(&gateway.fleet, SETTINGS, workers, watch_worker);
    let mut ranks = gateway.fleet.ranks.subscribe();
    loop {
        tokio::select! {
            Ok(()) = ranks.changed() => membership.update(&gateway.fleet, watch_worker),
            Some(Found { source, workers }) = found.recv() => {
                membership.named(&gateway.fleet, source, workers, watch_worker);
            }
            changed = settings.changed() => {
                if changed.is_err() {
                    // Whoever could change them is gone; the rest goes on.
                    settings_never(&mut found, &gateway.fleet, &mut membership).await;
                    return;
                }
                let next = settings.borrow_and_update().clone();
                if let Err(error) = next.check() {
                    tracing::error!(%error, "the new settings cannot work; the old ones stay");
                    continue;
                }
                let before = Arc::clone(&gateway.settings.settings());
                let rediscover = next.discovery != before.discovery;
                gateway.adopt(next);
                if rediscover {
                    discoveries.shutdown().await;
                    // What those before still said goes by other numbers now.
                    while found.try_recv().is_ok() {}
                    discoveries = discover(&gateway.fleet, &sink);
                    membership.renumber(|source| {
                        let known = before.discovery.get(source.checked_sub(SETTINGS + 1)?)?;
                        let now = gateway.settings.settings();
                        let place = now.discovery.iter().position(|source| source == known)?;
                        Some(SETTINGS + 1 + place)
                    });
                }
                let workers = gateway.settings.settings().workers.clone();
                membership.named(&gateway.fleet, SETTINGS, workers, watch_worker);
                tracing::info!(discoveries = discoveries.len(), "new settings are in force");
            }
        }
    }
}

/// Follows discoveries alone.
async fn settings_never(
    found: &mut mpsc::Receiver<Found>,
    fleet: &Arc<Fleet>,
    membership: &mut Membership,
) {
    let mut ranks = fleet.ranks.subscribe();
    loop {
        tokio::select! {
            Ok(()) = ranks.changed() => membership.update(fleet, watch_worker),
            found = found.recv() => match found {
                Some(Found { source, workers }) => {
                    membership.named(fleet, source, workers, watch_worker);
                }
                None => return,
            },
        }
    }
}

/// Starts every discovery; the ones before end when what this returns replaces them.
fn discover(fleet: &Fleet, sink: &mpsc::Sender<Found>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let mut standings = Vec::new();
    for (index, source) in fleet.settings().discovery.iter().enumerate() {
        let (reporter, standing) = Reporter::new(SETTINGS + 1 + index, source, sink.clone());
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

async fn tick(fleet: Arc<Fleet>) {
    loop {
        tokio::time::sleep(TICK).await;
        fleet.dispatcher.tick();
        worker_hours::look(&fleet);
        // So that what metrics ask for falls in time, read or not.
        scaling::pools(&fleet);
    }
}
