//! KV event connections: those of one socket, and a peer at the end of each.
//!
//! A peer that says nothing must not keep a place for ever. It has [`OPENING_TIMEOUT`] to say what
//! it is, a subscriber also to subscribe; after that a subscriber may be silent, and TCP keep-alive
//! finds out whether it is still there. A peer that may ask for replays has [`QUESTION_TIMEOUT`] for
//! each question: it can connect again when it has one.
//!
//! **Invariant:** the number of connections to a socket, the time until a peer has said what it
//! wants, the time between its questions and the time of each write are bounded.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use overdraft_http::prepare_stream;
use overdraft_wire::zmtp::{Reader, SocketKind, ZmtpError, opening};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Maximum connections to one socket at once.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// How long a peer may take to say what it is, and a subscriber to subscribe to something.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a peer may take to ask for a replay, after it has said what it is and after each answer.
pub(super) const QUESTION_TIMEOUT: Duration = Duration::from_mins(1);

/// A write that takes longer than this ends the connection.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait after the system refused a connection; it is short of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connections of one socket.
#[derive(Debug)]
pub(super) struct Connections {
    tasks: JoinSet<()>,
    socket: &'static str,
    /// Whether the log has the present shortage of places already.
    is_told: bool,
}

/// Why a connection ended; nobody is to blame.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionEnd {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    #[error("the peer went away")]
    Gone,
    #[error("the peer takes nothing any more")]
    Stuck,
    #[error("the peer has not said what it wants")]
    Silent,
}

impl Connections {
    /// None yet, of a socket that the log calls so.
    pub(super) fn of(socket: &'static str) -> Self {
        Self { tasks: JoinSet::new(), socket, is_told: false }
    }

    /// Whether there is a place for one more.
    pub(super) fn has_room(&self) -> bool {
        self.tasks.len() < CONNECTIONS_MAX
    }

    /// Lets one run.
    pub(super) fn add(&mut self, connection: impl Future<Output = ConnectionEnd> + Send + 'static) {
        self.tasks.spawn(tell_end(connection));
        if self.is_told || self.has_room() {
            return;
        }
        self.is_told = true;
        tracing::warn!(
            socket = self.socket,
            connections = CONNECTIONS_MAX,
            "all connections for KV events are taken; further ones wait until one of them ends"
        );
    }

    /// Waits until one has ended; `None` where there is none.
    pub(super) async fn ended(&mut self) -> Option<()> {
        let _ended = self.tasks.join_next().await?;
        // Not at the first free place: each connection that takes it would be a line in the log.
        if self.tasks.len() <= CONNECTIONS_MAX / 2 {
            self.is_told = false;
        }
        Some(())
    }
}

async fn tell_end(connection: impl Future<Output = ConnectionEnd>) {
    let end = connection.await;
    tracing::debug!(%end, "a connection for KV events has ended");
}

/// The next connection; none ever without a listener.
pub(super) async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for KV events was refused by the system");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A connection as seen by its task.
pub(super) struct Peer {
    stream: TcpStream,
    reader: Reader,
    kind: SocketKind,
    /// When it must have said what it wants; `None` once it may be silent.
    speaks_by: Option<Instant>,
}

impl Peer {
    /// Greets a peer of our socket of that kind.
    pub(super) async fn open(stream: TcpStream, kind: SocketKind) -> Result<Self, ConnectionEnd> {
        prepare_stream(&stream);
        let speaks_by = Some(Instant::now() + OPENING_TIMEOUT);
        let mut peer = Self { stream, reader: Reader::new(kind), kind, speaks_by };
        peer.write(&opening(kind)).await?;
        Ok(peer)
    }

    /// It has said what it wants, and may be silent from now on.
    pub(super) fn settle(&mut self) {
        self.speaks_by = None;
    }

    /// It has been served, or has said that it may ask, and the next question is waited for.
    pub(super) fn await_question(&mut self) {
        self.speaks_by = Some(Instant::now() + QUESTION_TIMEOUT);
    }

    /// The next message; cancelling it loses nothing.
    pub(super) async fn receive(&mut self) -> Result<Vec<Bytes>, ConnectionEnd> {
        loop {
            let was_open = self.reader.is_open();
            if let Some(message) = self.reader.next_message()? {
                return Ok(message);
            }
            // A subscriber has come to subscribe; a replay may be asked for later.
            if self.kind == SocketKind::Router && !was_open && self.reader.is_open() {
                self.await_question();
            }
            let reading = self.stream.read_buf(self.reader.buffer());
            let read = match self.speaks_by {
                None => reading.await?,
                Some(by) => timeout_at(by, reading).await.map_err(|_| ConnectionEnd::Silent)??,
            };
            if read == 0 {
                return Err(ConnectionEnd::Gone);
            }
        }
    }

    /// Writes all of it, unless the peer takes nothing for too long.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> Result<(), ConnectionEnd> {
        let writing = timeout(WRITE_TIMEOUT, self.stream.write_all(bytes));
        writing.await.map_err(|_| ConnectionEnd::Stuck)?.map_err(ConnectionEnd::Io)
    }
}
