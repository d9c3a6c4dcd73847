//! Settings of service discovery: the places that know workers.

mod dns;
mod each;
mod file;
mod kubernetes;

use std::fmt;

use overdraft_tls::ClientSettings;

pub use self::dns::{DnsPatience, DnsSettings};
pub use self::each::{Each, Template};
pub use self::file::FileSettings;
pub use self::kubernetes::{KubernetesSettings, ServicePort};
use super::error::SourceError;
use super::worker::{Pool, WorkerSettings};

/// A place that knows workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The settings name them; they never change.
    Static(Vec<WorkerSettings>),
    /// Addresses or SRV records of a name.
    Dns(DnsSettings),
    /// A file that another program writes.
    File(FileSettings),
    /// The `EndpointSlice`s of a service; needs the cargo feature `kubernetes`.
    Kubernetes(KubernetesSettings),
}

impl Source {
    /// Refuses what can never work.
    ///
    /// # Errors
    /// [`SourceError`] where no amount of looking would find a worker.
    pub fn check(&self) -> Result<(), SourceError> {
        match self {
            Self::Static(_) | Self::File(_) => Ok(()),
            Self::Dns(settings) => settings.check(),
            Self::Kubernetes(settings) => settings.check(),
        }
    }

    /// Whether it asks the same place as `other`, whatever else is set of it.
    pub(crate) fn is_where(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dns(one), Self::Dns(other)) => one.name == other.name,
            (Self::File(one), Self::File(other)) => one.path == other.path,
            (Self::Kubernetes(one), Self::Kubernetes(other)) => {
                (&one.service, &one.namespace) == (&other.service, &other.namespace)
            }
            _ => false,
        }
    }

    /// The model that its workers are said to serve, where all serve one.
    pub(crate) fn model(&self) -> Option<&str> {
        match self {
            Self::Static(_) | Self::File(_) => None,
            Self::Dns(settings) => settings.model.as_deref(),
            Self::Kubernetes(settings) => settings.model.as_deref(),
        }
    }

    /// The pool of its workers, where all are in one.
    pub(crate) const fn pool(&self) -> Option<Pool> {
        match self {
            Self::Static(_) | Self::File(_) => None,
            Self::Dns(settings) => Some(settings.pool),
            Self::Kubernetes(settings) => Some(settings.pool),
        }
    }

    /// Whom the workers that it finds are believed, where any of them may be encrypted.
    pub(crate) fn tls(&self) -> Option<&ClientSettings> {
        let each = match self {
            Self::Static(_) => return None,
            Self::Dns(settings) => &settings.each,
            Self::File(settings) => &settings.each,
            Self::Kubernetes(settings) => &settings.each,
        };
        let tls = &each.traits.tls;
        (each.is_encrypted || *tls != ClientSettings::default()).then_some(tls)
    }

    /// What the workers that it finds have in common; those that the settings name say it themselves.
    pub(crate) fn each(&self) -> Each {
        match self {
            Self::Static(_) => Each::default(),
            Self::Dns(settings) => settings.each.clone(),
            Self::File(settings) => settings.each.clone(),
            Self::Kubernetes(settings) => settings.each.clone(),
        }
    }
}

/// As log lines call it.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(_) => f.write_str("static"),
            Self::Dns(settings) => write!(f, "dns {}", settings.name),
            Self::File(settings) => write!(f, "file {}", settings.path.display()),
            Self::Kubernetes(settings) => write!(f, "service {}", settings.service),
        }
    }
}
