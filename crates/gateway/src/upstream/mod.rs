//! Upstream client: connections and requests to workers.
//!
//! One [`Upstream`] per worker: its address, its idle connections, and the exchange of one request
//! for the head of its answer. A connection is not a task of its own: the task that waits for the
//! answer drives it, so a relayed token crosses no task boundary, and dropping the wait closes the
//! socket, which tells the worker that the client has disconnected.
//!
//! Invariant: a connection returns to the pool only after its answer has ended where the framing
//! says it ends.

mod answer;
mod connection;
mod dial;
pub(crate) mod fetch;
pub(crate) mod headers;
mod http_call;
mod pieces;
mod pool;
mod socket;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response};
use overdraft_core::deadline::STALL_LEAST;
use overdraft_tls::{ClientStream, ClientTls, Transport};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) use self::answer::AnswerBody;
use self::connection::{Connection, Freshness};
use self::dial::{dial, fault_of};
pub(crate) use self::http_call::{HttpCall, HttpCallError};
pub(crate) use self::pieces::Pieces;
use self::pool::Pool;
use crate::settings::{Address, GatewaySettings, WorkerTraits};

/// What is sent to a worker: always whole, always with a length.
pub(crate) type Outgoing = Request<Pieces>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    /// Its name has no address now, or the resolver did not say in time.
    #[error("no address for its name: {0}")]
    Resolve(std::io::Error),
    /// This machine could not try: it is out of descriptors, ports or buffers.
    #[error("no connection could be tried: {0}")]
    Local(std::io::Error),
    /// Nobody listens there: the connection was refused.
    #[error("no connection: {0}")]
    Refused(std::io::Error),
    /// None came about, for a reason that may be the network's.
    #[error("no connection: {0}")]
    Unreached(std::io::Error),
    /// Nor was it refused in time.
    #[error("no connection within {0:?}")]
    ConnectTimedOut(Duration),
    /// One was made, and it cannot be encrypted as it has to be.
    #[error("no TLS connection: {0}")]
    Handshake(std::io::Error),
    /// The connection broke before the answer began, or what came is not HTTP.
    #[error("no answer: {0}")]
    Broken(hyper::Error),
}

/// One worker, as far as speaking to it goes.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// What it is called in headers, metrics and logs.
    pub(crate) name: HeaderValue,
    /// The `host` header it expects.
    pub(crate) host: HeaderValue,
    /// The header by which it knows us, where it is configured.
    pub(crate) key: Option<(HeaderName, HeaderValue)>,
    /// Its data-parallel rank, where several engines are behind its address.
    rank: Option<HeaderValue>,
    address: Address,
    /// What connections are encrypted by; none where they are not.
    tls: Option<Arc<ClientTls>>,
    pool: Mutex<Pool>,
    connect: Duration,
    answer_head_bytes: usize,
    /// Unacknowledged bytes or probes after which the kernel gives a silent peer up.
    unacknowledged: Duration,
}

impl Upstream {
    pub(crate) fn new(name: HeaderValue, address: Address, settings: &GatewaySettings) -> Self {
        let host = HeaderValue::from_str(address.authority.as_str())
            .expect("an authority that was parsed is a valid header");
        let stall = settings.routing.route.deadlines.stall.at_least(STALL_LEAST);
        Self {
            name,
            host,
            key: None,
            rank: None,
            address,
            tls: None,
            pool: Mutex::new(Pool::new(
                settings.limits.idle_connections,
                settings.timeouts.keep_alive,
            )),
            connect: settings.timeouts.connect,
            answer_head_bytes: settings.limits.answer_head_bytes,
            unacknowledged: Duration::from(stall),
        }
    }

    /// Shows the worker's key with every request.
    #[must_use]
    pub(crate) fn with_key(self, traits: &WorkerTraits) -> Self {
        Self { key: traits.key_header(), ..self }
    }

    /// Encrypts its connections, where its address says so.
    #[must_use]
    pub(crate) fn with_tls(self, tls: Option<Arc<ClientTls>>) -> Self {
        Self { tls, ..self }
    }

    /// The same as one of several engines behind its address.
    #[must_use]
    pub(crate) fn with_rank(self, rank: Option<u32>) -> Self {
        Self { rank: rank.map(HeaderValue::from), ..self }
    }

    /// The name as text.
    pub(crate) fn name(&self) -> &str {
        self.name.to_str().expect("names are checked to be printable")
    }

    /// Its host, as configured.
    pub(crate) fn host(&self) -> &str {
        &self.address.host
    }

    /// How its address begins.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Its port.
    pub(crate) const fn port(&self) -> u16 {
        self.address.port
    }

    /// Whether it listens on this machine's loopback interface.
    pub(crate) fn is_local(&self) -> bool {
        let address = self.address.host.parse::<std::net::IpAddr>();
        address.map_or(self.address.host == "localhost", |address| address.is_loopback())
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// A worker may close an idle connection just when we pick it. If nothing at all came back over
    /// a connection that had served before, the request is made once more over a fresh one; that
    /// is not a retry in the sense of the budget, for the worker has done nothing wrong.
    pub(crate) async fn exchange(
        &self,
        make: impl Fn() -> Outgoing,
    ) -> Result<(Response<hyper::body::Incoming>, Connection), UpstreamError> {
        let kept = self.pool().take();
        if let Some(mut connection) = kept {
            match connection.exchange(make()).await {
                Ok(response) => return Ok((response, connection)),
                Err(error) if !is_stale(&error) => return Err(UpstreamError::Broken(error)),
                Err(_stale) => {}
            }
        }
        // Rare and large, so in a box: what every request would carry along is small that way.
        Box::pin(self.exchange_anew(make())).await
    }

    /// The same over a fresh connection.
    async fn exchange_anew(
        &self,
        request: Outgoing,
    ) -> Result<(Response<hyper::body::Incoming>, Connection), UpstreamError> {
        let mut connection = self.connect().await?;
        match connection.exchange(request).await {
            Ok(response) => Ok((response, connection)),
            Err(error) => Err(UpstreamError::Broken(error)),
        }
    }

    /// Keeps a connection for the next request, if it can take one.
    pub(crate) fn give_back(&self, mut connection: Connection) {
        if connection.freshness() == Freshness::Reusable {
            self.pool().put(connection);
        }
    }

    /// Drops the idle connections that the worker has closed or that lay idle for too long.
    pub(crate) fn sweep(&self) {
        self.pool().sweep();
    }

    async fn connect(&self) -> Result<Connection, UpstreamError> {
        let stream = dial(&self.address, self.connect).await?;
        self.tune(&stream).map_err(fault_of)?;
        let stream = match &self.tls {
            None => Transport::Plain(stream),
            Some(tls) => Transport::Encrypted(Box::new(self.encrypt(tls, stream).await?)),
        };
        Connection::handshake(stream, self.answer_head_bytes).await.map_err(UpstreamError::Broken)
    }

    /// Agrees on keys with the worker, in as long as a connection may take.
    async fn encrypt(
        &self,
        tls: &ClientTls,
        stream: TcpStream,
    ) -> Result<ClientStream<TcpStream>, UpstreamError> {
        match tls.refresh() {
            Ok(false) => {}
            Ok(true) => tracing::info!(worker = self.name(), "certificates were read again"),
            Err(error) => tracing::error!(
                worker = self.name(), %error, "new certificates cannot be used, the old ones stay in force"
            ),
        }
        match timeout(self.connect, tls.connect(&self.address.host, stream)).await {
            Ok(agreed) => agreed.map_err(UpstreamError::Handshake),
            Err(_elapsed) => Err(UpstreamError::ConnectTimedOut(self.connect)),
        }
    }

    /// A token must not wait for the next one, and a peer that vanished must be noticed.
    fn tune(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let socket = socket2::SockRef::from(stream);
        socket.set_keepalive(true)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(self.unacknowledged))?;
        Ok(())
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Whether a kept connection turned out to have been closed: nothing came back over it.
fn is_stale(error: &hyper::Error) -> bool {
    let reset = || {
        let source = std::error::Error::source(error);
        let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
        source.is_some_and(|source| {
            use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
            matches!(source.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
        })
    };
    error.is_canceled() || error.is_closed() || error.is_incomplete_message() || reset()
}
