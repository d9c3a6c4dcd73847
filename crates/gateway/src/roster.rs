//! Who is in the fleet right now, and who watches each of them?
//!
//! The settings and every discovery name workers; the roster is their union, by address. A worker
//! that is new joins the fleet and gets its watchers; one that nobody names any more leaves, its
//! watchers end, and what is in flight on it may finish. The core gives out the places; this table
//! runs parallel to it.
//!
//! Invariant: while an attempt is in flight on a worker, its place in the table is its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use http::HeaderValue;
use indexmap::IndexMap;
use overdraft_core::cascade::Abilities;
use overdraft_core::fleet::{WORKERS_MAX, WorkerId};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use xxhash_rust::xxh3::xxh3_64;

use crate::discovery::Standing;
use crate::settings::{GatewayError, WorkerSettings};
use crate::shared::Shared;
use crate::upstream::Upstream;
use crate::{reports, scrape};

/// One worker and what belongs to it in the shell.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: WorkerId,
    pub(crate) settings: WorkerSettings,
    pub(crate) upstream: Arc<Upstream>,
    /// How it can be asked to score drafts.
    abilities: Arc<Mutex<Abilities>>,
    watchers: Vec<AbortHandle>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl Member {
    /// How it can be asked to score drafts.
    pub(crate) fn abilities(&self) -> MutexGuard<'_, Abilities> {
        self.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends its watchers.
    fn dismiss(&self) {
        for watcher in &self.watchers {
            watcher.abort();
        }
    }
}

/// The table of workers.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// By place in the fleet. A member that left stays until its place is another's: answers of
    /// its are still on their way.
    places: RwLock<Vec<Option<Arc<Member>>>>,
}

impl Roster {
    /// The worker at a place that the core gave out.
    pub(crate) fn upstream(&self, worker: WorkerId) -> Arc<Upstream> {
        Arc::clone(&self.member(worker).upstream)
    }

    /// The same with all that belongs to it.
    pub(crate) fn member(&self, worker: WorkerId) -> Arc<Member> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let member = places.get(worker.index()).and_then(Option::as_ref);
        Arc::clone(member.expect("the core only names places that it gave out"))
    }

    /// Ends every watcher.
    pub(crate) fn dismiss(&self) {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.iter().flatten().for_each(|member| member.dismiss());
    }

    fn seat(&self, member: Member) {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let place = member.id.index();
        if places.len() <= place {
            places.resize_with(place + 1, || None);
        }
        places[place] = Some(Arc::new(member));
    }
}

/// What is named now, by whom, and who of them is in the fleet.
#[derive(Debug, Default)]
pub(crate) struct Registrar {
    /// By source: the settings are source zero, discoveries follow.
    named: BTreeMap<usize, Vec<WorkerSettings>>,
    /// By address.
    members: BTreeMap<String, (WorkerId, WorkerSettings)>,
    /// Addresses of workers that were draining when they left.
    drained: BTreeSet<String>,
}

/// Starts what watches a worker, and says how to end it.
pub(crate) type Watch = fn(&Arc<Shared>, WorkerId) -> Vec<AbortHandle>;

impl Registrar {
    /// Discoveries have other numbers now; what those that are gone have named is forgotten with
    /// the next word of any source.
    pub(crate) fn renumber(&mut self, number: impl Fn(usize) -> Option<usize>) {
        let named = std::mem::take(&mut self.named).into_iter();
        let renumbered = named.filter_map(|(source, workers)| Some((number(source)?, workers)));
        self.named = renumbered.collect();
    }

    /// Takes in what `source` names now.
    pub(crate) fn named(
        &mut self,
        shared: &Arc<Shared>,
        (source, workers): (usize, Vec<WorkerSettings>),
        watch: Watch,
    ) {
        self.named.insert(source, workers);
        // In the order they are named, for that is the order in which an idle fleet is asked; who
        // is named first describes it.
        let mut wanted: IndexMap<String, WorkerSettings> = IndexMap::new();
        for worker in self.named.values().flatten() {
            let url = worker.url.trim_end_matches('/').to_owned();
            wanted.entry(url).or_insert_with(|| worker.clone());
        }
        self.dismiss_all_but(&wanted, shared);
        for (url, mut worker) in wanted {
            if self.members.contains_key(&url) {
                continue;
            }
            let asked = worker.clone();
            self.distinguish(&mut worker);
            match join(shared, &worker, watch) {
                Ok(id) => {
                    if self.drained.remove(&url) {
                        shared.router().drain(id);
                    }
                    self.members.insert(url, (id, asked));
                }
                Err(error) => tracing::error!(url, %error, "worker cannot join the fleet"),
            }
        }
    }

    fn dismiss_all_but(&mut self, wanted: &IndexMap<String, WorkerSettings>, shared: &Shared) {
        let unwanted = |url: &str, known| wanted.get(url).is_none_or(|wanted| wanted != known);
        let gone: Vec<String> = self
            .members
            .iter()
            .filter(|(url, (_, known))| unwanted(url, known))
            .map(|(url, _)| url.clone())
            .collect();
        for url in gone {
            if let Some((id, worker)) = self.members.remove(&url) {
                tracing::info!(worker = worker.name, url, "worker left the fleet");
                shared.roster.member(id).dismiss();
                shared.catalogue.note(id, None);
                shared.routing.forget(
                    shared.upstream(id).name(),
                    scrape::RESULTS,
                    reports::RESULTS,
                );
                let mut router = shared.router();
                let told_to = !shared.repairs.include(id);
                if told_to
                    && router.fleet().worker(id).is_draining()
                    && self.drained.len() < WORKERS_MAX
                {
                    // Should it come back, it still is on its way out.
                    self.drained.insert(url);
                }
                router.leave(id);
            }
        }
    }

    /// Gives a worker another name when its own is taken: names are told in metrics and headers.
    fn distinguish(&self, worker: &mut WorkerSettings) {
        let taken = |name: &str| self.members.values().any(|(_, known)| known.name == name);
        if taken(&worker.name) {
            let address = WorkerSettings::new(worker.url.clone()).name;
            tracing::warn!(name = worker.name, called = address, "two workers have one name");
            worker.name = address;
        }
    }
}

fn join(
    shared: &Arc<Shared>,
    worker: &WorkerSettings,
    watch: Watch,
) -> Result<WorkerId, GatewayError> {
    let settings = shared.settings();
    let address = worker.check()?;
    let name = HeaderValue::from_str(&worker.name).expect("the name was checked");
    let upstream = Arc::new(Upstream::new(name, address, &settings));
    let abilities = Arc::default();
    let seat = |id, watchers| {
        let (settings, upstream) = (worker.clone(), Arc::clone(&upstream));
        let abilities = Arc::clone(&abilities);
        shared.roster.seat(Member { id, settings, upstream, abilities, watchers });
    };
    let id = {
        // Under one lock: whoever walks through the fleet looks each worker up here.
        let mut router = shared.router();
        let full = GatewayError::TooManyWorkers { count: WORKERS_MAX + 1 };
        let id = router.join(xxh3_64(worker.name.as_bytes())).ok_or(full)?;
        if worker.kv_share {
            router.share_blocks(id);
        }
        seat(id, Vec::new());
        id
    };
    seat(id, watch(shared, id));
    Ok(id)
}

/// How the sources of workers are doing, by what log lines call them.
#[derive(Debug, Default)]
pub(crate) struct Sources(Mutex<Vec<(String, watch::Receiver<Standing>)>>);

impl Sources {
    /// These are asked now.
    pub(crate) fn replace(&self, sources: Vec<(String, watch::Receiver<Standing>)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sources;
    }

    /// Each by name, for how long it has stood so, and what is in its way if anything is.
    pub(crate) fn standings(&self) -> Vec<(String, Duration, Option<String>)> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |(name, latest): &(String, watch::Receiver<Standing>)| {
            let standing = latest.borrow();
            (name.clone(), standing.since.elapsed(), standing.error.clone())
        };
        sources.iter().map(told).collect()
    }
}
