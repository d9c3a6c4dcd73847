//! Measurement plan: what is measured, in which order.
//!
//! First what the fleet can do: as many requests in flight as fit its caches. Then three times that is
//! offered under each rule, on a fleet of its own, after a warm-up at half the capacity that counts for
//! nothing. Then two tenants under the default rule, once with each at its share and once with one at
//! ten times its share.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use overdraft_claims::{as_float, percentile};
use overdraft_core::admit::{Mode, Priority};
use serde::Serialize;
use tokio::time::Instant;

use super::fleet::{Fleet, WORKERS};
use super::load::{Stream, Told, saturate, send};

/// Requests in flight for each worker while its capacity is measured: what is known to fit.
const FITTING: u64 = 14;
/// Offered over capacity.
const BURST: f64 = 3.0;
/// The warm-up's load over capacity.
const WARM_UP: f64 = 0.5;
/// Each of two tenants' share of the capacity, and how many times that one of them asks for.
const SHARE: f64 = 0.4;
const FLOOD: f64 = 10.0;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Requests in flight on each worker, tried as static limits.
    limits: &'static [u32],
    capacity: Duration,
    warm_up: Duration,
    burst: Duration,
    fairness: Duration,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        limits: &[10, 14, 18, 22, 26, 30, 36],
        capacity: Duration::from_secs(30),
        warm_up: Duration::from_secs(20),
        burst: Duration::from_mins(1),
        fairness: Duration::from_mins(1),
    };
    pub(crate) const QUICK: Self = Self {
        limits: &[14, 22],
        capacity: Duration::from_secs(8),
        warm_up: Duration::from_secs(6),
        burst: Duration::from_secs(12),
        fairness: Duration::from_secs(12),
    };
}

/// What one rule made of the burst.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) rule: String,
    pub(crate) crashes: u32,
    pub(crate) preemptions: u32,
    /// Tokens a second of requests of default and of the highest priority that came to their end.
    pub(crate) goodput: f64,
    /// Offered, refused, broken off: by priority, the least first.
    pub(crate) offered: [usize; 3],
    pub(crate) refused: [usize; 3],
    pub(crate) broken: [usize; 3],
    pub(crate) ttft_ms: [Vec<f64>; 3],
    /// The longest `retry-after`, in seconds.
    pub(crate) retry_after_max: u32,
}

/// All runs.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Runs {
    /// Requests a second that the fleet can do.
    pub(crate) capacity: f64,
    pub(crate) bursts: Vec<Run>,
    /// First tokens of the tenant that keeps to its share, without the flood and with it.
    pub(crate) alone_ms: Vec<f64>,
    pub(crate) flooded_ms: Vec<f64>,
}

impl Run {
    fn new(rule: Mode, told: &[Told], span: (Instant, Duration)) -> Self {
        let end = span.0 + span.1;
        let in_time = |one: &&Told| one.is_whole() && one.outcome.done.is_some_and(|at| at < end);
        let useful = told.iter().filter(|one| Priority::Flex < one.priority).filter(in_time);
        let tokens: u32 = useful.map(|one| one.outcome.tokens).sum();
        let count = |of: &dyn Fn(&Told) -> bool| {
            Priority::ALL
                .map(|level| told.iter().filter(|one| one.priority == level && of(one)).count())
        };
        let first = |level: Priority| {
            let of_level = told.iter().filter(|one| one.priority == level && one.is_whole());
            of_level.filter_map(Told::ttft_ms).collect()
        };
        Self {
            rule: rule.to_string(),
            crashes: 0,
            preemptions: 0,
            goodput: f64::from(tokens) / span.1.as_secs_f64(),
            offered: count(&|_| true),
            refused: count(&Told::is_refused),
            broken: count(&|one| !one.is_refused() && !one.is_whole()),
            ttft_ms: Priority::ALL.map(first),
            retry_after_max: told
                .iter()
                .filter_map(|one| one.outcome.retry_after)
                .max()
                .unwrap_or(0),
        }
    }

    /// The share of a priority's requests that were refused.
    pub(crate) fn share_refused(&self, priority: Priority) -> f64 {
        let at = priority.index();
        as_float(self.refused[at]) / as_float(self.offered[at].max(1))
    }

    /// Percentile of a priority's first tokens.
    pub(crate) fn ttft(&self, priority: Priority, percent: usize) -> f64 {
        percentile(self.ttft_ms[priority.index()].clone(), percent)
    }
}

impl Plan {
    /// Measures all of it.
    pub(crate) async fn measure(self, binary: &Path) -> Result<Runs> {
        let mut runs = Runs { capacity: self.capacity(binary).await?, ..Runs::default() };
        super::report::capacity(runs.capacity);
        let limits = self.limits.iter().copied().map(Mode::Static);
        for mode in [Mode::Off, Mode::Peak].into_iter().chain(limits) {
            let run = self.burst(binary, mode, runs.capacity).await?;
            super::report::progress(&run);
            runs.bursts.push(run);
        }
        runs.alone_ms = self.fairness(binary, runs.capacity, 1.0).await?;
        runs.flooded_ms = self.fairness(binary, runs.capacity, FLOOD).await?;
        Ok(runs)
    }

    async fn capacity(self, binary: &Path) -> Result<f64> {
        let fleet = Fleet::start(binary, Mode::Off).await?;
        let clients = FITTING * u64::try_from(WORKERS)?;
        // The first answers begin at once and end together; they count for nothing.
        saturate(fleet.gateway, clients, self.warm_up).await?;
        let whole = saturate(fleet.gateway, clients, self.capacity).await?;
        anyhow::ensure!(fleet.crashes() == 0, "`{clients}` requests at once do not fit the fleet");
        fleet.end().await?;
        Ok(as_float(whole) / self.capacity.as_secs_f64())
    }

    async fn burst(self, binary: &Path, mode: Mode, capacity: f64) -> Result<Run> {
        let fleet = Fleet::start(binary, mode).await?;
        let stream = |rate, seed| [Stream { tenant: "everyone", rate, mixed: true, seed }];
        send(fleet.gateway, &stream(capacity * WARM_UP, 1), self.warm_up).await?;
        let begun = Instant::now();
        let told = send(fleet.gateway, &stream(capacity * BURST, 2), self.burst).await?;
        let mut run = Run::new(mode, &told, (begun, self.burst));
        run.crashes = fleet.crashes();
        run.preemptions = fleet.preemptions().await;
        fleet.end().await?;
        Ok(run)
    }

    /// First tokens of a tenant at its share while another asks for so many times its own.
    async fn fairness(self, binary: &Path, capacity: f64, times: f64) -> Result<Vec<f64>> {
        const KEPT: &str = "keeps-to-its-share";
        let fleet = Fleet::start(binary, Mode::Peak).await?;
        let share = capacity * SHARE;
        let kept = Stream { tenant: KEPT, rate: share, mixed: false, seed: 3 };
        let other = Stream { tenant: "another", rate: share, mixed: false, seed: 4 };
        send(fleet.gateway, &[kept, other], self.warm_up).await?;
        let flood = Stream { rate: share * times, seed: 5, ..other };
        let told = send(fleet.gateway, &[Stream { seed: 6, ..kept }, flood], self.fairness).await?;
        fleet.end().await?;
        // A refusal is no first token, however fast it came.
        let lost = f64::INFINITY;
        let of_kept = told.iter().filter(|one| one.tenant == KEPT);
        Ok(of_kept.map(|one| one.ttft_ms().unwrap_or(lost)).collect())
    }
}
