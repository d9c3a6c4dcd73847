//! A process from outside: the memory it has, the time it took, and how many descriptors it may have.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Memory that process `id` has resident, in KiB.
///
/// # Errors
/// When it has ended.
pub(super) fn resident_kib(id: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("the kernel tells no memory")?.parse()?)
}

/// Seconds that the threads of process `id` have been on a processor.
///
/// # Errors
/// When it has ended.
pub(super) fn processor_seconds(id: u32) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let told = fs::read_to_string(thread?.path().join("schedstat"))?;
        let used: f64 = told.split_whitespace().next().context("a time")?.parse()?;
        nanoseconds += used;
    }
    Ok(nanoseconds / 1e9)
}

/// Raises this process's limit of descriptors, which those it starts inherit, as far as it goes, and says how far.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn descriptors() -> Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
