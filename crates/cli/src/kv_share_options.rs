//! KV sharing flags: whether a worker shares KV blocks, and with which peers.

use std::fs::File;
use std::io::Read;

use overdraft_engine::BlockLayout;
use overdraft_wire::kv_blocks::KvModel;
use overdraft_worker::{KvShareError, KvShareSettings};

use crate::embedded::Source;
use crate::fault::Fault;

#[derive(clap::Args, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "a field's name is its flag's")]
#[command(next_help_heading = "Shared KV blocks")]
pub(crate) struct KvShareOptions {
    /// Give blocks of keys and values to other workers of the same model: `listen` answers them at
    /// `/kv/blocks`
    #[arg(long, value_name = "HOW", requires = "kv_share_token")]
    kv_share: Option<Offer>,
    /// Fetch the blocks that a prompt needs from these workers, where that is faster than
    /// computing them: `http://host:port`, separated by commas
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "kv_share_token")]
    kv_peers: Vec<String>,
    /// Fetch them from the worker that the gateway names with a request (`x-overdraft-kv-source`); use
    /// it only where gateways alone reach this worker, because the named worker is sent the token
    #[arg(long, requires = "kv_share_token")]
    kv_peers_from_gateway: bool,
    /// The secret of all workers that share blocks, at least 16 characters
    #[arg(long, value_name = "TOKEN", env = "OVERDRAFT_KV_SHARE_TOKEN", hide_env_values = true)]
    kv_share_token: Option<String>,
}

/// How blocks are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Offer {
    Listen,
}

impl KvShareOptions {
    /// What was asked for; `None` is nothing.
    ///
    /// # Errors
    /// A peer that is none, or a token that protects nothing.
    pub(crate) fn settings(&self) -> Result<Option<KvShareSettings>, Fault> {
        let asked =
            self.kv_share.is_some() || !self.kv_peers.is_empty() || self.kv_peers_from_gateway;
        let Some(token) = self.kv_share_token.as_deref().filter(|_| asked) else {
            return Ok(None);
        };
        let peers = self.kv_peers.iter().map(String::as_str);
        let settings =
            KvShareSettings::new(token).and_then(|settings| settings.fetching_from(peers));
        let mut settings = settings.map_err(|error| refused(&error))?;
        if self.kv_share == Some(Offer::Listen) {
            settings = settings.offering();
        }
        if self.kv_peers_from_gateway {
            settings = settings.trusting_the_gateway();
        }
        Ok(Some(settings))
    }
}

fn refused(error: &KvShareError) -> Fault {
    Fault::input(error.to_string()).hint("`overdraft worker --help` shows the options' forms")
}

/// Refuses what has no blocks, by name.
///
/// # Errors
/// Where the source is a simulation.
pub(crate) fn check(source: &Source) -> Result<(), Fault> {
    match source {
        Source::Simulated(_) => {
            let said = "`--simulate` computes no keys and values, so it has none to share";
            Err(Fault::input(said)
                .hint("leave `--kv-share` and `--kv-peers` out, or give `--model`"))
        }
        _ => Ok(()),
    }
}

/// What names the blocks of this model: its weights are read to their end.
///
/// # Errors
/// Where its blocks cannot be moved, or the weights cannot be read.
pub(crate) fn model(source: &Source, layout: Option<&BlockLayout>) -> Result<KvModel, Fault> {
    check(source)?;
    let layout = layout.ok_or_else(|| {
        Fault::input("blocks are shared only by models on the processor")
            .hint("leave `--kv-share` and `--kv-peers` out, or give `--model`")
    })?;
    let unreadable =
        |error: std::io::Error| Fault::input(format!("the weights cannot be read again: {error}"));
    let weights: Box<dyn Read> = match source {
        Source::File(path) => Box::new(File::open(path).map_err(unreadable)?),
        other => Box::new(other.weights()),
    };
    KvModel::read(weights, &layout.name).map_err(unreadable)
}
