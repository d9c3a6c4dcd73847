//! Fleet metrics: wanted workers of each pool, and memory, repairs and warm-ups of workers.
//!
//! Pools and outcomes are closed sets; the workers' gauges are rebuilt for each reading, so that a
//! worker that left leaves no series behind.

use std::sync::atomic::AtomicU64;

use overdraft_core::memory_drift::Outcome;
use overdraft_core::scale::{Load, Signal};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::registry::DescribedRegistry;

type One = [(&'static str, String); 1];
type Words<const N: usize> = [(&'static str, &'static str); N];
type Float = Gauge<f64, AtomicU64>;

/// What a pool wants.
#[derive(Clone, Copy, Debug)]
pub struct PoolGauges {
    /// Its name.
    pub pool: &'static str,
    /// What it carries.
    pub load: Load,
    /// Workers that each signal wants now, in thousandths.
    pub wants: [(Signal, u64); 3],
    /// Whole workers to ask for, held steady.
    pub workers: u64,
}

/// The memory of one worker.
#[derive(Clone, Debug)]
pub struct MemoryGauges {
    /// Its name.
    pub worker: String,
    /// How far its memory has drifted, in thousandths.
    pub drift_permille: u16,
}

/// How a warm-up went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmedUp {
    /// The worker answered.
    Answered,
    /// It did not, or with a failure of its own.
    Failed,
}

/// What came of a call to a model's wake hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// It was heard.
    Answered,
    /// It was not, or refused.
    Failed,
}

/// The catalogue of scaling and repair.
#[derive(Debug)]
pub struct FleetMetrics {
    desired: Family<Words<1>, Gauge>,
    load: Family<Words<2>, Float>,
    kv_use: Family<Words<1>, Float>,
    waiting: Family<Words<1>, Gauge>,
    running: Family<Words<1>, Gauge>,
    workers: Family<Words<2>, Gauge>,
    drift: Family<One, Float>,
    repairs: Family<Words<1>, Counter>,
    warm_ups: Family<Words<1>, Counter>,
    wakes: Family<Words<1>, Counter>,
}

impl FleetMetrics {
    /// The catalogue, entered into `registry`.
    pub fn new(registry: &mut DescribedRegistry) -> Self {
        let metrics = Self {
            desired: Family::default(),
            load: Family::default(),
            kv_use: Family::default(),
            waiting: Family::default(),
            running: Family::default(),
            workers: Family::default(),
            drift: Family::default(),
            repairs: Family::default(),
            warm_ups: Family::default(),
            wakes: Family::default(),
        };
        metrics.register_pools(registry);
        metrics.register_workers(registry);
        for outcome in Outcome::ALL {
            drop(metrics.repairs.get_or_create(&[("outcome", outcome.name())]));
        }
        for result in ["answered", "failed"] {
            drop(metrics.wakes.get_or_create(&[("result", result)]));
            drop(metrics.warm_ups.get_or_create(&[("result", result)]));
        }
        metrics
    }

    fn register_pools(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_pool_desired_workers",
            "Workers that a pool's load wants, held steady by the cooldowns",
            self.desired.clone(),
        );
        registry.register(
            "overdraft_pool_desired_load",
            "Workers that a pool's load wants at this moment, by signal; the largest counts",
            self.load.clone(),
        );
        registry.register(
            "overdraft_pool_kv_use",
            "Share of the cache in use, mean over the workers whose load is known",
            self.kv_use.clone(),
        );
        registry.register(
            "overdraft_pool_waiting",
            "Requests that wait at a pool's workers or before them, in any gateway that shares the store; for a draft that a cascade misses, one in each gateway that misses it",
            self.waiting.clone(),
        );
        registry.register(
            "overdraft_pool_running",
            "Requests that are computed on a pool's workers; those that wait are counted apart",
            self.running.clone(),
        );
        registry.register(
            "overdraft_pool_workers",
            "Workers of a pool that do not drain: there, serving, and of known load",
            self.workers.clone(),
        );
    }

    fn register_workers(&self, registry: &mut DescribedRegistry) {
        registry.register(
            "overdraft_worker_memory_drift",
            "Share of a worker's memory in use beyond what it used when it had settled",
            self.drift.clone(),
        );
        registry.register(
            "overdraft_worker_repairs",
            "Repairs of workers whose memory had fragmented, by how they ended",
            self.repairs.clone(),
        );
        registry.register(
            "overdraft_warm_ups",
            "Requests sent to workers before they take traffic, by how they went",
            self.warm_ups.clone(),
        );
        registry.register(
            "overdraft_wakes",
            "Calls to the wake hooks of models, by result",
            self.wakes.clone(),
        );
    }

    /// Sets the gauges anew.
    pub fn set(&self, pools: &[PoolGauges], workers: &[MemoryGauges]) {
        self.load.clear();
        self.kv_use.clear();
        self.drift.clear();
        for pool in pools {
            let label = ("pool", pool.pool);
            self.desired.get_or_create(&[label]).set(signed(pool.workers));
            for (signal, wants) in pool.wants {
                let labels = [label, ("signal", signal.name())];
                self.load.get_or_create(&labels).set(thousandths(wants));
            }
            // A pool without workers uses nothing; one whose workers have not spoken is unknown.
            let is_empty = pool.load.members == 0;
            if let Some(kv) = pool.load.kv_mean_permille().or(is_empty.then_some(0)) {
                self.kv_use.get_or_create(&[label]).set(thousandths(kv));
            }
            self.waiting.get_or_create(&[label]).set(signed(pool.load.waiting));
            self.running.get_or_create(&[label]).set(signed(pool.load.running));
            let counts = [
                ("there", pool.load.members),
                ("serving", pool.load.serving),
                ("known", pool.load.known),
            ];
            for (state, count) in counts {
                self.workers.get_or_create(&[label, ("state", state)]).set(i64::from(count));
            }
        }
        for worker in workers {
            let drift = thousandths(u64::from(worker.drift_permille));
            self.drift.get_or_create(&[("worker", worker.worker.clone())]).set(drift);
        }
    }

    /// A repair has ended.
    pub fn repaired(&self, outcome: Outcome) {
        self.repairs.get_or_create(&[("outcome", outcome.name())]).inc();
    }

    /// A model's wake hook was called.
    pub fn woke(&self, how: Woken) {
        let result = match how {
            Woken::Answered => "answered",
            Woken::Failed => "failed",
        };
        self.wakes.get_or_create(&[("result", result)]).inc();
    }

    /// A worker was sent a request before it takes traffic.
    pub fn warmed_up(&self, how: WarmedUp) {
        let result = match how {
            WarmedUp::Answered => "answered",
            WarmedUp::Failed => "failed",
        };
        self.warm_ups.get_or_create(&[("result", result)]).inc();
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn thousandths(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / 1_000.0
}
