//! Outlier ejection: which workers' circuit breakers are open, and how many may be at once.
//!
//! The breakers themselves are in [`crate::breaker`]; this file has what needs the whole fleet: the
//! maximum ejected share, and what other gateways are told.

use alloc::string::String;

use overdraft_units::Instant;

use super::{Change, Fleet, RefusalKind, WorkerId};
use crate::breaker::{Breaker, BreakerSettings, Ended, Grants, News, Seen, Turned};

impl Fleet {
    /// How breakers are set.
    pub const fn breaker_settings(&self) -> &BreakerSettings {
        &self.breakers
    }

    /// Sets breakers; those that are open stay so for as long as they were to.
    pub const fn set_breakers(&mut self, settings: BreakerSettings) {
        self.breakers = settings;
    }

    /// Names the models that another model can stand in for, as a target does for its draft: all of
    /// their failing workers may be ejected.
    pub fn set_spare(&mut self, models: impl IntoIterator<Item = String>) {
        self.spare = models.into_iter().collect();
    }

    /// Who grants trials.
    pub const fn grants(&self) -> Grants {
        self.grants
    }

    /// Has trials granted from outside from now on, or no more.
    pub const fn set_grants(&mut self, grants: Grants) {
        self.grants = grants;
    }

    /// The workers whose ejection time is over, that have no trial in flight, and that a request from
    /// here may be sent to: who asks for the trial of another keeps it from those that could make it.
    pub fn probes_due(&self, now: Instant) -> impl Iterator<Item = WorkerId> {
        let due = self.workers().filter(move |(_, worker)| {
            worker.breaker.is_due(now) && worker.health().is_up() && !worker.is_draining()
        });
        due.map(|(id, _)| id)
    }

    /// The workers whose one trial is this gateway's to send, or under way from here.
    pub fn probing(&self, now: Instant) -> impl Iterator<Item = WorkerId> {
        self.workers().filter(move |(_, worker)| worker.breaker.is_trying(now)).map(|(id, _)| id)
    }

    /// Lets the next request that fits be the trial of `worker`.
    pub fn grant_probe(&mut self, worker: WorkerId, now: Instant) -> Option<Change> {
        let granted = self.is_member(worker) && self.changing(worker).breaker.grant(now);
        granted.then_some(Change::HalfOpened(worker))
    }

    /// Takes in what another gateway decided on `worker`.
    pub fn breaker_seen(&mut self, worker: WorkerId, seen: Seen, now: Instant) -> Option<Change> {
        if !self.is_member(worker) {
            return None;
        }
        let turned = self.changing(worker).breaker.see(seen, now);
        self.turn(worker, turned, now)
    }

    /// What this gateway decided and has not told the others.
    pub fn breaker_news(&self, now: Instant) -> impl Iterator<Item = (WorkerId, News)> {
        self.workers().filter_map(move |(id, worker)| Some((id, worker.breaker.news(now)?)))
    }

    /// The others were told, and `seen` is what all of them go by now.
    pub fn breaker_told(
        &mut self,
        worker: WorkerId,
        sequence: u32,
        seen: Seen,
        now: Instant,
    ) -> Option<Change> {
        self.workers.get(worker.index())?;
        let turned = self.changing(worker).breaker.told(sequence, seen, now);
        self.turn(worker, turned, now)
    }

    /// An attempt on `worker` has ended, or a trial's first token has come.
    pub(super) fn heard(
        &mut self,
        worker: WorkerId,
        ended: Ended,
        began: Instant,
        trial: Option<u32>,
        now: Instant,
    ) -> Option<Change> {
        let settings = self.breakers_of(worker);
        let turned = self.changing(worker).breaker.end(ended, began, trial, &settings, now);
        self.turn(worker, turned, now)
    }

    /// Obeys a breaker.
    fn turn(&mut self, id: WorkerId, turned: Option<Turned>, now: Instant) -> Option<Change> {
        match turned? {
            Turned::Trips if self.is_ejection_allowed(id) => {
                let settings = self.breakers_of(id);
                self.changing(id).breaker.open(&settings, now);
                Some(Change::Opened(id))
            }
            Turned::Trips => {
                // It stays in, or too many were out; but workers that serve come before it.
                let condemned = self.changing(id).refusals.condemned(RefusalKind::Failing, now);
                condemned.then_some(Change::Refuses(id, RefusalKind::Failing))
            }
            Turned::Opened => Some(Change::Opened(id)),
            Turned::Closed => {
                // Back, but not with its whole share at once.
                self.changing(id).came_up = now;
                Some(Change::Closed(id))
            }
        }
    }

    /// Whether one more worker may be out, for every model that it serves.
    fn is_ejection_allowed(&self, id: WorkerId) -> bool {
        let is_out = |other: &&WorkerId| !self.worker(**other).breaker.is_closed();
        let missed = |model: &&String| !self.spare.contains(*model);
        self.worker(id).models.iter().filter(missed).all(|model| {
            let serving = self.serving(model).unwrap_or_default();
            serving.iter().filter(is_out).count() < self.breakers.ejected_max(serving.len())
        })
    }

    /// The settings with dice of the worker's own.
    fn breakers_of(&self, id: WorkerId) -> BreakerSettings {
        BreakerSettings { dice: self.breakers.dice ^ self.worker(id).tag, ..self.breakers }
    }
}

impl super::Worker {
    /// Its breaker.
    pub const fn breaker(&self) -> &Breaker {
        &self.breaker
    }
}
