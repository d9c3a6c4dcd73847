//! The `overdraft` binary: parses the command line, runs one command, turns its end into an exit
//! code.
//!
//! Exit codes: 0 done, 1 something failed while running, 2 the input cannot be used (arguments,
//! files, addresses); the message says what was wrong, and the hint what to do.

mod ask;
mod bench;
mod check;
mod config;
mod cost;
mod decision_options;
mod decision_text;
mod embedded;
mod engine_options;
mod explain;
mod explain_request;
mod fault;
mod install_files;
mod kv_event_options;
mod kv_share_options;
mod listen_options;
mod log_options;
mod mishap_options;
mod parity;
mod plain_text;
mod pool_options;
mod ready;
mod reload;
mod report_options;
mod runtime;
mod serve;
mod service_manager;
mod settings;
mod signals;
mod simulate;
mod simulate_config;
mod simulated;
mod speculation_options;
mod supervise;
mod tail;
mod top;
mod tune;
mod view_client;
mod what_if;
mod worker;
mod workload_options;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
  overdraft serve --config overdraft.yaml           # before a fleet, as the file says
  overdraft check --config overdraft.yaml           # is the file good, are its workers there?
  overdraft explain --prompt \"What is a KV cache?\"   # where would this go, and why?
  overdraft top                                     # fleet, requests and reasons, as they come
  overdraft tail --where 'ttft > 2s'                # requests that match, as they end
  overdraft cost access.jsonl --price 4.10          # what did they cost, and who pays?
  overdraft bench http://127.0.0.1:8080             # how fast does it answer?
  overdraft simulate --workload tenants             # what would a fleet make of this load?
  overdraft worker --model llama-3-8b-q4_k_m.gguf --listen 127.0.0.1:8000
  overdraft tune http://10.0.0.5:8000 --plain http://10.0.0.6:8000
  overdraft supervise -- vllm serve MODEL           # restarted when it dies, or when it must";

#[derive(Subcommand)]
enum Command {
    /// Serves the OpenAI API: a gateway before embedded or remote workers
    Serve(Box<serve::Arguments>),
    /// Serves one model with vLLM's API and metrics, to stand behind a gateway
    Worker(Box<worker::Arguments>),
    /// Reads a configuration file, says what is wrong with it, and asks its workers
    Check(check::Arguments),
    /// Says why a request went where it went, or where one would go; sends nothing
    Explain(explain::Arguments),
    /// Prints requests of a running gateway, or of an access log, that match an expression
    Tail(tail::Arguments),
    /// Says what the requests of an access log cost: tenants, models, idle time, what was spared
    Cost(cost::Arguments),
    /// Shows the fleet, the requests and the decisions of a running gateway in the terminal
    Top(top::Arguments),
    /// Sends a load to an endpoint and tells how it was answered
    Bench(Box<bench::Arguments>),
    /// Says what a fleet would make of a load, in virtual time
    Simulate(Box<simulate::Arguments>),
    /// Shows a configuration with every default filled in, or the schema of the file
    Config(config::Arguments),
    /// Says how deep a vLLM worker should guess, by what it tells of itself; changes nothing
    Tune(tune::Arguments),
    /// Runs an engine as its child, prepared, and restarts it when it dies or is told to
    Supervise(supervise::Arguments),
    /// Prints a script that completes commands and flags in a shell
    Completions(install_files::Completions),
    /// Writes the pages of the manual
    Man(install_files::Man),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Worker(arguments) => worker::run(*arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Tail(arguments) => tail::run(arguments),
        Command::Cost(arguments) => cost::run(&arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Supervise(arguments) => supervise::run(arguments),
        Command::Completions(arguments) => {
            install_files::completions(&arguments);
            Ok(())
        }
        Command::Man(arguments) => install_files::man(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(),
    }
}
