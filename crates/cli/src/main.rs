//! The `overdraft` binary: parses the command line, runs one command, turns its end into an exit
//! code.
//!
//! Exit codes: 0 done, 1 something failed while running, 2 the input cannot be used (arguments,
//! files, addresses); the message says what was wrong, and the hint what to do.

mod ask;
mod bench;
mod calibrate;
mod check;
mod config;
mod cost;
mod decision_options;
mod decision_text;
mod doctor;
mod embedded;
mod engine_options;
mod explain;
mod explain_request;
mod fault;
mod fault_injection_options;
mod format;
mod gateway_error;
mod install_files;
mod keys;
mod kv_event_options;
mod kv_room;
mod kv_share_options;
mod listen_options;
mod log_options;
mod open_files;
mod parallel;
mod parity;
mod plain_text;
mod pool_options;
mod ready;
mod reload;
mod remote_workers;
mod report_options;
mod runtime;
mod serve;
mod service_manager;
mod settings;
mod signals;
mod simulate;
mod simulate_config;
mod simulated;
mod simulated_engine;
mod speculation_options;
mod supervise;
mod tail;
mod top;
mod tune;
mod url_option;
mod view_client;
mod what_if;
mod worker;
mod workload_options;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Serves large language models: gateway, embedded engine and tools in one binary.
///
/// New here? `overdraft serve` starts two small models at `http://127.0.0.1:8080` and needs nothing else.
#[derive(Parser)]
#[command(name = "overdraft", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  overdraft serve                                   # demo models, nothing to configure
  overdraft serve --model llama-3-8b-q4_k_m.gguf    # your model on this machine
  overdraft serve --worker http://10.0.0.5:8000 --worker http://10.0.0.6:8000
  overdraft serve --config overdraft.yaml           # before a fleet, as the file says
  overdraft check --config overdraft.yaml           # is the file good, are its workers there?
  overdraft explain --prompt \"What is a KV cache?\"   # where would this go, and why?
  overdraft top                                     # fleet, requests and reasons, as they come
  overdraft tail --where 'ttft > 2s'                # requests that match, as they end
  overdraft keys new --file keys.yaml --tenant acme # a key for a tenant, by its hash in a file
  overdraft cost access.jsonl --price 4.10          # what did they cost, and who pays?
  overdraft bench http://127.0.0.1:8080             # how fast does it answer?
  overdraft simulate --workload tenants             # how would a fleet serve this load?
  overdraft calibrate http://10.0.0.5:8000          # measure a worker, to simulate a fleet of it
  overdraft worker --model llama-3-8b-q4_k_m.gguf --listen 127.0.0.1:8000
  overdraft tune http://10.0.0.5:8000 --plain http://10.0.0.6:8000
  overdraft supervise -- vllm serve MODEL           # restarted when it dies, or is told to
  overdraft doctor > report.txt                     # what a bug report needs, without secrets

`overdraft COMMAND --help` has the flags of a command, with examples.";

#[derive(Subcommand)]
enum Command {
    /// Serves the OpenAI API: a gateway in front of remote or embedded workers
    Serve(Box<serve::Arguments>),
    /// Serves one model with vLLM's API and metrics, to stand behind a gateway
    Worker(Box<worker::Arguments>),
    /// Validates a configuration file, and checks that its workers and its Redis can be used
    Check(check::Arguments),
    /// Explains which worker a request went to, or would go to, and why; sends nothing
    Explain(explain::Arguments),
    /// Prints requests of a running gateway, or of an access log, that match an expression
    Tail(tail::Arguments),
    /// Computes what the requests of an access log cost, by tenant, model and worker
    Cost(cost::Arguments),
    /// Shows the fleet, the requests and the decisions of a running gateway in the terminal
    Top(top::Arguments),
    /// Sends a load to an endpoint, and reports latency, throughput and failures
    Bench(Box<bench::Arguments>),
    /// Measures an idle worker, and writes a profile with which a fleet of it can be simulated
    Calibrate(Box<calibrate::Arguments>),
    /// Simulates a fleet under a load, in virtual time; compares policies, sizes and settings
    Simulate(Box<simulate::Arguments>),
    /// Shows a configuration with every default filled in, or the schema of the file
    Config(config::Arguments),
    /// Makes, lists and revokes API keys in a file that gateways watch
    Keys(keys::Arguments),
    /// Recommends how many tokens a vLLM worker should draft; changes nothing
    Tune(tune::Arguments),
    /// Prints what a bug report needs, without secrets
    Doctor(doctor::Arguments),
    /// Runs an engine such as vLLM, and restarts it when it dies or is told to
    Supervise(supervise::Arguments),
    /// Prints a script with which a shell completes commands and flags
    Completions(install_files::Completions),
    /// Writes the pages of the manual (man pages), one for each command
    Man(install_files::Man),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(*arguments),
        Command::Worker(arguments) => worker::run(*arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Tail(arguments) => tail::run(&arguments),
        Command::Cost(arguments) => cost::run(&arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Keys(arguments) => keys::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Supervise(arguments) => supervise::run(arguments),
        Command::Completions(arguments) => install_files::completions(&arguments),
        Command::Man(arguments) => install_files::man(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(),
    }
}
