//! `overdraft doctor`: everything that a bug report needs, on one page without secrets.
//!
//! It reports and does not judge: what is down is a line of the report, and the exit code is 0 all the same. Every
//! question has a bound in time, and all of them together end within [`PATIENCE`] or little later. Nothing is changed
//! anywhere, and no worker computes anything.

mod build;
mod cgroup;
mod configuration;
mod gateway;
mod listeners;
mod machine;
mod section;

use std::path::{Path, PathBuf};
use std::time::Duration;

use overdraft_config::{Config, Secret};
use serde_json::{Map, Value, json};

use self::section::Section;
use crate::ask::Address;
use crate::check::{self, Measuring, Report};
use crate::fault::Fault;
use crate::url_option::UrlOption;
use crate::view_client::token_value;

/// How long workers are asked; those that have not answered by then are listed as such.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The running gateway; without one, whatever answers at the addresses of the configuration
    #[arg(value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    url_option: UrlOption,
    /// The configuration file; without one, `overdraft.yaml` here or in `/etc/overdraft`, else the defaults and
    /// what the environment says
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The gateway's `admin.token`, where it has one; without it, the one in the configuration
    #[arg(long, env = "OVERDRAFT_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,
    /// Asks nothing over the network: no worker, no Redis, no gateway
    #[arg(long)]
    offline: bool,
    /// Prints JSON, with the whole configuration and the gateway's views
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  overdraft doctor                                  # on the machine of the gateway
  overdraft doctor --config overdraft.yaml > report.txt
  overdraft doctor http://gateway:9091 --token $TOKEN
  overdraft doctor --json | jq .checks
  overdraft doctor --offline                        # this machine and the file alone

The report has no keys, tokens, passwords or prompts. It names hosts, models and paths: read it
before you post it.
Exit codes: 0 reported, whatever was found; 2 the arguments cannot be used.";

/// Looks, and prints what there is.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let url = arguments.url_option.given(arguments.url.as_deref());
    let url = url.map(address_of).transpose()?;
    if let Some(token) = &arguments.token {
        token_value(token)?;
    }
    let found = configuration::find(arguments.config.as_deref());
    let mut sections = vec![build::section(), machine::section(), found.section()];
    let mut reports = Vec::new();
    if !arguments.offline {
        let runtime = crate::runtime::runtime()?;
        let asked = runtime.block_on(asked(found.config(), url, arguments.token.as_deref()));
        reports = asked.reports;
        sections.extend(asked.sections);
        // A name that takes long to resolve holds a thread, which must not hold the report.
        runtime.shutdown_background();
    }
    crate::config::print(&if arguments.json {
        crate::config::pretty(&view(&sections, &reports))
    } else {
        page(&sections, &reports)
    })
}

/// What questions over the network brought.
struct Asked {
    sections: Vec<Section>,
    reports: Vec<Report>,
}

/// Asks what a configuration names, and the gateway at `url` or where the configuration has it. Of one that cannot be
/// read nothing is known: the listeners and workers of the defaults would be taken for its own.
async fn asked(config: Option<&Config>, url: Option<Address>, token: Option<&str>) -> Asked {
    let Some(config) = config else {
        let section = match url {
            Some(url) => gateway::section(url, token).await,
            None => gateway::unknown(),
        };
        return Asked { sections: vec![section], reports: Vec::new() };
    };
    let token = token.or_else(|| token_of(config));
    let (reports, listening, running) = tokio::join!(
        check::survey(config, Measuring::Left, PATIENCE),
        listeners::section(config),
        gateway::section(url.unwrap_or_else(|| operators_of(config)), token),
    );
    Asked { sections: vec![listening, running], reports }
}

fn address_of(url: &str) -> Result<Address, Fault> {
    Address::of_url(url).map_err(|error| Fault::input(format!("`{url}`: {error}")))
}

fn token_of(config: &Config) -> Option<&str> {
    config.admin.token.as_ref().map(Secret::reveal)
}

/// Where a gateway with this configuration answers operators, from this machine.
fn operators_of(config: &Config) -> Address {
    let is_encrypted = config.tls.is_some() && config.admin.listen.is_none();
    listeners::here(config.admin.listen.unwrap_or(config.listen), is_encrypted)
}

/// The report as JSON.
fn view(sections: &[Section], reports: &[Report]) -> Value {
    let parts = sections.iter().map(|part| (part.name.to_owned(), part.view.clone()));
    let mut view: Map<String, Value> = parts.collect();
    let checks: Vec<Value> = reports.iter().map(check::report_json).collect();
    view.insert("checks".to_owned(), json!(checks));
    Value::Object(view)
}

/// The report for people.
fn page(sections: &[Section], reports: &[Report]) -> String {
    let mut page =
        String::from("Read this before you post it: it names hosts, models and paths.\n");
    for section in sections {
        page.push_str(&section.text());
    }
    if !reports.is_empty() {
        page.push_str("\nchecks\n");
        for line in check::reports_text(reports).lines() {
            page.push_str("  ");
            page.push_str(line);
            page.push('\n');
        }
    }
    page
}

/// A small file of the system; nothing where it is not there.
fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
