//! TLS sections: what a listener shows, whom a worker is believed.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Encryption of client connections. Files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate in PEM, followed by its chain up to the authority.
    pub certificate_file: PathBuf,
    /// Private key of the certificate, in PEM.
    pub key_file: PathBuf,
    /// Certificate authorities of accepted clients (mutual TLS); without this key, clients show no certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca_file: Option<PathBuf>,
}

/// Trusted authorities for a worker with an `https` address, and the gateway's own certificate. Files are read
/// again when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerTls {
    /// Trusted certificate authorities, in PEM, and no others; without this key, those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Certificate of the gateway for workers that ask for one, in PEM; with `key_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// Name in the worker's certificate, if it is not the host of its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Accepts every certificate, for trials only.
    pub insecure_skip_verify: bool,
}

impl WorkerTls {
    /// Whether nothing is said.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
