//! FCFS multi-server queue: the draft pool in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When each worker is free, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Pool(BinaryHeap<Reverse<u64>>);

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    /// It begins so late, in seconds after it was made.
    Begins(f64),
    /// It is given up before it begins.
    Left,
}

impl Pool {
    pub(crate) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Reverse(0)).collect())
    }

    /// A call at `now` that a worker takes `takes` for and that is given up `limit` after it was made.
    pub(crate) fn call(&mut self, now: f64, takes: f64, limit: f64) -> Call {
        let Some(Reverse(free)) = self.0.pop() else { return Call::Left };
        let waits = (seconds(free) - now).max(0.0);
        if limit <= waits {
            self.0.push(Reverse(free));
            return Call::Left;
        }
        // Who is given up is worked for no longer.
        self.0.push(Reverse(micros(now + (waits + takes).min(limit))));
        Call::Begins(waits)
    }
}

#[expect(clippy::cast_precision_loss, reason = "times of a run are far below 2^53 microseconds")]
pub(crate) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are positive")]
pub(crate) fn micros(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6) as u64
}
