//! `overdraft check`: validates a configuration file and probes its workers and store.
//!
//! Exit codes: 0 valid (perhaps with warnings), 1 a worker, a discovery, the keys of tokens or the store cannot be
//! used, 2 the file is invalid.

mod cascade;
mod deployment;
mod discovery;
mod event_arrival;
mod finding;
mod live;
mod names;
mod preflight;
mod show;
mod speed;
mod store;
mod supervisor;
mod tokens;
mod version;

use std::path::PathBuf;
use std::time::Duration;

use overdraft_config::{Config, ConfigErrors, Loaded, Loader, WorkerSource};
use tokio::time::timeout;

pub(crate) use self::finding::Report;
use self::finding::{Finding, Verdict};
pub(crate) use self::show::{report as report_json, reports as reports_text};
pub(crate) use self::speed::Measuring;
use crate::fault::Fault;
use crate::parity;

#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The configuration file, YAML or TOML by its name
    #[arg(long, short, default_value = "overdraft.yaml", value_name = "FILE")]
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

Exit codes: 0 good, 1 a worker, a discovery, the keys of tokens or the store cannot be used or the
address is not well, 2 the file cannot be used.";

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
    let runtime = crate::runtime::runtime()?;
    let reports = if arguments.offline {
        runtime.block_on(files(&loaded.config))
    } else {
        runtime.block_on(survey(&loaded.config, measuring, UNHURRIED))
    };
    tell(arguments, &loaded, &reports)?;
    if reports.iter().any(|report| report.verdict() == Verdict::Fail) {
        return Err(Fault::running_told());
    }
    Ok(())
}

/// Without a bound on all questions together; each has one of its own.
const UNHURRIED: Duration = Duration::MAX;

/// Asks everything that a configuration names, and looks at the configuration itself. Workers, store and cascades have
/// `patience` each; what has not answered by then is a finding.
pub(crate) async fn survey(
    config: &Config,
    measuring: Measuring,
    patience: Duration,
) -> Vec<Report> {
    let mut reports = preflight::fleet(config, measuring, patience).await;
    let slow = speed::cascades(config, &reports);
    let late = |name, subject| Report::of(name, vec![Finding::late(subject, patience)]);
    match timeout(patience, discovery::reports(config)).await {
        Ok(found) => reports.extend(found),
        Err(_elapsed) => reports.push(late("discovery", "discovery")),
    }
    let unserved = names::report(config, &reports);
    reports.extend(unserved);
    reports.extend((!slow.is_empty()).then(|| Report::of("cascades", slow)));
    match timeout(patience, tokens::report(config)).await {
        Ok(report) => reports.extend(report),
        Err(_elapsed) => reports.push(late("tokens", "jwt")),
    }
    match timeout(patience, store::report(config)).await {
        Ok(report) => reports.extend(report),
        Err(_elapsed) => reports.push(late("store", "store")),
    }
    let asked: Vec<parity::Asked> = config.workers.iter().map(preflight::asked).collect();
    let differing = match timeout(patience, parity::differing(config, &asked)).await {
        Ok(differing) => differing,
        Err(_elapsed) => {
            reports.push(late("cascades", "tokenizers"));
            Vec::new()
        }
    };
    reports.extend(unasked(config, &differing));
    let refused = deployment::refused(config, &reports);
    reports.extend(refused);
    reports
}

/// What the configuration and the files that it names tell without a question to anybody.
async fn files(config: &Config) -> Vec<Report> {
    let mut reports = deployment::untrusted(config);
    if config.jwt.as_ref().is_some_and(|jwt| jwt.jwks_file.is_some()) {
        reports.extend(tokens::report(config).await);
    }
    reports.extend(unasked(config, &[]));
    let refused = deployment::refused(config, &reports);
    reports.extend(refused);
    reports
}

/// What the configuration alone tells, and `differing` of its cascades.
fn unasked(config: &Config, differing: &[parity::Mismatch]) -> Vec<Report> {
    let mut reports: Vec<Report> = deployment::report(config).into_iter().collect();
    reports.extend(cascade::reports(config, differing));
    reports
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
