//! Response cache bench: latency of a hit, and hit ratio (S2, S6).
//!
//! Hits: the real gateway over loopback sockets before a worker that answers at once, asked one after the
//! other over one connection; from its own memory, and from a real Redis on this machine by a gateway
//! that has nothing in memory yet. Hit ratios: the shelf of `core::response_cache` alone, on requests of which
//! about two in five repeat one before, by Zipf's law; beside a cache without bounds and LRU.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
#![expect(clippy::disallowed_methods, reason = "a bench ends what it spawns with its runtime")]

mod hits;
mod ratio;
mod wire;

use std::process::ExitCode;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float, judge, save, save_page};
use serde::Serialize;

use self::hits::Hits;
use self::ratio::Ratios;
use crate::runtime;

/// Most that a hit may take from memory and from Redis, in milliseconds.
const MEMORY_MS_MAX: f64 = 2.0;
const REDIS_MS_MAX: f64 = 5.0;

/// Points that the hit ratio may be below that of a cache without bounds.
const POINTS_MAX: f64 = 2.0;

/// Measures the response cache.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// Everything measured.
#[derive(Serialize)]
struct Figures {
    hits: Hits,
    ratios: Ratios,
    machine_load: String,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let hits = runtime()?.block_on(hits::measure(if arguments.quick { 500 } else { 5_000 }))?;
    hits.print();
    let ratios = ratio::measure(if arguments.quick { 50_000 } else { 400_000 });
    ratios.print();
    let figures = Figures { hits, ratios, machine_load: overdraft_claims::machine_load() };
    if arguments.save {
        println!("raw results: {}", save("cache", &figures)?);
        println!("plots: {}", save_page("cache", &figures.ratios.page())?);
    }
    let claims = figures.claims();
    Ok(judge(&claims))
}

impl Figures {
    fn claims(&self) -> Vec<Claim> {
        let claim = |demonstration, figure: &str, measured: f64, aim| Claim {
            demonstration,
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let most = Aim::AtMost;
        let hits = &self.hits;
        vec![
            claim("S2", "memory_whole_p99_ms", hits.memory_whole.p99_ms, most(MEMORY_MS_MAX)),
            claim("S2", "memory_stream_p99_ms", hits.memory_stream.p99_ms, most(MEMORY_MS_MAX)),
            claim("S2", "redis_whole_p99_ms", hits.redis_whole.p99_ms, most(REDIS_MS_MAX)),
            claim("S2", "redis_stream_p99_ms", hits.redis_stream.p99_ms, most(REDIS_MS_MAX)),
            claim("S2", "answers_that_differ", as_float(hits.differ), most(0.0)),
            claim("S6", "points_below_unbounded", self.ratios.points_below(), most(POINTS_MAX)),
        ]
    }
}
