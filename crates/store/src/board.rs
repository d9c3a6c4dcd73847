//! Shared circuit breaker state: which workers are ejected, as all gateways see it.

use std::time::Duration;

use crate::fault::Fault;

/// TTL of a record after its last update.
pub(crate) const RECORD_LIFE: Duration = Duration::from_hours(1);

/// A gateway's decision about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// For how long it is ejected; `None` where it is in rotation.
    pub open_for: Option<Duration>,
    /// Consecutive ejections.
    pub streak: u8,
}

/// A worker's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Grows with every decision.
    pub version: u64,
    /// For how long it is out from now on, zero once somebody may try it; `None` where it is in.
    pub open_for: Option<Duration>,
    /// Consecutive ejections.
    pub streak: u8,
}

/// A worker's key from its name as a number.
pub(crate) fn key(prefix: &str, worker: u64) -> String {
    format!("{prefix}board:{worker:016x}")
}

/// The key that changes with the board.
pub(crate) fn version_key(prefix: &str) -> String {
    format!("{prefix}version")
}

/// Reads one record's three figures; `None` where there is no record.
pub(crate) fn record(figures: &[String]) -> Result<Option<Record>, Fault> {
    let [left, streak, version] = figures else { return Err(Fault::Garbage) };
    let left: i64 = left.parse().map_err(|_| Fault::Garbage)?;
    let streak =
        u8::try_from(streak.parse::<u64>().map_err(|_| Fault::Garbage)?).unwrap_or(u8::MAX);
    let version = version.parse().map_err(|_| Fault::Garbage)?;
    let open_for = u64::try_from(left).ok().map(Duration::from_millis);
    Ok((left != -2).then_some(Record { version, open_for, streak }))
}

/// A time as scripts take it.
pub(crate) fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}
