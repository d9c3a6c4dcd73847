//! `overdraft keys`: makes, lists and revokes the keys of a keys file.

mod file;
mod life;
mod list;
mod new;
mod revoke;
mod secret;
mod store;
#[cfg(test)]
mod tests;

use overdraft_config::Key;

use crate::fault::Fault;

/// Digits of a hash by which a key is called; forty-eight bits tell ten thousand keys apart.
const HASH_DIGITS: usize = 12;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Makes a key, prints it this once, and adds its hash to a file
    New(new::Arguments),
    /// Lists the keys of a file by their hashes, with tenants and ends
    List(list::Arguments),
    /// Takes a key out of a file, and has all gateways of a store refuse it
    Revoke(revoke::Arguments),
}

const EXAMPLES: &str = "\
Examples:
  overdraft keys new --file keys.yaml --tenant acme --name ci --expires 90d
  overdraft keys list --file keys.yaml
  overdraft keys revoke --file keys.yaml --config overdraft.yaml ci

The file holds hashes alone. `keys_file: keys.yaml` in the configuration has gateways take its
keys; they look at it each second, and an empty file lets nobody in.";

/// Does what is asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    match &arguments.command {
        Command::New(new) => new::run(new),
        Command::List(list) => list::run(list),
        Command::Revoke(revoke) => revoke::run(revoke),
    }
}

/// The first digits of a key's hash, by which it is called.
fn short_hash(key: &Key) -> String {
    key.digest().chars().take(HASH_DIGITS).collect()
}

/// A key as a sentence calls it: by its hash, whose it is, and its name.
fn called(key: &Key) -> String {
    let name = key.name.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
    format!("{} of `{}`{name}", short_hash(key), key.tenant)
}
