//! Circuit breakers and peer load at the router: methods for the shell's peer sync.
//!
//! These methods pass through to the fleet; see [`crate::breaker`].

use alloc::string::String;

use overdraft_units::{Instant, Micros};

use super::{Router, Tried};
use crate::breaker::{BreakerSettings, Grants, News, Seen};
use crate::fleet::{Change, Share, WorkerId};

impl Router {
    /// Sets breakers; those that are open stay so for as long as they were to.
    pub const fn set_breakers(&mut self, settings: BreakerSettings) {
        self.fleet.set_breakers(settings);
    }

    /// Names the models of which all failing workers may be ejected; see
    /// [`crate::fleet::Fleet::set_spare`].
    pub fn set_spare(&mut self, models: impl IntoIterator<Item = String>) {
        self.fleet.set_spare(models);
    }

    /// Sets whether trials are granted through [`Router::grant_probe`].
    pub const fn set_grants(&mut self, grants: Grants) {
        self.fleet.set_grants(grants);
    }

    /// The workers whose ejection time is over and whose trial this gateway may send.
    pub fn probes_due(&self, now: Instant) -> impl Iterator<Item = WorkerId> {
        self.fleet.probes_due(now)
    }

    /// The workers whose trial this gateway may send or has in flight.
    pub fn probing(&self, now: Instant) -> impl Iterator<Item = WorkerId> {
        self.fleet.probing(now)
    }

    /// Lets the next request that fits be the trial of `worker`.
    pub fn grant_probe(&mut self, worker: WorkerId, now: Instant) -> Option<Change> {
        let change = self.fleet.grant_probe(worker, now);
        self.note(change);
        change
    }

    /// Takes in what another gateway decided on `worker`.
    pub fn breaker_seen(&mut self, worker: WorkerId, seen: Seen, now: Instant) -> Option<Change> {
        let change = self.fleet.breaker_seen(worker, seen, now);
        self.note(change);
        change
    }

    /// What this gateway decided and has not told the others.
    pub fn breaker_news(&self, now: Instant) -> impl Iterator<Item = (WorkerId, News)> {
        self.fleet.breaker_news(now)
    }

    /// The others were told, and `seen` is what all of them go by now.
    pub fn breaker_told(
        &mut self,
        worker: WorkerId,
        sequence: u32,
        seen: Seen,
        now: Instant,
    ) -> Option<Change> {
        let change = self.fleet.breaker_told(worker, sequence, seen, now);
        self.note(change);
        change
    }

    /// `worker` asked to be left alone for so long when it turned a request away.
    pub fn asked_to_wait(&mut self, worker: WorkerId, wait: Micros) {
        self.fleet.asked_to_wait(worker, wait);
    }

    /// A worker gave a result: those that said before that there is no such thing are misconfigured.
    pub fn refuted(&mut self, tried: &Tried, now: Instant) -> Option<Change> {
        tried.disputing().fold(None, |told, worker| told.or(self.fleet.blamed(worker, now)))
    }

    /// Workers agreed that it is the request.
    pub fn agreed(&mut self, tried: &Tried) {
        for worker in tried.disputing() {
            self.fleet.acquitted(worker);
        }
    }

    /// Takes in what other gateways have in flight on `worker`.
    pub fn others(&mut self, worker: WorkerId, share: Share) {
        if self.fleet.is_member(worker) {
            self.fleet.others(worker, share);
        }
    }
}
