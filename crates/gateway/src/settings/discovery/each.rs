//! Settings that all workers of one source have in common.

use std::fmt;
use std::num::NonZeroU32;

use crate::settings::isolation::SaltPolicy;
use crate::settings::maintenance::{Care, Token};
use crate::settings::worker::{KvEvents, StreamOptions};

/// What all workers of one source have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Each {
    /// The key that they ask for.
    pub api_key: Option<Token>,
    /// Where they report what their caches hold; addresses are templates.
    pub kv_events: KvEvents,
    /// Whether they schedule by the `priority` of requests, and are told it.
    pub priority_scheduling: bool,
    /// Whether they are told the salts of tenants.
    pub cache_salt: SaltPolicy,
    /// Whether they are asked for the counts of streams whose clients did not ask.
    pub stream_options: StreamOptions,
    /// Whether they share the blocks of their caches.
    pub kv_share: bool,
    /// Sequences that each computes at once; learnt where it is not said.
    pub sequences_max: Option<NonZeroU32>,
    /// What is done for them beyond sending them requests.
    pub care: Care<Template>,
}

/// An address in which `{host}`, `{port}` and `{name}` stand for the worker's own.
#[derive(Clone, PartialEq, Eq)]
pub struct Template(pub(crate) String);

impl Template {
    /// The address `text`, which is looked at when there is a worker.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Without a query, which may be a secret, and without what stands before the host.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.split('?').next().unwrap_or_default();
        f.write_str(shown.rsplit('@').next().unwrap_or_default())
    }
}
