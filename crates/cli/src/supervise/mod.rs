//! `overdraft supervise`: runs an engine as its child, prepared, and restarts it.
//!
//! The child gets the allocator and NCCL environment that long-running engines want, is started
//! again when it dies, with growing pauses, and on demand: `POST /restart` on a small HTTP API is
//! what the gateway's fragmentation watch calls. A SIGTERM, an interrupt, a quit or a hang-up ends the child, which is
//! waited for.

mod advice;
mod child;
mod engine_flags;
mod environment;
mod http_api;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use overdraft_core::restart::Backoff;
use overdraft_http::{Limits, Server};
use overdraft_telemetry::Clock;
use overdraft_units::Micros;
use tokio::sync::{mpsc, oneshot};

use self::advice::Advice;
use self::child::{Engine, Patience, State};
use self::environment::Setting;
use self::http_api::HttpApi;
use crate::fault::Fault;
use crate::listen_options;
use crate::log_options::LogOptions;

/// Connections to the API at once.
const CONNECTIONS_MAX: usize = 16;

/// Bytes of a request to the API at most; nobody reads them.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Where `/restart`, `/healthz` and `/metrics` are, port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8070", value_name = "ADDRESS", value_parser = listen_options::socket)]
    listen: SocketAddr,
    /// What `POST /restart` must present as a bearer token; without one, it answers clients on this
    /// machine only
    #[arg(long, env = "OVERDRAFT_SUPERVISE_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// A variable for the command, instead of what it would get; `NAME=` leaves it out; may be
    /// given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = environment::parse)]
    env: Vec<Setting>,
    /// Gives the command none of the variables and flags listed below
    #[arg(long)]
    no_defaults: bool,
    /// Seconds from asking the command to end until it is killed, with what it has started
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    grace: u64,
    /// Seconds between a death and the next start; doubles each time
    #[arg(long, default_value_t = 1, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    backoff: u64,
    /// Seconds of that pause at most; a command that has run for so long begins anew
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    backoff_max: u64,
    /// Deaths in a row after which to give up
    #[arg(long, default_value_t = 10, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    deaths_max: u32,
    #[command(flatten)]
    log: LogOptions,
    /// The engine: a program and its arguments, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND", help_heading = "Arguments")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Variables that the command gets unless they are set already:
  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True   memory grows instead of fragmenting
  TORCH_NCCL_AVOID_RECORD_STREAMS=1                  buffers of collectives are free at once
  TORCH_NCCL_ASYNC_ERROR_HANDLING=1                  when one rank dies the others end, not hang
  NCCL_CUMEM_ENABLE=0                                less memory beside captured graphs
  NCCL_DEBUG=WARN                                    a start that hangs says why
  NCCL_TIMEOUT=1800                                  seconds to wait for a rank that still loads
  NCCL_IB_DISABLE=0                                  InfiniBand where it is there
  OMP_NUM_THREADS=8                                  ranks of one machine leave each other room

A command that starts vLLM's server gets `--max-num-seqs 256` unless it says how many, or names a
`--config`. Before it starts, the log says what its other flags are likely to cost.

Examples:
  overdraft supervise -- vllm serve meta-llama/Llama-3.1-8B-Instruct
  overdraft supervise --listen 0.0.0.0:8070 --token \"$TOKEN\" -- vllm serve MODEL
      and in the gateway's file: restart: {supervise: {url: 'http://gpu-a:8070', token: '${TOKEN}'}}
  overdraft supervise --env NCCL_DEBUG=INFO --env NCCL_CUMEM_ENABLE= -- ./engine --port 8000
  curl -X POST http://127.0.0.1:8070/restart";

/// An order to restart; answered with the new process's number once the old one has ended.
type Order = oneshot::Sender<u32>;

/// Supervises until a signal says stop.
pub(crate) fn run(arguments: Arguments) -> Result<(), Fault> {
    arguments.log.install()?;
    arguments.check()?;
    crate::runtime::runtime()?.block_on(supervise(arguments))
}

async fn supervise(arguments: Arguments) -> Result<(), Fault> {
    let clock = Clock::start();
    let listener = listen_options::bind(arguments.listen, "--listen").await?;
    let environment = environment::of(&arguments.env, arguments.no_defaults);
    let command = engine_flags::with_defaults(&arguments.command, arguments.no_defaults);
    let advice = Advice::of(&command, &environment);
    greet(&listener, &command, &environment, &advice);
    let state = Arc::new(State::default());
    // One order at a time; the next is told so.
    let (orders, ordered) = mpsc::channel::<Order>(1);
    let engine = Engine {
        environment,
        patience: arguments.patience(),
        command,
        state: Arc::clone(&state),
        clock,
    };
    let api = Arc::new(HttpApi { token: arguments.token, state, orders, advice });
    let limits = Limits {
        connections: CONNECTIONS_MAX,
        body_bytes: BODY_BYTES_MAX,
        drain: Duration::from_secs(1),
        ..Limits::default()
    };
    let answering = Server::new(limits, clock).serve(listener, api, std::future::pending());
    tokio::select! {
        ended = engine.run(ordered) => ended,
        _drained = answering => Ok(()),
    }
}

impl Arguments {
    fn check(&self) -> Result<(), Fault> {
        if self.token.is_none() && !self.listen.ip().to_canonical().is_loopback() {
            let why = format!("anybody could restart the command at `{}`", self.listen);
            return Err(Fault::input(why).hint("give a `--token`, or listen on 127.0.0.1"));
        }
        if self.token.as_deref() == Some("") {
            return Err(Fault::input("the token is empty").hint("give a secret, or no `--token`"));
        }
        if self.backoff_max < self.backoff {
            let (first, max) = (self.backoff, self.backoff_max);
            let why = format!("`--backoff-max {max}` is shorter than `--backoff {first}`");
            return Err(Fault::input(why).hint("give at least as many seconds"));
        }
        Ok(())
    }

    fn patience(&self) -> Patience {
        let micros = |seconds: u64| Micros::new(seconds.saturating_mul(1_000_000));
        Patience {
            grace: Duration::from_secs(self.grace),
            backoff: Backoff { first: micros(self.backoff), max: micros(self.backoff_max) },
            deaths_max: self.deaths_max,
        }
    }
}

#[expect(clippy::print_stderr, reason = "a greeting for the person at the terminal")]
fn greet(
    listener: &tokio::net::TcpListener,
    command: &[String],
    environment: &[Setting],
    advice: &Advice,
) {
    if let Ok(address) = listener.local_addr() {
        eprintln!("overdraft supervise serves on http://{address}");
        eprintln!("  command  {}", command.join(" "));
        eprintln!("  environment  {}", environment::told(environment));
        for one in advice.iter() {
            eprintln!("  note  {one}");
        }
    }
}
