//! `overdraft config`: prints the JSON Schema or the effective configuration.

use std::io::Write;
use std::path::PathBuf;

use overdraft_config::{Config, Loader, WorkerSource};

use crate::fault::Fault;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Prints the JSON Schema of a configuration file, for editors and other tools
    #[command(after_help = SCHEMA)]
    Schema,
    /// Prints a configuration with every default filled in and secrets hidden
    Show(Show),
    /// Prints every metric of a gateway with its type and meaning, as a scrape shows them
    #[command(after_help = METRICS)]
    Metrics,
    /// Prints a file with every plain mode of the write-ups at once, to serve by or to simulate
    #[command(after_help = WRITE_UP_EXAMPLES)]
    WriteUp,
}

#[derive(clap::Args, Debug)]
#[command(after_help = SHOW)]
struct Show {
    /// The file; without one, the defaults and what the environment says
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As YAML or as JSON
    #[arg(long, default_value = "yaml", value_name = "FORMAT")]
    output: Notation,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Notation {
    Yaml,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  overdraft config schema > config.schema.json
  overdraft config show                             # every key with its default
  overdraft config show --config overdraft.yaml
  overdraft config write-up > write-up.yaml         # the write-ups' rules to the letter";

const SCHEMA: &str = "\
Examples:
  overdraft config schema > config.schema.json
  # yaml-language-server: $schema=config.schema.json    as the first line of a file, for editors";

const SHOW: &str = "\
Examples:
  overdraft config show                             # every key with its default
  overdraft config show --config overdraft.yaml     # what is in force with this file
  overdraft config show --output json | jq .admission";

const METRICS: &str = "\
Examples:
  overdraft config metrics | grep '^# HELP'         # all names with their meaning";

const WRITE_UP_EXAMPLES: &str = "\
Examples:
  overdraft config write-up > write-up.yaml
  overdraft simulate --policy cost --config write-up.yaml --workload bursts:rate=30";

/// All plain modes.
const WRITE_UP: &str = include_str!("write_up.yaml");

/// Prints what is asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let text = match &arguments.command {
        Command::Schema => pretty(&Config::schema()),
        Command::WriteUp => WRITE_UP.to_owned(),
        Command::Metrics => metrics()?,
        Command::Show(show) => {
            // As `check` and `serve` read it: without workers it is a file for embedded ones.
            let loader = show.config.as_ref().map_or_else(Loader::of_environment, Loader::new);
            let config = loader.with_workers(WorkerSource::FileOrEmbedded).load()?.config;
            match show.output {
                Notation::Yaml => config.effective_yaml(),
                Notation::Json => pretty(&config.effective_json()),
            }
        }
    };
    print(&text)
}

/// The catalogue of metrics.
fn metrics() -> Result<String, Fault> {
    overdraft_gateway::metric_catalogue().map_err(|error| Fault::running(error.to_string()))
}

/// Indented JSON.
pub(crate) fn pretty(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

/// Writes to standard output; a reader that has had enough, as `head` has, is no fault.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{end}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Fault::running(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use overdraft_config::{AdmissionMode, Policy};

    use super::*;

    #[test]
    fn the_write_ups_file_is_good_and_chooses_every_plain_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("write-up.yaml");
        std::fs::write(&path, WRITE_UP).unwrap();
        let config =
            Loader::new(&path).with_workers(WorkerSource::Elsewhere).load().unwrap().config;
        assert_eq!(config.routing.policy, Policy::FitScore);
        assert_eq!(config.admission.mode, AdmissionMode::Threshold);
        assert_eq!(config.breaker.failures, 100);
        assert_eq!(config.speculation.policy.as_deref(), Some("threshold"));
        let settings = crate::settings::gateway(&config, Vec::new());
        assert_eq!(settings.routing.route.fit_score.token_budget, Some(8_192));
    }
}
