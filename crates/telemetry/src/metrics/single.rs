//! Gauges without labels that the registry's own types do not cover.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;

/// A gauge without a sample while there is nothing to tell: a share of nothing is no share, and an
/// alert on it must not fire.
#[derive(Clone, Debug)]
pub(super) struct OptionalGauge(Arc<AtomicU64>);

impl Default for OptionalGauge {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(f64::NAN.to_bits())))
    }
}

impl OptionalGauge {
    pub(super) fn set(&self, value: Option<f64>) {
        self.0.store(value.unwrap_or(f64::NAN).to_bits(), Ordering::Relaxed);
    }
}

impl EncodeMetric for OptionalGauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let value = f64::from_bits(self.0.load(Ordering::Relaxed));
        if value.is_nan() { Ok(()) } else { encoder.encode_gauge(&value) }
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// A counter whose sample bears the family's name as it is, for names that somebody else chose: a counter of the
/// registry's own appends `_total`.
#[derive(Clone, Debug)]
pub(super) struct AsNamed(pub(super) Counter);

impl EncodeMetric for AsNamed {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        encoder.encode_gauge(&i64::try_from(self.0.get()).unwrap_or(i64::MAX))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Unknown
    }
}
