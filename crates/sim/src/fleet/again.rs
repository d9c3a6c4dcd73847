//! A request whose worker failed is asked of another, as the live gateway does it.
//!
//! Whether to says the core, by attempts and a budget. Where tokens have been told already nobody asks: what a
//! client has seen is not said again.

use overdraft_core::admit::AdmitSettings;
use overdraft_core::fleet::{Failure, Turn, WorkerId};
use overdraft_core::route::{RouteSettings, Tried, Verdict, retry};
use overdraft_units::Tokens;

use super::flight::{Flight, Role};
use super::simulation::Simulation;
use crate::report::Fate;

/// Whether a request may be kept back for others' sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// It may.
    Judged,
    /// It had its turn, and it was not for want of room that it failed.
    Waived,
}

impl Strictness {
    /// How such a request is routed.
    pub(super) fn over(self, settings: &RouteSettings) -> RouteSettings {
        match self {
            Self::Judged => *settings,
            Self::Waived => RouteSettings { admission: AdmitSettings::off(), ..*settings },
        }
    }
}

/// Whether an attempt is the first.
pub(super) fn turn(tried: &Tried) -> Turn {
    if tried.attempts() == 0 { Turn::First } else { Turn::Again }
}

impl Simulation<'_> {
    /// Sends a request that failed on `worker` to another; gives it back where it is over.
    pub(super) fn ask_again(&mut self, mut flight: Flight, worker: WorkerId) -> Option<Flight> {
        let (Some(failure), Some(visit)) = (flight.failure, flight.visit) else {
            return Some(flight);
        };
        if flight.first.is_some() || flight.role != Role::Target {
            return Some(flight);
        }
        flight.tried.add(worker);
        let fleet = self.gateways[flight.gateway].router.fleet();
        if let Verdict::GiveUp(_) = retry(fleet, self.scenario.retry, &flight.tried) {
            return Some(flight);
        }
        let strictness = match failure {
            Failure::Saturated => Strictness::Judged,
            _ => Strictness::Waived,
        };
        self.spell_again(&mut flight, visit);
        let id = self.flights.add(flight);
        match self.place(id, strictness) {
            Ok(placed) => {
                let flight = self.flights.of(id);
                (flight.fate, flight.failure, flight.cached) =
                    (Fate::Completed, None, Tokens::ZERO);
                self.retried += 1;
                self.send(id, placed);
                None
            }
            Err(_) => Some(self.flights.remove(id)),
        }
    }
}
