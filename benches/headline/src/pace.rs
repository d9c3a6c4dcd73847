//! Simulator speed, and determinism by seed (S4).

use anyhow::Result;
use overdraft_claims::{Aim, Claim};
use overdraft_core::route::{Policy, RouteSettings};
use overdraft_gpu_model::Catalogue;
use overdraft_sim::fleet::{Scenario, Simulated, simulate};
use overdraft_sim::workload::{Pacing, Source};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::part::{Effort, Part};
use crate::scene::float;

/// The chat workload at a rate that keeps the fleet busy, which the claim is about, and as it comes: a fleet
/// that idles takes more steps for each token.
const BUSY: &str = "chat:rate=60";
const IDLE: &str = "chat";

/// Requests of a run in full, which the claim is about.
const REQUESTS: u64 = 1_000_000;
const REQUESTS_QUICK: u64 = 20_000;

/// Requests of the two runs whose histories are compared.
const REQUESTS_TWICE: u64 = 5_000;

/// Seconds of one core that a million requests may take.
const SECONDS_MAX: f64 = 60.0;

pub(crate) fn part(effort: Effort) -> Result<Part> {
    let (quick, full) = (REQUESTS_QUICK, REQUESTS);
    let busy = timed(BUSY, effort.pick(quick, full))?;
    let idle = timed(IDLE, quick)?;
    let digest = |seed| run(BUSY, REQUESTS_TWICE, seed).map(|one| one.recorder.digest());
    let twice = [digest(7)?, digest(7)?, digest(8)?];
    let repeats = twice[0] == twice[1] && twice[0] != twice[2];
    let row =
        |name: &str, of: &dyn Fn(&Timed) -> String| vec![name.to_owned(), of(&busy), of(&idle)];
    Ok(Part {
        title: "pace: the simulator itself (4 × h100-tp1/llama-3-8b-bf16)".to_owned(),
        rows: vec![
            vec![String::new(), BUSY.to_owned(), IDLE.to_owned()],
            row("requests", &|one| one.requests.to_string()),
            row("tokens of answers", &|one| one.tokens.to_string()),
            row("CPU seconds, one core", &|one| format!("{:.1}", one.seconds)),
            row("of a million requests", &|one| format!("{:.1}", one.million())),
        ],
        notes: vec![format!(
            "digests, seed 7 twice, seed 8: {:016x} {:016x} {:016x}",
            twice[0], twice[1], twice[2]
        )],
        raw: json!({ "busy": busy.raw(), "idle": idle.raw() }),
        claims: vec![
            Claim {
                demonstration: "S4",
                figure: "cpu_seconds_of_a_million_requests".to_owned(),
                measured: Ok(busy.million()),
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

/// A run and what it took.
struct Timed {
    requests: u64,
    tokens: u64,
    seconds: f64,
}

impl Timed {
    fn million(&self) -> f64 {
        self.seconds * 1e6 / float(self.requests)
    }

    fn raw(&self) -> Value {
        let Self { requests, tokens, seconds } = self;
        json!({ "requests": requests, "tokens": tokens, "cpu_seconds": seconds })
    }
}

fn timed(workload: &str, requests: u64) -> Result<Timed> {
    let before = cpu_seconds();
    let simulated = run(workload, requests, 1)?;
    let seconds = cpu_seconds() - before;
    let samples = simulated.recorder.samples().iter();
    let tokens = samples.map(|one| u64::from(one.output.get())).sum();
    Ok(Timed { requests, tokens, seconds })
}

fn run(workload: &str, requests: u64, seed: u64) -> Result<Simulated> {
    let profile = Catalogue::builtin().find("h100-tp1/llama-3-8b-bf16")?;
    let routing = RouteSettings { policy: Policy::Cost, ..RouteSettings::default() };
    let pacing = Pacing { requests_max: Some(requests), ..Pacing::default() };
    let sessions = pacing.apply(Source::parse(workload)?.open(seed)?.sessions, seed);
    Ok(simulate(&Scenario::new(profile, 4, routing), sessions, seed, &mut |_| {})?)
}

/// What this process has used of all cores; the simulator has one thread.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds and nanoseconds are small")]
    let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    seconds
}
