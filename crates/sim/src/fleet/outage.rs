//! Outages: what happens to requests when workers refuse or crash.

use overdraft_units::Instant;

use super::event_loop::Simulation;
use super::event_queue::{Event, FlightId};
use super::faulty_workers::Manner;
use crate::report::Cause;

impl Simulation<'_> {
    /// Notes when processes go and come back.
    pub(super) fn begin_refusing(&mut self) {
        let scenario = self.scenario;
        let gone = scenario.refusing.iter().filter(|one| one.manner == Manner::Gone);
        for one in gone {
            let Ok(worker) = usize::try_from(one.worker) else { continue };
            if worker < self.workers.len() {
                self.agenda.enter(Instant::ORIGIN + one.from, Event::Gone(worker));
                if let Some(until) = one.until.filter(|until| one.from < *until) {
                    self.agenda.enter(Instant::ORIGIN + until, Event::Restarted(worker));
                }
            }
        }
    }

    /// A worker's process is gone with all it had; what it had under way fails.
    pub(super) fn lose(&mut self, worker: usize) {
        if self.workers[worker].is_up() {
            let lost = self.workers[worker].crash();
            let seen = self.now + self.scenario.network;
            for id in lost {
                self.turn_away(id, Manner::Gone, seen);
            }
        }
    }

    /// Whether a request that has come to its worker is turned away there.
    pub(super) fn is_turned_away(&mut self, id: FlightId, worker: usize) -> bool {
        let refusing = self.scenario.refusing.iter();
        let Some(one) = refusing.clone().find(|one| one.refuses(worker, self.now)) else {
            return false;
        };
        self.turn_away(id, one.manner, self.now + self.scenario.network);
        true
    }

    fn turn_away(&mut self, id: FlightId, manner: Manner, seen: Instant) {
        let flight = self.flights.of(id);
        let (fate, failure) = manner.failure();
        let cause = if manner == Manner::Gone { Cause::WorkerLost } else { Cause::TurnedAway };
        flight.lose(fate, cause);
        flight.failure = Some(failure);
        self.agenda.enter(seen, Event::Ended(id));
    }
}
