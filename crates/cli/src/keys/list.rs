//! `overdraft keys list`: the keys of a file, by their hashes.

use std::fmt::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use overdraft_config::{Key, KeysFile};
use overdraft_telemetry::calendar_time;
use serde_json::{Value, json};

use super::short_hash;
use crate::fault::Fault;
use crate::format::Format;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The file of keys
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// How they are printed
    #[arg(long, default_value = "table", value_name = "FORMAT")]
    output: Format,
}

const EXAMPLES: &str = "\
Examples:
  overdraft keys list --file keys.yaml
  overdraft keys list --file keys.yaml --output json | jq -r '.[] | select(.expired) | .hash'

The hash is the beginning of the key's SHA-256: `printf %s KEY | sha256sum` tells which it is.";

/// Reads and prints.
pub(super) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let file = KeysFile::read(&arguments.file)?;
    let now = calendar_time();
    match arguments.output {
        Format::Table => crate::config::print(&table(file.keys(), now)),
        Format::Json => {
            let keys: Vec<Value> = file.keys().iter().map(|key| object(key, now)).collect();
            crate::config::print(&crate::config::pretty(&Value::Array(keys)))
        }
    }
}

fn is_over(key: &Key, now: Timestamp) -> bool {
    key.expires.is_some_and(|end| end.0 <= now)
}

fn object(key: &Key, now: Timestamp) -> Value {
    json!({
        "hash": short_hash(key),
        "tenant": key.tenant,
        "name": key.name,
        "expires": key.expires,
        "expired": is_over(key, now),
        "priority": key.priority,
        "models": key.models,
    })
}

/// One line a key under the names of the columns.
pub(super) fn table(keys: &[Key], now: Timestamp) -> String {
    let head = ["HASH", "TENANT", "NAME", "EXPIRES", "MODELS"].map(str::to_owned);
    let rows: Vec<[String; 5]> =
        std::iter::once(head).chain(keys.iter().map(|key| row(key, now))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let mut text = String::new();
    for [hash, tenant, name, expires, models] in &rows {
        let [a, b, c, d] = widths;
        let _ = writeln!(text, "{hash:<a$}  {tenant:<b$}  {name:<c$}  {expires:<d$}  {models}");
    }
    text
}

fn row(key: &Key, now: Timestamp) -> [String; 5] {
    let over = if is_over(key, now) { " (expired)" } else { "" };
    let expires = key.expires.map_or("never".to_owned(), |end| format!("{end}{over}"));
    let models = key.models.as_ref().map_or("all".to_owned(), |models| models.join(","));
    [
        short_hash(key),
        key.tenant.clone(),
        key.name.clone().unwrap_or("-".to_owned()),
        expires,
        models,
    ]
}
