//! The real binary on loopback: what a user sees, from the first streamed token to a kill.

mod addresses;
mod bad_input;
mod batching;
mod caching;
mod calibrating;
mod cascade;
mod client;
mod configuring;
mod deciding;
mod dialects;
mod doctor;
mod documented;
mod few_files;
mod first_steps;
mod harness;
mod keys;
mod leaving;
mod limits;
mod load;
mod mishaps;
mod mock_engine;
mod preflight;
#[expect(dead_code, reason = "the store's own tests use the rest")]
#[path = "../redis/server.rs"]
mod redis;
mod resuming;
mod routing;
mod scaling;
mod simulated;
mod simulating;
mod supervising;
mod tailing;
mod tuning;
mod what_if;
mod write_ups;
