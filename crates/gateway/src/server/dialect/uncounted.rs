//! Models whose workers cannot count tokens, remembered for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a model's workers are not asked to count after they could not.
const UNABLE_FOR: Duration = Duration::from_mins(1);

/// Models that are remembered at most.
const MODELS_MAX: usize = 1_024;

/// Models whose workers cannot count tokens: agents ask dozens of times, and a refusal counts against a worker.
#[derive(Debug, Default)]
pub(in crate::server) struct Uncounted(Mutex<BTreeMap<String, Instant>>);

impl Uncounted {
    pub(super) fn note(&self, model: &str) {
        let mut models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if MODELS_MAX <= models.len() {
            models.clear();
        }
        models.insert(model.to_owned(), Instant::now() + UNABLE_FOR);
    }

    pub(super) fn has(&self, model: &str) -> bool {
        let models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        models.get(model).is_some_and(|until| Instant::now() < *until)
    }
}
