//! Response cache: stores answers and serves them again to equal requests.
//!
//! `core::response_cache` decides which requests are looked up and which answers are stored; this folder
//! makes the key (`request`), stores the bytes locally (`Cache`) and for other gateways
//! (`ResponseStore`), serves a stored answer in the requested form (`replay`), and lets equal
//! concurrent requests share one answer (`single_flight`, `leader`). A request's path through it is
//! `serve`.
//!
//! **Invariants.** Only the tenant for which an answer was made can find it. Only answers that
//! ended cleanly are stored. An unreachable store costs a tenth of a second now and then, and never
//! an answer. See `docs/design/cache.md`.

pub(crate) mod admin;
mod entry;
mod leader;
mod replay;
mod request;
pub(crate) mod serve;
mod single_flight;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use overdraft_core::response_cache::{Evicted, Found, Openings, Shelf};
use overdraft_store::{Name, OpenError, ResponseStore, Scope, StoreSettings};
use overdraft_telemetry::metrics::{CacheGauges, CacheMetrics};
use overdraft_units::{Instant, Micros};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use self::entry::Entry;
use self::single_flight::Flights;
use crate::pipeline::Pipeline;
use crate::settings::{CacheMode, CacheSettings, GatewaySettings};

/// How often it is looked whether another gateway has purged anything.
const PURGES_INTERVAL: Duration = Duration::from_secs(1);

/// How long questions under way may take to end once no client is left.
const LEADERS_PATIENCE: Duration = Duration::from_secs(2);

/// The answers that are kept, and the questions under way.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) pipeline: Arc<Pipeline>,
    /// Questions under way, which answer all that wait for them.
    leaders: TaskTracker,
    shelf: Mutex<Shelf<Arc<Entry>>>,
    /// Bytes for all that is kept and all that flights hold.
    memory: AtomicU64,
    flights: Arc<Flights>,
    /// How long answers take to begin.
    openings: Mutex<Openings>,
    /// Purges so far: what was asked for before one is not kept after it. Changed while the shelf is locked.
    purges: AtomicU64,
    response_store: ArcSwapOption<ResponseStore>,
    pub(crate) metrics: Arc<CacheMetrics>,
    /// Entries that were purged here.
    purged: AtomicU64,
}

impl Cache {
    /// A cache before `pipeline`.
    ///
    /// # Errors
    /// [`OpenError`] where the store's certificates cannot be used.
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        metrics: Arc<CacheMetrics>,
    ) -> Result<Self, OpenError> {
        let settings = Arc::clone(&pipeline.settings());
        let response_store = open(&settings.cache, &settings.store)?;
        Ok(Self {
            pipeline,
            leaders: TaskTracker::new(),
            shelf: Mutex::new(Shelf::new(room(&settings.cache))),
            memory: AtomicU64::new(room(&settings.cache)),
            flights: Arc::new(Flights::new(room(&settings.cache))),
            openings: Mutex::default(),
            purges: AtomicU64::new(0),
            response_store: ArcSwapOption::new(response_store.map(Arc::new)),
            metrics,
            purged: AtomicU64::new(0),
        })
    }

    /// Puts other settings in force.
    pub(crate) fn adopt(&self, before: &GatewaySettings, next: &GatewaySettings) {
        let now = self.pipeline.dispatcher.clock.now();
        self.memory.store(room(&next.cache), Ordering::Relaxed);
        self.flights.resize(room(&next.cache));
        self.make_room(now);
        let place = |settings: &GatewaySettings| {
            let cache = &settings.cache;
            (
                is_shared(cache),
                cache.encryption_key.clone(),
                cache.entry_bytes,
                settings.store.clone(),
            )
        };
        if place(before) == place(next) {
            return;
        }
        match open(&next.cache, &next.store) {
            Ok(response_store) => self.response_store.store(response_store.map(Arc::new)),
            Err(error) => {
                self.response_store.store(None);
                tracing::error!(%error, "the store cannot be used; answers are kept in memory alone");
            }
        }
    }

    /// Waits until every question under way has ended: whoever waited for one has left by then.
    pub(crate) async fn end(&self) {
        self.flights.close_all();
        self.leaders.close();
        if timeout(LEADERS_PATIENCE, self.leaders.wait()).await.is_err() {
            tracing::warn!(
                questions = self.leaders.len(),
                "shared questions under way are given up"
            );
        }
    }

    pub(crate) fn response_store(&self) -> Option<Arc<ResponseStore>> {
        self.response_store.load_full()
    }

    /// What is kept under that name, for the same tenant.
    pub(crate) fn recall(&self, name: &Name, now: Instant) -> Option<Arc<Entry>> {
        let mut shelf = self.shelf();
        let (result, entry) = match shelf.get(&name.key, now) {
            Found::Hit(entry) if entry.tenant == name.tenant => ("hit", Some(Arc::clone(entry))),
            // The key has the tenant in it, so this takes a defect of ours, or broken memory.
            Found::Hit(_) => ("misplaced", None),
            Found::Expired => ("expired", None),
            Found::Missing => ("miss", None),
        };
        drop(shelf);
        self.metrics.looked_up("memory", result);
        entry
    }

    /// Keeps an entry as `term` says.
    pub(crate) fn put(&self, name: &Name, entry: Arc<Entry>, term: Term, now: Instant) {
        let until = now + Micros::from(term.life);
        self.make_room(now);
        let mut shelf = self.shelf();
        if self.purges() != term.purges {
            drop(shelf);
            self.metrics.unkept("purged");
            return;
        }
        let evicted = shelf.insert(name.key, entry, term.bytes, until, now);
        drop(shelf);
        self.note(evicted);
    }

    /// Purges so far.
    pub(crate) fn purges(&self) -> u64 {
        self.purges.load(Ordering::Relaxed)
    }

    /// Lets go of kept answers as far as flights need their memory.
    pub(crate) fn make_room(&self, now: Instant) {
        let left = self.memory.load(Ordering::Relaxed).saturating_sub(self.flights.held());
        let evicted = self.shelf().resize(left, now);
        self.note(evicted);
    }

    /// How long answers take to begin.
    pub(crate) fn openings(&self) -> MutexGuard<'_, Openings> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes away what is within `scope`, here; how many went.
    pub(crate) fn forget(&self, scope: Scope) -> usize {
        let mut shelf = self.shelf();
        // What is under way is of before, whatever its scope: purges are rare, and a miss is no error.
        self.purges.fetch_add(1, Ordering::Relaxed);
        let gone = shelf.retain(|entry| match scope {
            Scope::All => false,
            Scope::Tenant(tenant) => entry.tenant != tenant,
            Scope::Model(model) => entry.model != model,
            Scope::Both(tenant, model) => entry.tenant != tenant || entry.model != model,
        });
        drop(shelf);
        self.flights.close_all();
        self.purged.fetch_add(u64::try_from(gone).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.metrics.evicted("purged", gone);
        gone
    }

    /// What there is, for views and metrics.
    pub(crate) fn gauges(&self) -> CacheGauges {
        let shelf = self.shelf();
        let (bytes, entries) = (shelf.bytes() + self.flights.held(), shelf.len());
        drop(shelf);
        let response_store = self.response_store();
        let status = response_store.as_ref().map(|response_store| response_store.status());
        CacheGauges {
            bytes,
            entries: u64::try_from(entries).unwrap_or(u64::MAX),
            faults: status.map_or_else(Vec::new, |status| {
                status.faults.faults().map(|(fault, count)| (fault.name(), count)).collect()
            }),
            unusable: status.map_or_else(Vec::new, |status| {
                status.unusable().map(|(why, count)| (why.name(), count)).collect()
            }),
        }
    }

    fn note(&self, evicted: Evicted) {
        for (reason, count) in [("room", evicted.for_room), ("expired", evicted.expired)] {
            self.metrics.evicted(reason, usize::try_from(count).unwrap_or(usize::MAX));
        }
    }

    /// Never held for longer than a look-up takes.
    fn shelf(&self) -> MutexGuard<'_, Shelf<Arc<Entry>>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an entry is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    /// What it counts as.
    pub(crate) bytes: u64,
    /// For how long it may be given.
    pub(crate) life: Duration,
    /// Purges before it was asked for: one since then is meant for it.
    pub(crate) purges: u64,
}

const fn room(cache: &CacheSettings) -> u64 {
    match cache.mode {
        CacheMode::Off => 0,
        CacheMode::Observe | CacheMode::On => cache.memory_bytes,
    }
}

fn is_shared(cache: &CacheSettings) -> bool {
    cache.shared && cache.mode == CacheMode::On
}

fn open(cache: &CacheSettings, store: &StoreSettings) -> Result<Option<ResponseStore>, OpenError> {
    if !is_shared(cache) {
        return Ok(None);
    }
    let entry_max = Entry::encoded_max(cache.entry_bytes);
    ResponseStore::open(store, cache.encryption_key.clone(), entry_max)
}

/// Lets go of what another gateway has purged, and of all else with it, for purges are rare and what
/// was not meant is found at the store. The background owns this.
pub(crate) async fn heed_purges(cache: Arc<Cache>) {
    let mut known = None;
    loop {
        // The first word that is heard is news too: something may have been purged before it.
        if let Some(response_store) = cache.response_store()
            && let Ok(purged) = response_store.purged().await
            && known.as_ref() != Some(&purged)
        {
            known = Some(purged);
            let entries = cache.forget(Scope::All);
            tracing::debug!(entries, "answers were purged; those in memory are let go of");
        }
        tokio::time::sleep(PURGES_INTERVAL).await;
    }
}
