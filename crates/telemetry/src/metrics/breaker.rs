//! Circuit breaker metrics, and those of the store over which gateways share breakers.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registry::DescribedRegistry;

type Worker = [(&'static str, String); 2];
type Word = [(&'static str, &'static str); 1];

/// The store as it is at a scrape.
#[derive(Clone, Debug)]
pub struct StoreGauges {
    /// Whether this gateway goes on by itself.
    pub degraded: bool,
    /// Gateways that share.
    pub gateways: u64,
    /// How often each fault was met since the start.
    pub faults: Vec<(&'static str, u64)>,
    /// Values that were thrown away since the start.
    pub mended: u64,
}

/// The catalogue of circuit breakers and of the shared store.
#[derive(Debug)]
pub struct BreakerMetrics {
    state: Family<Worker, Gauge>,
    transitions: Family<Word, Counter>,
    trials: Counter,
    panics: Counter,
    degraded: Gauge,
    gateways: Gauge,
    faults: Family<Word, Counter>,
    mended: Counter,
}

impl BreakerMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry) -> Self {
        let metrics = Self {
            state: Family::default(),
            transitions: Family::default(),
            trials: Counter::default(),
            panics: Counter::default(),
            degraded: Gauge::default(),
            gateways: Gauge::default(),
            faults: Family::default(),
            mended: Counter::default(),
        };
        metrics.register_breakers(registry);
        metrics.register_store(registry);
        for state in ["closed", "half_open", "open"] {
            drop(metrics.transitions.get_or_create(&[("to", state)]));
        }
        metrics
    }

    fn register_breakers(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_breaker_state",
            "1 for the state that the worker's circuit breaker is in",
            self.state.clone(),
        );
        registry.register(
            "overdraft_breaker_transitions",
            "Changes of circuit breakers, here or at another gateway, by the state they led to",
            self.transitions.clone(),
        );
        registry.register(
            "overdraft_breaker_trials",
            "Requests that found out whether a worker still fails",
            self.trials.clone(),
        );
        registry.register(
            "overdraft_routing_panics",
            "Decisions that asked workers with open breakers, for too few others could be asked",
            self.panics.clone(),
        );
    }

    fn register_store(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_store_degraded",
            "1 while the store that gateways share does not work and this one goes on by itself",
            self.degraded.clone(),
        );
        registry.register(
            "overdraft_store_gateways",
            "Gateways that share the store, as last heard",
            self.gateways.clone(),
        );
        registry.register(
            "overdraft_store_faults",
            "Commands to the store that had no result, by why",
            self.faults.clone(),
        );
        registry.register(
            "overdraft_store_mended",
            "Values under the store's keys that could not be used and were thrown away",
            self.mended.clone(),
        );
    }

    /// A breaker changed to `state`.
    pub fn turned(&self, state: &'static str) {
        self.transitions.get_or_create(&[("to", state)]).inc();
    }

    /// A request is a trial.
    pub fn tried(&self) {
        self.trials.inc();
    }

    /// A decision asked workers that were out.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Sets the gauges anew: the breakers of the workers there are, and the store.
    pub fn set<'a>(
        &self,
        breakers: impl IntoIterator<Item = (&'a str, &'static str)>,
        store: &StoreGauges,
    ) {
        self.state.clear();
        for (worker, state) in breakers {
            let labels = [("worker", worker.to_owned()), ("state", state.to_owned())];
            self.state.get_or_create(&labels).set(1);
        }
        self.degraded.set(i64::from(store.degraded));
        self.gateways.set(i64::try_from(store.gateways).unwrap_or(i64::MAX));
        for (fault, count) in &store.faults {
            let counter = self.faults.get_or_create(&[("kind", *fault)]);
            counter.inc_by(count.saturating_sub(counter.get()));
        }
        self.mended.inc_by(store.mended.saturating_sub(self.mended.get()));
    }
}
