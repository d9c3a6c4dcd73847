//! TLS settings: what the file says of certificates and authorities.

use overdraft_config as config;
use overdraft_tls::{ClientSettings, Identity, ServerSettings, Trust};

/// What encrypts the connections of clients.
pub(crate) fn listener(configured: &config::Tls) -> ServerSettings {
    ServerSettings {
        certificate: configured.certificate_file.clone(),
        key: configured.key_file.clone(),
        client_authorities: configured.client_ca_file.clone(),
    }
}

/// Whom a worker is believed, and what it is shown.
pub(crate) fn worker(configured: &config::WorkerTls) -> ClientSettings {
    let files = configured.certificate_file.clone().zip(configured.key_file.clone());
    let trust = match &configured.ca_file {
        _ if configured.insecure_skip_verify => Trust::Anyone,
        Some(file) => Trust::Authorities(file.clone()),
        None => Trust::System,
    };
    ClientSettings {
        trust,
        identity: files.map(|(certificate, key)| Identity { certificate, key }),
        server_name: configured.server_name.clone(),
    }
}
