//! Members of the fleet: the shell's side of each worker, by the number that the core gave it.
//!
//! Invariant: while an attempt is in flight at a worker, the worker's index in the table is not
//! reused.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use overdraft_core::cascade::Abilities;
use overdraft_core::fleet::WorkerId;
use overdraft_core::resume::Ability;
use overdraft_units::{self as units, Micros};
use overdraft_wire::prometheus::engine::WorkerReport;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use xxhash_rust::xxh3::xxh3_64;

use super::FieldRefusals;
use crate::settings::{Credentials, GatewaySettings, WorkerSettings};
use crate::upstream::Upstream;

/// One worker and what belongs to it in the shell.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: WorkerId,
    /// Its name, for whoever keeps it.
    name: Arc<str>,
    /// What all gateways know it by on the board: its name and its address. What replaces it under its name, as a pod of
    /// a `StatefulSet` does, is another.
    pub(super) board_number: u64,
    pub(crate) settings: WorkerSettings,
    pub(crate) upstream: Arc<Upstream>,
    /// What stays where its settings change: requests under way hold the member that they were sent to.
    state: Arc<State>,
}

/// What is known of a worker whatever its settings, and what watches it.
#[derive(Debug, Default)]
struct State {
    /// The fields of the gateway's own that it does not take.
    refusals: FieldRefusals,
    /// How it can be asked to score drafts.
    abilities: Mutex<Abilities>,
    /// Whether it asks for a key that the gateway does not have, and the models that it listed to a client's.
    lock: Mutex<Option<Bytes>>,
    /// Rings while its engine stands still.
    still: Notify,
    /// Whether it did when it was last asked.
    is_still: AtomicBool,
    /// Whether it had work and counted nothing between its last two reports.
    is_paused: AtomicBool,
    /// What it understands of what resuming needs.
    resume_ability: Mutex<Ability>,
    /// When its drain began, in microseconds from one on; zero while there is none.
    leaves_since: AtomicU64,
    /// When it was found to take nothing new, plus one; zero while it does.
    down_since: AtomicU64,
    /// Whether it has been looked at since it joined: what it serves is known then, or that it does not answer.
    is_asked: AtomicBool,
    /// What watches it; ends with it.
    watchers: Mutex<JoinSet<()>>,
    /// What its engine last reported of itself.
    reports: Mutex<Option<WorkerReport>>,
    /// Tells of other settings.
    changes: watch::Sender<()>,
}

impl Member {
    /// A worker that nothing watches yet.
    pub(crate) fn new(id: WorkerId, settings: WorkerSettings, upstream: Arc<Upstream>) -> Self {
        let name: Arc<str> = upstream.name().into();
        let address = settings.url.trim_end_matches('/');
        let board_number = xxh3_64(format!("{name} {address}").as_bytes());
        Self { id, name, board_number, settings, upstream, state: Arc::default() }
    }

    /// The same worker by other settings.
    pub(crate) fn with(&self, settings: WorkerSettings, upstream: Arc<Upstream>) -> Self {
        if upstream.key != self.upstream.key {
            // Whether it takes this key is for the next look to tell.
            self.unlocked();
        }
        let (name, state) = (Arc::clone(&self.name), Arc::clone(&self.state));
        Self { id: self.id, name, board_number: self.board_number, settings, upstream, state }
    }

    /// The changes of its settings from now on.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.state.changes.subscribe())
    }

    /// The fields of the gateway's own that it does not take.
    pub(crate) fn refusals(&self) -> &FieldRefusals {
        &self.state.refusals
    }

    /// Whether its engine computes nothing though it has work, as far as it tells.
    pub(crate) fn note_standstill(&self, is_still: bool) {
        self.state.is_still.store(is_still, Ordering::Relaxed);
        if is_still {
            self.state.still.notify_waiters();
        }
    }

    /// Whether its engine computed nothing when it last told.
    pub(crate) fn is_still(&self) -> bool {
        self.state.is_still.load(Ordering::Relaxed)
    }

    /// Whether its engine had work and counted nothing between its last two reports, which one long step does too.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.is_paused.load(Ordering::Relaxed)
    }

    /// It had work and counted nothing since the report before, or it did not.
    pub(crate) fn note_pause(&self, is_paused: bool) {
        self.state.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Resolves when its engine stands still, `from` then on.
    pub(crate) async fn until_still(&self, from: Instant) {
        loop {
            self.state.still.notified().await;
            if from <= Instant::now() {
                return;
            }
        }
    }

    /// Whose credentials it is shown: its own where they are configured, else the client's where the worker asks
    /// for some and the gateway has no keys of its own, which those would be.
    pub(crate) fn credentials(&self, settings: &GatewaySettings) -> Credentials {
        let is_open = settings.is_open();
        match settings.credentials {
            _ if self.upstream.key.is_some() => Credentials::Strip,
            Credentials::Strip if is_open && self.lock().is_some() => Credentials::Forward,
            configured => configured,
        }
    }

    /// It asks for a key. The models that it has listed to a client's, none at first.
    pub(crate) fn locked(&self) -> Bytes {
        self.lock().get_or_insert_default().clone()
    }

    /// Whether it asks for a key.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock().is_some()
    }

    /// It listed these to a client's key.
    pub(crate) fn lists(&self, models: Bytes) {
        *self.lock() = Some(models);
    }

    /// It asks for no key, or nobody knows, and whatever it has said is not sure any more.
    pub(crate) fn unlocked(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Bytes>> {
        self.state.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it can be asked to score drafts.
    pub(crate) fn abilities(&self) -> MutexGuard<'_, Abilities> {
        self.state.abilities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its engine reported this of itself.
    pub(crate) fn reported(&self, report: WorkerReport) {
        *self.state.reports.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// What its engine last reported of itself.
    pub(crate) fn report(&self) -> Option<WorkerReport> {
        self.state.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it understands of what resuming needs.
    pub(crate) fn resume_ability(&self) -> MutexGuard<'_, Ability> {
        self.state.resume_ability.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is sent nothing new from `now` on; or is again.
    pub(crate) fn leaves(&self, now: Option<units::Instant>) {
        store(&self.state.leaves_since, now);
    }

    /// It takes nothing new any more, as was found at `now`, and may go on with what it has: so does a process that was
    /// told to end.
    pub(crate) fn went_down(&self, now: units::Instant) {
        if self.state.down_since.load(Ordering::Relaxed) == 0 {
            store(&self.state.down_since, Some(now));
        }
    }

    /// It is up again.
    pub(crate) fn came_up(&self) {
        store(&self.state.down_since, None);
    }

    /// Since when it has been sent nothing new: it drains, or is down.
    pub(crate) fn leaves_since(&self) -> Option<units::Instant> {
        let since = [&self.state.leaves_since, &self.state.down_since].map(|since| {
            let since = since.load(Ordering::Relaxed).checked_sub(1)?;
            Some(units::Instant::ORIGIN + Micros::new(since))
        });
        since.into_iter().flatten().min()
    }

    /// The tasks that watch it.
    pub(crate) fn watchers(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.state.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends its watchers.
    pub(crate) fn dismiss(&self) {
        self.watchers().abort_all();
    }
}

/// Changes of the settings of one worker.
#[derive(Debug)]
pub(crate) struct Changes(watch::Receiver<()>);

impl Changes {
    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The worker is gone, and nobody changes it any more.
            std::future::pending::<()>().await;
        }
    }

    /// Waits for one after which `is_other` holds.
    pub(crate) async fn until(&mut self, is_other: impl Fn() -> bool) {
        loop {
            self.next().await;
            if is_other() {
                return;
            }
        }
    }
}

/// Notes a time; zero is none.
fn store(since: &AtomicU64, now: Option<units::Instant>) {
    let at = now.map_or(0, |now| now.since(units::Instant::ORIGIN).get().saturating_add(1));
    since.store(at, Ordering::Relaxed);
}

/// How long after a gateway's start a request may wait until it is known what workers serve: a source of workers that
/// does not answer would else hold up every request for a model that there is not.
const FIRST_LOOKS_MAX: Duration = Duration::from_secs(10);

/// The table of members.
#[derive(Debug)]
pub(crate) struct Members {
    /// When the gateway began.
    begun: Instant,
    /// By place in the fleet. A member that left stays until its place is another's: answers of
    /// its are still on their way.
    places: RwLock<Vec<Option<Arc<Member>>>>,
    /// How many of those that name workers (the settings, and each discovery) have done so.
    sources: AtomicUsize,
    /// Rings when one of them has, and when a member has been looked at for the first time.
    first_looks: Notify,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            places: RwLock::default(),
            sources: AtomicUsize::new(0),
            first_looks: Notify::new(),
        }
    }
}

impl Members {
    /// The worker at a place that the core gave out, as it is spoken to.
    pub(crate) fn upstream(&self, worker: WorkerId) -> Arc<Upstream> {
        Arc::clone(&self.get(worker).upstream)
    }

    /// The same with all that belongs to it.
    pub(crate) fn get(&self, worker: WorkerId) -> Arc<Member> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let member = places.get(worker.index()).and_then(Option::as_ref);
        Arc::clone(member.expect("the core only names places that it gave out"))
    }

    /// The names of workers at places that the core gave out.
    pub(crate) fn names(&self, workers: impl Iterator<Item = WorkerId>) -> Vec<Arc<str>> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        let name = |worker: WorkerId| {
            let member = places.get(worker.index()).and_then(Option::as_ref);
            Arc::clone(&member.expect("the core only names places that it gave out").name)
        };
        workers.map(name).collect()
    }

    /// A member was looked at, or will not be any more.
    pub(crate) fn asked(&self, member: &Member) {
        if !member.state.is_asked.swap(true, Ordering::Relaxed) {
            self.first_looks.notify_waiters();
        }
    }

    /// So many sources have named their workers, and those are members.
    pub(crate) fn named_by(&self, sources: usize) {
        self.sources.store(sources, Ordering::Relaxed);
        self.first_looks.notify_waiters();
    }

    /// Whether `sources` have named their workers and every member has been looked at: before that nobody knows which
    /// models there are.
    fn are_asked(&self, sources: usize) -> bool {
        if self.sources.load(Ordering::Relaxed) < sources {
            return false;
        }
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.iter().flatten().all(|member| member.state.is_asked.load(Ordering::Relaxed))
    }

    /// Waits until that is so, for so long at most and only soon after a start; whether there was anything to wait for.
    pub(crate) async fn until_asked(&self, sources: usize, patience: Duration) -> bool {
        let looks = async {
            let mut waited = false;
            loop {
                let mut look = pin!(self.first_looks.notified());
                look.as_mut().enable();
                if self.are_asked(sources) {
                    return waited;
                }
                waited = true;
                look.await;
            }
        };
        let left = FIRST_LOOKS_MAX.saturating_sub(self.begun.elapsed());
        !left.is_zero() && timeout(patience.min(left), looks).await.unwrap_or(true)
    }

    /// Ends every watcher.
    pub(crate) fn dismiss(&self) {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.iter().flatten().for_each(|member| member.dismiss());
    }

    /// Enters a member at its place; who was there before has left.
    pub(crate) fn seat(&self, member: Arc<Member>) {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let place = member.id.index();
        if places.len() <= place {
            places.resize_with(place + 1, || None);
        }
        places[place] = Some(member);
    }

    /// Puts a member in the place of the same worker by its settings before, and tells what watches it.
    pub(crate) fn replace(&self, member: Arc<Member>) {
        let state = Arc::clone(&member.state);
        self.seat(member);
        state.changes.send_replace(());
    }
}
