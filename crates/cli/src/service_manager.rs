//! Service manager protocol (systemd): notifications of readiness, and sockets that are passed on.
//!
//! A notification is one datagram to `NOTIFY_SOCKET`, as `sd_notify(3)` describes; sockets come as
//! `LISTEN_FDS`, as `systemd.socket(5)` does. Where there is no service manager, nothing happens.

use std::os::unix::net::UnixDatagram;

use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::fault::Fault;

/// What a service manager is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Requests are taken.
    Ready,
    /// The configuration is being read anew.
    Reloading,
    /// No new requests; streams may finish.
    Stopping,
}

impl State {
    const fn message(self) -> &'static [u8] {
        match self {
            Self::Ready => b"READY=1",
            Self::Reloading => b"RELOADING=1",
            Self::Stopping => b"STOPPING=1",
        }
    }
}

/// Tells the service manager, if there is one.
pub(crate) fn tell(state: State) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = UnixDatagram::unbound()
        .and_then(|socket| socket.send_to(state.message(), std::path::Path::new(&path)));
    if let Err(error) = sent {
        tracing::warn!(%error, ?state, "the service manager could not be notified");
    }
}

/// The sockets that a service manager passed on, in the order in which its unit names them.
pub(crate) struct Passed(ListenFd);

impl Passed {
    /// Those of this process.
    pub(crate) fn on() -> Self {
        Self(ListenFd::from_env())
    }

    /// The socket at `place`, if there is one.
    pub(crate) fn listener(&mut self, place: usize) -> Result<Option<TcpListener>, Fault> {
        let unusable =
            |error| Fault::input(format!("socket {place} of the service manager: {error}"));
        let Some(listener) = self.0.take_tcp_listener(place).map_err(unusable)? else {
            return Ok(None);
        };
        listener.set_nonblocking(true).map_err(unusable)?;
        TcpListener::from_std(listener).map(Some).map_err(unusable)
    }
}
