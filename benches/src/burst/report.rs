//! Report of the burst bench: table, claims and raw figures.

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float, percentile, save};
use overdraft_core::admit::Priority;
use serde::Serialize;

use super::fleet::WORKERS;
use super::plan::{Run, Runs};
use super::worker::{CACHE_TOKENS, PROFILE};

/// Goodput over that of the best static limit.
const GOODPUT_MIN: f64 = 0.95;
/// Nobody is told to stay away longer, in seconds.
const RETRY_AFTER_MAX: f64 = 30.0;
/// First tokens beside a flood over those without, at the 95th percentile.
const FLOODED_MAX: f64 = 1.2;

/// All that was measured.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) runs: Runs,
    pub(crate) machine_load: String,
}

/// Tells what the burst will be a multiple of.
pub(crate) fn capacity(per_second: f64) {
    println!("  the fleet can do {per_second:.1} requests/s");
}

/// Tells of one run as it ends: all of them take minutes.
pub(crate) fn progress(run: &Run) {
    let (rule, crashes, goodput) = (&run.rule, run.crashes, run.goodput);
    println!("  {rule:<12} {crashes:>3} crashes  goodput {goodput:>6.0} tokens/s");
}

impl Report {
    pub(crate) fn print(&self) {
        println!(
            "\n{WORKERS} simulated workers, {PROFILE}, caches cut to {CACHE_TOKENS} tokens; they die \
             when overdrawn"
        );
        println!(
            "offered: 3 times {:.1} requests/s; flex, default, priority 4:4:2; max_tokens 4 to 10 \
             times the answer",
            self.runs.capacity
        );
        println!("machine load (1, 5, 15 minutes): {}", self.machine_load);
        println!(
            "\n{:<12}{:>8}{:>9}{:>10}{:>22}{:>20}{:>24}{:>8}",
            "admission",
            "crashes",
            "preempt",
            "goodput",
            "refused f/d/p, %",
            "broken f/d/p",
            "TTFT p95 f/d/p, ms",
            "retry"
        );
        for run in &self.runs.bursts {
            let refused = Priority::ALL.map(|of| format!("{:.0}", run.share_refused(of) * 100.0));
            let broken = run.broken.map(|count| count.to_string());
            let ttft = Priority::ALL.map(|of| format!("{:.0}", run.ttft(of, 95)));
            println!(
                "{:<12}{:>8}{:>9}{:>10.0}{:>22}{:>20}{:>24}{:>6} s",
                run.rule,
                run.crashes,
                run.preemptions,
                run.goodput,
                refused.join(" / "),
                broken.join(" / "),
                ttft.join(" / "),
                run.retry_after_max
            );
        }
        let (alone, flooded) = self.fairness();
        println!(
            "\none tenant at its share, another at its share or ten times that: TTFT p95 {alone:.0} \
             and {flooded:.0} ms"
        );
    }

    fn fairness(&self) -> (f64, f64) {
        let p95 = |times: &Vec<f64>| percentile(times.clone(), 95);
        (p95(&self.runs.alone_ms), p95(&self.runs.flooded_ms))
    }

    fn of_rule(&self, rule: &str) -> Option<&Run> {
        self.runs.bursts.iter().find(|run| run.rule == rule)
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let (Some(off), Some(peak)) = (self.of_rule("off"), self.of_rule("peak")) else {
            return Vec::new();
        };
        let limits = self.runs.bursts.iter().filter(|run| run.rule.starts_with("static"));
        let best = limits.map(|run| run.goodput).fold(f64::NAN, f64::max);
        let (alone, flooded) = self.fairness();
        let claim = |demonstration, figure: &str, measured: f64, aim| Claim {
            demonstration,
            figure: figure.to_owned(),
            measured: Ok(measured),
            aim,
        };
        let count = |count: u32| f64::from(count);
        let [flex, default, priority] = Priority::ALL.map(|of| peak.share_refused(of));
        let in_order = priority <= default && default < flex;
        let broken = as_float(peak.broken.iter().sum());
        vec![
            claim("S1", "unguarded_crashes", count(off.crashes), Aim::AtLeast(1.0)),
            claim("S1", "guarded_crashes", count(peak.crashes), Aim::AtMost(0.0)),
            claim("S1", "guarded_preemptions", count(peak.preemptions), Aim::AtMost(0.0)),
            claim("S1", "guarded_broken_answers", broken, Aim::AtMost(0.0)),
            claim("S1", "flex_refused_first", f64::from(u8::from(in_order)), Aim::AtLeast(1.0)),
            claim("S1", "goodput_over_best_static", peak.goodput / best, Aim::AtLeast(GOODPUT_MIN)),
            claim(
                "S1",
                "retry_after_max_seconds",
                count(peak.retry_after_max),
                Aim::AtMost(RETRY_AFTER_MAX),
            ),
            claim("S6", "flooded_ttft_p95_ratio", flooded / alone, Aim::AtMost(FLOODED_MAX)),
        ]
    }

    /// Writes the raw figures, and says where.
    pub(crate) fn save(&self) -> Result<String> {
        Ok(save("burst", self)?)
    }
}
