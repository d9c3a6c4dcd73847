//! Write-up D: speculative decoding whose depth follows the load (S3).

use anyhow::Result;
use overdraft_claims::{Aim, Claim};
use overdraft_core::route::Policy as Routing;
use overdraft_scheduler::speculate::{DEPTH_MAX, Policy};
use overdraft_sim::fleet::CacheKnowledge::Estimated;
use overdraft_sim::fleet::{Pace, Speculation};
use overdraft_sim::workload::{Pacing, Source};
use overdraft_units::Micros;
use serde_json::{Value, json};

use crate::part::{Effort, Part};
use crate::scene::{Arm, Seen, estimate};

/// Short questions and long answers: what guessing is about. Prompts have nothing to gain.
const WORKLOAD: &str = "unique:question=300,output=1000,spread=0";

/// A target, and what a pass of a drafter as EAGLE takes beside it, in microseconds.
const TARGETS: [(&str, u64); 2] =
    [("h100-tp1/llama-3-8b-bf16", 450), ("h100-tp4/llama-3-70b-fp8", 1_000)];

/// Sequences at a time.
const BATCHES: [u32; 4] = [1, 8, 64, 256];
const BATCHES_QUICK: [u32; 3] = [1, 8, 64];

/// Chances that a guess is right.
const ACCEPTANCES: [f64; 2] = [0.8, 0.6];

/// Requests of each of those at a time.
const ROUNDS: u64 = 6;

/// 162 % more tokens a second.
const TIMES_LEAST: f64 = 2.62;

/// Rules that are compared.
const RULES: [(&str, Policy); 5] = [
    ("off", Policy::Off),
    ("fixed:4", Policy::Fixed(4)),
    ("write-up: threshold", Policy::Threshold),
    ("threshold-per-token", Policy::ThresholdPerToken),
    ("ours: goodput", Policy::Goodput),
];

/// A target and how likely guesses are right for it.
#[derive(Clone, Copy)]
struct Case {
    target: &'static str,
    pass: u64,
    acceptance: f64,
}

/// What is told of all cases.
#[derive(Default)]
struct Told {
    rows: Vec<Vec<String>>,
    raw: Vec<Value>,
    claims: Vec<Claim>,
}

/// All rules for one case.
fn compare(case: Case, batches: &[u32], effort: Effort, told: &mut Told) -> Result<()> {
    let Case { target, acceptance, .. } = case;
    let mut plain = Vec::new();
    for (label, rule) in RULES {
        let mut row = vec![format!("{target}, {acceptance}"), label.to_owned()];
        for (place, &batch) in batches.iter().enumerate() {
            let seen = run(case, rule.clone(), batch, effort)?;
            let rate = estimate(&seen, |one| one.summary.output_throughput());
            let gap = estimate(&seen, |one| one.summary.tpot.p99).mean;
            if rule == Policy::Off {
                plain.push(rate.mean);
            }
            let times = rate.mean / plain[place];
            row.push(format!("{:.0} ({times:.2})", rate.mean));
            told.raw.push(json!({
                "target": target, "acceptance": acceptance, "rule": label, "batch": batch,
                "tokens_per_second": rate.mean, "ci95": rate.half, "tpot_p99_ms": gap,
            }));
            told.claims.extend(claim(case, &rule, batch, times));
        }
        told.rows.push(row);
    }
    Ok(())
}

pub(crate) fn part(effort: Effort) -> Result<Part> {
    let batches = effort.pick(&BATCHES_QUICK[..], &BATCHES[..]);
    let mut told = Told { rows: vec![header(batches)], ..Told::default() };
    for (target, pass) in TARGETS {
        for acceptance in ACCEPTANCES {
            compare(Case { target, pass, acceptance }, batches, effort, &mut told)?;
        }
    }
    let Told { rows, raw, claims } = told;
    Ok(Part {
        title: format!("D, guessing ahead: tokens a second by sequences at a time ({WORKLOAD})"),
        rows,
        notes: vec![
            "in brackets: times as many as without; target, chance that a guess is right; a pass of \
             the drafter takes 0.45 ms beside 8B and 1.0 ms beside 70B (assumed)"
                .to_owned(),
            "write-up: 450 -> 1,180 tokens a second for each GPU, that is 2.62 times, acceptance \
             0.68; at 70B the passes cost more than that leaves"
                .to_owned(),
        ],
        raw: json!(raw),
        claims,
    })
}

/// What is promised: the write-up's gain for small batches of the small model, and no loss for large ones.
fn claim(case: Case, rule: &Policy, batch: u32, times: f64) -> Option<Claim> {
    let Case { target, acceptance, .. } = case;
    if *rule != Policy::Goodput {
        return None;
    }
    let is_first = target == TARGETS[0].0 && acceptance > 0.7;
    let (figure, least) = match batch {
        1 | 8 if is_first => (format!("D_tokens_times_at_{batch}"), TIMES_LEAST),
        64 | 256 if acceptance < 0.7 => (format!("D_no_loss_at_{batch}_{target}"), 0.98),
        _ => return None,
    };
    let (measured, aim) = (Ok(times), Aim::AtLeast(least));
    Some(Claim { demonstration: "S3", figure, measured, aim })
}

fn header(batches: &[u32]) -> Vec<String> {
    let mut header = vec![String::new(), "rule".to_owned()];
    header.extend(batches.iter().map(|batch| format!("{batch} at a time")));
    header
}

/// One worker, always so many requests at a time.
fn run(case: Case, policy: Policy, batch: u32, effort: Effort) -> Result<Vec<Seen>> {
    let mut arm = Arm::new("", (case.target, 1), Routing::RoundRobin, Estimated)?;
    arm.scenario.speculation = (policy != Policy::Off).then(|| Speculation {
        policy,
        depth_max: DEPTH_MAX,
        pass: Micros::new(case.pass),
        acceptance: vec![vec![case.acceptance]],
    });
    arm.scenario.pace = Pace::Closed(batch);
    let requests = u64::from(batch).max(4) * ROUNDS;
    let pacing = Pacing { requests_max: Some(requests), ..Pacing::default() };
    let one = |seed: u64| {
        let sessions = pacing.apply(Source::parse(WORKLOAD)?.open(seed)?.sessions, seed);
        arm.serve(sessions, Micros::ZERO, seed)
    };
    (0..effort.pick(1, 3)).map(one).collect()
}
