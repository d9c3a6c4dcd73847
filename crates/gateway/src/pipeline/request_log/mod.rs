//! Request log: what happened to the last requests and why, those under way, and use by tenant.
//!
//! A ring in memory, bounded by a setting. A request is entered when it begins and kept when its guard
//! is dropped, so the log has every request that metrics count. It keeps what the access line tells and
//! the decisions; it never has the text of a prompt or of an answer.

mod entry;
mod ring;
mod usage;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_telemetry::unix_time;
use overdraft_units::Instant;

pub(crate) use self::entry::{Ended, LogEntry, Logged};
use self::ring::Ring;
pub(crate) use self::usage::used;
pub(crate) use self::usage::{Usage, UsageKey, UsageOfDay, UsageSum};
use crate::pipeline::facts::{RequestFacts, SharedFacts};
use crate::settings::{DashboardSettings, REQUESTS_KEPT_MAX};

/// One request under way.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) id: Arc<str>,
    pub(crate) route: &'static str,
    pub(crate) begun: Instant,
    pub(crate) facts: SharedFacts,
}

/// Refusals since the start, by reason and priority: both are closed sets.
pub(crate) type RefusalCounts = BTreeMap<(&'static str, &'static str), u64>;

/// The last requests, and those under way.
#[derive(Debug)]
pub(crate) struct RequestLog {
    /// Requests that are kept at most; 0 where nothing is logged.
    kept_max: AtomicUsize,
    /// Names requests under way.
    next_live: AtomicU64,
    live: Arc<Mutex<BTreeMap<u64, Live>>>,
    ended: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    ring: Ring,
    usage: Usage,
    refusals: RefusalCounts,
}

impl RequestLog {
    pub(crate) fn new(settings: &DashboardSettings) -> Self {
        let log = Self {
            kept_max: AtomicUsize::new(0),
            next_live: AtomicU64::new(0),
            live: Arc::default(),
            ended: Mutex::default(),
        };
        log.adopt(settings);
        log
    }

    /// Keeps as many from now on as `settings` say.
    pub(crate) fn adopt(&self, settings: &DashboardSettings) {
        let wanted = if settings.is_on { settings.requests } else { 0 };
        let kept_max = wanted.min(REQUESTS_KEPT_MAX);
        self.kept_max.store(kept_max, Ordering::Relaxed);
        self.ended().ring.resize(kept_max);
    }

    /// Requests that are kept at most.
    pub(crate) fn kept_max(&self) -> usize {
        self.kept_max.load(Ordering::Relaxed)
    }

    /// Lists a request among those under way; `None` where nothing is logged.
    pub(crate) fn begin(&self, request: Live) -> Option<LogEntry> {
        if self.kept_max() == 0 {
            return None;
        }
        let number = self.next_live.fetch_add(1, Ordering::Relaxed);
        lock(&self.live).insert(number, request.clone());
        Some(LogEntry::new(number, request, Arc::clone(&self.live)))
    }

    /// Keeps a request that has ended.
    pub(crate) fn end(
        &self,
        entry: LogEntry,
        ended: &Ended,
        facts: &RequestFacts,
        used: Option<(UsageKey, UsageSum)>,
    ) {
        let at = unix_time();
        let logged = Arc::new(Logged::new(entry, ended, facts, at));
        let mut state = self.ended();
        if let Some((reason, _)) = &logged.refusal {
            let priority = logged.priority.unwrap_or("default");
            *state.refusals.entry((reason, priority)).or_default() += 1;
        }
        if let Some((key, sum)) = used {
            state.usage.add(at, key, sum);
        }
        let forgotten = state.ring.push(logged);
        drop(state);
        // Giving its memory back takes longer than keeping the new one.
        drop(forgotten);
    }

    /// Those under way, the oldest first, and how many there are.
    pub(crate) fn live(&self, most: usize) -> (Vec<Live>, usize) {
        let live = lock(&self.live);
        (live.values().take(most).cloned().collect(), live.len())
    }

    /// Those with a number from `from` on, the newest first, and the number of the next.
    pub(crate) fn since(&self, from: u64) -> (Vec<Arc<Logged>>, u64) {
        let state = self.ended();
        (state.ring.since(from).cloned().collect(), state.ring.next())
    }

    /// The latest request of that name, if it is still kept.
    pub(crate) fn find(&self, id: &str) -> Option<(u64, Arc<Logged>)> {
        self.ended().ring.find(id).map(|(number, logged)| (number, Arc::clone(logged)))
    }

    /// Use by tenant, today and the day before.
    pub(crate) fn usage(&self) -> Usage {
        self.ended().usage.clone()
    }

    /// Refusals since the start.
    pub(crate) fn refusals(&self) -> RefusalCounts {
        self.ended().refusals.clone()
    }

    fn ended(&self) -> MutexGuard<'_, LogState> {
        lock(&self.ended)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic left half done is a log.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
