//! Certificates of connections to Redis: read anew for each, so that they are renewed without a restart.
//!
//! **Invariant:** files that cannot be used leave in force what was.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use redis::{Client, ClientTlsConfig, ConnectionAddr, TlsCertificates};

use crate::fault::OpenError;
use crate::settings::TlsFiles;

/// What connections are encrypted by.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: TlsFiles,
    latest: Mutex<Latest>,
}

#[derive(Debug)]
struct Latest {
    certificates: TlsCertificates,
    /// Why the files cannot be used now, where that was told.
    told: Option<OpenError>,
}

impl Certificates {
    /// Reads the files.
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, OpenError> {
        // A second install is refused, and the first is the same one.
        let _: Result<_, _> = rustls::crypto::ring::default_provider().install_default();
        let latest = Latest { certificates: read(files)?, told: None };
        Ok(Self { files: files.clone(), latest: Mutex::new(latest) })
    }

    /// What is in the files now; where that cannot be used, what was.
    pub(crate) fn current(&self) -> TlsCertificates {
        let read = read(&self.files);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(certificates) => *latest = Latest { certificates, told: None },
            Err(error) => {
                if latest.told.as_ref() != Some(&error) {
                    tracing::error!(%error, "new certificates of the store cannot be used, the old ones stay in force");
                }
                latest.told = Some(error);
            }
        }
        latest.certificates.clone()
    }
}

/// Reads the files, and refuses what no connection can use.
fn read(files: &TlsFiles) -> Result<TlsCertificates, OpenError> {
    let read = |path: &Path| {
        let fault = |error: std::io::Error| OpenError::TlsFile {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        fs::read(path).map_err(fault)
    };
    let client_tls = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
        (None, None) => None,
        _ => return Err(OpenError::HalfOfTls),
    };
    let root_cert = files.ca.as_deref().map(read).transpose()?;
    let certificates = TlsCertificates { client_tls, root_cert };
    prove(&certificates)?;
    Ok(certificates)
}

fn prove(certificates: &TlsCertificates) -> Result<(), OpenError> {
    let (host, port) = ("localhost".to_owned(), 1);
    let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
    Client::build_with_tls(address, certificates.clone())
        .map(|_| ())
        .map_err(|error| OpenError::Tls { why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_leaves_in_force_what_was() {
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        let make = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let own = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
            own.self_signed(&key).unwrap().pem()
        };
        let write = |text: &str| fs::write(&ca, text).unwrap();
        let (first, second) = (make("first"), make("second"));
        write(&first);
        let files = TlsFiles { ca: Some(ca.clone()), ..TlsFiles::default() };
        let certificates = Certificates::new(&files).unwrap();
        let current = || certificates.current().root_cert.unwrap();
        assert_eq!(current(), first.as_bytes());
        write("-----BEGIN CERTIFICATE-----\nbroken\n-----END CERTIFICATE-----\n");
        assert_eq!(current(), first.as_bytes());
        fs::remove_file(&ca).unwrap();
        assert_eq!(current(), first.as_bytes());
        write(&second);
        assert_eq!(current(), second.as_bytes());
    }
}
