//! Canary metrics.
//!
//! Canaries are bounded by the configuration; no label is what a client wrote.

use std::sync::atomic::AtomicU64;

use overdraft_core::cascade::{Change, Findings};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registry::DescribedRegistry;

type Labels<const N: usize> = [(&'static str, String); N];
type RatioGauge = Gauge<f64, AtomicU64>;

/// Millionths.
const MILLION: f64 = 1e6;

/// The catalogue of canaries.
#[derive(Debug)]
pub struct CanaryMetrics {
    requests: Family<Labels<3>, Counter>,
    baseline: Family<Labels<2>, RatioGauge>,
    difference: Family<Labels<3>, RatioGauge>,
}

impl CanaryMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            baseline: Family::default(),
            difference: Family::default(),
        };
        registry.register(
            "overdraft_canary_requests",
            "Requests that were part of a comparison, by side and by whether they were answered",
            metrics.requests.clone(),
        );
        registry.register(
            "overdraft_canary_baseline",
            "The mean of what has been in force: latency_seconds, cost_microusd, loss as a share of answers",
            metrics.baseline.clone(),
        );
        registry.register(
            "overdraft_canary_difference",
            "By how much the canary's mean is above it, with the bounds of its interval at 95 %",
            metrics.difference.clone(),
        );
        metrics
    }

    /// A request on that side has ended.
    pub fn ended(&self, canary: &str, arm: &'static str, answered: bool) {
        let outcome = if answered { "answered" } else { "failed" };
        let labels = [
            ("canary", canary.to_owned()),
            ("arm", arm.to_owned()),
            ("outcome", outcome.to_owned()),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    /// Sets the gauges anew; what is not known yet is left out.
    pub fn set(&self, canaries: &[(String, Findings)]) {
        self.baseline.clear();
        self.difference.clear();
        for (canary, findings) in canaries {
            // Microseconds, picodollars and millionths of an answer.
            for (figure, change) in [
                ("latency_seconds", findings.latency),
                ("cost_microusd", findings.cost),
                ("loss", findings.loss),
            ] {
                if let Some(change) = change {
                    self.tell(canary, figure, &change);
                }
            }
        }
    }

    fn tell(&self, canary: &str, figure: &'static str, change: &Change) {
        let labels = [("canary", canary.to_owned()), ("figure", figure.to_owned())];
        let baseline = i64::try_from(change.baseline).unwrap_or(i64::MAX);
        self.baseline.get_or_create(&labels).set(millionths(baseline));
        let bounds = [("estimate", change.difference), ("low", change.low), ("high", change.high)];
        for (bound, value) in bounds {
            let [canary, figure] = labels.clone();
            let labels = [canary, figure, ("bound", bound.to_owned())];
            self.difference.get_or_create(&labels).set(millionths(value));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn millionths(value: i64) -> f64 {
    value as f64 / MILLION
}
