//! `overdraft keys revoke`: takes a key out of a file.

use std::path::PathBuf;

use overdraft_config::Key;
use overdraft_gateway::KeyDigest;

use super::file::HeldFile;
use super::{called, secret};
use crate::fault::Fault;

/// Digits of a hash that name a key at least; fewer name one by chance.
const DIGITS_MIN: usize = 4;

/// Keys that a fault lists at most.
const LISTED_MAX: usize = 10;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The file of keys
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// The key: its name, the first four digits of its hash or more, or the key itself
    #[arg(value_name = "NAME|HASH|KEY")]
    which: String,
}

const EXAMPLES: &str = "\
Examples:
  overdraft keys revoke --file keys.yaml ci
  overdraft keys revoke --file keys.yaml c0ffee12

Gateways refuse the key within two seconds. What it began goes on: an answer under way ends as it
would have.";

/// Finds it, and takes it out.
#[expect(clippy::print_stderr, reason = "told to the person at the terminal")]
pub(super) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let held = HeldFile::hold(&arguments.file)?;
    let file = held.read()?;
    let index = find(file.keys(), &arguments.which)?;
    held.write(&file.without(index)?)?;
    let key = called(&file.keys()[index]);
    eprintln!("key {key} is out of `{}`", arguments.file.display());
    Ok(())
}

/// The one key that is meant.
///
/// # Errors
/// Where there is none, or several are meant; they are listed.
pub(super) fn find(keys: &[Key], which: &str) -> Result<usize, Fault> {
    let digest = secret::is_key(which).then(|| KeyDigest::of(which).to_hex());
    let prefix = which.to_lowercase();
    let is_meant = |key: &Key| match &digest {
        Some(digest) => key.digest() == *digest,
        None => {
            let by_hash = DIGITS_MIN <= prefix.len() && key.digest().starts_with(&prefix);
            by_hash || key.name.as_deref() == Some(which)
        }
    };
    let found: Vec<usize> = (0..keys.len()).filter(|index| is_meant(&keys[*index])).collect();
    // A key that was cut off must not be repeated.
    let shown = if which.starts_with("od_") { "that key" } else { which };
    match found.as_slice() {
        [index] => Ok(*index),
        [] => Err(Fault::input(format!("no key is `{shown}`; {}", listed(keys.iter()))).hint(
            "expected its name, its hash as `overdraft keys list` shows it, or the whole key",
        )),
        several => {
            let meant = listed(several.iter().map(|index| &keys[*index]));
            let message = format!("`{shown}` means {} keys; {meant}", several.len());
            Err(Fault::input(message).hint("name one by the digits of its hash"))
        }
    }
}

fn listed<'a>(keys: impl Iterator<Item = &'a Key>) -> String {
    let mut keys: Vec<String> = keys.take(LISTED_MAX + 1).map(called).collect();
    if LISTED_MAX < keys.len() {
        keys[LISTED_MAX] = "more".to_owned();
    }
    if keys.is_empty() {
        "the file has none".to_owned()
    } else {
        format!("there is {}", keys.join(", "))
    }
}
