//! Pure core of the engine: step scheduling (continuous batching) and draft depth.
//!
//! The crate is `no_std`, so a clock, a socket, a file or a thread cannot be named here. Time
//! arrives as an argument. The embedded engine, the simulated GPU and the fleet simulator drive the
//! same code. It names `units` only: a scheduler knows its own worker and nothing of the fleet.
//!
//! Start reading at [`batch`].
#![no_std]

extern crate alloc;

pub mod batch;
pub mod speculate;
