//! Independent runs on as many threads as there are cores.
//!
//! **Invariant:** results come in the order of their places, whichever thread was faster.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::fault::Fault;

/// Runs `one` for each place below `count`, at most so many at once as the machine has cores.
///
/// # Errors
/// The fault of the first place that has one; places that had not begun by then do not begin.
pub(crate) fn in_parallel<T: Send>(
    count: usize,
    one: impl Fn(usize) -> Result<T, Fault> + Sync,
) -> Result<Vec<T>, Fault> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<T, Fault>>>> = Mutex::new((0..count).map(|_| None).collect());
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if count <= place {
                return;
            }
            let result = one(place);
            if result.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores.min(count) {
            scope.spawn(work);
        }
    });
    // A place without a result lies behind a fault.
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_fault_ends_it() {
        let squares = in_parallel(100, |place| Ok(place * place)).expect("nothing failed");
        assert!(squares.iter().enumerate().all(|(place, square)| place * place == *square));
        assert_eq!(squares.len(), 100);
        let begun = AtomicUsize::new(0);
        let broken = in_parallel(1_000_000, |place| {
            begun.fetch_add(1, Ordering::Relaxed);
            if place == 3 { Err(Fault::input("three")) } else { Ok(()) }
        });
        assert!(format!("{broken:?}").contains("three"));
        assert!(begun.into_inner() < 1_000_000, "what was left did not begin");
        assert!(in_parallel(0, |_| Ok(())).expect("nothing to do").is_empty());
    }
}
