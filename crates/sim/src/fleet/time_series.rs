//! Time series of a fleet: requests that run and wait, and cache use.

use overdraft_core::fleet::Scraped;
use overdraft_units::Instant;

use crate::float_conversion::{float, length};
use crate::report::Series;

/// Points that are kept; beyond that every other one is dropped.
const POINTS_MAX: usize = 600;

#[derive(Debug, Default)]
pub(super) struct Watch {
    points: Vec<Point>,
    /// One in so many is kept.
    stride: u64,
    seen: u64,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    second: f64,
    running: f64,
    waiting: f64,
    held_percent: f64,
}

impl Watch {
    /// Takes in what all workers say at a time.
    pub(super) fn see(&mut self, now: Instant, workers: &[Scraped]) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.stride.max(1)) {
            return;
        }
        let sum =
            |of: fn(&Scraped) -> u32| workers.iter().map(|one| f64::from(of(one))).sum::<f64>();
        let held: f64 =
            workers.iter().map(|one| f64::from(one.kv_use_permille.unwrap_or(0)) / 10.0).sum();
        self.points.push(Point {
            second: float(now.since(Instant::ORIGIN).get()) / 1e6,
            running: sum(|one| one.running),
            waiting: sum(|one| one.waiting),
            held_percent: held / float(length(workers.len())).max(1.0),
        });
        if POINTS_MAX < self.points.len() {
            let mut number = 0_u32;
            self.points.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
            self.stride = self.stride.max(1) * 2;
        }
    }

    pub(super) fn series(&self) -> Vec<Series> {
        let series = |name: &str, of: fn(&Point) -> f64| Series {
            name: name.to_owned(),
            points: self.points.iter().map(|point| (point.second, of(point))).collect(),
        };
        vec![
            series("Requests that run", |point| point.running),
            series("Requests that wait", |point| point.waiting),
            series("Use of caches by running requests, %", |point| point.held_percent),
        ]
    }
}
