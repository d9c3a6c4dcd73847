//! Discovered-worker settings: templates that fill in what each worker of a source gets.
//!
//! A worker with a fixed address has its settings beside that address. For workers that service
//! discovery finds, only common settings can be configured; for a setting that differs by worker,
//! such as the address of its KV events, a [`Template`] derives it from the worker's address.

use super::found::FoundWorker;
use crate::settings::Each;
use crate::settings::Template;
use crate::settings::{GatewayError, KvEvents, WorkerSettings};
use crate::settings::{WebAddress, WebAddressError};

/// Why a worker that was found cannot be one.
#[derive(Debug, thiserror::Error)]
pub(super) enum EachError {
    #[error(transparent)]
    Worker(#[from] GatewayError),
    #[error("an address in `each` does not fit worker `{name}`: {error}")]
    Place { name: String, error: WebAddressError },
}

impl Each {
    /// The settings of a worker that was found.
    ///
    /// # Errors
    /// When the worker, or an address that follows from it, cannot be spoken to.
    pub(super) fn settle(&self, found: FoundWorker) -> Result<WorkerSettings, EachError> {
        let mut settings = WorkerSettings::from(found);
        if let Some(place) = settings.url.strip_prefix("http://").filter(|_| self.is_encrypted) {
            settings.url = format!("https://{place}");
        }
        let address = settings.check()?;
        let names = Names {
            host: address.authority.host().to_owned(),
            port: address.port,
            name: settings.name.clone(),
        };
        settings.kv_events = self.kv_events(&names);
        settings.traits.clone_from(&self.traits);
        let place = |template: &Template| WebAddress::parse(&names.fill(&template.0));
        let maintenance = self.maintenance.settle(place, |text| names.fill(text));
        settings.maintenance =
            maintenance.map_err(|error| EachError::Place { name: names.name.clone(), error })?;
        settings.check()?;
        Ok(settings)
    }

    fn kv_events(&self, names: &Names) -> KvEvents {
        match &self.kv_events {
            KvEvents::At { endpoint, replay, topic } => KvEvents::At {
                endpoint: names.fill(endpoint),
                replay: replay.as_ref().map(|replay| names.fill(replay)),
                topic: names.fill(topic),
            },
            same => same.clone(),
        }
    }
}

/// What stands for one worker's own.
struct Names {
    /// As in its URL: an IPv6 address with its brackets.
    host: String,
    port: u16,
    name: String,
}

impl Names {
    fn fill(&self, text: &str) -> String {
        // The name last: nothing that it holds is a placeholder.
        text.replace("{host}", &self.host)
            .replace("{port}", &self.port.to_string())
            .replace("{name}", &self.name)
    }
}
