//! Discrete-event simulation of a fleet under a workload, in virtual time.
//!
//! The gateway is the same [`overdraft_core::route::Router`] that runs live, fed by scrapes with
//! realistic delay; each worker is the engine's own [`overdraft_scheduler::batch::Scheduler`], and
//! a profile of `gpu-model` gives the time of its steps. Only time and the network are simulated.
//!
//! **Invariant:** equal scenarios, workloads and seeds give equal histories, to the microsecond; memory
//! grows with the requests under way, and by one sample for each that has ended.

mod back_pressure;
mod bounds;
mod cascade;
mod cascade_scenario;
mod draft_gate;
mod draft_model;
mod engine_steps;
mod error;
mod event_loop;
mod event_queue;
mod faulty_workers;
mod gateway;
mod hedging;
mod joining;
mod kv_events;
mod life_cycle;
#[cfg(test)]
mod load_tests;
mod miss_attribution;
mod miss_causes;
mod outage;
mod refusal;
mod request_slab;
mod response_cache;
mod retry;
mod scenario;
mod scrapes;
mod single_flight;
mod stall;
mod tenant_mix;
#[cfg(test)]
mod tests;
mod time_series;
mod worker;

pub use self::bounds::{GATEWAYS_MAX, WORKERS_MAX};
pub use self::cascade_scenario::{CascadeScenario, RequestKind};
pub use self::draft_gate::Drafts;
pub use self::draft_model::Guesses;
pub use self::error::SimulateError;
pub use self::event_loop::{Simulated, simulate};
pub use self::faulty_workers::{Manner, Refusing};
pub use self::hedging::Hedges;
pub use self::scenario::{
    AnswerCache, CacheKnowledge, KEPT_DEFAULT, LOOK_UP_DEFAULT, Overdraft, Pace, Pool,
    REFUSED_WAIT_DEFAULT, RESTART_DEFAULT, Scenario, Speculation, all_alike,
};
pub use self::stall::Stall;
pub use self::tenant_mix::Mix;
