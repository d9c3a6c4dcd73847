//! Independent jobs on a bounded number of threads.
//!
//! **Invariant:** results stand in the order of the jobs, whatever order they ended in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Threads at most.
pub(crate) const JOBS_MAX: usize = 256;

/// As many threads as the machine runs at once.
pub(crate) fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does all jobs; `done` is told how many are through. One that panics says why instead of a result.
pub(crate) fn run<T: Send>(
    count: usize,
    threads: usize,
    job: impl Fn(usize) -> T + Sync,
    done: impl Fn(usize) + Sync,
) -> Vec<Result<T, String>> {
    let (next, through) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Vec<Mutex<Option<Result<T, String>>>> =
        (0..count).map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = results.get(place) else { return };
            let result = catch_unwind(AssertUnwindSafe(|| job(place)));
            let result = result.map_err(|panic| reason(&*panic));
            *slot.lock().expect("a job that panics was caught") = Some(result);
            done(through.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, JOBS_MAX).min(count.max(1)) {
            scope.spawn(work);
        }
    });
    let taken = |slot: Mutex<Option<Result<T, String>>>| {
        let result = slot.into_inner().expect("a job that panics was caught");
        result.expect("every job is done once")
    };
    results.into_iter().map(taken).collect()
}

fn reason(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_default())
}
