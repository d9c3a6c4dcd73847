//! `overdraft keys new`: draws a key, prints it once, and adds its hash to a file.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use overdraft_config::{Key, Priority, Timestamp};
use overdraft_gateway::KeyDigest;
use overdraft_telemetry::calendar_time;

use super::file::HeldFile;
use super::{called, life, secret};
use crate::fault::Fault;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The file of keys; it is made where it is not there, for its owner alone
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The tenant that owns the key: tenants share the queue fairly, and metrics count by tenant
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// The name of the key within its tenant
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long the key is valid, as in `90d`, `12h` or `8w`, or when it ends, as in
    /// `2027-01-31T00:00:00Z`; without it, the key does not expire
    #[arg(long, value_name = "SPAN|TIME")]
    expires: Option<String>,
    /// The models or aliases that it may ask for, with commas between; without it all
    #[arg(long, value_name = "MODELS", value_delimiter = ',', value_parser = model)]
    models: Vec<String>,
    /// The priority of its requests that name none
    #[arg(long, value_name = "PRIORITY", value_parser = priorities())]
    priority: Option<Priority>,
    /// The highest priority that its requests may have
    #[arg(long, value_name = "PRIORITY", value_parser = priorities())]
    priority_max: Option<Priority>,
    /// Requests a minute at most
    #[arg(long, value_name = "COUNT")]
    requests_per_minute: Option<u32>,
    /// Tokens a minute at most, of prompts and answers together
    #[arg(long, value_name = "COUNT")]
    tokens_per_minute: Option<u32>,
}

const EXAMPLES: &str = "\
Examples:
  overdraft keys new --file keys.yaml --tenant acme
  overdraft keys new --file keys.yaml --tenant acme --name ci --expires 90d --models llama,embed
  overdraft keys new --file keys.yaml --tenant batch --priority flex --priority-max flex
  KEY=$(overdraft keys new --file keys.yaml --tenant acme 2>/dev/null)

Standard output has the key and nothing else. It is not stored: if you lose it, make another one.";

/// The priorities by their names.
fn priorities() -> impl TypedValueParser<Value = Priority> {
    const ALL: [Priority; 3] = [Priority::Flex, Priority::Default, Priority::Priority];
    PossibleValuesParser::new(ALL.map(Priority::name)).map(|name| {
        let is_named = |priority: &Priority| priority.name() == name;
        ALL.into_iter().find(is_named).expect("the parser lets only names of priorities through")
    })
}

/// A model between commas; blanks beside them are not meant.
///
/// # Errors
/// Where nothing stands there.
pub(super) fn model(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("no model stands between the commas; expected as in `llama,embed`".to_owned()),
        name => Ok(name.to_owned()),
    }
}

/// Draws, writes, prints.
#[expect(clippy::print_stderr, reason = "standard output has the key alone")]
pub(super) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let text = secret::draw().map_err(|error| {
        Fault::running(format!("this machine gives no random numbers: {error}"))
    })?;
    let key = arguments.key(&text)?;
    let held = HeldFile::hold(&arguments.file)?;
    held.write(&held.read_or_begin()?.with(&key)?)?;
    crate::config::print(&text)?;
    let file = arguments.file.display();
    eprintln!("the hash of key {} is in `{file}`; the key is shown only now", called(&key));
    match key.expires {
        Some(end) => eprintln!("it expires at {end}"),
        None => eprintln!("it does not expire; `--expires 90d` makes one that does"),
    }
    Ok(())
}

impl Arguments {
    /// What of the key `text` goes into the file.
    fn key(&self, text: &str) -> Result<Key, Fault> {
        let mut key = Key::hashed(KeyDigest::of(text).to_hex(), self.tenant.clone());
        key.name.clone_from(&self.name);
        if let Some(end) = &self.expires {
            let end = life::end(end, calendar_time()).map_err(Fault::input)?;
            key.expires = Some(Timestamp(end));
        }
        key.models = (!self.models.is_empty()).then(|| self.models.clone());
        key.priority = self.priority.unwrap_or(key.priority);
        key.priority_max = self.priority_max.unwrap_or(key.priority_max);
        key.requests_per_minute = self.requests_per_minute;
        key.tokens_per_minute = self.tokens_per_minute;
        Ok(key)
    }
}
