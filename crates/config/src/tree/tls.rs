//! TLS sections: what a listener shows, whom a worker is believed.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What encrypts the connections of clients. Files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate in PEM, followed by those that lead to its authority.
    pub certificate_file: PathBuf,
    /// Its private key in PEM.
    pub key_file: PathBuf,
    /// The authorities whose clients are taken (mutual TLS); without it, clients show no certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

/// Whom a worker with an `https` address is believed, and what it is shown. Files are read again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerTls {
    /// The authorities that are trusted, in PEM, and no others; without it, those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The certificate that the worker is shown where it asks for one, in PEM; with `key_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// Its private key in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The name that the worker's certificate must have, where it is not the host of its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Believes every certificate, for trials only.
    pub insecure_skip_verify: bool,
}

impl WorkerTls {
    /// Whether nothing is said.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
