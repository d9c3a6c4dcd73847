//! Ladder of sixteen rates that llm-d measured in 2026 on 16 GPUs, with vLLM and with `SGLang` (S1).
//!
//! 150 system prompts of 6,000 tokens with five questions of 1,200 each, answers of 1,000, over and over in one
//! order. Figures are those of tables in `llm-d/llm-d`: `guides/precise-prefix-cache-routing/README.md` at 0aa9f33,
//! `guides/optimized-baseline/README.md` at 021723b, and `benchmark-results` there at 53c5b20 and 17e359c.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float};
use overdraft_core::route::Policy;
use overdraft_gpu_model::Engine;
use overdraft_sim::Draws;
use overdraft_sim::fleet::{CacheKnowledge, Simulated, simulate};
use overdraft_sim::report::Sample;
use overdraft_sim::workload::{Sessions, Stage};
use overdraft_units::{Instant, Micros, Tokens};
use serde::Serialize;
use serde_json::json;

use crate::part::{Effort, Part};
use crate::prompts::{Prompts, Shape};
use crate::scene::{Arm, float, seconds};

const FLEET: (&str, u32) = ("h100-tp2/qwen-3-32b-bf16", 8);
const PROMPTS: Shape =
    Shape { groups: 150, questions: 5, system: 6_000, question: 1_200, answer: 1_000 };

/// What a worker of that fleet said in 2025 that its cache holds, with 90 % of the memory.
const KV_TOKENS: Tokens = Tokens::new(307_328);

/// What it holds with `--gpu-memory-utilization=0.95`, as the guides have it: 5 % of two cards more.
const KV_TOKENS_2026: Tokens = Tokens::new(339_951);

/// As in the ladder of 2025: what gateway and front end take for a prompt token.
const INGEST_NS_PER_TOKEN: u64 = 12_000;

const STAGES: usize = 16;
/// Rates in requests a second, and for how many seconds they come.
const LADDER: [(u64, u64); STAGES] = [
    (3, 20),
    (10, 20),
    (15, 20),
    (20, 38),
    (22, 34),
    (25, 30),
    (30, 25),
    (35, 21),
    (40, 38),
    (43, 36),
    (46, 33),
    (49, 30),
    (52, 29),
    (55, 27),
    (57, 26),
    (60, 25),
];
const WARM_UP: (u64, u64) = (15, 50);

/// Seconds from a stage's last request to the next stage: the slowest has answered all by then.
const GAP: u64 = 400;

type Figures = [f64; STAGES];

/// What was measured, and how it is repeated.
struct Measured {
    label: &'static str,
    engine: Engine,
    policy: Policy,
    knowledge: CacheKnowledge,
    /// Answer tokens a second.
    tokens: Figures,
    /// Seconds to the first token: the mean, and nine in ten.
    mean: Option<Figures>,
    p90: Option<Figures>,
}

const MEASURED: [Measured; 6] = [
    Measured {
        label: "vLLM, exact routing",
        engine: Engine::Vllm019,
        policy: Policy::LlmD,
        knowledge: CacheKnowledge::Reported,
        tokens: [
            1707.0, 4904.0, 6887.0, 11224.0, 11980.0, 12548.0, 13507.0, 13803.0, 15593.0, 15612.0,
            15462.0, 15607.0, 15728.0, 15612.0, 15667.0, 15733.0,
        ],
        mean: Some([
            0.155, 0.150, 0.155, 0.206, 0.152, 0.158, 0.155, 0.157, 0.494, 0.422, 0.257, 0.200,
            0.208, 0.199, 0.211, 0.214,
        ]),
        p90: Some([
            0.187, 0.199, 0.225, 0.320, 0.191, 0.200, 0.193, 0.202, 0.272, 0.265, 0.273, 0.267,
            0.279, 0.272, 0.293, 0.300,
        ]),
    },
    Measured {
        label: "vLLM, service",
        engine: Engine::Vllm019,
        policy: Policy::Random,
        knowledge: CacheKnowledge::Estimated,
        tokens: [
            1797.0, 4215.0, 5381.0, 6205.0, 5517.0, 5965.0, 5702.0, 5890.0, 6336.0, 6588.0, 6459.0,
            6265.0, 6303.0, 6290.0, 6089.0, 6551.0,
        ],
        mean: Some([
            0.415, 0.630, 0.881, 18.103, 20.171, 21.842, 24.597, 24.162, 68.673, 72.429, 70.084,
            70.659, 74.326, 72.564, 72.332, 75.586,
        ]),
        p90: Some([
            0.522, 1.014, 1.593, 35.344, 39.436, 42.813, 46.036, 45.190, 126.238, 130.275, 129.810,
            133.718, 134.981, 134.034, 135.023, 138.663,
        ]),
    },
    Measured {
        label: "vLLM, affinity, second run *",
        engine: Engine::Vllm019,
        policy: Policy::PrefixAffinity,
        knowledge: CacheKnowledge::Estimated,
        tokens: [
            1511.0, 4597.0, 8995.0, 6656.0, 10809.0, 10452.0, 10509.0, 12290.0, 14134.0, 13522.0,
            14050.0, 14941.0, 14542.0, 14607.0, 13451.0, 13528.0,
        ],
        mean: None,
        p90: None,
    },
    Measured {
        label: "vLLM, service, second run *",
        engine: Engine::Vllm019,
        policy: Policy::Random,
        knowledge: CacheKnowledge::Estimated,
        tokens: [
            1889.0, 4944.0, 6066.0, 4555.0, 6239.0, 6350.0, 6251.0, 6544.0, 6228.0, 6860.0, 6526.0,
            6956.0, 7049.0, 6402.0, 6317.0, 6764.0,
        ],
        mean: None,
        p90: None,
    },
    Measured {
        label: "SGLang, affinity *",
        engine: Engine::Sglang05,
        policy: Policy::PrefixAffinity,
        knowledge: CacheKnowledge::Estimated,
        tokens: [
            1536.0, 4838.0, 7056.0, 11077.0, 11693.0, 12063.0, 12675.0, 13066.0, 14463.0, 14399.0,
            14561.0, 14493.0, 14578.0, 14711.0, 14954.0, 14839.0,
        ],
        mean: None,
        p90: Some([
            0.148, 0.161, 0.173, 0.244, 0.152, 0.157, 0.161, 0.156, 0.303, 0.222, 0.236, 0.212,
            0.217, 0.231, 0.413, 0.437,
        ]),
    },
    Measured {
        label: "SGLang, service *",
        engine: Engine::Sglang05,
        policy: Policy::Random,
        knowledge: CacheKnowledge::Estimated,
        tokens: [
            1647.0, 4644.0, 5740.0, 6018.0, 5843.0, 5906.0, 5831.0, 5746.0, 6629.0, 6828.0, 6686.0,
            6285.0, 6488.0, 5855.0, 5769.0, 5642.0,
        ],
        mean: None,
        p90: Some([
            0.867, 1.656, 1.396, 33.849, 35.845, 39.469, 43.176, 47.802, 119.486, 151.379, 125.039,
            126.431, 131.208, 129.790, 129.604, 172.690,
        ]),
    },
];

/// How the fleet is taken to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// An engine of 2025 with the cache of 2025 and no front end.
    Before,
    /// The engine that was measured, with the cache that its flags leave room for.
    Now,
}

/// What was simulated of one ladder: means over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Climbed {
    tokens: Figures,
    mean: Figures,
    p90: Figures,
    preemptions: f64,
}

/// Mean absolute errors over all stages, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Errors {
    tokens: f64,
    mean: Option<f64>,
    p90: Option<f64>,
}

pub(crate) fn part(effort: Effort) -> Result<Part> {
    let seeds = effort.pick(1, 3);
    let mut rows = vec![header()];
    let (mut now, mut raw) = (Vec::new(), Vec::new());
    for one in &MEASURED {
        for taken in [Taken::Before, Taken::Now] {
            let climbed = climbed(one, taken, seeds)?;
            let errors = Errors::of(one, &climbed);
            rows.push(row(one, taken, &climbed, errors));
            raw.push(json!({
                "measured": one.label, "taken": format!("{taken:?}"), "simulated": climbed, "errors": errors,
            }));
            if taken == Taken::Now {
                now.push((climbed, errors));
            }
        }
    }
    let mut notes = vec![
        "mean absolute errors over 16 rates in percent; before: vllm-0.10, 307,328 tokens, no front end; \
         now: the engine measured, 339,951 tokens, 12 µs a prompt token"
            .to_owned(),
        "* nothing was fitted to it".to_owned(),
        "tokens a second, measured and simulated now:".to_owned(),
    ];
    notes.extend(by_rate(&now));
    Ok(Part {
        title: "ladder: llm-d's rates of 2026 (8 × h100-tp2/qwen-3-32b-bf16)".to_owned(),
        rows,
        notes,
        raw: json!(raw),
        claims: claims(&now),
    })
}

fn header() -> Vec<String> {
    ["measured", "taken as", "tokens/s", "mean first token", "p90 first token", "preemptions"]
        .map(str::to_owned)
        .to_vec()
}

fn row(one: &Measured, taken: Taken, climbed: &Climbed, errors: Errors) -> Vec<String> {
    let percent =
        |error: Option<f64>| error.map_or_else(|| "-".to_owned(), |one| format!("{one:.1}"));
    let taken = match taken {
        Taken::Before => "before".to_owned(),
        Taken::Now => one.engine.to_string(),
    };
    let errors = [Some(errors.tokens), errors.mean, errors.p90].map(percent);
    let mut row = vec![one.label.to_owned(), taken];
    row.extend(errors);
    row.push(format!("{:.0}", climbed.preemptions));
    row
}

/// A line for each rate: what was measured and simulated by each of the data sets.
fn by_rate(now: &[(Climbed, Errors)]) -> Vec<String> {
    let line = |(stage, (rate, _)): (usize, &(u64, u64))| {
        let pair = |(one, (climbed, _)): (&Measured, &(Climbed, Errors))| {
            format!("{:>8.0}{:>7.0}", one.tokens[stage], climbed.tokens[stage])
        };
        let pairs: String = MEASURED.iter().zip(now).map(pair).collect();
        format!("{rate:>3}/s{pairs}")
    };
    LADDER.iter().enumerate().map(line).collect()
}

fn claims(now: &[(Climbed, Errors)]) -> Vec<Claim> {
    let [(exact, exact_errors), (service, _), ..] = now else { return Vec::new() };
    let claim = |figure: &str, measured: f64, most| Claim {
        demonstration: "S1",
        figure: figure.to_owned(),
        measured: Ok(measured),
        aim: Aim::AtMost(most),
    };
    let sum = |figures: &Figures| figures.iter().sum::<f64>();
    let simulated = sum(&exact.tokens) / sum(&service.tokens);
    let measured = sum(&MEASURED[0].tokens) / sum(&MEASURED[1].tokens);
    vec![
        claim("exact_tokens_off_percent", exact_errors.tokens, 8.0),
        claim("exact_mean_first_token_off_percent", exact_errors.mean.unwrap_or(f64::NAN), 30.0),
        claim("exact_p90_first_token_off_percent", exact_errors.p90.unwrap_or(f64::NAN), 20.0),
        claim("ratio_off_percent", (simulated / measured - 1.0).abs() * 100.0, 8.0),
    ]
}

impl Errors {
    fn of(one: &Measured, climbed: &Climbed) -> Self {
        let off = |simulated: &Figures, measured: &Figures| {
            let each =
                simulated.iter().zip(measured).map(|(ours, theirs)| (ours / theirs - 1.0).abs());
            each.sum::<f64>() / as_float(STAGES) * 100.0
        };
        Self {
            tokens: off(&climbed.tokens, &one.tokens),
            mean: one.mean.map(|mean| off(&climbed.mean, &mean)),
            p90: one.p90.map(|p90| off(&climbed.p90, &p90)),
        }
    }
}

/// The ladder with so many seeds.
fn climbed(one: &Measured, taken: Taken, seeds: u64) -> Result<Climbed> {
    let mut arm = Arm::new(one.label, FLEET, one.policy, one.knowledge)?;
    arm.scenario.kv_tokens = Some(KV_TOKENS);
    if taken == Taken::Now {
        arm.scenario.profile = arm.scenario.profile.served_by(one.engine);
        arm.scenario.kv_tokens = Some(KV_TOKENS_2026);
        arm.scenario.ingest_ns_per_token = INGEST_NS_PER_TOKEN;
    }
    let mut climbed = Climbed::default();
    for seed in 0..seeds {
        let told = simulate(&arm.scenario, load(seed), seed, &mut |_| {})?;
        climbed.add(&told, float(seeds));
    }
    Ok(climbed)
}

impl Climbed {
    /// Adds one of so many runs.
    fn add(&mut self, told: &Simulated, runs: f64) {
        self.preemptions += float(told.preemptions) / runs;
        for (stage, place) in (0_u16..).zip(0..STAGES) {
            let of_stage = |sample: &&Sample| sample.belongs.stage == Some(stage);
            let samples: Vec<&Sample> = told.recorder.samples().iter().filter(of_stage).collect();
            let (tokens, mean, p90) = figures(&samples);
            self.tokens[place] += tokens / runs;
            self.mean[place] += mean / runs;
            self.p90[place] += p90 / runs;
        }
    }
}

/// Tokens a second from the first request to the last answer; first tokens, their mean and nine in ten.
fn figures(samples: &[&Sample]) -> (f64, f64, f64) {
    let in_seconds = |span: Micros| float(span.get()) / 1e6;
    let first = samples.iter().map(|sample| sample.intended).min();
    let last = samples.iter().map(|sample| sample.ended).max();
    let span = first.zip(last).map_or(f64::NAN, |(first, last)| in_seconds(last.since(first)));
    let tokens: u64 = samples.iter().map(|sample| u64::from(sample.output.get())).sum();
    let mut firsts: Vec<f64> =
        samples.iter().filter_map(|sample| sample.ttft()).map(in_seconds).collect();
    firsts.sort_by(f64::total_cmp);
    let mean = firsts.iter().sum::<f64>() / as_float(firsts.len());
    let p90 = firsts.get(firsts.len() * 9 / 10).copied().unwrap_or(f64::NAN);
    (float(tokens) / span, mean, p90)
}

/// Warm-up and all stages.
fn load(seed: u64) -> Sessions {
    let mut draws = Draws::new(seed, 0x6c61_6464);
    let mut prompts = Prompts::new(PROMPTS, &mut draws);
    let mut sessions = VecDeque::new();
    let mut begins = Instant::ORIGIN;
    let stages = (0..).map(Stage::Numbered).zip(LADDER);
    for (stage, (rate, span)) in std::iter::once((Stage::WarmUp, WARM_UP)).chain(stages) {
        let mut at = begins;
        for _ in 0..rate * span {
            let gap = Duration::from_secs_f64(draws.exponential(1.0 / float(rate)));
            at = at + Micros::from(gap);
            sessions.push_back(Ok(prompts.ask(at, stage)));
        }
        begins = at + seconds(GAP);
    }
    Box::new(sessions.into_iter())
}
