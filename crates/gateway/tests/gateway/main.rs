//! The whole gateway over real sockets, between a scripted client and scripted workers.
//!
//! Both ends are raw: the test decides which bytes are written, when, and how a connection ends.
//! Nothing sleeps; every wait is for something that the other end does, under one generous bound
//! that only a hang can reach.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

mod client;
mod handing_over;
mod harness;
mod mock;
#[path = "../../src/discovery/dns/tests/server.rs"]
#[expect(dead_code, reason = "the resolver's own tests use the rest")]
mod name_server;
#[path = "../../../../tests/redis/server.rs"]
#[expect(dead_code, reason = "the store's own tests use the rest")]
mod redis;
mod worker_file;

mod admin_listener;
mod admission;
mod background;
mod caching;
mod cascade;
mod compression;
mod cors;
mod dashboard;
mod deadlines;
mod dialects;
mod draining;
mod endpoints;
mod failing;
mod failover;
mod health;
mod hedging;
mod http2;
mod jwt;
mod kept_responses;
mod keys;
mod maintenance;
mod passing;
mod refusing;
mod relaying;
mod reloading;
mod reporting;
mod resuming;
mod revoking;
mod routing;
mod sharing;
mod standing_in;
mod strict_workers;
mod tls;
mod tracing;
mod trying;
mod write_ups;
