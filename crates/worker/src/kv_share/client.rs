//! KV block client: requests blocks from a peer over HTTP.
//!
//! Each request has a connection of its own, driven by the caller: dropping the answer closes it.
//! The caller bounds the time, the reader the bytes.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use overdraft_wire::kv_blocks::{BLOCKS_HEADER, BLOCKS_PATH, BlocksAsk, EnvelopeError};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::peer::Peer;

/// Why a fetch broke off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Break {
    /// Nobody listens there.
    #[error("no connection: {0}")]
    Unreachable(#[from] std::io::Error),
    /// What came is not HTTP, or broke off.
    #[error("the answer broke off: {0}")]
    Broken(#[from] hyper::Error),
    /// The peer says no.
    #[error("it answered `{0}`")]
    Refused(StatusCode),
    /// Less came than was promised.
    #[error("the answer ended before its last block")]
    Truncated,
    /// A block is not the one that was asked for, whole.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// Recomputing would have been faster (deadline).
    #[error("it took too long")]
    Timeout,
    /// Other requests took the room.
    #[error("there is no room for its blocks in the cache")]
    NoRoom,
    /// The engine does not take blocks now.
    #[error(transparent)]
    Engine(#[from] overdraft_engine::BlockError),
}

impl Break {
    /// As metrics call it.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Broken(_) | Self::Truncated => "truncated",
            Self::Refused(StatusCode::UNAUTHORIZED) => "unauthorized",
            Self::Refused(StatusCode::CONFLICT) => "model",
            Self::Refused(StatusCode::SERVICE_UNAVAILABLE) => "busy",
            Self::Refused(_) => "refused",
            Self::Envelope(error) => error.reason(),
            Self::Timeout => "timeout",
            Self::NoRoom => "no_room",
            Self::Engine(_) => "engine",
        }
    }

    /// Whether the peer serves others just now: another one may have the same.
    pub(super) const fn is_busy(&self) -> bool {
        matches!(self, Self::Refused(StatusCode::SERVICE_UNAVAILABLE))
    }

    /// Whether the peer had better be left alone for a while: not where it is busy.
    pub(super) const fn is_the_peers(&self) -> bool {
        !self.is_busy() && !matches!(self, Self::NoRoom | Self::Engine(_))
    }
}

/// An answer on its way.
pub(super) struct Answer {
    /// Blocks that it means to bring.
    pub(super) blocks: usize,
    body: Incoming,
    /// Drives the connection, and ends with the answer.
    _driver: JoinSet<Result<(), hyper::Error>>,
}

impl Answer {
    /// More of it; `None` at its end.
    pub(super) async fn more(&mut self) -> Result<Option<Bytes>, Break> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(bytes) = frame?.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Asks, and reads the head of the answer.
pub(super) async fn ask(peer: &Peer, token: &str, ask: &BlocksAsk) -> Result<Answer, Break> {
    let stream = TcpStream::connect((peer.host.as_str(), peer.port)).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::post(BLOCKS_PATH)
        .header(HOST, peer.authority())
        .header(USER_AGENT, concat!("overdraft/", env!("CARGO_PKG_VERSION")))
        .header(CONNECTION, "close")
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .body(Full::new(Bytes::from(ask.to_json())))
        .expect("hosts and tokens were checked to be printable");
    let response = sender.send_request(request).await?;
    if response.status() != StatusCode::OK {
        return Err(Break::Refused(response.status()));
    }
    let said = response.headers().get(BLOCKS_HEADER).and_then(|value| value.to_str().ok());
    let blocks = said.and_then(|said| said.parse().ok()).unwrap_or(0);
    Ok(Answer { blocks, body: response.into_body(), _driver: driver })
}
