//! The developer's own commands: `cargo xtask <up | check | test | tidy | docs | site | dashboard | bench | dist | release | deploy | headline | engines | soak>`.
//!
//! Everything a newcomer or the continuous integration runs is one of these, so that there is one
//! way to do each thing. A bare toolchain (Rust, a C compiler, make, Python) is enough.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "these commands talk to a person")]

mod bench;
mod dashboard;
mod deploy;
mod dist;
mod docs;
mod engines;
mod headline;
mod real;
mod release;
mod shell;
mod site;
mod soak;
mod test;
mod tidy;
mod up;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Overdraft's own chores", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Builds what is missing, then serves on 127.0.0.1:8080 and prints what to try
    Up(up::Arguments),
    /// The whole gate: format, lints, tests, documentation, tidy
    Check,
    /// Every test: units, properties, end to end with the official client
    Test(test::Arguments),
    /// The rules about shape that no linter sees
    Tidy,
    /// Writes docs/reference from the code, and figures from raw runs; with --check fails when they are out of date
    Docs(docs::Arguments),
    /// Builds the dashboard's page from TypeScript; --check and --test check what is committed
    Dashboard(dashboard::Arguments),
    /// Builds the static site from docs/ into target/site and follows its links; installs `mdbook` where there is none
    Site,
    /// Measures one capability and checks its claims
    Bench(bench::Arguments),
    /// Builds the binary for production, by what a load makes hot; prints where it is
    Dist(dist::Arguments),
    /// Makes all artefacts of a release with checksums: binary, wheel, Debian package, bill of materials
    Release(release::Arguments),
    /// Checks chart, overlays, rules, dashboards, units and packages under deploy/
    Deploy(deploy::Arguments),
    /// Simulates the write-ups' headline figures beside ours and checks the claims
    Headline(headline::Arguments),
    /// Checks the gateway before real engines (vLLM, llama-server); writes docs/engines.md
    Engines(engines::Arguments),
    /// Disturbs gateways, workers and Redis for an hour, and checks every token of every answer
    Soak(soak::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Up(arguments) => up::run(&arguments),
        Chore::Check => check(),
        Chore::Test(arguments) => test::run(&arguments),
        Chore::Tidy => tidy::run(),
        Chore::Docs(arguments) => docs::run(&arguments),
        Chore::Dashboard(arguments) => dashboard::run(&arguments),
        Chore::Site => site::run(),
        Chore::Bench(arguments) => bench::run(&arguments),
        Chore::Dist(arguments) => dist::run(&arguments),
        Chore::Release(arguments) => release::run(&arguments),
        Chore::Deploy(arguments) => deploy::run(&arguments),
        Chore::Headline(arguments) => headline::run(&arguments),
        Chore::Engines(arguments) => engines::run(&arguments),
        Chore::Soak(arguments) => soak::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("xtask: {fault:#}");
            ExitCode::FAILURE
        }
    }
}

/// Formats, lints, tests and documents, stopping at the first thing that fails; the cheap first.
fn check() -> anyhow::Result<()> {
    tidy::run()?;
    shell::cargo(&["fmt", "--all", "--", "--check"])?;
    shell::cargo(&[
        "clippy",
        "--workspace",
        "--features",
        "kubernetes",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ])?;
    test::run(&test::Arguments::default())?;
    shell::cargo_with(
        &["doc", "--workspace", "--features", "kubernetes", "--no-deps", "--locked", "--quiet"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    docs::run(&docs::Arguments { check: true })
}
