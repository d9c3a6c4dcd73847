//! Dial: from a worker's address to a connected socket, and what a failure says of the worker.
//!
//! A refused or reset connection is proof that nobody listens. A name that has no address now, and a machine that is out
//! of descriptors, ports or buffers, say nothing of the worker. Any other failure may be the network's doing.
//!
//! Invariant: only proof may cost a worker what is known of its cache.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::UpstreamError;
use crate::settings::Address;

/// `EMFILE`, `ENFILE` and `ENOBUFS`: no descriptor or buffer is left. [`ErrorKind`] has no name for them.
const EXHAUSTED: [i32; 3] = [24, 23, if cfg!(target_os = "linux") { 105 } else { 55 }];

/// How long an address may keep silent before the next one is tried beside it (RFC 8305, section 5).
const HEAD_START_MAX: Duration = Duration::from_millis(250);

/// Addresses of one name that are tried at most; of a name with more, resolvers tell others first the next time.
const ADDRESSES_MAX: usize = 16;

/// A connection in the making.
type Attempt = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

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
    let attempts: Vec<Attempt> =
        addresses.into_iter().take(ADDRESSES_MAX).map(attempt_at).collect();
    let head_start = head_start(patience, attempts.len());
    match timeout(patience, first_of(attempts, head_start)).await {
        Ok(connected) => connected.map_err(fault_of),
        Err(_elapsed) => Err(UpstreamError::ConnectTimedOut(patience)),
    }
}

/// Begins when it is first polled.
fn attempt_at(address: SocketAddr) -> Attempt {
    Box::pin(TcpStream::connect(address))
}

/// How long each of so many addresses is tried before the next: all have their turn in time.
fn head_start(patience: Duration, addresses: usize) -> Duration {
    let addresses = u32::try_from(addresses).unwrap_or(u32::MAX).max(1);
    HEAD_START_MAX.min(patience / addresses)
}

/// The first of these connections that comes about. The next one is begun when one before it fails, or after
/// `head_start` beside those that keep silent (Happy Eyeballs). A silent address says nothing of the others, and one
/// that is only slow must not be given up for them.
///
/// The error is the one that says most: where a name has addresses of two families, a machine often has only one of
/// them.
async fn first_of(attempts: Vec<Attempt>, head_start: Duration) -> io::Result<TcpStream> {
    let mut waiting = attempts.into_iter();
    let mut trying: Vec<Attempt> = Vec::new();
    let mut failed = None;
    loop {
        trying.extend(waiting.next());
        if trying.is_empty() {
            let nowhere = || io::Error::new(ErrorKind::AddrNotAvailable, "no address");
            return Err(failed.unwrap_or_else(nowhere));
        }
        let ended = if waiting.as_slice().is_empty() {
            first_to_end(&mut trying).await
        } else {
            let Ok(ended) = timeout(head_start, first_to_end(&mut trying)).await else { continue };
            ended
        };
        match ended {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(weightier(failed, error)),
        }
    }
}

/// What the first of these comes to that ends; the others go on.
async fn first_to_end(trying: &mut Vec<Attempt>) -> io::Result<TcpStream> {
    poll_fn(|cx| {
        let mut each = trying.iter_mut().enumerate();
        let ended = each.find_map(|(at, attempt)| match attempt.as_mut().poll(cx) {
            Poll::Ready(result) => Some((at, result)),
            Poll::Pending => None,
        });
        let Some((at, result)) = ended else { return Poll::Pending };
        drop(trying.remove(at));
        Poll::Ready(result)
    })
    .await
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

    /// The first of these, which must not take long.
    async fn first(attempts: Vec<Attempt>, head_start: Duration) -> io::Result<TcpStream> {
        let soon = Duration::from_secs(5);
        timeout(soon, first_of(attempts, head_start)).await.expect("none waits for a silent one")
    }

    #[tokio::test]
    async fn a_silent_address_does_not_keep_the_next_from_being_tried() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = || -> Attempt { Box::pin(std::future::pending::<io::Result<TcpStream>>()) };
        let attempts = vec![silent(), silent(), attempt_at(address)];
        let stream = first(attempts, Duration::from_millis(1)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn the_next_address_is_tried_at_once_where_one_fails() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let refused = || -> Attempt {
            let refusal: io::Result<TcpStream> = Err(ErrorKind::ConnectionRefused.into());
            Box::pin(std::future::ready(refusal))
        };
        let attempts = vec![refused(), attempt_at(address)];
        let never = Duration::from_hours(1);
        assert!(first(attempts, never).await.is_ok());
        let failed = first(vec![refused(), refused()], never).await.unwrap_err();
        check(&failed, Evidence::Refused);
        check(&first(Vec::new(), never).await.unwrap_err(), Evidence::Local);
    }

    #[test]
    fn all_addresses_have_their_turn_in_time() {
        let second = Duration::from_secs(1);
        assert_eq!(head_start(second, 1), HEAD_START_MAX);
        assert_eq!(head_start(second, 2), HEAD_START_MAX);
        assert_eq!(head_start(second, ADDRESSES_MAX), second / 16);
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
