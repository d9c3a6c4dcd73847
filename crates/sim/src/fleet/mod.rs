//! Discrete-event simulation of a fleet under a workload, in virtual time.
//!
//! The gateway is the same [`overdraft_core::route::Router`] that runs live, fed by scrapes with
//! realistic delay; each worker is the engine's own [`overdraft_scheduler::batch::Scheduler`], and
//! a profile of `silicon` gives the time of its steps. Only time and the network are simulated.
//!
//! **Invariant:** equal scenarios, workloads and seeds give equal histories, to the microsecond; memory
//! grows with the requests under way, and by one sample for each that has ended.

mod retry;
mod event_queue;
mod response_cache;
mod bounds;
mod cascade;
mod miss_causes;
mod error;
mod request_slab;
mod draft_gate;
mod gateway;
mod draft_model;
mod miss_attribution;
mod tenant_mix;
mod outage;
mod faulty_workers;
mod kv_events;
mod life_cycle;
mod single_flight;
mod scenario;
mod scrapes;
mod event_loop;
#[cfg(test)]
mod tests;
mod time_series;
mod worker;

pub use self::bounds::{GATEWAYS_MAX, WORKERS_MAX};
pub use self::error::SimulateError;
pub use self::draft_gate::{Cascading, Drafts, RequestKind};
pub use self::draft_model::Guesses;
pub use self::tenant_mix::Mix;
pub use self::faulty_workers::{Manner, Refusing};
pub use self::scenario::{
    AnswerCache, CacheKnowledge, KEPT_DEFAULT, LOOK_UP_DEFAULT, Overdraft, Pace, Pool,
    RESTART_DEFAULT, Scenario, Speculation,
};
pub use self::event_loop::{Simulated, simulate};
