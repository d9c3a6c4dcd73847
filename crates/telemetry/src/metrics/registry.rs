//! Registry that remembers what was registered: a family of metrics without a series is in no scrape, and a reference of
//! metrics has to name it all the same.

use std::fmt::Write as _;

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// What a metric is.
#[derive(Debug)]
struct Described {
    name: String,
    kind: &'static str,
    help: String,
}

/// Metrics by their names.
#[derive(Debug, Default)]
pub struct DescribedRegistry {
    exposed: Registry,
    described: Vec<Described>,
}

impl DescribedRegistry {
    /// Adds a metric; `name` has no ending, which follows from its type.
    pub fn register(
        &mut self,
        name: impl Into<String>,
        help: impl Into<String>,
        metric: impl Metric,
    ) {
        let (name, help) = (name.into(), help.into());
        let kind = kind_of(&metric);
        self.described.push(Described { name: name.clone(), kind, help: help.clone() });
        self.exposed.register(name, help, metric);
    }

    /// What is exposed.
    pub(super) const fn exposed(&self) -> &Registry {
        &self.exposed
    }

    /// `scrape`, an exposition of it in `OpenMetrics`, and behind it the name, type and meaning of each metric that has
    /// no series in it.
    pub(super) fn with_the_absent(&self, scrape: &str) -> String {
        let told = |one: &Described| scrape.contains(&format!("# TYPE {} ", one.name));
        let mut all = scrape.trim_end_matches("# EOF\n").to_owned();
        for one @ Described { name, kind, help } in &self.described {
            if !told(one) {
                let _written = writeln!(all, "# HELP {name} {help}.\n# TYPE {name} {kind}");
            }
        }
        all.push_str("# EOF\n");
        all
    }
}

fn kind_of(metric: &impl Metric) -> &'static str {
    match metric.metric_type() {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
        MetricType::Histogram => "histogram",
        MetricType::Info => "info",
        MetricType::Unknown => "unknown",
    }
}
