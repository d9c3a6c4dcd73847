//! Four ways to route, beside a published measurement of them on 16 GPUs (S2).
//!
//! The workload is that of llm-d's report "37-capacity" (llm-d-kv-cache, benchmarking/): 83 system prompts
//! of 8,000 tokens with three questions of 1,000 each, answers of 1,000, over and over in an order of
//! their own; a ladder of rates, each until its last answer has come. Nothing is fitted to it.

use std::collections::VecDeque;

use anyhow::Result;
use overdraft_claims::{Aim, Claim};
use overdraft_core::route::{Policy, Sticky};
use overdraft_sim::Draws;
use overdraft_sim::fleet::CacheKnowledge::{Estimated, Reported};
use overdraft_sim::workload::{self, Sessions};
use overdraft_units::{Instant, Micros, Tokens};
use serde_json::json;

use crate::part::{Effort, Part};
use crate::prompts::{Prompts, Shape};
use crate::scene::{Arm, Seen, estimate, seconds};

const FLEET: (&str, u32) = ("h100-tp4/llama-3-70b-bf16", 4);

/// What the report's pods said that their caches hold.
const KV_TOKENS: Tokens = Tokens::new(461_376);

/// What llm-d's gateway and vLLM's front end take for a prompt token: its first tokens of cached prompts
/// come after 0.14 s, of which a GPU explains 0.03 s.
const INGEST_NS_PER_TOKEN: u64 = 12_000;

const PROMPTS: Shape =
    Shape { groups: 83, questions: 3, system: 8_000, question: 1_000, answer: 1_000 };

/// A rate in requests a second, and for how many seconds it comes.
type Stage = (f64, u64);
const WARM_UP: Stage = (9.0, 30);
/// The warm-up's last answers have come after so many seconds more, under the slowest policy.
const PAUSE: u64 = 120;
const LADDER: [Stage; 9] = [
    (3.0, 210),
    (4.0, 180),
    (5.0, 120),
    (6.0, 120),
    (8.0, 90),
    (10.0, 70),
    (12.0, 60),
    (15.0, 50),
    (20.0, 50),
];
/// What of the ladder is run in a hurry.
const LADDER_QUICK: [usize; 2] = [1, 8];

/// Answer tokens a second that were measured, by stage.
const PRECISE: [f64; 9] = [2579.8, 3366.8, 3940.5, 4665.9, 5675.9, 6456.9, 7062.0, 7807.3, 9295.2];
const ESTIMATED: [f64; 9] =
    [2595.6, 3386.2, 3912.1, 4604.2, 5529.6, 6021.8, 6667.0, 6401.2, 6748.0];
const LOAD: [f64; 9] = [2567.1, 2974.3, 3119.7, 3007.5, 3089.7, 3050.4, 3044.0, 3106.0, 3205.6];
const RANDOM: [f64; 9] = [2518.0, 2734.2, 2647.1, 2946.7, 2968.5, 3119.5, 3022.5, 3003.1, 3099.1];

/// How far the fleet that knows its caches may be from what was measured, in percent.
const OFF_PERCENT_MAX: f64 = 10.0;

pub(crate) fn part(effort: Effort) -> Result<Part> {
    let stages: Vec<usize> = match effort {
        Effort::Quick => LADDER_QUICK.to_vec(),
        Effort::Full => (0..LADDER.len()).collect(),
    };
    let seeds = effort.pick(1, 3);
    let mut rows = vec![header(&stages)];
    let mut means = Vec::new();
    let mut raw = Vec::new();
    for (arm, measured) in arms()? {
        let mut cells = Vec::new();
        let (mut ours, mut theirs) = (0.0, 0.0);
        for &stage in &stages {
            let seen: Result<Vec<Seen>> =
                (0..seeds).map(|seed| climb(&arm, LADDER[stage], seed)).collect();
            let seen = seen?;
            let rate = estimate(&seen, |one| one.summary.output_throughput());
            let p90 = estimate(&seen, |one| one.summary.ttft.p90 / 1e3);
            raw.push(json!({
                "arm": arm.label, "rate": LADDER[stage].0, "output_tokens_per_second": rate.mean,
                "ci95": rate.half, "ttft_p90_seconds": p90.mean,
            }));
            cells.push(format!("{rate:.0}"));
            ours += rate.mean;
            theirs += measured.map_or(f64::NAN, |measured| measured[stage]);
        }
        let count = overdraft_claims::as_float(stages.len());
        let (ours, theirs) = (ours / count, theirs / count);
        rows.push(row(arm.label, cells, ours, Some(theirs)));
        if let Some(measured) = measured {
            let cells = stages.iter().map(|&stage| format!("{:.0}", measured[stage])).collect();
            rows.push(row("  measured by llm-d", cells, theirs, None));
        }
        means.push((ours, theirs));
    }
    Ok(Part {
        title: "llm-d, 37-capacity: answer tokens a second by requests a second \
                (4 × h100-tp4/llama-3-70b-bf16)"
            .to_owned(),
        rows,
        notes: vec![
            "each stage until its last answer, after a warm-up; the mean is over stages, as in the \
             report"
                .to_owned(),
            "where the fleet is overloaded the model is too fast, by about a third".to_owned(),
        ],
        raw: json!(raw),
        claims: claims(&means),
    })
}

fn header(stages: &[usize]) -> Vec<String> {
    let mut header = vec!["policy".to_owned()];
    header.extend(stages.iter().map(|&stage| format!("{}/s", LADDER[stage].0)));
    header.extend(["mean".to_owned(), "off".to_owned()]);
    header
}

fn row(label: &str, cells: Vec<String>, mean: f64, measured: Option<f64>) -> Vec<String> {
    let off = measured.filter(|measured| measured.is_finite());
    let off = off.map_or_else(String::new, |one| format!("{:+.1} %", (mean / one - 1.0) * 100.0));
    let mut row = vec![label.to_owned()];
    row.extend(cells);
    row.extend([format!("{mean:.0}"), off]);
    row
}

/// The report's four, as near as ours come to them, and ours.
fn arms() -> Result<Vec<(Arm, Option<[f64; 9]>)>> {
    let arm = |label, policy, knowledge| -> Result<Arm> {
        let mut arm = Arm::new(label, FLEET, policy, knowledge)?;
        arm.scenario.kv_tokens = Some(KV_TOKENS);
        arm.scenario.ingest_ns_per_token = INGEST_NS_PER_TOKEN;
        Ok(arm)
    };
    // Sessions of one request each that stick, whatever the load: at random.
    let mut random = arm("random", Policy::RoundRobin, Estimated)?;
    random.scenario.routing.sticky = Some(Sticky { load_permille: u32::MAX });
    Ok(vec![
        (
            arm("precise: prefix-affinity, KV events", Policy::PrefixAffinity, Reported)?,
            Some(PRECISE),
        ),
        (arm("estimated: prefix-affinity", Policy::PrefixAffinity, Estimated)?, Some(ESTIMATED)),
        (arm("load: least-load", Policy::LeastLoad, Estimated)?, Some(LOAD)),
        (random, Some(RANDOM)),
        (arm("ours: cost, KV events", Policy::Cost, Reported)?, None),
        (arm("ours: cost", Policy::Cost, Estimated)?, None),
    ])
}

fn claims(means: &[(f64, f64)]) -> Vec<Claim> {
    let [precise, estimated, load, random, ours, ..] = means else { return Vec::new() };
    let claim = |figure: &str, measured: f64, aim| Claim {
        demonstration: "S2",
        figure: figure.to_owned(),
        measured: Ok(measured),
        aim,
    };
    vec![
        claim("precise_over_estimated", precise.0 / estimated.0, Aim::AtLeast(1.0)),
        claim("estimated_over_load", estimated.0 / load.0, Aim::AtLeast(1.0)),
        claim("load_over_random", load.0 / random.0, Aim::AtLeast(1.0)),
        claim(
            "precise_off_percent",
            (precise.0 / precise.1 - 1.0).abs() * 100.0,
            Aim::AtMost(OFF_PERCENT_MAX),
        ),
        claim("ours_over_precise", ours.0 / precise.0, Aim::AtLeast(1.0)),
    ]
}

/// A warm-up, then a stage, of which alone is told.
fn climb(arm: &Arm, stage: Stage, seed: u64) -> Result<Seen> {
    let begins = WARM_UP.1 + PAUSE;
    let mut draws = Draws::new(seed, 0x006c_6c6d);
    let mut prompts = Prompts::new(PROMPTS, &mut draws);
    let mut sessions = VecDeque::new();
    for ((rate, span), from) in [(WARM_UP, 0), (stage, begins)] {
        let mut at = Instant::ORIGIN + seconds(from);
        loop {
            at = at + micros(draws.exponential(1.0 / rate));
            if Instant::ORIGIN + seconds(from + span) <= at {
                break;
            }
            sessions.push_back(Ok(prompts.ask(at, workload::Stage::default())));
        }
    }
    let sessions: Sessions = Box::new(sessions.into_iter());
    arm.serve(sessions, seconds(begins), seed)
}

fn micros(seconds: f64) -> Micros {
    let span = std::time::Duration::from_secs_f64(seconds);
    Micros::from(span)
}
