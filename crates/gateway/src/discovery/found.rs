//! Discovered worker: name, URL, pool and model, as a discovery source gives them.
//!
//! The type is ordered and comparable, so that a set that only changed its order is no change. It
//! becomes [`WorkerSettings`] in one place.

use crate::settings::{GatewayError, Pool, WorkerSettings};

/// A worker that a source names; ordered by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FoundWorker {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) pool: Pool,
    /// The model that the source says it serves; without one the gateway asks the worker.
    pub(super) model: Option<String>,
}

impl FoundWorker {
    /// At `host`, a name or an address, and `port`; named after both.
    pub(super) fn at(host: &str, port: u16) -> Self {
        // An IPv6 address needs brackets before a port.
        let place =
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Self { url: format!("http://{place}"), name: place, pool: Pool::default(), model: None }
    }

    /// At `url`, named after it.
    pub(super) fn new(url: &str) -> Self {
        let worker = WorkerSettings::new(url);
        Self { name: worker.name, url: worker.url, pool: worker.pool, model: None }
    }

    /// Refuses what the gateway would refuse.
    pub(super) fn check(&self) -> Result<(), GatewayError> {
        WorkerSettings::from(self.clone()).check().map(|_address| ())
    }
}

impl From<FoundWorker> for WorkerSettings {
    fn from(found: FoundWorker) -> Self {
        let mut settings = Self::new(found.url);
        settings.name = found.name;
        settings.pool = found.pool;
        settings.model = found.model;
        settings
    }
}
