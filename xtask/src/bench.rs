//! Measures one capability: builds the benches in release mode, all in one program, and passes the bench's name and the
//! arguments on. What the gateway costs is measured as `cargo xtask dist` builds it.
//!
//! A bench prints its table, then one line per claim (`claim S5 speedup=4.6 aim>=4 holds`), and
//! exits with 1 when one falls short.

use anyhow::Result;

use crate::{dashboard, dist, shell};

/// What can be measured.
const BENCHES: &[(&str, &str)] = &[
    (
        "engine",
        "decode and prefill beside the memory's limit and llama.cpp; a real model's accuracy and tokens (S5, S8)",
    ),
    ("routing", "first tokens under every policy, before a simulated fleet (S1, S4, S5)"),
    ("decision", "a routing decision, and the index of prefixes, in a fleet of 64 (S6)"),
    ("admission", "predicted peaks beside thresholds on old metrics, simulated (S2)"),
    ("gateway", "CPU per request and per chunk beside a bare proxy and peers (S7)"),
    (
        "connections",
        "thousands of streams and idle connections on one gateway: errors, memory, health meanwhile (S4)",
    ),
    ("observe", "CPU per request with dashboard, scrapes and traces beside without (S4)"),
    ("resume", "CPU per chunk of streams that can be resumed beside those that cannot (S8)"),
    (
        "cascade",
        "a small model asked first: quality against cost, shifts, first text, a useless draft (S1, S2, S4, S5)",
    ),
    ("drafts", "a gate before 200 drawn drafts, simulated: time, quality, saving (S6)"),
    ("cache", "hits from memory and from Redis, and hit ratios by size (S2, S6)"),
    ("loadtool", "real time beside virtual time, and `overdraft bench` beside aiperf (S5, S6)"),
    ("silicon", "the cost model of GPUs beside published measurements (S1)"),
    (DASHBOARD, "the page in a real Chromium before 300 workers: its share of a core (S4)"),
    ("kv", "blocks fetched from another worker beside computing them (S5)"),
    ("store", "what gateways share through Redis, and what its faults cost (S4, S5)"),
    ("adversary", "the defaults beside switching them off, over drawn fleets and loads (S1-S4)"),
    (
        "burst",
        "three times what a fleet can do, guarded and not: crashes, goodput, fairness (S1, S6)",
    ),
    (
        "speculation",
        "guessing ahead under every rule while load and text change: same answers, gains (S1, S3-S5)",
    ),
];

/// Benches that are a package of their own, because they need neither engine nor gateway: they build in a minute.
const ALONE: &[(&str, &str)] =
    &[("adversary", "overdraft-adversary"), ("drafts", "overdraft-drafts")];

/// Benches that run the real binary, which is then built first.
const WITH_BINARY: &[&str] = &["burst", "cascade", "connections", "loadtool"];

/// The bench that a browser runs, not the benches' program.
const DASHBOARD: &str = "dashboard";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which bench; without it, they are listed
    name: Option<String>,
    /// Under a minute once built; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// More arguments for the bench itself
    #[arg(last = true)]
    more: Vec<String>,
}

/// Runs the bench called `name`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Some(name) = &arguments.name else {
        for (name, what) in BENCHES {
            println!("{name:<11} {what}");
        }
        return Ok(());
    };
    if !BENCHES.iter().any(|(known, _)| known == name) {
        let known: Vec<&str> = BENCHES.iter().map(|(known, _)| *known).collect();
        anyhow::bail!("`{name}` is not a bench; expected one of {}", known.join(", "));
    }
    anyhow::ensure!(
        name != DASHBOARD || (!arguments.save && arguments.more.is_empty()),
        "`{DASHBOARD}` takes `--quick` alone; its table is all there is to save"
    );
    if name == DASHBOARD {
        return dashboard::bench(arguments.quick);
    }
    if WITH_BINARY.contains(&name.as_str()) {
        shell::cargo(&["build", "--release", "--locked", "--quiet", "--package", "overdraft"])?;
    }
    let alone = ALONE.iter().find(|(alone, _)| alone == name);
    // A package of its own is one bench; the others are subcommands of one program.
    let mut passed: Vec<&str> = if alone.is_some() { Vec::new() } else { vec![name] };
    if arguments.quick {
        passed.push("--quick");
    }
    if arguments.save {
        passed.push("--save");
    }
    passed.extend(arguments.more.iter().map(String::as_str));
    if name == dist::LOAD {
        let binary = dist::build(dist::BENCHES, "")?;
        return shell::run(&binary, &passed);
    }
    let package = alone.map_or("overdraft-benches", |(_, package)| package);
    let run = ["run", "--release", "--locked", "--quiet", "--package", package, "--"];
    shell::cargo(&[&run[..], &passed].concat())
}
