//! `overdraft worker`: one model with vLLM's API and metrics, to stand behind a gateway.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use overdraft_telemetry::{AccessWriter, Clock};
use overdraft_worker::MetricNames;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::embedded::{self, Drafter, Face, Source};
use crate::engine_options::EngineOptions;
use crate::fault::Fault;
use crate::kv_event_options::{self, KvEventOptions};
use crate::kv_share_options::{self, KvShareOptions};
use crate::log_options::LogOptions;
use crate::service_manager::{self, State};
use crate::simulated::{self, Asked, SimulateOptions};
use crate::speculation_options::{DrafterOptions, SpeculationOptions};
use crate::{listen_options, open_files, signals};

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A GGUF file: Llama, Mistral, Qwen 2 or Qwen 3
    #[arg(long, value_name = "FILE", required_unless_present_any = ["backend", "simulate"])]
    model: Option<PathBuf>,
    /// Serves without a model: `echo` repeats the prompt, for tests of everything but the model
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    backend: Option<StandIn>,
    /// Where the gateway connects; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8000", value_name = "ADDRESS", value_parser = listen_options::socket)]
    listen: SocketAddr,
    /// Names clients may use; by default the file's name without `.gguf`
    #[arg(long, value_name = "NAME", num_args = 1..)]
    served_model_name: Vec<String>,
    /// Which metric names to expose: vLLM's of today, those of its 0.6, or both
    #[arg(long, default_value = "current", value_name = "WHICH")]
    metrics_names: Names,
    /// The bearer token that `/admin` asks for; without one, `/admin` answers requests over
    /// the loopback interface
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
  overdraft worker --simulate a10g/llama-3-8b-int4 --kv-tokens 30000 --crash-on-oom
  overdraft worker --simulate h100/llama-3-8b-fp8 --workers 8 --error-rate 0.01 --cut-rate 0.01";

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
    crate::runtime::runtime()?.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<(), Fault> {
    let clock = Clock::start();
    let asked = arguments.simulate.asked()?;
    if let Some(Asked::List(catalogue)) = &asked {
        return simulated::show(catalogue);
    }
    open_files::raise(0);
    let listeners = listeners(arguments.listen, arguments.simulate.workers).await?;
    let mut tasks = JoinSet::new();
    let stop = signals::watch(&mut tasks)?;
    let source = match (asked, &arguments.model, arguments.backend) {
        (Some(Asked::Worker(simulated)), _, _) => Source::Simulated(simulated),
        (_, Some(file), _) => Source::File(file.clone()),
        (_, None, Some(StandIn::Echo)) => Source::Echo,
        (_, None, None) => return Err(Fault::input("no `--model` was given")),
    };
    let (face, crowd) = (face(&arguments, &source)?, arguments.simulate.workers);
    let mut workers = Vec::new();
    for (place, listener) in (0..crowd).zip(listeners) {
        let face = one_of(&arguments, &face, place)?;
        let worker = embedded::open(source.clone(), &arguments.engine, face, clock).await?;
        greet(&listener, &worker.summary, &arguments.log);
        workers.push((worker, listener));
    }
    service_manager::tell(State::Ready);
    let mut serving = JoinSet::new();
    for (worker, listener) in workers {
        serving.spawn(worker.serve(listener, stop.clone().asked()));
    }
    while let Some(ended) = serving.join_next().await {
        ended.map_err(|error| Fault::running(error.to_string()))?;
    }
    tasks.abort_all();
    Ok(())
}

/// The ports of all workers of this process, one after the other.
async fn listeners(first: SocketAddr, count: u16) -> Result<Vec<TcpListener>, Fault> {
    let mut listeners = Vec::new();
    for place in 0..count {
        let port = match first.port() {
            0 => 0,
            port => port.checked_add(place).ok_or_else(|| {
                let most = u16::MAX - count + 1;
                Fault::input(format!(
                    "`--workers {count}` on ports from {port} on: there are not so many"
                ))
                .hint(format!("choose a port up to {most} with `--listen`"))
            })?,
        };
        listeners.push(listen_options::bind(SocketAddr::new(first.ip(), port), "--listen").await?);
    }
    Ok(listeners)
}

/// How the workers show themselves.
fn face(arguments: &Arguments, source: &Source) -> Result<Face, Fault> {
    let kv_share = arguments.kv_share.settings()?;
    if kv_share.is_some() {
        kv_share_options::check(source)?;
    }
    let (guessing, draft) = arguments.speculation.with(&arguments.drafters)?;
    Ok(Face {
        names: arguments.served_model_name.clone(),
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
        fault_injection: None,
        crash_on_oom: arguments.simulate.crash_on_oom,
        access_writer: AccessWriter::Front,
        admin_token: arguments.admin_token.clone().filter(|token| !token.is_empty()),
    })
}

/// What sets one worker of several apart.
fn one_of(arguments: &Arguments, face: &Face, place: u16) -> Result<Face, Fault> {
    let events = face.kv_events.as_ref().map(|events| events.beside(place)).transpose();
    Ok(Face {
        kv_events: events.map_err(|error| kv_event_options::refused(&error))?,
        fault_injection: arguments.simulate.fault_injection(place)?,
        ..face.clone()
    })
}

#[expect(clippy::print_stderr, reason = "a greeting for the person at the terminal")]
fn greet(listener: &TcpListener, summary: &str, log: &LogOptions) {
    let Ok(address) = listener.local_addr() else { return };
    if log.is_json() {
        tracing::info!(model = summary, "overdraft worker serves on http://{address}");
    } else {
        eprintln!("overdraft worker serves on http://{address}");
        eprintln!("  model    {summary}");
    }
}
