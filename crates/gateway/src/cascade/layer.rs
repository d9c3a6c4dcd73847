//! Cascade layer: the cascades above the pipeline, and the comparisons that wait to be made.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use overdraft_telemetry::metrics::CascadeMetrics;
use tokio::sync::mpsc;

use super::state::Cascades;
use crate::pipeline::Pipeline;
use crate::settings::GatewaySettings;

/// Comparisons that may wait to be begun; further ones are left out.
const WAITING_MAX: usize = 64;

/// One comparison, ready to be made.
pub(super) type Comparison = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The cascades, above the pipeline.
#[derive(Debug)]
pub(crate) struct CascadeLayer {
    pub(crate) pipeline: Arc<Pipeline>,
    /// Small models that are asked first.
    pub(super) cascades: Cascades,
    /// Answers that are to be compared.
    pub(super) shadows: Shadows,
    pub(super) metrics: CascadeMetrics,
}

impl CascadeLayer {
    /// The cascades that the settings in force name.
    pub(crate) fn new(pipeline: Arc<Pipeline>, metrics: CascadeMetrics) -> Self {
        let cascades = Cascades::new(&pipeline.settings().cascades);
        Self { pipeline, cascades, shadows: Shadows::default(), metrics }
    }

    /// Goes by other settings from now on.
    pub(crate) fn adopt(&self, settings: &GatewaySettings) {
        self.cascades.adopt(&settings.cascades);
    }
}

/// Comparisons on their way to the task that makes them.
#[derive(Debug)]
pub(super) struct Shadows {
    comparisons: mpsc::Sender<Comparison>,
    /// Until the task that makes them has taken it.
    taken: Mutex<Option<mpsc::Receiver<Comparison>>>,
}

impl Default for Shadows {
    fn default() -> Self {
        let (comparisons, taken) = mpsc::channel(WAITING_MAX);
        Self { comparisons, taken: Mutex::new(Some(taken)) }
    }
}

impl Shadows {
    /// Has a comparison made; false where too many wait.
    pub(super) fn add(&self, comparison: Comparison) -> bool {
        self.comparisons.try_send(comparison).is_ok()
    }

    /// The comparisons, for the task that makes them.
    pub(super) fn take(&self) -> Option<mpsc::Receiver<Comparison>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
