//! Where are the workers?
//!
//! A [`Source`] is a place that knows: the settings themselves, a name in the DNS, a file, a
//! Kubernetes service. [`watch`] looks there again and again and hands on the whole set of workers
//! each time it has changed; what to do with those that came, went or moved is not decided here.
//!
//! **Invariant.** An error never takes a worker away: what was known last stays until the source
//! says otherwise, and [`Standing`] tells since when it has been silent. See
//! docs/design/discovery.md.

mod dns;
mod each;
mod file;
mod found;
mod kubernetes;
mod patience;
mod report;

use std::fmt;

pub use self::dns::{DnsPatience, DnsSettings};
pub use self::each::{Each, Template};
pub use self::file::FileSettings;
pub use self::kubernetes::{KubernetesSettings, ServicePort};
pub(crate) use self::report::{Membership, Reporter, Standing};
use crate::settings::WorkerSettings;

/// A place that knows workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The settings name them; they never change.
    Static(Vec<WorkerSettings>),
    /// Addresses or SRV records of a name.
    Dns(DnsSettings),
    /// A file that somebody else writes.
    File(FileSettings),
    /// The `EndpointSlice`s of a service; needs the cargo feature `kubernetes`.
    Kubernetes(KubernetesSettings),
}

/// Why a source cannot be watched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nothing that the DNS could be asked for.
    #[error("`{name}` is not a name in the DNS; expected one as in `workers.example.com`")]
    DnsName {
        /// As configured.
        name: String,
    },
    /// A service is named by a label, which is short and has no punctuation but `-`.
    #[error(
        "`{service}` is not a service's name; expected one as in `vllm`, without its namespace"
    )]
    ServiceName {
        /// As configured.
        service: String,
    },
    /// A namespace is named as a service is.
    #[error("`{namespace}` is not a namespace; expected one as in `inference`")]
    Namespace {
        /// As configured.
        namespace: String,
    },
    /// The API server's address cannot be spoken to.
    #[error("`{url}` is not an API server's address; expected one as in `http://127.0.0.1:8001`")]
    ApiServer {
        /// As configured.
        url: String,
    },
    /// Built without it.
    #[error("this build cannot ask Kubernetes for `{service}`; build with `--features kubernetes`")]
    NoKubernetes {
        /// As configured.
        service: String,
    },
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
}

impl Source {
    /// What the workers that it finds have in common; those that the settings name say it themselves.
    fn each(&self) -> Each {
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

/// Tells `reporter` the workers that `source` knows, until nobody listens any more.
pub(crate) async fn watch(source: Source, reporter: Reporter) {
    let closed = reporter.listener();
    tokio::select! {
        () = closed.closed() => {}
        () = follow(source, reporter) => {}
    }
}

/// Looks at `source` for ever; [`watch`] ends it.
async fn follow(source: Source, mut reporter: Reporter) {
    match source {
        Source::Static(workers) => {
            reporter.hand_on(workers).await;
            std::future::pending::<()>().await;
        }
        Source::Dns(settings) => dns::follow(settings, reporter).await,
        Source::File(settings) => file::follow(settings, reporter).await,
        Source::Kubernetes(settings) => kubernetes::follow(settings, reporter).await,
    }
}

#[cfg(test)]
mod tests;
