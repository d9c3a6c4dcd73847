//! Time series of a fleet: requests that run and wait, cache use, preemptions.

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
    /// At the gateways.
    queued: f64,
    /// So far.
    preemptions: f64,
}

impl Watch {
    /// Takes in what all workers say at a time, how many requests wait at gateways, and how many times a
    /// sequence has lost its pages so far.
    pub(super) fn see(
        &mut self,
        now: Instant,
        workers: &[Scraped],
        queued: usize,
        preemptions: u64,
    ) {
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
            queued: float(length(queued)),
            preemptions: float(preemptions),
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
        let series = |key, name, of: fn(&Point) -> f64| Series {
            key,
            name,
            points: self.points.iter().map(|point| (point.second, of(point))).collect(),
        };
        vec![
            series("running", "Requests that run", |point| point.running),
            series("waiting", "Requests that wait at workers", |point| point.waiting),
            series("queued", "Requests that wait at gateways", |point| point.queued),
            series("kv_use_percent", "Use of caches by running requests, %", |point| {
                point.held_percent
            }),
            series("preemptions", "Preemptions so far", |point| point.preemptions),
        ]
    }
}
