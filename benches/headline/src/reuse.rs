//! Write-up B: answers that are given again, and prefixes that are (S3).

use anyhow::Result;
use overdraft_claims::{Aim, Claim};
use overdraft_core::route::Policy;
use overdraft_sim::fleet::CacheKnowledge::Estimated;
use overdraft_sim::fleet::{AnswerCache, KEPT_DEFAULT, LOOK_UP_DEFAULT};
use overdraft_sim::report::Estimate;
use serde_json::json;

use crate::part::{Effort, Part};
use crate::scene::{Arm, Load, Seen, estimate, float};

const FLEET: (&str, u32) = ("h100-tp1/llama-3-8b-bf16", 4);

/// 38 of 100 requests were asked before, word for word.
const WORKLOAD: &str = "tenants:groups=96,prefix=8000,question=300,output=100,repeat=0.38";

/// Bytes that answers may take, as the gateway's own default for memory.
const ANSWER_BYTES: u64 = 256 << 20;

/// Of all requests; the first of each is computed.
const REUSED_PERCENT_LEAST: f64 = 35.0;
/// What the write-up's throughput rose by: 800 to 2,100 requests a second.
const TIMES_LEAST: f64 = 2.62;

fn arms() -> Result<Vec<Arm>> {
    let cached = |mut arm: Arm| {
        let (kept, takes) = (KEPT_DEFAULT, LOOK_UP_DEFAULT);
        arm.scenario.cache = Some(AnswerCache { bytes: ANSWER_BYTES, kept, takes });
        arm
    };
    Ok(vec![
        Arm::new("round-robin", FLEET, Policy::RoundRobin, Estimated)?,
        cached(Arm::new("write-up: answers", FLEET, Policy::LeastLoad, Estimated)?),
        Arm::new("ours: prefixes alone", FLEET, Policy::Cost, Estimated)?,
        cached(Arm::new("ours: answers, prefixes", FLEET, Policy::Cost, Estimated)?),
    ])
}

pub(crate) fn part(effort: Effort) -> Result<Part> {
    let (seeds, hundredths) = (effort.pick(1, 3), effort.pick(10, 4));
    let (warm, span) = effort.pick((20, 30), (150, 100));
    let load = Load { workload: WORKLOAD, warm, span };
    let header = ["", "req/s held", "of plain", "TTFT p99, ms", "answered again", "in cache"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let (mut raw, mut plain) = (Vec::new(), None);
    let (mut times, mut again) = (f64::NAN, f64::NAN);
    for arm in arms()? {
        let rates: Result<Vec<f64>> =
            (0..seeds).map(|seed| arm.capacity(load, seed, hundredths)).collect();
        let capacity = Estimate::of(&rates?);
        let plain = *plain.get_or_insert(capacity.mean);
        let seen: Result<Vec<Seen>> = (0..seeds).map(|seed| arm.run(load, plain, seed)).collect();
        let seen = seen?;
        let p99 = estimate(&seen, |one| one.summary.ttft.p99);
        let reused = estimate(&seen, reused_percent);
        (times, again) = (capacity.mean / plain, reused.mean);
        let found = estimate(&seen, |one| one.summary.cached_share() * 100.0);
        rows.push(vec![
            arm.label.to_owned(),
            capacity.to_string(),
            format!("{times:.2}"),
            p99.to_string(),
            format!("{again:.1} %"),
            format!("{:.0} %", found.mean),
        ]);
        raw.push(json!({
            "arm": arm.label, "requests_per_second_held": capacity.mean, "ci95": capacity.half,
            "ttft_p99_ms": p99.mean, "answered_again_percent": again,
        }));
    }
    let claim = |figure: &str, measured: f64, least: f64| Claim {
        demonstration: "S3",
        figure: figure.to_owned(),
        measured: Ok(measured),
        aim: Aim::AtLeast(least),
    };
    Ok(Part {
        title: format!("B, answers and prefixes again: {WORKLOAD} (4 × {})", FLEET.0),
        rows,
        notes: vec![
            "TTFT and shares at the rate that round robin just holds; the last row is what is \
             claimed of"
                .to_owned(),
            "write-up: p99 of TTFT 480 -> 110 ms, 800 -> 2,100 requests a second, 38 % answered \
             from cache, 12 -> 5 GPUs; 38 % alone would be 1.6 times"
                .to_owned(),
        ],
        raw: json!(raw),
        claims: vec![
            claim("B_answered_again_percent", again, REUSED_PERCENT_LEAST),
            claim("B_throughput_times", times, TIMES_LEAST),
        ],
    })
}

/// Of the requests that were answered in the whole run.
fn reused_percent(seen: &Seen) -> f64 {
    let all = overdraft_claims::as_float(seen.simulated.recorder.samples().len());
    float(seen.simulated.reused.0) / all * 100.0
}
