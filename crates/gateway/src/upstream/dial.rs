//! Dial: from a worker's address to a connected socket, and what a failure says of the worker.
//!
//! A refused or reset connection is proof that nobody listens. A name that has no address now, and a machine that is out
//! of descriptors, ports or buffers, say nothing of the worker. Any other failure may be the network's doing.
//!
//! Invariant: only proof may cost a worker what is known of its cache.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::UpstreamError;
use crate::settings::Address;

/// `EMFILE`, `ENFILE` and `ENOBUFS`: no descriptor or buffer is left. [`ErrorKind`] has no name for them.
const EXHAUSTED: [i32; 3] = [24, 23, if cfg!(target_os = "linux") { 105 } else { 55 }];

/// What a failed connection says of the worker, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// Nothing: this machine could not try.
    Local,
    /// No connection comes about, and its process may be well.
    Unreached,
    /// Nobody listens there.
    Refused,
}

/// A socket that is connected to a worker; its name and the connection may take so long each.
///
/// The resolver has a limit of its own, because its silence says nothing of the worker.
pub(super) async fn dial(
    address: &Address,
    patience: Duration,
) -> Result<TcpStream, UpstreamError> {
    let resolving = lookup_host((address.host.as_str(), address.port));
    let addresses: Vec<SocketAddr> = match timeout(patience, resolving).await {
        Ok(found) => found.map_err(UpstreamError::Resolve)?.collect(),
        Err(_elapsed) => {
            let late = format!("no answer within {patience:?}");
            return Err(UpstreamError::Resolve(io::Error::new(ErrorKind::TimedOut, late)));
        }
    };
    match timeout(patience, connect(&addresses)).await {
        Ok(connected) => connected.map_err(fault_of),
        Err(_elapsed) => Err(UpstreamError::ConnectTimedOut(patience)),
    }
}

/// Connects to the first of these addresses that accepts. The error is the one that says most: where a name has
/// addresses of two families, a machine often has only one of them.
async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failed = None;
    for &address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(weightier(failed, error)),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::new(ErrorKind::AddrNotAvailable, "no address")))
}

fn weightier(before: Option<io::Error>, error: io::Error) -> io::Error {
    before.filter(|before| evidence(&error) <= evidence(before)).unwrap_or(error)
}

/// The error that the rest of the gateway goes by.
pub(super) fn fault_of(error: io::Error) -> UpstreamError {
    match evidence(&error) {
        Evidence::Local => UpstreamError::Local(error),
        Evidence::Unreached => UpstreamError::Unreached(error),
        Evidence::Refused => UpstreamError::Refused(error),
    }
}

fn evidence(error: &io::Error) -> Evidence {
    let is_exhausted = error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code));
    match error.kind() {
        _ if is_exhausted => Evidence::Local,
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::OutOfMemory => {
            Evidence::Local
        }
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Evidence::Refused,
        _ => Evidence::Unreached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: &io::Error, expected: Evidence) {
        assert_eq!(evidence(error), expected, "{error}");
    }

    #[test]
    fn only_a_refused_or_reset_connection_proves_that_nobody_listens() {
        for (kind, expected) in [
            (ErrorKind::ConnectionRefused, Evidence::Refused),
            (ErrorKind::ConnectionReset, Evidence::Refused),
            (ErrorKind::HostUnreachable, Evidence::Unreached),
            (ErrorKind::NetworkUnreachable, Evidence::Unreached),
            (ErrorKind::TimedOut, Evidence::Unreached),
            (ErrorKind::PermissionDenied, Evidence::Unreached),
            (ErrorKind::InvalidInput, Evidence::Unreached),
            (ErrorKind::AddrNotAvailable, Evidence::Local),
            (ErrorKind::AddrInUse, Evidence::Local),
            (ErrorKind::OutOfMemory, Evidence::Local),
        ] {
            check(&kind.into(), expected);
        }
        for code in EXHAUSTED {
            check(&io::Error::from_raw_os_error(code), Evidence::Local);
        }
    }

    #[test]
    fn of_several_addresses_the_error_that_says_most_counts() {
        let refused = || io::Error::from(ErrorKind::ConnectionRefused);
        let local = || io::Error::from(ErrorKind::AddrNotAvailable);
        let unreached = || io::Error::from(ErrorKind::NetworkUnreachable);
        check(&weightier(Some(refused()), local()), Evidence::Refused);
        check(&weightier(Some(unreached()), refused()), Evidence::Refused);
        check(&weightier(Some(local()), unreached()), Evidence::Unreached);
        check(&weightier(None, local()), Evidence::Local);
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_no_word_on_its_worker() {
        let address = Address::parse("http://no..name:1").unwrap();
        let failed = dial(&address, Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(failed, UpstreamError::Resolve(_)), "{failed}");
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_at_refuses() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let address = Address::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let failed = dial(&address, Duration::from_secs(5)).await.unwrap_err();
        assert!(matches!(failed, UpstreamError::Refused(_)), "{failed}");
    }
}
