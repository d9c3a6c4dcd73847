//! Settings that all workers of one source have in common.

use std::fmt;

use crate::settings::maintenance::Maintenance;
use crate::settings::worker::{KvEvents, WorkerTraits};

/// What all workers of one source have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Each {
    /// Whether they are spoken to by `https`, whatever the source says.
    pub is_encrypted: bool,
    /// Where they report what their caches hold; addresses are templates.
    pub kv_events: KvEvents,
    /// What they can do, and are told.
    pub traits: WorkerTraits,
    /// What is done for them beyond sending them requests.
    pub maintenance: Maintenance<Template>,
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
