//! Settings of metric scrapes: how often a worker's `/metrics` is read, and what a failure means.

use std::time::Duration;

/// How workers' load is learnt.
#[derive(Clone, Copy, Debug)]
pub struct ScrapeSettings {
    /// From the end of one scrape to the next while the worker has requests of ours (A2).
    pub interval: Duration,
    /// The same while it has none.
    pub idle_interval: Duration,
    /// How long a worker may take to answer (C1).
    pub timeout: Duration,
    /// Bytes of its page at most.
    pub page_bytes: usize,
    /// What becomes of a worker that does not tell (C1).
    pub failure: ScrapeFailure,
}

impl Default for ScrapeSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(200),
            idle_interval: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            page_bytes: 4 * 1024 * 1024,
            failure: ScrapeFailure::Keep,
        }
    }
}

/// What becomes of a worker whose metrics cannot be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrapeFailure {
    /// Its last word stands.
    #[default]
    Keep,
    /// It is passed over until it tells again.
    Unhealthy,
}
