//! What would a fleet make of a workload, without one?
//!
//! A discrete-event simulation in virtual time. The gateway is the same [`overdraft_core::route::Router`]
//! that runs live, fed by scrapes that are as old as they would be; each worker is the engine's own
//! [`overdraft_core::batch::Scheduler`], and how long its steps take says a profile of `silicon`. Nothing
//! else decides anything: what is simulated is time and the network.
//!
//! **Invariant:** equal scenarios, workloads and seeds give equal histories, to the microsecond; memory
//! grows with the requests under way, and by one sample for each that has ended.

mod agenda;
mod flight;
mod reports;
mod scenario;
mod simulation;
#[cfg(test)]
mod tests;
mod watch;
mod worker;

pub use self::scenario::{CacheKnowledge, Pace, Scenario, SimulateError, WORKERS_MAX};
pub use self::simulation::{Simulated, simulate};
