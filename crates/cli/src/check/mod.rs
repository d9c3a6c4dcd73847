//! `overdraft check`: validates a configuration file and probes its workers and store.
//!
//! Exit codes: 0 valid (perhaps with warnings), 1 a worker or the store cannot be used, 2 the file
//! is invalid.

mod cascade;
mod deployment;
mod event_arrival;
mod finding;
mod live;
mod preflight;
mod show;
mod speed;
mod store;
mod supervisor;

use std::path::PathBuf;

use overdraft_config::{ConfigErrors, Loaded, Loader, WorkerSource};

use self::finding::{Report, Verdict};
use self::speed::Measuring;
use crate::fault::Fault;
use crate::parity;

#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The configuration file, YAML or TOML by its name
    #[arg(long, default_value = "overdraft.yaml", value_name = "FILE")]
    config: PathBuf,
    /// How the findings are printed
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    output: Format,
    /// Asks no worker
    #[arg(long)]
    offline: bool,
    /// Has each worker generate 64 tokens, to see whether long answers end before the timeouts,
    /// whether drafts are quicker than their targets, and whether KV events arrive
    #[arg(long, conflicts_with = "offline")]
    measure: bool,
    /// Prints the whole configuration too, with every default filled in
    #[arg(long)]
    show: bool,
    /// Reads no file, but asks this address whether it is well: `/readyz` unless a path is given
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "offline", "show"])]
    live: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  overdraft check                                   # ./overdraft.yaml and its workers
  overdraft check --config overdraft.toml --offline # the file alone, as in a pipeline
  overdraft check --measure                         # how fast is each worker, and is that enough?
  overdraft check --show                            # with every default filled in
  overdraft check --output json | jq .workers
  overdraft check --live http://127.0.0.1:9091      # the health check of a container

Exit codes: 0 good, 1 a worker or the store cannot be used or the address is not well, 2 the file cannot be used.";

/// Checks, prints, and turns what was found into an exit code.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    if let Some(url) = &arguments.live {
        return live::run(url);
    }
    let loaded =
        match Loader::new(&arguments.config).with_workers(WorkerSource::FileOrEmbedded).load() {
            Ok(loaded) => loaded,
            Err(errors) => return Err(refused(arguments, &errors)?),
        };
    if arguments.output == Format::Text {
        crate::config::print(&show::understood(&loaded, arguments.show))?;
    }
    let measuring = if arguments.measure { Measuring::Asked } else { Measuring::Left };
    let (mut reports, differing) = if arguments.offline {
        (Vec::new(), Vec::new())
    } else {
        crate::runtime::runtime()?.block_on(async {
            let mut reports = preflight::fleet(&loaded.config, measuring).await;
            let slow = speed::cascades(&loaded.config, &reports);
            reports.extend((!slow.is_empty()).then(|| Report::of("cascades", slow)));
            reports.extend(store::report(&loaded.config).await);
            let workers = loaded.config.workers.iter();
            let asked: Vec<parity::Asked> = workers.map(preflight::asked).collect();
            (reports, parity::differing(&loaded.config, &asked).await)
        })
    };
    reports.extend(deployment::report(&loaded.config));
    reports.extend(cascade::reports(&loaded.config, &differing));
    tell(arguments, &loaded, &reports)?;
    if reports.iter().any(|report| report.verdict() == Verdict::Fail) {
        return Err(Fault::running_told());
    }
    Ok(())
}

fn tell(arguments: &Arguments, loaded: &Loaded, reports: &[Report]) -> Result<(), Fault> {
    match arguments.output {
        Format::Json => {
            let view = show::json(loaded, reports, arguments.show);
            crate::config::print(&crate::config::pretty(&view))
        }
        Format::Text if reports.is_empty() => Ok(()),
        Format::Text => crate::config::print(&show::reports(reports)),
    }
}

fn refused(arguments: &Arguments, errors: &ConfigErrors) -> Result<Fault, Fault> {
    match arguments.output {
        Format::Text => Ok(Fault::input(errors.to_string())),
        Format::Json => {
            let view = show::faults(&arguments.config, errors);
            crate::config::print(&crate::config::pretty(&view))?;
            Ok(Fault::input_told())
        }
    }
}
