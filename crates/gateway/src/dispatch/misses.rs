//! Missed drafts: models that a cascade would have asked and of which no worker takes requests.
//!
//! Nobody waits for them. Where autoscalers, metrics and other gateways are told what waits, each counts as one request
//! for as long as the core remembers it. Invariant: once a worker takes requests for a model, it is missed no more.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use overdraft_core::route::{Router, model_number};
use overdraft_core::scale::Misses;

use super::dispatcher::Dispatcher;
use super::wait_queue::WaitQueue;

impl Dispatcher {
    /// A cascade would have asked `model`, which is remembered where no worker of it takes requests.
    pub(crate) fn note_miss(&self, model: &str) {
        let is_served = self.router().fleet().is_served(model);
        if !is_served {
            self.misses().note(model, self.clock.now());
        }
    }

    /// Whether `model` was missed of late, and still would be.
    pub(crate) fn is_missed(&self, router: &Router, model: &str) -> bool {
        let was_missed = self.misses().recent(self.clock.now()).any(|missed| missed == model);
        was_missed && !router.fleet().is_served(model)
    }

    /// Requests that wait here by model, and one more for each model that is missed.
    pub(crate) fn waiting(&self, router: &Router) -> BTreeMap<u64, u64> {
        let mut waiting = WaitQueue::by_model(router.queue());
        let misses = self.misses();
        for model in
            misses.recent(self.clock.now()).filter(|model| !router.fleet().is_served(model))
        {
            let count = waiting.entry(model_number(model)).or_default();
            *count = count.saturating_add(1);
        }
        waiting
    }

    /// The same with what waits at other gateways.
    pub(crate) fn waiting_everywhere(&self, router: &Router) -> BTreeMap<u64, u64> {
        self.wait_queue.everywhere(self.waiting(router))
    }

    fn misses(&self) -> MutexGuard<'_, Misses> {
        self.misses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
