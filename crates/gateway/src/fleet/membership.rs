//! Fleet membership: which workers are in the fleet now, and who watches each of them.
//!
//! The settings and every discovery name workers; the fleet is their union, by address. A new
//! worker joins the fleet and gets its watchers; one that no source names any more leaves, its
//! watchers end, and its requests in flight may finish. A worker that keeps its address and its name
//! stays, however its settings change, with all that is known of it; of one that left nothing is
//! remembered. The core assigns the ids.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use http::HeaderValue;
use indexmap::IndexMap;
use overdraft_core::fleet::{WORKERS_MAX, WorkerId};
use tokio::task::JoinSet;
use xxhash_rust::xxh3::xxh3_64;

use super::{Fleet, kv_event_subscriber, scrape};
use crate::dispatch::{Member, Traits};
use crate::settings::{GatewayError, WorkerSettings};
use crate::upstream::Upstream;

/// What is named now, by whom, and who of them is in the fleet.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// By source: the settings are source zero, discoveries follow.
    named: BTreeMap<usize, Vec<WorkerSettings>>,
    /// By address, and by rank where several engines are behind it.
    members: BTreeMap<String, (WorkerId, WorkerSettings)>,
    /// Why some are not members, or not by their settings, by address.
    failed: BTreeMap<String, GatewayError>,
}

/// Starts what watches a worker.
pub(crate) type Watch = fn(&Arc<Fleet>, WorkerId) -> JoinSet<()>;

impl Membership {
    /// Discoveries have other numbers now; what those that are gone have named is forgotten with
    /// the next word of any source.
    pub(crate) fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        let named = std::mem::take(&mut self.named).into_iter();
        let renumbered = named.filter_map(|(source, workers)| Some((number(source)?, workers)));
        self.named = renumbered.collect();
    }

    /// Notes what `source` names now; it counts with the next word of any source.
    pub(crate) fn note(&mut self, source: usize, workers: Vec<WorkerSettings>) {
        self.named.insert(source, workers);
    }

    /// Takes in what `source` names now.
    pub(crate) fn named(
        &mut self,
        fleet: &Arc<Fleet>,
        source: usize,
        workers: Vec<WorkerSettings>,
        watch: Watch,
    ) {
        self.note(source, workers);
        self.update(fleet, watch);
    }

    /// Makes the fleet what is named, each data-parallel rank a worker of its own.
    pub(crate) fn update(&mut self, fleet: &Arc<Fleet>, watch: Watch) {
        // In the order they are named, for that is the order in which an idle fleet is asked; who
        // is named first describes it.
        let mut wanted: IndexMap<String, WorkerSettings> = IndexMap::new();
        for worker in self.named.values().flatten() {
            let url = worker.url.trim_end_matches('/');
            match fleet.ranks.of(url) {
                1 => {
                    wanted.entry(url.to_owned()).or_insert_with(|| worker.clone());
                }
                ranks => (0..ranks).for_each(|rank| {
                    let place = format!("{url}#{rank}");
                    wanted.entry(place).or_insert_with(|| worker.of_rank(rank));
                }),
            }
        }
        let named = |url: &str| {
            self.named.values().flatten().any(|worker| worker.url.trim_end_matches('/') == url)
        };
        fleet.ranks.retain(named);
        self.dismiss_all_but(&wanted, fleet);
        let mut failed = BTreeMap::new();
        for (url, worker) in wanted {
            let Err(error) = self.seat(fleet, &url, worker, watch) else { continue };
            // However often it is tried, a reason is told once.
            if self.failed.get(&url) != Some(&error) {
                let stays = self.members.contains_key(&url);
                let so = if stays { "keeps its old settings" } else { "cannot join the fleet" };
                tracing::error!(url, %error, "worker {so}");
            }
            failed.insert(url, error);
        }
        self.failed = failed;
        fleet.dispatcher.members.named_by(self.named.len());
    }

    /// Whether some that are named are not members, or not by their settings. The reason may pass: a file of
    /// certificates that is not there yet, a fleet that is full.
    pub(crate) fn is_lacking(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Makes `worker` the member at a place, or has the one that is there go by its settings.
    fn seat(
        &mut self,
        fleet: &Arc<Fleet>,
        url: &str,
        worker: WorkerSettings,
        watch: Watch,
    ) -> Result<(), GatewayError> {
        if let Some((id, known)) = self.members.get_mut(url) {
            if *known != worker {
                resettle(fleet, *id, &worker)?;
                *known = worker;
            }
            return Ok(());
        }
        let mut told = worker.clone();
        self.distinguish(&mut told);
        let id = join(fleet, &told, watch)?;
        self.members.insert(url.to_owned(), (id, worker));
        Ok(())
    }

    fn dismiss_all_but(&mut self, wanted: &IndexMap<String, WorkerSettings>, fleet: &Fleet) {
        // By another name it is another worker: the name is what gateways know it by.
        let unwanted = |url: &str, known: &WorkerSettings| {
            wanted.get(url).is_none_or(|wanted| wanted.name != known.name)
        };
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|(url, (_, known))| unwanted(url, known))
            .map(|(url, _)| url.clone())
            .collect();
        for url in gone {
            if let Some((id, worker)) = self.members.remove(&url) {
                tracing::info!(worker = worker.name, url, "worker left the fleet");
                let dispatcher = &fleet.dispatcher;
                let member = dispatcher.member(id);
                member.dismiss();
                dispatcher.members.asked(&member);
                fleet.models.note(id, None);
                // Nothing is counted of it from here on.
                dispatcher.leave(id);
                dispatcher.metrics.routing.forget(
                    member.upstream.name(),
                    scrape::RESULTS,
                    kv_event_subscriber::RESULTS,
                );
            }
        }
    }

    /// Gives a worker another name when its own is taken: names are told in metrics and headers.
    fn distinguish(&self, worker: &mut WorkerSettings) {
        let taken = |name: &str| self.members.values().any(|(_, known)| known.name == name);
        if taken(&worker.name) {
            let address = WorkerSettings::new(worker.url.clone());
            let address = match worker.data_parallel_rank {
                Some(rank) => address.of_rank(rank).name,
                None => address.name,
            };
            tracing::warn!(name = worker.name, called = address, "two workers have one name");
            worker.name = address;
        }
    }
}

fn join(
    fleet: &Arc<Fleet>,
    worker: &WorkerSettings,
    watch: Watch,
) -> Result<WorkerId, GatewayError> {
    let dispatcher = &fleet.dispatcher;
    let upstream = upstream(fleet, worker)?;
    let tag = xxh3_64(worker.name.as_bytes());
    let joined = dispatcher.join(tag, traits(worker), |id| {
        dispatcher.members.seat(Arc::new(Member::new(id, worker.clone(), upstream)));
    });
    let id = joined.ok_or(GatewayError::TooManyWorkers { count: WORKERS_MAX + 1 })?;
    *dispatcher.member(id).watchers() = watch(fleet, id);
    Ok(id)
}

/// Has a member go by other settings. It keeps its place in the core: its health, the drain that it was told, what its
/// cache holds and how fast it is are known as before. What watches it heeds what changed.
fn resettle(fleet: &Fleet, id: WorkerId, asked: &WorkerSettings) -> Result<(), GatewayError> {
    let member = fleet.dispatcher.member(id);
    // By the name that it was given when it joined, should its own have been taken.
    let worker = WorkerSettings { name: member.settings.name.clone(), ..asked.clone() };
    let upstream = upstream(fleet, &worker)?;
    tracing::info!(worker = worker.name, url = worker.url, "worker has other settings");
    let traits = traits(&worker);
    fleet.dispatcher.resettle(traits, Arc::new(member.with(worker, upstream)));
    Ok(())
}

/// How a worker is spoken to.
fn upstream(fleet: &Fleet, worker: &WorkerSettings) -> Result<Arc<Upstream>, GatewayError> {
    let address = worker.check()?;
    let name = HeaderValue::from_str(&worker.name).expect("the name was checked");
    let tls = fleet.worker_tls.of(&worker.traits, &address);
    let tls = tls.map_err(|error| worker.tls_error(error))?;
    let upstream = Upstream::new(name, address, &fleet.dispatcher.settings());
    let upstream = upstream.with_key(&worker.traits).with_tls(tls);
    Ok(Arc::new(upstream.with_rank(worker.data_parallel_rank)))
}

fn traits(worker: &WorkerSettings) -> Traits {
    let sequences_max = worker.traits.sequences_max.map(NonZeroU32::get);
    Traits { shares_blocks: worker.traits.kv_share, sequences_max }
}
