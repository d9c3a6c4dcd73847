//! Metrics of cost: dollars by tenant, model and who answered, and by the hour of each pool.
//!
//! Tenants and models are capped by their owners; who answered and pools are closed sets.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::label_cap::LabelCap;
use super::registry::DescribedRegistry;

type Labels<const N: usize> = [(&'static str, String); N];
type Pool = [(&'static str, &'static str); 1];
type Dollars = Counter<f64, AtomicU64>;

/// What a pool cost between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PoolHours {
    /// Seconds of all its workers.
    pub worker_seconds: f64,
    /// Those of them in which a worker had no request.
    pub idle_seconds: f64,
    /// What they cost, where there is a price.
    pub dollars: f64,
    /// What all its workers cost by the hour now.
    pub dollars_per_hour: f64,
}

/// The catalogue of cost.
#[derive(Debug)]
pub struct CostMetrics {
    tenants: Arc<LabelCap>,
    requests: Family<Labels<3>, Dollars>,
    target_only: Family<Labels<3>, Dollars>,
    worker_seconds: Family<Pool, Dollars>,
    idle_seconds: Family<Pool, Dollars>,
    pools: Family<Pool, Dollars>,
    per_hour: Family<Pool, Gauge<f64, AtomicU64>>,
}

impl CostMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry, tenants: &Arc<LabelCap>) -> Self {
        let metrics = Self {
            tenants: Arc::clone(tenants),
            requests: Family::default(),
            target_only: Family::default(),
            worker_seconds: Family::default(),
            idle_seconds: Family::default(),
            pools: Family::default(),
            per_hour: Family::default(),
        };
        registry.register(
            "overdraft_cost_dollars",
            "What answered requests cost at the prices of their tokens, by tenant, model and who answered",
            metrics.requests.clone(),
        );
        registry.register(
            "overdraft_cost_target_only_dollars",
            "What the same requests would have cost without drafts and without the response cache",
            metrics.target_only.clone(),
        );
        registry.register(
            "overdraft_pool_worker_seconds",
            "Time for which workers of a pool were up, added up over them",
            metrics.worker_seconds.clone(),
        );
        registry.register(
            "overdraft_pool_idle_worker_seconds",
            "Time of that in which a worker had no request",
            metrics.idle_seconds.clone(),
        );
        registry.register(
            "overdraft_pool_cost_dollars",
            "What a pool's workers cost by the hour, idle or not, where they have a price",
            metrics.pools.clone(),
        );
        registry.register(
            "overdraft_pool_dollars_per_hour",
            "What a pool's workers that are up cost by the hour now",
            metrics.per_hour.clone(),
        );
        metrics
    }

    /// An answered request of `tenant` cost so many millionths of a dollar, and would have cost so many.
    pub fn request(&self, tenant: &str, model: &str, by: &'static str, microdollars: [u64; 2]) {
        let tenant = self.tenants.admit(tenant);
        let labels =
            [("tenant", tenant.to_owned()), ("model", model.to_owned()), ("by", by.to_owned())];
        let [cost, alone] = microdollars.map(dollars);
        self.requests.get_or_create(&labels).inc_by(cost);
        self.target_only.get_or_create(&labels).inc_by(alone);
    }

    /// A while of a pool has passed.
    pub fn pool(&self, pool: &'static str, hours: PoolHours) {
        let labels = [("pool", pool)];
        self.worker_seconds.get_or_create(&labels).inc_by(hours.worker_seconds);
        self.idle_seconds.get_or_create(&labels).inc_by(hours.idle_seconds);
        self.pools.get_or_create(&labels).inc_by(hours.dollars);
        self.per_hour.get_or_create(&labels).set(hours.dollars_per_hour);
    }
}

#[expect(clippy::cast_precision_loss, reason = "an amount for people")]
fn dollars(micro: u64) -> f64 {
    micro as f64 / 1e6
}
