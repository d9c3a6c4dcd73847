//! Missed drafts: models that a cascade would have asked and of which no worker takes requests.
//!
//! Nobody waits for them. Where autoscalers, metrics and other gateways are told what waits, each counts as one request
//! for as long as the core says. Invariant: while a worker takes requests for a model, it is not missed; each look at
//! what is missed takes note of those first.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use overdraft_core::route::{Router, model_number};
use overdraft_core::scale::{MISS_RESTS, MISS_WANTED, Misses};
use overdraft_units::Micros;

use super::dispatcher::Dispatcher;
use super::wait_queue::WaitQueue;

/// Microseconds in a minute.
const MINUTE: u64 = 60_000_000;

impl Dispatcher {
    /// A cascade would have asked `model`, which is remembered where no worker of it takes requests.
    pub(crate) fn note_miss(&self, model: &str) {
        let router = self.router();
        let mut misses = self.missed(&router);
        let rests = !router.fleet().is_served(model) && misses.note(model, self.clock.now());
        drop((misses, router));
        if rests {
            let minutes = |span: Micros| span.get() / MINUTE;
            tracing::warn!(
                model,
                wanted_minutes = minutes(MISS_WANTED),
                rests_minutes = minutes(MISS_RESTS),
                "no worker came to stay for a cascade's draft, which no longer wakes its pool for now; \
                 look at the name of the draft, at the models that its workers list, and at their logs"
            );
        }
    }

    /// Whether `model` was missed of late, and still would be.
    pub(crate) fn is_missed(&self, router: &Router, model: &str) -> bool {
        self.missed(router).recent(self.clock.now()).any(|missed| missed == model)
    }

    /// Requests that wait here by model, and one more for each model that is missed.
    pub(crate) fn waiting(&self, router: &Router) -> BTreeMap<u64, u64> {
        let mut waiting = WaitQueue::by_model(router.queue());
        for model in self.missed(router).recent(self.clock.now()) {
            let count = waiting.entry(model_number(model)).or_default();
            *count = count.saturating_add(1);
        }
        waiting
    }

    /// The same with what waits at other gateways. A model counts once in each gateway that misses it: all share their
    /// misses, for autoscalers ask any one of them.
    pub(crate) fn waiting_everywhere(&self, router: &Router) -> BTreeMap<u64, u64> {
        self.wait_queue.everywhere(self.waiting(router))
    }

    /// The models that were missed and have not been served for long since. The router is locked before them, always.
    fn missed(&self, router: &Router) -> MutexGuard<'_, Misses> {
        let mut misses = self.misses.lock().unwrap_or_else(PoisonError::into_inner);
        misses.look(self.clock.now(), |model| router.fleet().is_served(model));
        misses
    }
}
