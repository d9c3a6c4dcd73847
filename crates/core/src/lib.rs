//! Pure core of the gateway: every decision about the fleet, without clock or I/O.
//!
//! The crate is `no_std`, so a clock, a socket, a file or a thread is not merely forbidden here: it
//! is unreachable. Time and randomness arrive as arguments. The gateway and the simulator drive
//! exactly the same code, so a seed that fails in the simulator is a bug in production. What one
//! engine decides for itself is in the crate `scheduler`.
//!
//! Start reading at [`route`].
#![no_std]

extern crate alloc;

pub mod admit;
pub mod breaker;
pub mod cascade;
pub mod cost;
pub mod deadline;
pub mod estimate;
pub mod fleet;
mod hash_mix;
pub mod header_rules;
pub mod hedge;
pub mod memory_drift;
pub mod prefix;
pub mod response_cache;
pub mod restart;
pub mod resume;
pub mod route;
pub mod scale;
pub mod transfer;
