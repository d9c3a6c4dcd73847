//! Report of the routing bench: table, claims and raw figures.

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float, median, save};
use overdraft_core::route::Policy;
use serde::Serialize;

use super::fleet::{CACHE_TOKENS, PREFILL_PER_SECOND, STEP, WORKERS};
use super::load::{PREFIX_BYTES, TENANTS};
use super::plan::{Run, Runs};
use super::spread::Spread;

/// Cost's p95 over round-robin's where prefixes are shared, and where they are not.
const SHARED_RATIO_MAX: f64 = 0.333;
const CONTROL_RATIO_MAX: f64 = 1.05;
/// Fewer seeds tell nothing of a twentieth.
const SEEDS_MIN: usize = 3;
/// The largest share of a burst over the mean.
const SKEW_MAX: f64 = 1.25;

/// All that was measured.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) runs: Runs,
    pub(crate) spread: Spread,
    pub(crate) machine_load: String,
}

/// Tells of one run as it ends: a full measurement takes minutes.
pub(crate) fn progress(run: &Run) {
    let (p50, p95, count) = (run.at(50), run.at(95), run.ttft_ms.len());
    let (policy, rate) = (run.policy, run.rate);
    println!(
        "  {policy:<16} {rate:>3.0}/s  {count:>4} requests  p50 {p50:>6.0}  p95 {p95:>6.0} ms"
    );
}

impl Report {
    pub(crate) fn print(&self) {
        let step_ms = STEP.as_millis();
        println!(
            "\n{WORKERS} simulated workers: {PREFILL_PER_SECOND} prompt tokens/s, {step_ms} ms a step, cache of \
             {CACHE_TOKENS} tokens each"
        );
        println!(
            "{TENANTS} tenants with prompts of {PREFIX_BYTES} tokens; round-robin's knee: {:.0} requests/s",
            self.runs.rate
        );
        println!("machine load (1, 5, 15 minutes): {}", self.machine_load);
        println!(
            "\n{:<34}{:>8}{:>8}{:>8}{:>8}{:>8}",
            "TTFT, ms", "p50", "p95", "p99", "cached", "skew"
        );
        for policy in Policy::ALL {
            row(&format!("shared prefixes, {policy}"), &self.runs.shared, policy);
        }
        for policy in Policy::ALL {
            row(&format!("nothing shared, {policy}"), &self.runs.control, policy);
        }
        let Spread { sequential, burst, sent, cancelled, failed, left } = &self.spread;
        println!("\n10 requests one after the other: {sequential:?}; 200 at once: {burst:?}");
        println!(
            "{sent} requests, {cancelled} cancelled, {failed} failed; left on the books: {left}"
        );
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let claim = |demonstration, figure: &str, measured: f64, aim| Claim {
            demonstration,
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let Self { runs, spread, .. } = self;
        let shared = Runs::ratio(&runs.shared, 95);
        let control = match runs.controls() {
            SEEDS_MIN.. => Ok(Runs::ratio(&runs.control, 95)),
            seeds => {
                Err(format!("with `{seeds}` seeds noise exceeds a twentieth; leave --quick out"))
            }
        };
        let failed = as_float(spread.failed);
        vec![
            claim("S1", "p95_shared_ratio", shared, Aim::AtMost(SHARED_RATIO_MAX)),
            Claim {
                demonstration: "S1",
                figure: "p95_unique_ratio".to_owned(),
                measured: control,
                aim: Aim::AtMost(CONTROL_RATIO_MAX),
            },
            claim("S4", "idle_workers_reached", spread.reached(), Aim::AtLeast(as_float(WORKERS))),
            claim("S4", "burst_skew", spread.skew(), Aim::AtMost(SKEW_MAX)),
            claim("S5", "left_after_cancels", as_float(spread.left), Aim::AtMost(0.0)),
            claim("S5", "failed_beside_cancels", failed, Aim::AtMost(0.0)),
        ]
    }

    /// Writes the raw figures, and says where.
    pub(crate) fn save(&self) -> Result<String> {
        Ok(save("routing", self)?)
    }
}

/// Medians over the runs of one policy.
fn row(what: &str, runs: &[Run], policy: Policy) {
    let of: Vec<&Run> = runs.iter().filter(|run| run.policy == policy.name()).collect();
    if of.is_empty() {
        return; // left out of this plan
    }
    let over = |figure: &dyn Fn(&Run) -> f64| median(of.iter().map(|run| figure(run)).collect());
    let skew = |run: &Run| {
        let most = run.requests_by_worker.iter().copied().max().unwrap_or(0);
        as_float(most * WORKERS) / as_float(run.ttft_ms.len())
    };
    let at = |percent| over(&|run: &Run| run.at(percent));
    let (p50, p95, p99) = (at(50), at(95), at(99));
    let cached = over(&|run: &Run| run.cached * 100.0);
    let skew = over(&skew);
    println!("{what:<34}{p50:>8.0}{p95:>8.0}{p99:>8.0}{cached:>7.0}%{skew:>8.2}");
}
