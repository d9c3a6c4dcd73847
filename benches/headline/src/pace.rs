//! How fast is the simulator, and does the same seed give the same history? (S4)

use anyhow::Result;
use overdraft_claims::{Aim, Claim};
use overdraft_core::route::{Policy, RouteSettings};
use overdraft_sim::fleet::{Scenario, Simulated, simulate};
use overdraft_sim::workload::{Pacing, Source};
use overdraft_silicon::Catalogue;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use crate::part::{Effort, Part};
use crate::scene::float;

/// What is asked: the chat workload as it comes.
const WORKLOAD: &str = "chat";

/// Requests of a run in full, which the claim is about.
const REQUESTS: u64 = 1_000_000;
const REQUESTS_QUICK: u64 = 50_000;

/// Requests of the two runs whose histories are compared.
const REQUESTS_TWICE: u64 = 5_000;

/// Seconds of one core that a million requests may take.
const SECONDS_MAX: f64 = 60.0;

pub(crate) fn part(effort: Effort) -> Result<Part> {
    let requests = effort.pick(REQUESTS_QUICK, REQUESTS);
    let before = cpu_seconds();
    let simulated = run(requests, 1)?;
    let seconds = cpu_seconds() - before;
    let million = seconds * 1e6 / float(requests);
    let tokens: u64 =
        simulated.recorder.samples().iter().map(|one| u64::from(one.output.get())).sum();
    let twice = [run(REQUESTS_TWICE, 7)?, run(REQUESTS_TWICE, 7)?, run(REQUESTS_TWICE, 8)?]
        .map(|one| one.recorder.digest());
    let repeats = twice[0] == twice[1] && twice[0] != twice[2];
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    Ok(Part {
        title: format!("pace: the simulator itself ({WORKLOAD}, 4 × h100-tp1/llama-3-8b-bf16)"),
        rows: vec![
            vec![String::new(), "of this machine".to_owned()],
            row("requests", requests.to_string()),
            row("tokens of answers", tokens.to_string()),
            row("CPU seconds, one core", format!("{seconds:.1}")),
            row("of a million requests", format!("{million:.1}")),
            row("digest, seed 7, twice", format!("{:016x} {:016x}", twice[0], twice[1])),
        ],
        notes: Vec::new(),
        raw: json!({ "requests": requests, "tokens": tokens, "cpu_seconds": seconds }),
        claims: vec![
            Claim {
                demonstration: "S4",
                figure: "cpu_seconds_of_a_million_requests".to_owned(),
                measured: Ok(million),
                aim: Aim::AtMost(SECONDS_MAX),
            },
            Claim {
                demonstration: "S4",
                figure: "same_seed_same_history".to_owned(),
                measured: Ok(f64::from(u8::from(repeats))),
                aim: Aim::AtLeast(1.0),
            },
        ],
    })
}

fn run(requests: u64, seed: u64) -> Result<Simulated> {
    let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16")?;
    let routing = RouteSettings { policy: Policy::Cost, ..RouteSettings::default() };
    let pacing = Pacing { requests_max: Some(requests), ..Pacing::default() };
    let sessions = pacing.apply(Source::parse(WORKLOAD)?.open(seed)?.sessions, seed);
    Ok(simulate(&Scenario::new(profile, 4, routing), sessions, seed, &mut |_| {})?)
}

/// What this process has used of all cores; the simulator has one thread.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds and nanoseconds are small")]
    let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    seconds
}
