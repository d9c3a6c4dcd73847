//! `overdraft worker`: one model with vLLM's API and metrics, to stand behind a gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use overdraft_telemetry::Clock;
use overdraft_worker::MetricNames;
use tokio::task::JoinSet;

use crate::embedded::{self, Drafter, Face, Source};
use crate::engine_options::EngineOptions;
use crate::fault::Fault;
use crate::kv_event_options::KvEventOptions;
use crate::kv_share_options::{self, KvShareOptions};
use crate::log_options::LogOptions;
use crate::simulated::{self, Asked, SimulateOptions};
use crate::speculation_options::{DrafterOptions, SpeculationOptions};
use crate::{serve, signals};

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A GGUF file: Llama, Mistral, Qwen 2 or Qwen 3
    #[arg(long, value_name = "FILE", required_unless_present_any = ["backend", "simulate"])]
    model: Option<PathBuf>,
    /// What stands in for a model: `echo` repeats what it is told, for tests of everything around it
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    backend: Option<StandIn>,
    /// Where the gateway connects; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Names clients may use; by default the file's name without `.gguf`
    #[arg(long, value_name = "NAME", num_args = 1..)]
    served_model_name: Vec<String>,
    /// Which metric names to expose: vLLM's of today, those of its 0.6, or both
    #[arg(long, default_value = "current", value_name = "WHICH")]
    metrics_names: Names,
    /// Whoever presents this as a bearer token may give orders at `/admin`; without one, whoever
    /// comes over the loopback interface
    #[arg(long, env = "OVERDRAFT_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    admin_token: Option<String>,
    /// Seconds that streams may go on after a SIGTERM
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    shutdown_timeout: u64,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    speculation: SpeculationOptions,
    #[command(flatten)]
    drafters: DrafterOptions,
    #[command(flatten)]
    simulate: SimulateOptions,
    #[command(flatten)]
    kv_events: KvEventOptions,
    #[command(flatten)]
    kv_share: KvShareOptions,
    #[command(flatten)]
    log: LogOptions,
}

const EXAMPLES: &str = "\
Examples:
  overdraft worker --model llama-3-8b-q4_k_m.gguf
  overdraft worker --model qwen2.5-1.5b.gguf --served-model-name qwen --max-model-len 8192
  overdraft worker --model FILE --kv-cache-memory-bytes 4294967296 --threads 8
  overdraft worker --model FILE --kv-events-endpoint 'tcp://*:5557'
  overdraft worker --model llama-3-8b-q4_k_m.gguf --draft llama-3.2-1b-q4_k_m.gguf
  overdraft worker --model FILE --speculative-ngram --speculation-policy fixed:4
  overdraft worker --model FILE --kv-share listen --kv-peers http://10.0.0.2:8000
  overdraft worker --backend echo --listen 127.0.0.1:8001
  overdraft worker --simulate list
  overdraft worker --simulate h100-tp2/llama-3-70b-fp8 --speed 10
  overdraft worker --simulate a10g/llama-3-8b-int4 --kv-tokens 30000 --crash-on-oom";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum StandIn {
    Echo,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Names {
    Current,
    V06,
    Both,
}

/// Serves until a signal says stop.
pub(crate) fn run(arguments: Arguments) -> Result<(), Fault> {
    arguments.log.install()?;
    crate::runtime()?.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<(), Fault> {
    let clock = Clock::start();
    let asked = arguments.simulate.asked()?;
    if let Some(Asked::List(catalogue)) = &asked {
        simulated::show(catalogue);
        return Ok(());
    }
    let listener = serve::bind(arguments.listen).await?;
    let mut tasks = JoinSet::new();
    let stop = signals::watch(&mut tasks)?;
    let source = match (asked, arguments.model, arguments.backend) {
        (Some(Asked::Worker(simulated)), _, _) => Source::Simulated(simulated),
        (_, Some(file), _) => Source::File(file),
        (_, None, Some(StandIn::Echo)) => Source::Echo,
        (_, None, None) => return Err(Fault::input("no `--model` was given")),
    };
    let kv_share = arguments.kv_share.settings()?;
    if kv_share.is_some() {
        kv_share_options::check(&source)?;
    }
    let (guessing, draft) = arguments.speculation.with(&arguments.drafters)?;
    let face = Face {
        names: arguments.served_model_name,
        metrics: match arguments.metrics_names {
            Names::Current => MetricNames::Current,
            Names::V06 => MetricNames::V06,
            Names::Both => MetricNames::Both,
        },
        drain: Duration::from_secs(arguments.shutdown_timeout),
        kv_events: arguments.kv_events.settings()?,
        kv_share,
        guessing,
        drafter: draft.map(|draft| Drafter::Wanted(Source::File(draft))),
        crash_on_oom: arguments.simulate.crash_on_oom,
        admin_token: arguments.admin_token.filter(|token| !token.is_empty()),
    };
    let worker = embedded::open(source, &arguments.engine, face, clock).await?;
    greet(&listener, &worker.summary);
    worker.serve(listener, stop.asked()).await;
    tasks.abort_all();
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a greeting for the person at the terminal")]
fn greet(listener: &tokio::net::TcpListener, summary: &str) {
    if let Ok(address) = listener.local_addr() {
        eprintln!("overdraft worker serves on http://{address}");
        eprintln!("  model    {summary}");
    }
}
