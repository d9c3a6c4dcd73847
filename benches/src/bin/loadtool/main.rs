//! Does `overdraft bench` tell what another load tool tells of the same endpoint? (S6)
//!
//! An endpoint with a pace of its own answers both, one after the other: so many requests at once, each
//! with its first token after a while and the others at equal distances. What both say of the median time
//! to the first token and per token is compared. The other tool is NVIDIA's `aiperf`, where it is installed.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod endpoint;
mod peer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use overdraft_benches::{Aim, Claim, machine_load, save};
use overdraft_load::{Asking, Interface, Loop, Plan, Progress, Target};
use overdraft_sim::report::{Objectives, Run};
use overdraft_sim::workload::{Pacing, Source, Wording};
use serde::Serialize;

use self::endpoint::{ANSWER_TOKENS, Endpoint, MODEL};

/// Requests at once.
const USERS: usize = 4;
/// Tokens of a prompt.
const PROMPT_TOKENS: u32 = 200;
/// How far medians may be apart, in percent.
const APART_MAX: f64 = 5.0;
/// An answer that takes longer is a fault.
const PATIENCE: Duration = Duration::from_mins(1);

/// Compares the load tool with another one.
#[derive(Parser)]
#[command(name = "loadtool")]
struct Arguments {
    /// Under a minute; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// The folder of the environment that has `aiperf`
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers"))]
    peers: PathBuf,
}

/// Medians in milliseconds.
#[derive(Clone, Debug, Serialize)]
struct Told {
    tool: String,
    ttft_ms: f64,
    tpot_ms: f64,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&arguments))
}

async fn measure(arguments: &Arguments) -> Result<ExitCode> {
    let requests = if arguments.quick { 40 } else { 200 };
    let endpoint = Endpoint::start().await?;
    let ours = ours(&endpoint, requests).await?;
    let peer = peer::measure(&arguments.peers, endpoint.address, (requests, USERS)).await;
    println!("machine load {}", machine_load());
    println!("{:<20} {:>16} {:>16}", "tool", "TTFT p50 (ms)", "TPOT p50 (ms)");
    let peer = peer.map_err(|error| format!("{error:#}"));
    for told in [Some(&ours), peer.as_ref().ok()].into_iter().flatten() {
        println!("{:<20} {:>16.2} {:>16.2}", told.tool, told.ttft_ms, told.tpot_ms);
    }
    if arguments.save {
        println!("raw results: {}", save("loadtool", &(&ours, peer.as_ref().ok()))?);
    }
    let apart = |of: fn(&Told) -> f64| {
        peer.as_ref().map_err(Clone::clone).map(|peer| (of(&ours) / of(peer) - 1.0).abs() * 100.0)
    };
    let claim = |figure: &str, measured| Claim {
        demonstration: "S6",
        figure: figure.to_owned(),
        measured,
        aim: Aim::AtMost(APART_MAX),
    };
    let claims = [
        claim("loadtool_ttft_p50_apart_percent", apart(|told| told.ttft_ms)),
        claim("loadtool_tpot_p50_apart_percent", apart(|told| told.tpot_ms)),
    ];
    for claim in &claims {
        println!("{claim}");
    }
    let short = claims.iter().any(Claim::falls_short);
    Ok(if short { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn ours(endpoint: &Endpoint, requests: u64) -> Result<Told> {
    let workload =
        format!("unique:question={PROMPT_TOKENS},output={ANSWER_TOKENS},spread=0,rate=1000000");
    let sessions = Source::parse(&workload)?.open(1)?.sessions;
    let pacing = Pacing { requests_max: Some(requests), ..Pacing::default() };
    let plan = Plan {
        target: Target::parse(&format!("http://{}", endpoint.address))?,
        asking: Asking {
            interface: Interface::Chat,
            model: MODEL.to_owned(),
            wording: Wording::default(),
            extra: serde_json::Map::new(),
        },
        pace: Loop::Closed { users: USERS },
        concurrency_max: None,
        session_header: None,
        patience: PATIENCE,
    };
    let sessions = pacing.apply(sessions, 1);
    let recorder = overdraft_load::run(plan, sessions, Arc::new(Progress::default())).await?;
    let told = Run::new(String::new(), 1, recorder).summary(&Objectives::default());
    anyhow::ensure!(told.completed == requests, "{} of {requests} answered", told.completed);
    let tool = "overdraft bench".to_owned();
    Ok(Told { tool, ttft_ms: told.ttft.median, tpot_ms: told.tpot.median })
}

/// A figure of a JSON report, by the names that lead to it.
fn figure(report: &serde_json::Value, path: [&str; 2]) -> Result<f64> {
    let found = report.get(path[0]).and_then(|inner| inner.get(path[1]));
    found
        .and_then(serde_json::Value::as_f64)
        .with_context(|| format!("the report has no `{}`", path.join(".")))
}
