//! `overdraft keys revoke`: takes a key out of a file, and tells the store that gateways share.
//!
//! The store comes first: where it cannot be told, the file is as it was and the command can be given again.

use std::path::PathBuf;

use overdraft_config::Key;
use overdraft_gateway::KeyDigest;
use overdraft_telemetry::calendar_time;

use super::file::HeldFile;
use super::store::{self, StoreOptions};
use super::{called, secret, short_hash};
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
    #[command(flatten)]
    store: StoreOptions,
}

const EXAMPLES: &str = "\
Examples:
  overdraft keys revoke --file keys.yaml ci
  overdraft keys revoke --file keys.yaml c0ffee12
  overdraft keys revoke --file keys.yaml --config overdraft.yaml ci     # and tell all gateways
  overdraft keys revoke --file keys.yaml --redis redis://10.0.0.9:6379 ci

Gateways that watch the file, or share the store, refuse the key within two seconds. The store
tells them until the key expires, or for a year: take a key that has no end out of every
configuration. A key that the file does not have is revoked in the store by its whole hash.
What it began goes on: an answer under way ends as it would have.";

/// Finds it, and takes it out.
#[expect(clippy::print_stderr, reason = "told to the person at the terminal")]
pub(super) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let held = HeldFile::hold(&arguments.file)?;
    let settings = arguments.store.settings()?;
    // A whole key or hash is refused by gateways even where there is no file at hand.
    if let Some(settings) = &settings
        && let Some(key) = elsewhere(held.read_or_begin()?.keys(), &arguments.which)
    {
        store::revoke(settings, &key, calendar_time())?;
        let hash = short_hash(&key);
        eprintln!("key {hash} is not in the file; the gateways of `{}` refuse it", settings.place);
        return Ok(());
    }
    let file = held.read()?;
    let index = find(file.keys(), &arguments.which)?;
    let (key, rest) = (&file.keys()[index], file.without(index)?);
    if let Some(settings) = &settings {
        store::revoke(settings, key, calendar_time())?;
        eprintln!("the gateways of `{}` now refuse key {}", settings.place, called(key));
    }
    held.write(&rest)?;
    eprintln!("key {} was removed from `{}`", called(key), arguments.file.display());
    Ok(())
}

/// A key that is named whole, by itself or by its hash, and is not in the file.
fn elsewhere(keys: &[Key], which: &str) -> Option<Key> {
    let digest = match KeyDigest::from_hex(which) {
        Some(digest) => digest,
        None => secret::is_key(which).then(|| KeyDigest::of(which))?,
    };
    let key = Key::hashed(digest.to_hex(), String::new());
    let is_it = |own: &Key| own.digest() == key.digest();
    (!keys.iter().any(is_it)).then_some(key)
}

/// The one key that is meant.
///
/// # Errors
/// Where there is none, or several are meant; they are listed.
pub(super) fn find(keys: &[Key], which: &str) -> Result<usize, Fault> {
    let digest = secret::is_key(which).then(|| KeyDigest::of(which).to_hex());
    let prefix = which.to_lowercase();
    let is_meant = |key: &Key| {
        if let Some(digest) = &digest {
            return key.digest() == *digest;
        }
        let by_hash = DIGITS_MIN <= prefix.len() && key.digest().starts_with(&prefix);
        by_hash || key.name.as_deref() == Some(which)
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
        "more".clone_into(&mut keys[LISTED_MAX]);
    }
    if keys.is_empty() {
        "the file has none".to_owned()
    } else {
        format!("there is {}", keys.join(", "))
    }
}
