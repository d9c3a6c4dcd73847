//! The benches in one program: each is a module and a subcommand, so that all figures cost one build.
//!
//! `cargo xtask bench NAME` runs them. A bench prints its table, then one line per claim, and fails
//! when one falls short. A claim that could not be measured says why and fails nothing.

mod admission;
mod binary;
mod burst;
mod cache;
mod cascade;
mod connections;
mod decision;
mod dice;
mod engine;
mod gateway;
mod kv;
mod loadtool;
mod model;
mod observe;
mod questions;
#[path = "../../tests/redis/server.rs"]
#[expect(dead_code, reason = "the store's own tests use the rest")]
mod redis;
mod resume;
mod routing;
mod server;
mod silicon;
mod speculation;
mod store;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use self::dice::Dice;

/// As the binary `overdraft` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Threads of the runtime of a bench with servers; the gateway's figures are of CPU time, which this hardly moves.
const THREADS: usize = 2;

/// Measures one capability of Overdraft.
#[derive(Parser)]
#[command(name = "overdraft-bench")]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Decode and prefill beside the memory's limit and llama.cpp; a real model's accuracy and tokens
    Engine(engine::Arguments),
    /// First tokens under every policy, before a simulated fleet
    Routing(routing::Arguments),
    /// A routing decision, and the index of prefixes, in a fleet of 64
    Decision(decision::Arguments),
    /// Predicted peaks beside thresholds on old metrics, simulated
    Admission(admission::Arguments),
    /// CPU per request and per chunk beside a bare proxy and peers
    Gateway(gateway::Arguments),
    /// Thousands of streams and idle connections: errors, memory, health meanwhile
    Connections(connections::Arguments),
    /// CPU per request with dashboard, scrapes and traces beside the gateway without
    Observe(observe::Arguments),
    /// CPU per chunk of streams that can be resumed beside those that cannot
    Resume(resume::Arguments),
    /// A small model asked first: quality against cost
    Cascade(cascade::Arguments),
    /// Hits from memory and from Redis, and hit ratios by size
    Cache(cache::Arguments),
    /// Real time beside virtual time, and `overdraft bench` beside aiperf
    Loadtool(loadtool::Arguments),
    /// The cost model of GPUs beside published measurements
    Silicon(silicon::Arguments),
    /// Blocks fetched from another worker beside computing them
    Kv(kv::Arguments),
    /// What gateways share through Redis, and what its faults cost
    Store(store::Arguments),
    /// Three times what a fleet can do, guarded and not
    Burst(burst::Arguments),
    /// Guessing ahead under every rule while load and text change
    Speculation(speculation::Arguments),
}

fn main() -> Result<ExitCode> {
    match &Arguments::parse().bench {
        Bench::Engine(arguments) => engine::run(arguments),
        Bench::Routing(arguments) => routing::run(arguments),
        Bench::Decision(arguments) => decision::run(arguments),
        Bench::Admission(arguments) => admission::run(arguments),
        Bench::Gateway(arguments) => gateway::run(arguments),
        Bench::Connections(arguments) => connections::run(arguments),
        Bench::Observe(arguments) => observe::run(arguments),
        Bench::Resume(arguments) => resume::run(arguments),
        Bench::Cascade(arguments) => cascade::run(arguments),
        Bench::Cache(arguments) => cache::run(arguments),
        Bench::Loadtool(arguments) => loadtool::run(arguments),
        Bench::Silicon(arguments) => silicon::run(arguments),
        Bench::Kv(arguments) => kv::run(arguments),
        Bench::Store(arguments) => store::run(arguments),
        Bench::Burst(arguments) => burst::run(arguments),
        Bench::Speculation(arguments) => speculation::run(arguments),
    }
}

/// The runtime of a bench with servers in its process.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()
}
