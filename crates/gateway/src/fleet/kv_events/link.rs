//! `ZeroMQ` connection: one socket to a worker's KV event publisher, with timeouts.
//!
//! **Invariant:** connecting takes at most [`CONNECT_TIMEOUT`], a message at most the bytes that
//! `zmtp` allows; TCP keep-alive detects a dead peer.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use overdraft_wire::zmtp::{Reader, SocketKind, ZmtpError, opening};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long connecting and greeting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a write may take; we write little.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// TCP keep-alive: idle time before the first probe, and the interval between probes.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Why a socket is of no use any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Not an address that we can connect to.
    #[error("`{0}` is not an endpoint; expected `tcp://host:port`")]
    Endpoint(String),
    /// The operating system returned an error.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The peer speaks another protocol.
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    /// The peer closed the connection.
    #[error("the peer closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("the peer did not answer within {} s", .0.as_secs())]
    Slow(Duration),
}

/// A connection of ours to a publisher's socket.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    reader: Reader,
    /// Came with the greeting.
    early: VecDeque<Vec<Bytes>>,
}

impl Link {
    /// Connects and greets.
    pub(super) async fn open(endpoint: &str, kind: SocketKind) -> Result<Self, LinkError> {
        let address = endpoint
            .strip_prefix("tcp://")
            .filter(|address| address.contains(':'))
            .ok_or_else(|| LinkError::Endpoint(endpoint.to_owned()))?;
        let opening = timeout(CONNECT_TIMEOUT, Self::greet(address, kind));
        opening.await.map_err(|_| LinkError::Slow(CONNECT_TIMEOUT))?
    }

    async fn greet(address: &str, kind: SocketKind) -> Result<Self, LinkError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        let (reader, early) = (Reader::new(kind), VecDeque::new());
        let mut link = Self { stream, reader, early };
        link.send(&opening(kind)).await?;
        while !link.reader.is_open() {
            link.read().await?;
            if let Some(message) = link.reader.next_message()? {
                link.early.push_back(message);
            }
        }
        Ok(link)
    }

    /// Writes bytes that [`overdraft_wire::zmtp`] made.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let writing = timeout(WRITE_TIMEOUT, self.stream.write_all(bytes));
        Ok(writing.await.map_err(|_| LinkError::Slow(WRITE_TIMEOUT))??)
    }

    /// The next message; cancelling it loses nothing.
    pub(super) async fn receive(&mut self) -> Result<Vec<Bytes>, LinkError> {
        if let Some(message) = self.early.pop_front() {
            return Ok(message);
        }
        loop {
            if let Some(message) = self.reader.next_message()? {
                return Ok(message);
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<(), LinkError> {
        match self.stream.read_buf(self.reader.buffer()).await? {
            0 => Err(LinkError::Closed),
            _ => Ok(()),
        }
    }
}
