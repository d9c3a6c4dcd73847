//! Pipeline: what every request passes through, whatever comes before its worker is asked.
//!
//! | step                               | file                                             |
//! |------------------------------------|--------------------------------------------------|
//! | Request context and facts          | `context.rs`, `facts.rs`                         |
//! | API key or token, priority, budget | `keys/`, `jwt/`, `charges.rs`                    |
//! | Body, and a share of the places meanwhile | `body_buffers.rs`, `uploads.rs`           |
//! | Inspection of the body, and bounds | `inspect.rs`, `form.rs`, `passed.rs`, `request_info.rs`, `bounds.rs` |
//! | Prompt tokens                      | `prompt_tokens.rs`                               |
//! | Upstream body                      | `upstream_body.rs`, `usage.rs`, `tenant_salt.rs` |
//! | Admission queue, back-pressure     | `queue.rs`, `back_pressure.rs`                   |
//! | What a worker is asked             | `question.rs`                                    |
//! | Attempts, with retries             | `attempts.rs`, `attempt.rs`, `failed_attempt.rs`, `answer_kind.rs` |
//! | Relay of the answer                | `relay/`, `answer_head.rs`                       |
//! | Second attempts for late first tokens | `hedge.rs`                                    |
//! | Deadlines, other models            | `deadline.rs`, `fallback.rs`                     |
//! | Streams that go on elsewhere       | `extras.rs`, `resume/`                           |
//! | Refusals                           | `refusal.rs`                                     |
//! | Request guard and canaries         | `request_guard.rs`, `canary.rs`                  |
//! | Spans of a traced request, price   | `spans.rs`, `pricing.rs`                         |
//! | Log of requests, and use by tenant | `request_log/`                                   |
//!
//! The response cache and cascades stand above: they are asked first and use these steps.

mod answer_head;
mod answer_kind;
pub(crate) mod attempt;
pub(crate) mod attempts;
mod back_pressure;
pub(crate) mod body_buffers;
pub(crate) mod bounds;
pub(crate) mod canary;
pub(crate) mod charges;
pub(crate) mod context;
pub(crate) mod deadline;
pub(crate) mod explanation;
pub(crate) mod extras;
pub(crate) mod facts;
pub(crate) mod failed_attempt;
pub(crate) mod fallback;
mod form;
mod hedge;
pub(crate) mod inspect;
pub(crate) mod jwt;
pub(crate) mod keys;
pub(crate) mod passed;
mod prefix_digest;
mod pricing;
pub(crate) mod prompt_tokens;
pub(crate) mod question;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod relay;
pub(crate) mod request_guard;
pub(crate) mod request_info;
pub(crate) mod request_log;
pub(crate) mod resume;
mod spans;
pub(crate) mod tenant_salt;
mod terms;
pub(crate) mod uploads;
pub(crate) mod upstream_body;
pub(crate) mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use http::HeaderMap;
use overdraft_store::{Budgets, Place, Revocations};
use overdraft_telemetry::calendar_time;
use overdraft_telemetry::metrics::{
    AdmissionMetrics, CacheMetrics, CanaryMetrics, CostMetrics, GatewayMetrics,
};
use overdraft_wire::ApiError;
use tokio::sync::watch;

use self::body_buffers::BodyBuffers;
use self::canary::Canaries;
use self::jwt::JwtVerifier;
use self::keys::{Caller, Keyring};
use self::request_log::RequestLog;
use self::tenant_salt::Salts;
use self::uploads::Uploads;
use crate::dispatch::Dispatcher;
use crate::fleet::Fleet;
use crate::settings::{GatewaySettings, Routes};
use crate::trace::Tracer;

/// What the pipeline counts.
#[derive(Debug)]
pub(crate) struct PipelineMetrics {
    /// Requests, however they end.
    pub(crate) requests: GatewayMetrics,
    /// Waiting, refusals and budgets.
    pub(crate) admission: AdmissionMetrics,
    /// What became of requests at the response cache.
    pub(crate) cache: Arc<CacheMetrics>,
    /// Both sides of each canary.
    pub(crate) canary: CanaryMetrics,
    /// Dollars.
    pub(crate) cost: Arc<CostMetrics>,
}

/// What all requests share on their way to a worker.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) requests: GatewayMetrics,
    pub(crate) admission: AdmissionMetrics,
    pub(crate) cache: Arc<CacheMetrics>,
    /// Models and cascades that are tried on a share of the requests.
    pub(crate) canaries: Canaries,
    pub(crate) cost: Arc<CostMetrics>,
    /// What keys have spent, over all gateways that share.
    pub(crate) budgets: Arc<Budgets>,
    /// The keys that all of them refuse.
    pub(crate) revocations: Arc<Revocations>,
    pub(crate) buffers: BodyBuffers,
    /// The bodies that clients are still sending.
    uploads: Arc<Uploads>,
    /// Makes traces, where they are wanted.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// What happened to the last requests, and why.
    pub(crate) log: RequestLog,
    /// Believes tokens, where they are believed.
    pub(crate) jwt: watch::Sender<Option<Arc<JwtVerifier>>>,
    keyring: ArcSwap<Keyring>,
    salts: ArcSwap<Salts>,
    in_flight: AtomicUsize,
    streams: AtomicUsize,
}

impl Pipeline {
    /// A pipeline before `fleet`.
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        metrics: PipelineMetrics,
        tracer: Option<Arc<Tracer>>,
    ) -> Self {
        let dispatcher = Arc::clone(&fleet.dispatcher);
        let settings = Arc::clone(&dispatcher.settings());
        let salts = Salts::new(&settings.isolation, None);
        warn_of_drawn(&salts, &settings);
        let jwt = settings.jwt.clone().map(|jwt| Arc::new(JwtVerifier::new(jwt, None)));
        Self {
            dispatcher,
            fleet,
            requests: metrics.requests,
            admission: metrics.admission,
            cache: metrics.cache,
            canaries: Canaries::new(&settings.canaries, metrics.canary),
            cost: metrics.cost,
            budgets: Arc::default(),
            revocations: Arc::default(),
            buffers: BodyBuffers::default(),
            uploads: Arc::default(),
            tracer,
            log: RequestLog::new(&settings.dashboard),
            keyring: ArcSwap::from_pointee(Keyring::new(&settings.keys, settings.door())),
            jwt: watch::Sender::new(jwt),
            salts: ArcSwap::from_pointee(salts),
            in_flight: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
        }
    }

    /// The settings now; for a moment's look.
    pub(crate) fn settings(&self) -> Guard<Arc<GatewaySettings>> {
        self.dispatcher.settings()
    }

    /// How requests are routed now; for a moment's look.
    pub(crate) fn routes(&self) -> Guard<Arc<Routes>> {
        self.dispatcher.routes()
    }

    /// Who sent a request with this head, by the keys that are known now, or by a token.
    ///
    /// # Errors
    /// 401 where a key or a token is needed and none that is good is presented.
    pub(crate) async fn identify(&self, head: &HeaderMap) -> Result<Caller, ApiError> {
        let now = calendar_time();
        let known = self.keyring.load().identify(head, &self.revocations, now);
        let refused = match known {
            Ok(caller) => return Ok(caller),
            Err(refused) => refused,
        };
        let jwt = self.jwt.borrow().clone();
        let Some(jwt) = jwt else { return Err(refused.into()) };
        // In a box: it may wait, and what every request would carry along is small that way.
        match Box::pin(keys::by_token(head, &jwt, now)).await {
            Some(caller) => Ok(caller?),
            None => Err(refused.into()),
        }
    }

    /// The tenant of the key that a request with this head presents, where one is known; tokens are not looked at.
    pub(crate) fn label_of(&self, head: &HeaderMap) -> Option<Arc<str>> {
        let known = self.keyring.load().identify(head, &self.revocations, calendar_time());
        known.ok().and_then(|caller| caller.name())
    }

    /// What salts are made with now.
    pub(crate) fn salts(&self) -> Guard<Arc<Salts>> {
        self.salts.load()
    }

    /// Goes by other settings from now on; requests that are under way keep theirs.
    pub(crate) fn adopt(&self, settings: &GatewaySettings) {
        self.canaries.adopt(&settings.canaries);
        self.log.adopt(&settings.dashboard);
        let keyring = Keyring::new(&settings.keys, settings.door());
        // Tenants of tokens are nowhere listed: their budgets go when they have been idle for longest.
        if settings.jwt.is_none() {
            self.budgets.retain(&keyring.numbers());
        }
        self.keyring.store(Arc::new(keyring));
        self.adopt_jwt(settings);
        let salts = Salts::new(&settings.isolation, Some(&self.salts()));
        self.salts.store(Arc::new(salts));
    }

    fn adopt_jwt(&self, settings: &GatewaySettings) {
        let before = self.jwt.borrow().clone();
        if before.as_ref().map(|jwt| jwt.settings()) != settings.jwt.as_ref() {
            let verifier = |jwt| Arc::new(JwtVerifier::new(jwt, before.as_deref()));
            self.jwt.send_replace(settings.jwt.clone().map(verifier));
        }
    }

    /// Takes a place among the requests in flight.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Visit> {
        take(&self.in_flight, self.settings().limits.requests)
            .then(|| Visit { pipeline: Arc::clone(self), streaming: false })
    }

    /// Places among the requests in flight that none has taken.
    fn free_places(&self) -> usize {
        let taken = self.in_flight.load(Ordering::Relaxed);
        self.settings().limits.requests.saturating_sub(taken)
    }
}

/// Says where gateways that share everything else make salts of their own.
fn warn_of_drawn(salts: &Salts, settings: &GatewaySettings) {
    if !salts.is_drawn() || settings.is_open() {
        return;
    }
    if matches!(settings.store.place, Place::Redis(_)) {
        tracing::warn!(
            "`isolation.salt_secret` is not set, so each gateway makes its own cache salts: a prefix \
             computed through one gateway is no hit for another; set the same secret at all"
        );
    } else {
        tracing::info!(
            "`isolation.salt_secret` is not set, so a restart of the gateway makes other cache salts: \
             the prefixes that workers hold are then no hits any more; set it to keep them"
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
    pipeline: Arc<Pipeline>,
    streaming: bool,
}

impl Visit {
    /// Takes a place among the streams as well; false when there is none.
    pub(crate) fn stream(&mut self) -> bool {
        let most = self.pipeline.settings().limits.streams;
        self.streaming = take(&self.pipeline.streams, most);
        self.streaming
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.pipeline.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.streaming {
            self.pipeline.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
