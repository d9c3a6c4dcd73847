//! What do all requests of one gateway share?
//!
//! The core's state behind a lock that is held for microseconds and never across an await, the
//! workers that run parallel to it, and the count of what is in flight. Every claim on any of these
//! is a value that gives itself back when dropped, so a client that leaves at any moment leaks
//! nothing.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use overdraft_core::admit::Ticket;
use overdraft_core::breaker::BreakerSettings;
use overdraft_core::fleet::{Change, Failure, Probe, RefusalKind, Turn, WorkerId};
pub(crate) use overdraft_core::route::Strictness;
use overdraft_core::route::{
    Choice, Ejections, GiveUp, Placed, RouteSettings, Router, Tried, Verdict, retry,
};
use overdraft_store::{Place, Status};
use overdraft_telemetry::Clock;
use overdraft_telemetry::metrics::{
    AdmissionMetrics, CacheMetrics, CanaryMetrics, CareMetrics, CascadeMetrics, GatewayMetrics,
    RoutingMetrics, SharingMetrics,
};
use overdraft_units::Instant;

use crate::admission::Lobby;
use crate::cache::Cache;
use crate::care::Repairs;
use crate::cascade::{self, Cascades, Shadows};
use crate::catalogue::Catalogue;
use crate::explain;
use crate::fingerprint::Fingerprint;
use crate::intake::Intake;
use crate::isolation::Salts;
use crate::keys::{Budgets, Keyring};
use crate::lease::Lease;
use crate::roster::{Roster, Sources};
use crate::routes::Routes;
use crate::scaling::Holds;
use crate::settings::{GatewayError, GatewaySettings, Pool};
use crate::tokenizing::Tokenizers;
use crate::trial::Trials;
use crate::upstream::Upstream;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    settings: ArcSwap<GatewaySettings>,
    routes: ArcSwap<Routes>,
    pub(crate) clock: Clock,
    pub(crate) catalogue: Catalogue,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) routing: RoutingMetrics,
    pub(crate) admission: AdmissionMetrics,
    /// Who waits for a worker.
    pub(crate) lobby: Lobby,
    keyring: ArcSwap<Keyring>,
    pub(crate) care: CareMetrics,
    pub(crate) repairs: Repairs,
    pub(crate) holds: Holds,
    pub(crate) sharing: SharingMetrics,
    pub(crate) cascade: CascadeMetrics,
    /// Small models that are asked first.
    pub(crate) cascades: Cascades,
    /// Models and cascades on trial.
    pub(crate) trials: Trials,
    /// Answers that are to be compared.
    pub(crate) shadows: Shadows,
    /// Answers that may be given again.
    pub(crate) cache: Cache,
    salts: ArcSwap<Salts>,
    /// How what gateways share is.
    pub(crate) store: Arc<Status>,
    /// What keys have spent, over all gateways that share.
    pub(crate) budgets: Arc<Budgets>,
    /// A number that no other gateway has, for draws.
    dice: u64,
    /// Held by who sets the gauges of the fleet and reads them off: another's setting in between
    /// would leave series out.
    pub(crate) reading: Mutex<()>,
    pub(crate) intake: Intake,
    pub(crate) roster: Roster,
    pub(crate) sources: Sources,
    pub(crate) tokenizers: Tokenizers,
    router: Mutex<Router>,
    requests: AtomicUsize,
    streams: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(settings: GatewaySettings, clock: Clock) -> Result<Self, GatewayError> {
        settings.check()?;
        let routes = Routes::new(settings.routing.clone(), &settings.cascades);
        let catalogue = Catalogue::default();
        catalogue.rename(&routes);
        let mut metrics = GatewayMetrics::new();
        let dice = RandomState::new().hash_one(0_u64);
        let mut router = Router::new(settings.routing.prefix);
        router.set_breakers(BreakerSettings { dice, ..settings.breaker });
        router.set_queue(settings.admission.queue);
        router.set_spare(cascade::drafts(&settings.cascades));
        let cache = Cache::new(&settings, CacheMetrics::new(metrics.registry_mut()))?;
        let salts = Salts::new(&settings.isolation, None);
        warn_of_drawn(&salts, &settings);
        Ok(Self {
            cache,
            salts: ArcSwap::from_pointee(salts),
            catalogue,
            routing: RoutingMetrics::new(metrics.registry_mut()),
            admission: AdmissionMetrics::new(metrics.registry_mut()),
            lobby: Lobby::default(),
            keyring: ArcSwap::from_pointee(Keyring::new(&settings.keys)),
            care: CareMetrics::new(metrics.registry_mut()),
            repairs: Repairs::default(),
            holds: Holds::default(),
            sharing: SharingMetrics::new(metrics.registry_mut()),
            cascade: CascadeMetrics::new(metrics.registry_mut()),
            cascades: Cascades::new(&settings.cascades),
            trials: Trials::new(&settings.canaries, CanaryMetrics::new(metrics.registry_mut())),
            shadows: Shadows::default(),
            store: Arc::default(),
            budgets: Arc::default(),
            dice,
            metrics,
            reading: Mutex::new(()),
            intake: Intake::default(),
            roster: Roster::default(),
            sources: Sources::default(),
            tokenizers: Tokenizers::default(),
            clock,
            router: Mutex::new(router),
            routes: ArcSwap::from_pointee(routes),
            settings: ArcSwap::from_pointee(settings),
            requests: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
        })
    }

    /// What is set now; for a moment's look. Every request looks a dozen times, and counting who looks
    /// would have all threads write to one place.
    pub(crate) fn settings(&self) -> Guard<Arc<GatewaySettings>> {
        self.settings.load()
    }

    /// How requests are routed now; for a moment's look.
    pub(crate) fn routes(&self) -> Guard<Arc<Routes>> {
        self.routes.load()
    }

    /// Puts other settings in force; requests that are under way keep theirs.
    pub(crate) fn adopt(&self, settings: GatewaySettings) {
        let routes = Routes::new(settings.routing.clone(), &settings.cascades);
        self.cascades.adopt(&settings.cascades);
        self.trials.adopt(&settings.canaries);
        self.catalogue.rename(&routes);
        let others = !self.routes().has_same_tokenizers(&routes);
        self.routes.store(Arc::new(routes));
        let mut router = self.router();
        router.set_breakers(BreakerSettings { dice: self.dice, ..settings.breaker });
        router.set_spare(cascade::drafts(&settings.cascades));
        drop(router);
        if others {
            self.tokenizers.forget();
        }
        let keyring = Keyring::new(&settings.keys);
        self.budgets.retain(&keyring.numbers());
        self.keyring.store(Arc::new(keyring));
        self.router().set_queue(settings.admission.queue);
        self.cache.adopt(&self.settings(), &settings, self.clock.now());
        let salts = Salts::new(&settings.isolation, Some(&self.salts()));
        self.salts.store(Arc::new(salts));
        self.settings.store(Arc::new(settings));
        self.router().freed();
        self.lobby.ring(self);
    }

    /// What salts are made with now.
    pub(crate) fn salts(&self) -> Guard<Arc<Salts>> {
        self.salts.load()
    }

    /// Whose keys are known now.
    pub(crate) fn keyring(&self) -> Guard<Arc<Keyring>> {
        self.keyring.load()
    }

    /// The state of the core; let go of it before the next await.
    pub(crate) fn router(&self) -> MutexGuard<'_, Router> {
        // A panic while it is held is a defect of the core, whose books may then be off by one
        // request; refusing all others would be worse.
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn upstream(&self, worker: WorkerId) -> Arc<Upstream> {
        self.roster.upstream(worker)
    }

    /// What a worker is for.
    pub(crate) fn pool(&self, worker: WorkerId) -> Pool {
        self.roster.member(worker).settings.pool
    }

    /// Asks the core for a worker and books the attempt, in one step. The prompt is yet to be
    /// [remembered](Lease::remember).
    pub(crate) fn choose(
        self: &Arc<Self>,
        print: &Fingerprint,
        (tried, turn): (&Tried, Turn),
        strictness: Strictness,
        explained: &mut Option<Bytes>,
    ) -> Result<Lease, Choice> {
        let routes = self.routes();
        let unbounded;
        let mut settings = routes.route(&print.model);
        if strictness == Strictness::Waived || print.is_chore {
            unbounded = Strictness::Waived.over(settings);
            settings = &unbounded;
        }
        self.decide(print, (settings, tried), explained, |router, now| {
            router.place(print.request(), settings, (tried, turn), now)
        })
    }

    /// The same for the first attempt of a request that has waited and is called. If there is no room after
    /// all, it waits on.
    pub(crate) fn choose_called(
        self: &Arc<Self>,
        print: &Fingerprint,
        ticket: Ticket,
        explained: &mut Option<Bytes>,
    ) -> Result<Lease, Choice> {
        let routes = self.routes();
        let settings = routes.route(&print.model);
        self.decide(print, (settings, &Tried::default()), explained, |router, now| {
            router.place_called(ticket, print.request(), settings, now)
        })
    }

    fn decide(
        self: &Arc<Self>,
        print: &Fingerprint,
        (settings, tried): (&RouteSettings, &Tried),
        explained: &mut Option<Bytes>,
        place: impl FnOnce(&mut Router, Instant) -> Result<Placed, Choice>,
    ) -> Result<Lease, Choice> {
        let mut router = self.router();
        let now = self.clock.now();
        let words = explained.is_some().then(|| {
            router.explain(print.request(), settings, tried, now);
            explain::text(&router, &self.roster, print)
        });
        let placed = place(&mut router, now);
        let waived = router.decision().ejections == Ejections::Waived;
        let facts = explain::Facts::of(&router, print);
        drop(router);
        if let Some(words) = words {
            *explained = Some(words);
        }
        self.routing.decided(&facts.outcome());
        if waived {
            self.sharing.panicked();
        }
        let placed = placed?;
        if placed.is_trial() {
            self.sharing.tried();
        }
        let member = self.roster.member(placed.worker());
        Ok(Lease::new(Arc::clone(self), member, placed))
    }

    /// Asks the core whether a failed attempt at a request for `model` is made again.
    pub(crate) fn retry(&self, model: &str, tried: &Tried) -> Verdict {
        let now = self.clock.now();
        retry(self.router().fleet(), self.settings.load().retry, (model, tried), now)
    }

    /// The same, where it is told first who failed and how.
    pub(crate) fn failed(
        &self,
        model: &str,
        tried: &mut Tried,
        (worker, failure): (WorkerId, Failure),
    ) -> Verdict {
        let now = self.clock.now();
        let settings = self.settings.load().retry;
        let mut router = self.router();
        tried.fail(worker, failure, router.fleet(), now);
        let verdict = retry(router.fleet(), settings, (model, tried), now);
        if verdict == Verdict::GiveUp(GiveUp::Agreed) {
            router.agreed(tried);
        }
        verdict
    }

    /// A worker gave a result to what others said that there is not.
    pub(crate) fn refuted(&self, tried: &Tried) {
        if tried.disputing().next().is_some() {
            let change = self.router().refuted(tried, self.clock.now());
            self.tell(change);
        }
    }

    /// Reports what a probe saw.
    pub(crate) fn probed(&self, worker: WorkerId, probe: Probe<'_>) {
        let now = self.clock.now();
        let change = self.router().probed(worker, probe, now);
        if change.is_some() {
            self.lobby.ring(self);
        }
        self.tell(change);
    }

    /// A full worker is no news; one that somebody has to mend is.
    fn tell_refusal(&self, worker: WorkerId, kind: RefusalKind) {
        let upstream = self.upstream(worker);
        let (worker, why) = (upstream.name(), kind.name());
        match kind {
            RefusalKind::Saturated => tracing::debug!(worker, why, "worker is passed over"),
            RefusalKind::Failing | RefusalKind::Misconfigured => {
                tracing::warn!(worker, why, "worker is passed over: it turns requests away");
            }
        }
    }

    /// Takes a place among the requests in flight.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Visit> {
        take(&self.requests, self.settings.load().limits.requests)
            .then(|| Visit { shared: Arc::clone(self), streaming: false })
    }

    /// Tells the log what changed, and counts it.
    pub(crate) fn tell(&self, change: Option<Change>) {
        let Some(change) = change else { return };
        match change {
            Change::CameUp(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker came up");
            }
            Change::ModelsChanged(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker changed its models");
            }
            Change::WentDown(worker, cause) => {
                let upstream = self.upstream(worker);
                tracing::warn!(worker = upstream.name(), ?cause, "worker went down");
                upstream.sweep();
            }
            Change::Opened(worker) => {
                let upstream = self.upstream(worker);
                tracing::warn!(worker = upstream.name(), "worker is out: it fails its requests");
                self.sharing.turned("open");
                upstream.sweep();
            }
            Change::HalfOpened(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker is tried again");
                self.sharing.turned("half_open");
            }
            Change::Closed(worker) => {
                tracing::info!(worker = self.upstream(worker).name(), "worker is back");
                self.sharing.turned("closed");
            }
            Change::Refuses(worker, kind) => self.tell_refusal(worker, kind),
        }
    }
}

/// Says where gateways that share everything else make salts of their own.
fn warn_of_drawn(salts: &Salts, settings: &GatewaySettings) {
    if !salts.is_drawn() || settings.keys.is_empty() {
        return;
    }
    if matches!(settings.store.place, Place::Redis(_)) {
        tracing::warn!(
            "the secret of cache salts was drawn: other gateways make other salts, so a prefix that \
             one of them left is not found through the others; set `isolation.salt_secret`"
        );
    } else {
        tracing::info!(
            "the secret of cache salts was drawn: what workers have cached is not found again after a \
             restart of the gateway; set `isolation.salt_secret` to keep it"
        );
    }
}

/// Counts one more unless that would be too many.
fn take(count: &AtomicUsize, max: usize) -> bool {
    let one_more = |taken| (taken < max).then_some(taken + 1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
}

/// A request's place among those in flight.
#[derive(Debug)]
pub(crate) struct Visit {
    shared: Arc<Shared>,
    streaming: bool,
}

impl Visit {
    /// Takes a place among the streams as well; false when there is none.
    pub(crate) fn stream(&mut self) -> bool {
        self.streaming = take(&self.shared.streams, self.shared.settings.load().limits.streams);
        self.streaming
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.shared.requests.fetch_sub(1, Ordering::Relaxed);
        if self.streaming {
            self.shared.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
