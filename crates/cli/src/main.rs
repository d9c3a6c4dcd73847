//! The `overdraft` binary: parses the command line, runs one command, turns its end into an exit
//! code.
//!
//! Exit codes: 0 done, 1 something failed while running, 2 the input cannot be used (arguments,
//! files, addresses); the message says what was wrong, and the hint what to do.

mod embedded;
mod engine_options;
mod fault;
mod kv_event_options;
mod log_options;
mod ready;
mod serve;
mod signals;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::fault::Fault;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves large language models: gateway, embedded engine and tools in one binary.
#[derive(Parser)]
#[command(name = "overdraft", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  overdraft serve                                   # demo models, 127.0.0.1:8080, nothing to configure
  overdraft serve --model llama-3-8b-q4_k_m.gguf    # your model on this machine
  overdraft serve --worker http://10.0.0.5:8000 --worker http://10.0.0.6:8000
  overdraft worker --model llama-3-8b-q4_k_m.gguf --listen 127.0.0.1:8000";

#[derive(Subcommand)]
enum Command {
    /// Serves the OpenAI API: a gateway before embedded or remote workers
    Serve(Box<serve::Arguments>),
    /// Serves one model with vLLM's API and metrics, to stand behind a gateway
    Worker(Box<worker::Arguments>),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Worker(arguments) => worker::run(*arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(),
    }
}

/// The async runtime every command shares.
fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Fault::running(format!("the runtime could not start: {error}")))
}
