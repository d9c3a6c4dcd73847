//! TLS of every face of Overdraft: whom a client trusts, what a server shows, and files that are read anew.
//!
//! [`ClientTls`] is what a client needs to speak to a server: authorities, a certificate of its own where the
//! server asks for one, and the name by which the server must be vouched for. [`ServerTls`] is what a listener
//! shows: a certificate with its key, and the authorities of clients where it asks them for certificates. Both
//! read their files again when these have changed, so that certificates are renewed without a restart; a file
//! that cannot be used leaves in force what was.
//!
//! The library is rustls with ring: TLS 1.2 and 1.3, forward secrecy and authenticated encryption only.
//! See RFC 8446 (TLS 1.3) and RFC 5246 (TLS 1.2).

mod anyone;
mod client;
mod error;
mod pem;
mod renewed;
mod server;
mod transport;

pub use tokio_rustls::client::TlsStream as ClientStream;
pub use tokio_rustls::server::TlsStream as ServerStream;

pub use self::client::{ClientSettings, ClientTls, Identity, Trust};
pub use self::error::TlsError;
pub use self::server::{Offers, ServerSettings, ServerTls};
pub use self::transport::Transport;
