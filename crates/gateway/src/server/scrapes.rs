//! Scrapes of the metrics: what a drain has cut is read once before the gateway ends.
//!
//! Streams are cut in the instant in which a process would end, and the last scrape was before it. Unless the metrics are
//! read once more, nobody learns by them that anything was cut.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// How long a last scrape is waited for: longer than the 15 s that usually lie between two. Grace periods have room for it.
const LAST_SCRAPE: Duration = Duration::from_secs(20);

/// What scrapers have read.
#[derive(Debug, Default)]
pub(crate) struct Scrapes {
    /// Whether there has been any.
    has_begun: AtomicBool,
    /// Requests that a drain had cut when the metrics were read last.
    cut_told: AtomicU64,
    read: Notify,
}

impl Scrapes {
    /// The metrics are read, with so many requests that a drain has cut.
    pub(super) fn note(&self, cut: u64) {
        self.has_begun.store(true, Ordering::Relaxed);
        self.cut_told.fetch_max(cut, Ordering::Relaxed);
        self.read.notify_waiters();
    }

    /// Waits until the metrics have been read with this many cut requests, for 20 s at most, and not at all where nobody
    /// has ever scraped.
    pub(crate) async fn told(&self, cut: u64) {
        if !self.has_begun.load(Ordering::Relaxed) {
            return;
        }
        let reads = async {
            loop {
                let mut next = pin!(self.read.notified());
                next.as_mut().enable();
                if cut <= self.cut_told.load(Ordering::Relaxed) {
                    return;
                }
                next.await;
            }
        };
        if timeout(LAST_SCRAPE, reads).await.is_err() {
            tracing::warn!(cut, "no scrape has read the number of requests that the drain cut");
        }
    }
}
