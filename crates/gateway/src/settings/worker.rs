//! Settings of one worker: its address, its pool, and how it is spoken to.

use std::num::NonZeroU32;

use http::header::AUTHORIZATION;
use http::uri::Authority;
use http::{HeaderName, HeaderValue};
use overdraft_tls::{ClientSettings, ClientTls, TlsError};

use overdraft_units::port_of;

use super::error::GatewayError;
use super::isolation::SaltPolicy;
use super::maintenance::{Maintenance, RestartHook, Token};

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// `http://host:port` or `https://host:port`, without a path.
    pub url: String,
    /// What it is called in headers, metrics and logs; unique.
    pub name: String,
    /// What it is for.
    pub pool: Pool,
    /// The model it is there for; one that does not serve it is sent nothing.
    pub model: Option<String>,
    /// The one of several engines behind its address that it is: vLLM's data-parallel rank.
    pub data_parallel_rank: Option<u32>,
    /// Where it reports what its cache holds.
    pub kv_events: KvEvents,
    /// What it can do, and is told.
    pub traits: WorkerTraits,
    /// What is done for it beyond sending it requests.
    pub maintenance: Maintenance,
}

/// What a worker can do, and is told; said of one worker, or of all that a source finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTraits {
    /// Whether it schedules by the `priority` of requests, and is told it.
    pub priority_scheduling: bool,
    /// Whether it is told the salts of tenants.
    pub cache_salt: SaltPolicy,
    /// Whether it is asked for the counts of streams whose clients did not ask.
    pub stream_options: StreamOptions,
    /// The key that it asks for.
    pub api_key: Option<Token>,
    /// The header in which it is shown the key; without one, as a bearer token in `authorization`.
    pub api_key_header: Option<HeaderName>,
    /// Whom an `https` address is believed, and what it is shown.
    pub tls: ClientSettings,
    /// Whether it shares the blocks of its cache with the others of its model that do.
    pub kv_share: bool,
    /// Sequences that it computes at once; learnt where it is not said.
    pub sequences_max: Option<NonZeroU32>,
    /// The models of its list that are asked of it; all where none is named.
    pub serves: Vec<String>,
}

impl WorkerTraits {
    /// The header that shows its key; `None` where it has none, or one that cannot be sent.
    pub fn key_header(&self) -> Option<(HeaderName, HeaderValue)> {
        let key = self.api_key.as_ref()?;
        match &self.api_key_header {
            None => Some((AUTHORIZATION, key.bearer()?)),
            Some(name) => Some((name.clone(), key.bare()?)),
        }
    }
}

/// Where a worker reports what its cache holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KvEvents {
    /// Where it says itself, if it does (`GET /kv_event_sources`).
    #[default]
    Ask,
    /// Here.
    At {
        /// Of the publisher, as `tcp://host:port`.
        endpoint: String,
        /// Of who repeats what was missed.
        replay: Option<String>,
        /// What its messages begin with.
        topic: String,
    },
    /// Nowhere.
    Off,
}

impl WorkerSettings {
    /// A target worker named after its host and port.
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let name = url.trim_start_matches("http://");
        let name = name.trim_start_matches("https://").trim_end_matches('/').to_owned();
        Self {
            url,
            name,
            pool: Pool::Target,
            model: None,
            data_parallel_rank: None,
            kv_events: KvEvents::Ask,
            traits: WorkerTraits::default(),
            maintenance: Maintenance::default(),
        }
    }

    /// One of the engines behind its address, as a worker of its own. Who looks after the process looks after
    /// the first.
    #[must_use]
    pub(crate) fn of_rank(&self, rank: u32) -> Self {
        Self {
            name: format!("{}#{rank}", self.name),
            data_parallel_rank: Some(rank),
            maintenance: if rank == 0 { self.maintenance.clone() } else { Maintenance::default() },
            ..self.clone()
        }
    }

    /// What all engines behind its address are called together.
    pub(crate) fn name_of_all(&self) -> &str {
        let end = self.data_parallel_rank.map(|rank| format!("#{rank}"));
        end.and_then(|end| self.name.strip_suffix(end.as_str())).unwrap_or(&self.name)
    }

    /// Refuses a name or an address that cannot work.
    pub(crate) fn check(&self) -> Result<Address, GatewayError> {
        // Names are told in headers, metrics and logs.
        if self.name.is_empty() || !self.name.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            return Err(GatewayError::WorkerName { name: self.name.clone() });
        }
        if let Some(RestartHook::Command { argv, .. }) = &self.maintenance.restart
            && argv.first().is_none_or(String::is_empty)
        {
            return Err(GatewayError::EmptyHook { name: self.name.clone() });
        }
        if self.traits.api_key.is_some() && self.traits.key_header().is_none() {
            return Err(GatewayError::WorkerKey { name: self.name.clone() });
        }
        let address = Address::parse(&self.url)?;
        if !address.is_encrypted && self.traits.tls != ClientSettings::default() {
            return Err(GatewayError::TlsOfPlainWorker { name: self.name.clone() });
        }
        Ok(address)
    }

    /// Refuses certificates that cannot be used.
    pub(super) fn prove_tls(&self) -> Result<(), GatewayError> {
        let proved = ClientTls::new(self.traits.tls.clone());
        proved.map(|_tls| ()).map_err(|error| self.tls_error(error))
    }

    /// What is wrong with its certificates.
    pub(crate) fn tls_error(&self, error: TlsError) -> GatewayError {
        GatewayError::Tls { whose: format!("worker `{}`", self.name), error }
    }
}

/// Whether a worker is asked for the token counts of streams whose clients did not ask for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOptions {
    /// By `stream_options.include_usage`, until it refuses that.
    #[default]
    Asked,
    /// It is not.
    Unasked,
}

/// What a worker is for: told in metrics; routing goes by the models that a worker serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// Its answers are the ones clients want.
    #[default]
    Target,
    /// A cheap model that may answer first.
    Draft,
}

impl Pool {
    /// As metrics call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Draft => "draft",
        }
    }
}

/// Where a worker listens.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// Whether the scheme is `https`.
    pub(crate) is_encrypted: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) authority: Authority,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, GatewayError> {
        let fault = |why| GatewayError::WorkerUrl { url: url.to_owned(), why };
        let uri: http::Uri = url.parse().map_err(|_| fault("it is not a URL"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(fault("the scheme is neither `http` nor `https`")),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(fault("it has a path"));
        }
        let authority = uri.authority().ok_or_else(|| fault("it has no host"))?.clone();
        if authority.as_str().contains('@') {
            return Err(fault("it has a user name"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = port_of(authority.as_str(), if is_encrypted { 443 } else { 80 })
            .map_err(|_| fault("its port is not a number from 1 to 65535"))?;
        Ok(Self { is_encrypted, host, port, authority })
    }
}
