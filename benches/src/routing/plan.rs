//! Measurement plan: what is measured, in which order.
//!
//! First the knee: the highest rate at which round-robin still answers well. At that rate the policies
//! are compared. Then a control in which nothing is shared, where there is nothing to win and nothing
//! must be lost. Round-robin and cost are always measured right after each other with the same seed,
//! and ratios are medians over the seeds, so what else the machine does falls on both.

use anyhow::Result;
use overdraft_claims::{median, percentile};
use overdraft_core::route::Policy;
use serde::Serialize;

use super::fleet::{Fleet, Make, PREFILL_PER_SECOND, WORKERS};
use super::load::{Load, PREFIX_BYTES, Prompts};

/// Round-robin has passed its knee where its p95 is so many times that of an idle fleet.
const KNEE_FACTOR: f64 = 3.0;
/// The rate of an idle fleet.
const IDLE_RATE: f64 = 2.0;
/// The control's rate as a share of what the fleet can compute.
const CONTROL_LOAD: f64 = 0.6;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rates tried for the knee, ascending.
    pub(crate) rates: &'static [f64],
    /// Requests at each.
    pub(crate) requests_at_rate: usize,
    /// Requests of a comparison.
    pub(crate) requests: usize,
    /// Comparisons of each kind.
    pub(crate) seeds: u64,
    /// Compared beside round-robin and cost.
    pub(crate) others: &'static [Policy],
    /// Requests of which half are cancelled.
    pub(crate) cancelled_of: usize,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        rates: &[14.0, 17.0, 20.0, 23.0, 26.0, 29.0, 32.0],
        requests_at_rate: 250,
        requests: 300,
        seeds: 5,
        others: &[Policy::LeastLoad, Policy::TwoChoices, Policy::PrefixAffinity, Policy::FitScore],
        cancelled_of: 10_000,
    };
    pub(crate) const QUICK: Self = Self {
        rates: &[20.0],
        requests_at_rate: 60,
        requests: 80,
        seeds: 1,
        others: &[],
        cancelled_of: 1_000,
    };
}

/// One policy under one load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) policy: &'static str,
    pub(crate) rate: f64,
    pub(crate) seed: u64,
    pub(crate) ttft_ms: Vec<f64>,
    pub(crate) requests_by_worker: [usize; WORKERS],
    /// Share of all prompt tokens that the workers found in their caches.
    pub(crate) cached: f64,
}

impl Run {
    pub(crate) fn at(&self, percent: usize) -> f64 {
        percentile(self.ttft_ms.clone(), percent)
    }
}

/// All runs.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Runs {
    /// The first is of an idle fleet.
    pub(crate) knee: Vec<Run>,
    /// The rate at the knee.
    pub(crate) rate: f64,
    pub(crate) shared: Vec<Run>,
    pub(crate) control: Vec<Run>,
}

/// Sends one load through one policy, on a fleet of its own.
async fn run(policy: Policy, load: Load) -> Result<Run> {
    let fleet = Fleet::start(Make::of(policy)).await?;
    let seen = load.send(fleet.gateway).await?;
    let (asked, hit) = fleet.prefixes();
    fleet.end().await?;
    let tokens = |count: u64| u32::try_from(count).map_or(f64::NAN, f64::from);
    let run = Run {
        policy: policy.name(),
        rate: load.rate,
        seed: load.seed,
        ttft_ms: seen.ttft_ms,
        requests_by_worker: seen.requests_by_worker,
        cached: tokens(hit) / tokens(asked),
    };
    super::report::progress(&run);
    Ok(run)
}

impl Plan {
    /// Measures all of it.
    pub(crate) async fn measure(self) -> Result<Runs> {
        let mut runs = Runs::default();
        self.find_knee(&mut runs).await?;
        let rate = runs.rate;
        let both = [Policy::RoundRobin, Policy::Cost];
        for seed in 1..=self.seeds {
            let shared = Load { prompts: Prompts::Tenants, rate, requests: self.requests, seed };
            for policy in both {
                runs.shared.push(run(policy, shared).await?);
            }
            let rate = control_rate();
            let unique = Load { prompts: Prompts::Unique, rate, requests: self.requests, seed };
            for policy in both {
                runs.control.push(run(policy, unique).await?);
            }
        }
        for &policy in self.others {
            let load = Load { prompts: Prompts::Tenants, rate, requests: self.requests, seed: 1 };
            runs.shared.push(run(policy, load).await?);
        }
        Ok(runs)
    }

    /// The highest rate before round-robin's p95 leaves what it is on an idle fleet far behind.
    async fn find_knee(self, runs: &mut Runs) -> Result<()> {
        let load = |rate, requests| Load { prompts: Prompts::Tenants, rate, requests, seed: 0 };
        // At the lowest rate a few requests have to do.
        let idle = run(Policy::RoundRobin, load(IDLE_RATE, self.requests_at_rate / 5)).await?;
        let limit = idle.at(95) * KNEE_FACTOR;
        runs.knee.push(idle);
        runs.rate = self.rates[0];
        for &rate in self.rates {
            let tried = run(Policy::RoundRobin, load(rate, self.requests_at_rate)).await?;
            let is_beyond = limit < tried.at(95);
            runs.knee.push(tried);
            if is_beyond {
                break;
            }
            runs.rate = rate;
        }
        Ok(())
    }
}

/// Requests a second that keep the workers' prefill as busy as the control asks.
fn control_rate() -> f64 {
    let prompt = overdraft_claims::as_float(PREFIX_BYTES + 120);
    let fleet = f64::from(PREFILL_PER_SECOND) * overdraft_claims::as_float(WORKERS);
    (CONTROL_LOAD * fleet / prompt).floor()
}

impl Runs {
    /// How many times the control was measured.
    pub(crate) fn controls(&self) -> usize {
        self.control.len() / 2
    }

    /// Percentile of cost over that of round-robin: the median over the seeds.
    pub(crate) fn ratio(runs: &[Run], percent: usize) -> f64 {
        let of = |policy: Policy| runs.iter().filter(move |run| run.policy == policy.name());
        let pairs = of(Policy::RoundRobin).zip(of(Policy::Cost));
        median(pairs.map(|(base, ours)| ours.at(percent) / base.at(percent)).collect())
    }
}
