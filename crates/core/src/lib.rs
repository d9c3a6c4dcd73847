//! Every decision Overdraft takes, and nothing else.
//!
//! The crate is `no_std`, so a clock, a socket, a file or a thread is not merely forbidden here: it
//! is unreachable. Time and randomness arrive as arguments. The gateway, the engine and the
//! simulator drive exactly the same code, so a seed that fails in the simulator is a bug in
//! production.
//!
//! Start reading at [`batch`].
#![no_std]

extern crate alloc;

pub mod admit;
pub mod batch;
pub mod breaker;
pub mod cascade;
pub mod cost;
pub mod estimate;
pub mod fleet;
pub mod fragment;
mod mix;
pub mod prefix;
pub mod restart;
pub mod reuse;
pub mod route;
pub mod scale;
pub mod speculate;
