//! Simulator: workloads, a discrete-event simulation of a fleet, and reports.
//!
//! A [`workload`] is a stream of sessions, from a trace or from a generator; a [`report`] is what
//! is told of the requests that were sent, whether to a real endpoint or to a simulated fleet.
//! Nothing in here waits, listens or reads a clock: its caller passes the time.

pub mod fleet;
pub mod float_conversion;
pub mod invoice;
mod random;
pub mod report;
pub mod what_if;
pub mod workload;

pub use self::random::Draws;
