//! Settings of discovery by DNS.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_resolver::proto::rr::{Name, RecordType};

use super::Each;
use crate::settings::error::SourceError;
use crate::settings::worker::Pool;

/// A name in the DNS that stands for workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsSettings {
    /// The name; SRV records are meant if it begins with `_`, addresses otherwise. With a dot at the
    /// end no search domain is tried.
    pub name: String,
    /// The port of workers that are found by address; SRV records tell their own.
    pub port: u16,
    /// The server to ask; the system's where none is given.
    pub server: Option<SocketAddr>,
    /// What the workers are for.
    pub pool: Pool,
    /// The model that they serve; without one they are asked.
    pub model: Option<String>,
    /// What else they have in common.
    pub each: Each,
    /// When to ask again.
    pub patience: DnsPatience,
}

/// When to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsPatience {
    /// An answer is used for at least this long, even if it says less.
    pub ttl_min: Duration,
    /// And for at most this long, even if it says more.
    pub ttl_max: Duration,
    /// How long workers stay after the name has ceased to exist: a service that is created anew, or
    /// a server that lost its zone for a moment, must not cost the fleet.
    pub absent: Duration,
    /// The pause after the first failure; each further one doubles it.
    pub retry_min: Duration,
    /// The longest pause after a failure.
    pub retry_max: Duration,
    /// How long one question may take.
    pub answer: Duration,
}

impl Default for DnsPatience {
    fn default() -> Self {
        Self {
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_mins(1),
            absent: Duration::from_secs(30),
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(15),
            answer: Duration::from_secs(2),
        }
    }
}

impl DnsSettings {
    /// Target workers at `port` of the addresses of `name`, asked of the system's server.
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self {
            name: name.into(),
            port,
            server: None,
            pool: Pool::default(),
            model: None,
            each: Each::default(),
            patience: DnsPatience::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SourceError> {
        let fault = || SourceError::DnsName { name: self.name.clone() };
        let name = Name::from_utf8(&self.name).map_err(|_| fault())?;
        if name.num_labels() == 0 { Err(fault()) } else { Ok(()) }
    }

    pub(crate) fn kinds(&self) -> &'static [RecordType] {
        if self.name.starts_with('_') {
            &[RecordType::SRV]
        } else {
            &[RecordType::A, RecordType::AAAA]
        }
    }
}
