//! Discrete-event simulation of a fleet under a workload, in virtual time.
//!
//! The gateway is the same [`overdraft_core::route::Router`] that runs live, fed by scrapes with
//! realistic delay; each worker is the engine's own [`overdraft_scheduler::batch::Scheduler`], and
//! a profile of `silicon` gives the time of its steps. Only time and the network are simulated.
//!
//! **Invariant:** equal scenarios, workloads and seeds give equal histories, to the microsecond; memory
//! grows with the requests under way, and by one sample for each that has ended.

mod again;
mod agenda;
mod answers;
mod bounds;
mod cascade;
mod causes;
mod error;
mod flight;
mod gatekeeper;
mod gateway;
mod guess;
mod missed;
mod mix;
mod outage;
mod refusing;
mod reports;
mod requests;
mod reuse;
mod scenario;
mod scrapes;
mod simulation;
#[cfg(test)]
mod tests;
mod watch;
mod worker;

pub use self::bounds::{GATEWAYS_MAX, WORKERS_MAX};
pub use self::error::SimulateError;
pub use self::gatekeeper::{Cascading, Drafts, RequestKind};
pub use self::guess::Guesses;
pub use self::mix::Mix;
pub use self::refusing::{Manner, Refusing};
pub use self::scenario::{
    AnswerCache, CacheKnowledge, KEPT_DEFAULT, LOOK_UP_DEFAULT, Overdraft, Pace, Pool,
    RESTART_DEFAULT, Scenario, Speculation,
};
pub use self::simulation::{Simulated, simulate};
