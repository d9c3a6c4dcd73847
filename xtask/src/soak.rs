//! Standing check: gateways under faults for an hour, each answer checked token by token.
//!
//! Runs `tests/soak`: two gateways, embedded and simulated workers and a Redis, disturbed by a seeded plan. It takes
//! `redis-server` and its time, and is therefore no part of the gate.

use std::path::PathBuf;

use anyhow::Result;

use crate::shell;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Two minutes, in which memory and descriptors are told and not judged
    #[arg(long, conflicts_with_all = ["minutes", "rolling"])]
    quick: bool,
    /// How long faults are injected
    #[arg(long, default_value_t = 60, conflicts_with = "rolling")]
    minutes: u32,
    /// Restarts each worker and each gateway once, and injects nothing else
    #[arg(long)]
    rolling: bool,
    /// Seed of the faults and of the load
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// The `overdraft` to check, instead of one that is built first
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Redis, if it is not on the path
    #[arg(long, env = "OVERDRAFT_REDIS_SERVER", default_value = "redis-server")]
    redis_server: String,
}

/// Runs the soak, and fails where a promise does not hold; logs stay in `target/soak`.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binary = match &arguments.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => shell::built()?,
    };
    let work = shell::target().join("soak").join(format!("seed-{}", arguments.seed));
    let mut soak = vec![
        shell::root().join("tests/soak/soak.py").display().to_string(),
        format!("--binary={}", binary.display()),
        format!("--work={}", work.display()),
        format!("--redis={}", arguments.redis_server),
        format!("--seed={}", arguments.seed),
        format!("--minutes={}", arguments.minutes),
    ];
    soak.extend(arguments.quick.then(|| "--quick".to_owned()));
    soak.extend(arguments.rolling.then(|| "--rolling".to_owned()));
    let soak: Vec<&str> = soak.iter().map(String::as_str).collect();
    shell::run("python3".as_ref(), &soak)
}
