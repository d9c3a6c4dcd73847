//! Thread pool: every part runs once, on whichever thread, also when a part panics.

use super::Pool;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `parts` parts and checks that each ran once.
#[track_caller]
fn check(pool: &Pool, parts: usize) {
    let runs: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
    pool.run(parts, |part| {
        runs[part].fetch_add(1, Ordering::Relaxed);
    });
    assert!(runs.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{parts} parts");
}

#[test]
fn each_part_runs_once() {
    for threads in [0, 1, 2, 3, 8] {
        let pool = Pool::new(threads);
        for parts in [0, 1, 2, 3, 7, 100, 1_000] {
            check(&pool, parts);
        }
    }
}

#[test]
fn many_small_jobs_in_a_row_are_each_done_when_run_returns() {
    let pool = Pool::new(3);
    for _ in 0..3_000 {
        check(&pool, 4);
    }
}

#[test]
fn a_part_may_run_parts() {
    let pool = Pool::new(3);
    let total = AtomicUsize::new(0);
    pool.run(4, |_| {
        pool.run(5, |_| {
            total.fetch_add(1, Ordering::Relaxed);
        });
    });
    assert_eq!(total.into_inner(), 20);
}

#[test]
fn several_callers_share_a_pool() {
    let pool = Pool::new(2);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    check(&pool, 6);
                }
            });
        }
    });
}

#[test]
fn a_panic_in_a_part_reaches_the_caller_and_the_pool_lives_on() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        for bad in [0, 3, 9] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.run(10, |part| assert_ne!(part, bad, "part {bad} fails"));
            }));
            let payload = caught.expect_err("the panic was swallowed");
            let text = payload.downcast_ref::<String>().expect("a formatted panic");
            assert!(text.contains("fails"), "{text}");
            check(&pool, 10);
        }
    }
}

#[test]
fn sleeping_workers_do_not_keep_a_pool_from_ending() {
    for _ in 0..20 {
        let pool = Pool::new(4);
        check(&pool, 3);
        drop(pool);
    }
}

#[test]
fn chunks_cover_the_slice() {
    let pool = Pool::new(2);
    let mut data = vec![0_usize; 103];
    pool.run_chunks(&mut data, 10, |index, chunk| chunk.fill(index));
    assert!(data.iter().enumerate().all(|(at, value)| *value == at / 10));
    pool.run_chunks(&mut Vec::<usize>::new(), 10, |_, _| panic!("no chunk to work on"));
}
