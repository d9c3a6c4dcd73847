//! Circuit breaker section, and the store that gateways share.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity::{Share, TimeSpan};
use crate::quoting::{REDACTED, without_credentials};

/// Maximum length of a namespace, in bytes.
const NAMESPACE_MAX: usize = 64;

/// State that gateways before the same workers share, and its store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// `memory` for a single gateway; or Redis: `redis://user:password@host:port/db`,
    /// `redis+sentinel://host:port,host:port/service/db`, `redis+cluster://host:port,host:port`; `rediss` for TLS.
    /// Best given as `${NAME}`; it is shown without user and password.
    pub url: StoreUrl,
    /// Namespace; gateways with the same one share state. Letters, digits, `-`, `_` and `.`.
    #[serde(deserialize_with = "namespace")]
    pub namespace: String,
    /// Maximum time of a command. No request waits for one, except for the look-up of a stored answer.
    pub timeout: TimeSpan,
    /// Maximum time to make a connection.
    pub connect_timeout: TimeSpan,
    /// Time between two reads of the shared breakers.
    pub board_interval: TimeSpan,
    /// Time between two exchanges of loads and budgets.
    pub share_interval: TimeSpan,
    /// PEM file of the authorities of the server's certificate; by default those of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// PEM file of this gateway's certificate, for servers that ask for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// PEM file of the key of that certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: StoreUrl("memory".to_owned()),
            namespace: "default".to_owned(),
            timeout: TimeSpan::from_millis(75),
            connect_timeout: TimeSpan::from_secs(1),
            board_interval: TimeSpan::from_millis(30),
            share_interval: TimeSpan::from_millis(150),
            ca_file: None,
            certificate_file: None,
            key_file: None,
        }
    }
}

/// An address that may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct StoreUrl(String);

impl StoreUrl {
    /// The address itself, for connecting; never for a log.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn redacted(&self) -> String {
        match self.0.rsplit_once('@') {
            Some((_, rest)) if !self.0.contains("://") => format!("{REDACTED}@{rest}"),
            _ => without_credentials(&self.0),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl Serialize for StoreUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.redacted())
    }
}

impl<'de> Deserialize<'de> for StoreUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const SCHEMES: [&str; 6] = [
            "redis",
            "rediss",
            "redis+sentinel",
            "rediss+sentinel",
            "redis+cluster",
            "rediss+cluster",
        ];
        let url = Self(String::deserialize(deserializer)?);
        let scheme = url.0.split_once("://").map(|(scheme, _)| scheme);
        if url.0 == "memory" || scheme.is_some_and(|scheme| SCHEMES.contains(&scheme)) {
            return Ok(url);
        }
        Err(serde::de::Error::custom(format!(
            "`{}` is not a store's address; expected `memory`, `redis://host:port`, \
             `redis+sentinel://host:port,host:port/service` or \
             `redis+cluster://host:port,host:port` (`rediss` for TLS)",
            url.redacted()
        )))
    }
}

/// A namespace, refused with a sentence that says so.
fn namespace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=NAMESPACE_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(name);
    }
    Err(serde::de::Error::custom(format!(
        "`{name}` is not a namespace; expected 1 to {NAMESPACE_MAX} letters, digits, `-`, `_` or `.`"
    )))
}

/// Circuit breaker, which takes out a worker that fails its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Breaker {
    /// Failures in a row that open the breaker.
    pub failures: u32,
    /// Share of failures among the requests of the last ten seconds that opens the breaker; failures in a row count
    /// as one. 0 % is off.
    pub failure_share: Share,
    /// Minimum requests in those ten seconds before the share counts.
    pub volume_min: u32,
    /// How long the breaker is open the first time; twice as long each time after.
    pub open_first: TimeSpan,
    /// Maximum time that it is open.
    pub open_max: TimeSpan,
    /// Random spread of those times, to both sides.
    pub jitter: Share,
    /// Maximum share of a model's workers that may be out at once; one always may, unless the value is 0 %.
    pub ejected_max: Share,
    /// If fewer than this share of a model's workers can be asked, workers with open breakers are asked too. With 0 %
    /// they never are, and if all are out, requests fail at once.
    pub panic: Share,
}

impl Default for Breaker {
    fn default() -> Self {
        let share = |permille| Share::from_permille(permille).unwrap_or_default();
        Self {
            failures: 5,
            failure_share: share(500),
            volume_min: 20,
            open_first: TimeSpan::from_secs(10),
            open_max: TimeSpan::from_secs(300),
            jitter: share(200),
            ejected_max: share(333),
            panic: share(500),
        }
    }
}
