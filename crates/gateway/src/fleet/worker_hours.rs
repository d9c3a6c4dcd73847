//! Hours of workers by pool: how long they were up, how much of that they were idle, and what it cost.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use overdraft_telemetry::metrics::PoolHours;
use overdraft_units::Instant;

use super::Fleet;
use crate::settings::Pool;

/// Microseconds of a second, and of an hour in seconds.
const MICROS: f64 = 1e6;
const HOUR: f64 = 3_600.0;

/// What has added up since the gateway started.
#[derive(Debug, Default)]
pub(crate) struct WorkerHours(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    looked: Option<Instant>,
    pools: BTreeMap<Pool, (u32, PoolHours)>,
}

impl WorkerHours {
    /// Workers of each pool that are up, and its hours so far.
    pub(crate) fn pools(&self) -> BTreeMap<Pool, (u32, PoolHours)> {
        self.sums().pools.clone()
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the time since the last look: a worker that is idle now was so since.
pub(crate) fn look(fleet: &Fleet) {
    let now = fleet.dispatcher.clock.now();
    let mut sums = fleet.hours.sums();
    let before = sums.looked.replace(now).unwrap_or(now);
    let passed = seconds(now.since(before).get());
    let mut looked = workers(fleet);
    for pool in sums.pools.keys() {
        looked.entry(*pool).or_default();
    }
    for (pool, seen) in looked {
        let hours = PoolHours {
            worker_seconds: f64::from(seen.up) * passed,
            idle_seconds: f64::from(seen.idle) * passed,
            dollars: seen.dollars_per_hour * passed / HOUR,
            dollars_per_hour: seen.dollars_per_hour,
        };
        fleet.cost.pool(pool.name(), hours);
        let (up, sum) = sums.pools.entry(pool).or_default();
        *up = seen.up;
        sum.worker_seconds += hours.worker_seconds;
        sum.idle_seconds += hours.idle_seconds;
        sum.dollars += hours.dollars;
        sum.dollars_per_hour = hours.dollars_per_hour;
    }
}

/// A pool now.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    up: u32,
    idle: u32,
    dollars_per_hour: f64,
}

fn workers(fleet: &Fleet) -> BTreeMap<Pool, Seen> {
    let settings = fleet.settings();
    let mut pools: BTreeMap<Pool, Seen> = BTreeMap::new();
    let router = fleet.dispatcher.view();
    for (id, worker) in router.fleet().workers() {
        if !worker.health().is_up() {
            continue;
        }
        let member = fleet.dispatcher.member(id);
        let pool = member.settings.pool;
        let seen = pools.entry(pool).or_default();
        seen.up += 1;
        seen.idle += u32::from(worker.requests_all() == 0);
        let ranks = fleet.ranks.of(member.settings.url.trim_end_matches('/'));
        let price = settings.prices.of_worker(&member.settings, ranks);
        seen.dollars_per_hour += seconds(price.unwrap_or_default());
    }
    pools
}

/// From millionths.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn seconds(micro: u64) -> f64 {
    micro as f64 / MICROS
}
