//! Who keeps the fleet up to date?
//!
//! One task takes in what settings and discoveries name and keeps the roster; each discovery and each
//! worker has tasks of its own that it owns. When the keeper ends, all of them do.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::fleet::WorkerId;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::discovery::{self, Membership, Reporter};
use crate::notice::{self, Notice};
use crate::roster::Registrar;
use crate::settings::{GatewaySettings, TerminationSettings};
use crate::shared::Shared;
use crate::{board, cache, care, cascade, probe, reports, scaling, scrape, tokenizing};

/// Changes of membership that wait to be taken in, at most; discoveries wait beyond that.
const MEMBERSHIPS_MAX: usize = 64;

/// How often the core's memory is swept of what has been forgotten.
const TICK: Duration = Duration::from_secs(1);

/// The settings are source zero of workers, discoveries follow.
const SETTINGS: usize = 0;

/// What ends the watching when it goes.
#[derive(Debug)]
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Keeper {
    /// Ends every task and waits until it has.
    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
        cascade::save(&self.shared).await;
        self.shared.roster.dismiss();
    }
}

/// Starts to keep the fleet of `shared`, following `settings`; autoscalers are told at `scaler`.
pub(crate) fn start(
    shared: &Arc<Shared>,
    settings: watch::Receiver<GatewaySettings>,
    scaler: Option<TcpListener>,
) -> Keeper {
    let mut tasks = JoinSet::new();
    tasks.spawn(keep(Arc::clone(shared), settings));
    tasks.spawn(tick(Arc::clone(shared)));
    tasks.spawn(tokenizing::study(Arc::clone(shared)));
    tasks.spawn(care::keep(Arc::clone(shared)));
    if let Some(listener) = scaler {
        let fleet = Arc::new(scaling::Fleet(Arc::clone(shared)));
        tasks.spawn(overdraft_scaler::serve(listener, fleet, std::future::pending()));
    }
    tasks.spawn(cascade::keep(Arc::clone(shared)));
    tasks.spawn(cascade::shadow::keep(Arc::clone(shared)));
    tasks.spawn(cascade::remember(Arc::clone(shared)));
    tasks.spawn(board::keep(Arc::clone(shared)));
    tasks.spawn(cache::heed_purges(Arc::clone(shared)));
    if let Some(termination) = shared.settings().termination.clone() {
        tasks.spawn(drain_on_notice(Arc::clone(shared), termination));
    }
    Keeper { shared: Arc::clone(shared), tasks }
}

async fn keep(shared: Arc<Shared>, mut settings: watch::Receiver<GatewaySettings>) {
    let mut registrar = Registrar::default();
    let (sink, mut found) = mpsc::channel(MEMBERSHIPS_MAX);
    let mut discoveries = discover(&shared, &sink);
    registrar.named(&shared, (SETTINGS, shared.settings().workers.clone()), watch_worker);
    loop {
        tokio::select! {
            Some(Membership { source, workers }) = found.recv() => {
                registrar.named(&shared, (source, workers), watch_worker);
            }
            changed = settings.changed() => {
                if changed.is_err() {
                    // Whoever could change them is gone; the rest goes on.
                    settings_never(&mut found, &shared, &mut registrar).await;
                    return;
                }
                let next = settings.borrow_and_update().clone();
                if let Err(error) = next.check() {
                    tracing::error!(%error, "the new settings cannot work; the old ones stay");
                    continue;
                }
                let before = Arc::clone(&shared.settings());
                let rediscover = next.discovery != before.discovery;
                shared.adopt(next);
                if rediscover {
                    discoveries.shutdown().await;
                    // What those before still said goes by other numbers now.
                    while found.try_recv().is_ok() {}
                    discoveries = discover(&shared, &sink);
                    registrar.renumber(|source| {
                        let known = before.discovery.get(source.checked_sub(SETTINGS + 1)?)?;
                        let now = shared.settings();
                        let place = now.discovery.iter().position(|source| source == known)?;
                        Some(SETTINGS + 1 + place)
                    });
                }
                let workers = shared.settings().workers.clone();
                registrar.named(&shared, (SETTINGS, workers), watch_worker);
                tracing::info!(discoveries = discoveries.len(), "new settings are in force");
            }
        }
    }
}

/// Follows discoveries alone.
async fn settings_never(
    found: &mut mpsc::Receiver<Membership>,
    shared: &Arc<Shared>,
    registrar: &mut Registrar,
) {
    while let Some(Membership { source, workers }) = found.recv().await {
        registrar.named(shared, (source, workers), watch_worker);
    }
}

/// Starts every discovery; the ones before end when what this returns replaces them.
fn discover(shared: &Arc<Shared>, sink: &mpsc::Sender<Membership>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let mut standings = Vec::new();
    for (index, source) in shared.settings().discovery.iter().enumerate() {
        let (reporter, standing) = Reporter::new(SETTINGS + 1 + index, source, sink.clone());
        standings.push((source.to_string(), standing));
        tasks.spawn(discovery::watch(source.clone(), reporter));
    }
    shared.sources.replace(standings);
    tasks
}

/// Starts what watches one worker.
#[expect(clippy::disallowed_methods, reason = "the owner keeps an abort handle, not a JoinSet yet")]
fn watch_worker(shared: &Arc<Shared>, worker: WorkerId) -> Vec<AbortHandle> {
    vec![
        tokio::spawn(probe::watch(Arc::clone(shared), worker)).abort_handle(),
        tokio::spawn(scrape::watch(Arc::clone(shared), worker)).abort_handle(),
        tokio::spawn(reports::listen(Arc::clone(shared), worker)).abort_handle(),
        tokio::spawn(care::watch(Arc::clone(shared), worker)).abort_handle(),
    ]
}

/// Notices that wait to be acted on, at most.
const NOTICES_MAX: usize = 8;

/// Sends workers of this machine nothing new once the cloud says that it takes it away.
async fn drain_on_notice(shared: Arc<Shared>, termination: TerminationSettings) {
    let (sink, mut notices) = mpsc::channel(NOTICES_MAX);
    let asking = notice::watch(termination.cloud, termination.notice.clone(), sink);
    let acting = async {
        while let Some(notice) = notices.recv().await {
            act_on(&shared, &notice, &termination.workers);
        }
    };
    let (asked, ()) = tokio::join!(asking, acting);
    if let Err(error) = asked {
        tracing::error!(%error, "notices of this machine's end are not heard");
    }
}

fn act_on(shared: &Shared, notice: &Notice, named: &[String]) {
    let mut router = shared.router();
    let ids: Vec<WorkerId> = router.fleet().workers().map(|(id, _)| id).collect();
    for id in ids {
        let member = shared.roster.member(id);
        let here = if named.is_empty() {
            member.upstream.is_local()
        } else {
            named.iter().any(|name| name == member.upstream.name())
        };
        if here {
            router.drain(id);
            tracing::warn!(worker = member.upstream.name(), cloud = %notice.cloud,
                fate = ?notice.fate, at = notice.at, ahead = ?notice.ahead,
                "its machine is taken away: it is sent nothing new, its streams may finish");
        }
    }
}

async fn tick(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(TICK).await;
        let now = shared.clock.now();
        shared.router().tick(now);
        // So that what metrics ask for falls in time, read or not.
        scaling::pools(&shared);
    }
}
