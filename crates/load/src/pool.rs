//! Connection pool: idle connections to the endpoint.
//!
//! A request takes the one that was used last, or opens another; it comes back when its answer has been
//! read to the end. The pool owns what drives the connections: dropped, it closes them.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::target::Target;

/// Idle connections that are kept.
const IDLE_MAX: usize = 4_096;

pub(crate) type Connection = SendRequest<Full<Bytes>>;

#[derive(Debug)]
pub(crate) struct Pool {
    target: Target,
    idle: Mutex<Vec<Connection>>,
    drivers: Mutex<JoinSet<()>>,
}

impl Pool {
    pub(crate) fn new(target: Target) -> Self {
        Self { target, idle: Mutex::default(), drivers: Mutex::default() }
    }

    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// A connection that takes a request at once.
    pub(crate) async fn take(&self) -> Result<Connection, String> {
        loop {
            let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match kept {
                Some(connection) if connection.is_closed() => {}
                Some(connection) if connection.is_ready() => return Ok(connection),
                Some(_) | None => return self.open().await,
            }
        }
    }

    /// Keeps a connection whose answer has been read.
    pub(crate) fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if !connection.is_closed() && idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    async fn open(&self) -> Result<Connection, String> {
        let Target { host, port, tls, .. } = &self.target;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unconnected)?;
        stream.set_nodelay(true).map_err(unconnected)?;
        let Some(tls) = tls else { return self.shake(stream).await };
        self.shake(tls.connect(host, stream).await.map_err(unconnected)?).await
    }

    /// Speaks HTTP over a stream from now on.
    async fn shake<S>(&self, stream: S) -> Result<Connection, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(unconnected)?;
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are forgotten, so the set does not grow with the requests.
        while drivers.try_join_next().is_some() {}
        drivers.spawn(async move {
            // How it ends is told to whoever waits for an answer on it.
            let _ended = connection.await;
        });
        Ok(sender)
    }
}

fn unconnected(error: impl std::fmt::Display) -> String {
    format!("no connection: {error}")
}
