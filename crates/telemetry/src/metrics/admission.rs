//! Admission metrics: refusals by reason, queue lengths and tenant use.
//!
//! One name is the write-up's own: `router_rejections_total`. Reasons and priorities are closed
//! sets; tenants have a cap, and those beyond it are `other`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use overdraft_core::admit::Priority;
use overdraft_units::Micros;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::buckets::{FIRST_TOKEN, seconds};
use super::label_cap::LabelCap;
use super::registry::DescribedRegistry;
use super::series_cache::SeriesCache;

/// Why a request may be refused for want of room or budget.
const REASONS: [&str; 15] = [
    "bodies",
    "budget_requests",
    "budget_tokens",
    "deadline",
    "draining",
    "held_full",
    "late",
    "no_room",
    "none_up",
    "queue_full",
    "requests",
    "streams",
    "tenant_full",
    "threshold",
    "too_late",
];

type Words<const N: usize> = [(&'static str, &'static str); N];
type Float = Gauge<f64, AtomicU64>;
/// A tenant and a word.
type Owned = [(&'static str, String); 2];

/// One worker as admission sees it.
#[derive(Clone, Debug)]
pub struct WorkerPressure {
    /// Its name.
    pub worker: String,
    /// All that its requests may come to, over what its cache holds, in thousandths.
    pub overcommit_permille: Option<u64>,
    /// The most that they are predicted to need at once, over what its cache holds.
    pub peak_permille: Option<u64>,
}

/// The catalogue of admission.
#[derive(Debug)]
pub struct AdmissionMetrics {
    tenants: Arc<LabelCap>,
    rejections: Family<Words<2>, Counter>,
    queue: Family<Words<1>, Gauge>,
    queue_tokens: Gauge,
    waits: Family<Words<1>, Histogram>,
    budget_refusals: Family<Owned, Counter>,
    tenant_requests: Family<Owned, Counter>,
    tenant_tokens: Family<Owned, Counter>,
    /// What every request counts, by tenant and word.
    known_requests: SeriesCache<(&'static str, String), Counter>,
    known_tokens: SeriesCache<(&'static str, String), Counter>,
    overcommit: Family<[(&'static str, String); 1], Float>,
    peak: Family<[(&'static str, String); 1], Float>,
}

impl AdmissionMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry, tenants: &Arc<LabelCap>) -> Self {
        let metrics = Self {
            tenants: Arc::clone(tenants),
            rejections: Family::default(),
            queue: Family::default(),
            queue_tokens: Gauge::default(),
            waits: Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN)),
            budget_refusals: Family::default(),
            tenant_requests: Family::default(),
            tenant_tokens: Family::default(),
            known_requests: SeriesCache::default(),
            known_tokens: SeriesCache::default(),
            overcommit: Family::default(),
            peak: Family::default(),
        };
        metrics.register(registry);
        // An `increase` does not see the first event of a series that begins with it.
        for priority in Priority::ALL.map(Priority::name) {
            for reason in REASONS {
                let labels = [("reason", reason), ("priority", priority)];
                drop(metrics.rejections.get_or_create(&labels));
            }
            drop(metrics.waits.get_or_create(&[("priority", priority)]));
        }
        metrics
    }

    fn register(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "router_rejections",
            "Requests refused for want of room or budget, by reason and priority",
            self.rejections.clone(),
        );
        registry.register(
            "overdraft_queue_requests",
            "Requests that wait for a worker, by priority",
            self.queue.clone(),
        );
        registry.register(
            "overdraft_queue_tokens",
            "Tokens of the requests that wait, prompts and expected answers",
            self.queue_tokens.clone(),
        );
        registry.register(
            "overdraft_queue_wait_seconds",
            "How long requests waited that were then sent to a worker",
            self.waits.clone(),
        );
        registry.register(
            "overdraft_budget_refusals",
            "Requests refused because their key had spent its budget",
            self.budget_refusals.clone(),
        );
        registry.register(
            "overdraft_tenant_requests",
            "Requests by tenant and priority",
            self.tenant_requests.clone(),
        );
        registry.register(
            "overdraft_tenant_tokens",
            "Tokens by tenant and kind, as workers reported them, or as they were relayed where a stream ended before that",
            self.tenant_tokens.clone(),
        );
        registry.register(
            "overdraft_worker_overcommit_ratio",
            "What a worker's requests may come to, prompts and max_tokens, over its cache",
            self.overcommit.clone(),
        );
        registry.register(
            "overdraft_worker_peak_ratio",
            "What a worker's requests are predicted to need at once, over its cache",
            self.peak.clone(),
        );
    }

    /// A request was refused.
    pub fn rejected(&self, reason: &'static str, priority: &'static str) {
        debug_assert!(REASONS.contains(&reason), "`{reason}` is not in the closed set");
        self.rejections.get_or_create(&[("reason", reason), ("priority", priority)]).inc();
    }

    /// A request was sent to a worker after it had waited.
    pub fn waited(&self, priority: &'static str, wait: Micros) {
        self.waits.get_or_create(&[("priority", priority)]).observe(seconds(wait));
    }

    /// A key of `tenant` had spent its budget.
    pub fn budget_spent(&self, tenant: &str, budget: &'static str) {
        let labels =
            [("tenant", self.tenants.admit(tenant).to_owned()), ("budget", budget.to_owned())];
        self.budget_refusals.get_or_create(&labels).inc();
    }

    /// A request of `tenant` has come.
    pub fn tenant_asked(&self, tenant: &str, priority: &'static str) {
        let tenant = self.tenants.admit(tenant);
        self.known_requests.with(
            |(word, known)| *word == priority && known == tenant,
            || {
                let labels = [("tenant", tenant.to_owned()), ("priority", priority.to_owned())];
                let series = self.tenant_requests.get_or_create_owned(&labels);
                ((priority, tenant.to_owned()), series)
            },
            |requests| {
                requests.inc();
            },
        );
    }

    /// A request of `tenant` has used so many tokens.
    pub fn tenant_used(&self, tenant: &str, kind: &'static str, tokens: u32) {
        let tenant = self.tenants.admit(tenant);
        self.known_tokens.with(
            |(word, known)| *word == kind && known == tenant,
            || {
                let labels = [("tenant", tenant.to_owned()), ("kind", kind.to_owned())];
                let series = self.tenant_tokens.get_or_create_owned(&labels);
                ((kind, tenant.to_owned()), series)
            },
            |used| {
                used.inc_by(u64::from(tokens));
            },
        );
    }

    /// Sets what is read off at a scrape.
    pub fn set(
        &self,
        queue: impl IntoIterator<Item = (&'static str, usize)>,
        queue_tokens: u64,
        workers: &[WorkerPressure],
    ) {
        for (priority, length) in queue {
            let length = i64::try_from(length).unwrap_or(i64::MAX);
            self.queue.get_or_create(&[("priority", priority)]).set(length);
        }
        self.queue_tokens.set(i64::try_from(queue_tokens).unwrap_or(i64::MAX));
        self.overcommit.clear();
        self.peak.clear();
        for one in workers {
            for (family, permille) in
                [(&self.overcommit, one.overcommit_permille), (&self.peak, one.peak_permille)]
            {
                if let Some(permille) = permille {
                    let labels = [("worker", one.worker.clone())];
                    family.get_or_create(&labels).set(ratio(permille));
                }
            }
        }
    }
}

/// Thousandths as a number; more than a million times as much is no ratio any more.
fn ratio(permille: u64) -> f64 {
    f64::from(u32::try_from(permille).unwrap_or(u32::MAX)) / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dashboard's page of refusals, which says what each reason means.
    const PAGE: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../dash/web/src/pages/queue.ts"));

    #[test]
    fn the_dashboard_says_what_each_reason_means() {
        for reason in REASONS {
            let says = [format!(" {reason}: \""), format!("\n{reason}: \"")];
            assert!(says.iter().any(|says| PAGE.contains(says)), "{reason}");
        }
    }
}
