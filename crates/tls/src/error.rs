//! TLS errors: why a certificate, a key or an authority cannot be used.

/// Why TLS cannot be set up. No variant holds a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file of certificates that cannot be read or has none.
    #[error("`{file}` {wrong}; expected certificates in PEM, as `-----BEGIN CERTIFICATE-----`")]
    Certificates {
        /// Which.
        file: String,
        /// What is wrong with it.
        wrong: String,
    },
    /// A file that should hold a private key.
    #[error("`{file}` {wrong}; expected one private key in PEM, as `-----BEGIN PRIVATE KEY-----`")]
    Key {
        /// Which.
        file: String,
        /// What is wrong with it.
        wrong: String,
    },
    /// A certificate and a key that do not belong together.
    #[error("the key in `{key}` does not fit the certificate in `{certificate}`: {why}")]
    Mismatch {
        /// The certificate's file.
        certificate: String,
        /// The key's file.
        key: String,
        /// What the library says.
        why: String,
    },
    /// The name that a certificate should have is none.
    #[error("`{name}` is not a server's name; expected a DNS name or an IP address")]
    ServerName {
        /// As configured.
        name: String,
    },
    /// The system trusts nobody.
    #[error("this system has no trusted authorities; install some, or name a file of them")]
    NoAuthorities,
    /// The library cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Library(String),
}
