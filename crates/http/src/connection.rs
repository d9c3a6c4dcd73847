//! One connection from accept to close.
//!
//! hyper speaks HTTP/1.1 on it. A client that closes its side while it is being answered counts as
//! gone, also when it only closed the sending half: nobody can tell the two apart before writing,
//! and computing for a client that left costs more than cutting off one that half-closes.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, HOST};
use http::uri::Authority;
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service as HyperService;
use hyper_util::rt::{TokioIo, TokioTimer};
use overdraft_telemetry::{AccessRecord, Clock, EndCode, Ender, Phase, RequestId, RequestIds};
use overdraft_tls::{ServerStream, ServerTls, Transport};
use overdraft_wire::{ApiError, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::answer::{Answering, REQUEST_ID, Watched};
use crate::body::{Body, RequestBody};
use crate::body_budget::BodyBudget;
use crate::drain::Drain;
use crate::exchange::{Access, AccessGuard, Exchange, Line};
use crate::idle_connections::IdleConnections;
use crate::limits::Limits;
use crate::reply;
use crate::server::Service;
use crate::timed_socket::TimedSocket;
use crate::wake_coalescer::WakeCoalescer;

/// How long a closed connection is kept to let the client read the last answer.
const LINGER: Duration = Duration::from_secs(1);

/// What all connections of a listener share.
pub(crate) struct Shared<S> {
    pub(crate) service: Arc<S>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    pub(crate) ids: RequestIds,
    pub(crate) bodies: Arc<BodyBudget>,
    pub(crate) idle: Arc<IdleConnections>,
    /// What connections are encrypted by, if they are.
    pub(crate) tls: Option<Arc<ServerTls>>,
}

/// A client's connection, encrypted or not.
pub(crate) type ListenerStream = Transport<ServerStream<TcpStream>>;

/// What may be asked for on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything.
    Full,
    /// What is vital: there is no room for more.
    Vital,
}

/// Serves one client until it leaves, misbehaves, or the listener ends.
pub(crate) async fn serve<S: Service>(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared<S>>,
    drain: Drain,
    scope: Scope,
) {
    let Some(stream) = secured(stream, peer, &shared).await else { return };
    let line = Arc::new(Line::default());
    let _entered = shared.idle.enter(&line);
    let socket = TimedSocket::new(stream, Arc::clone(&line), Arc::clone(&shared.limits));
    let acceptor = Acceptor {
        shared: Arc::clone(&shared),
        line: Arc::clone(&line),
        peer,
        drain: drain.clone(),
        scope,
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The socket keeps the time; hyper's own clock does not tell idling from a slow head.
        .header_read_timeout(None)
        .max_headers(shared.limits.headers)
        .max_header_size(shared.limits.head_bytes)
        .serve_connection(TokioIo::new(socket), acceptor);

    let quiet = WakeCoalescer::new();
    let mut closing = drain.until_closing();
    let served = poll_fn(|cx| {
        let served = quiet.poll(cx, |cx| Pin::new(&mut connection).poll(cx));
        if served.is_ready() {
            return served.map(Some);
        }
        closing.poll(cx).map(|()| None)
    });
    let result = if let Some(result) = served.await {
        result
    } else {
        line.close();
        Pin::new(&mut connection).graceful_shutdown();
        poll_fn(|cx| quiet.poll(cx, |cx| Pin::new(&mut connection).poll(cx))).await
    };
    if let Err(error) = &result {
        tracing::debug!(%peer, %error, "a connection broke off");
    }
    let (stream, refusal) = connection.into_parts().io.into_inner().into_rest();
    if let Some(stream) = stream {
        part(stream, refusal, &shared, peer).await;
    }
}

/// The first byte of a TLS handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Agrees on keys with the client, where the listener speaks TLS; `None` where that fails. It has as long as for a
/// head, so that who connects and says nothing holds a connection no longer than that.
async fn secured<S: Service>(
    mut stream: TcpStream,
    peer: SocketAddr,
    shared: &Shared<S>,
) -> Option<ListenerStream> {
    let Some(tls) = &shared.tls else { return Some(Transport::Plain(stream)) };
    match tls.refresh() {
        Ok(false) => {}
        Ok(true) => tracing::info!("the listener shows the certificate that was renewed"),
        Err(error) => {
            tracing::error!(%error, "the listener goes on with the certificate that it had");
        }
    }
    let agreeing = async {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first != [HANDSHAKE] {
            tell_encrypted(&mut stream, shared).await?;
            return Ok(None);
        }
        // In a box: connections that are not encrypted need not carry its room along.
        Ok(Some(Box::pin(tls.accept(stream)).await?))
    };
    let agreed: Result<std::io::Result<_>, _> = timeout(shared.limits.head, agreeing).await;
    match agreed {
        Ok(Ok(stream)) => Some(Transport::Encrypted(Box::new(stream?))),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a client did not agree on keys");
            None
        }
        Err(_elapsed) => None,
    }
}

/// Tells a client that speaks without encryption to begin with it.
async fn tell_encrypted<S>(stream: &mut TcpStream, shared: &Shared<S>) -> std::io::Result<()> {
    let id = shared.ids.next();
    note_refusal(&id, ErrorKind::InvalidRequest);
    let why = "this port speaks HTTPS; ask it by a URL that begins with `https://`";
    let error = ApiError::new(ErrorKind::InvalidRequest, why);
    stream.write_all(&reply::raw(&error, id.as_str())).await?;
    stream.shutdown().await
}

/// Tells the client what hyper could not, then waits a moment for it to have read everything: a
/// socket closed with unread bytes in it is reset, and the answer with it.
async fn part<S>(
    mut stream: ListenerStream,
    refusal: Option<ErrorKind>,
    shared: &Shared<S>,
    peer: SocketAddr,
) {
    let parting = async {
        if let Some(kind) = refusal {
            let id = shared.ids.next();
            note_refusal(&id, kind);
            let error = ApiError::new(kind, sentence(kind, &shared.limits));
            stream.write_all(&reply::raw(&error, id.as_str())).await?;
        }
        stream.shutdown().await?;
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whether the client has seen it is its own affair.
    if let Ok(Err(error)) = timeout(LINGER, parting).await {
        tracing::debug!(%peer, %error, "a client left without listening");
    }
}

fn sentence(kind: ErrorKind, limits: &Limits) -> String {
    match kind {
        ErrorKind::HeadTooLarge => format!(
            "the request's head is too large; at most {} bytes and {} header lines are taken",
            limits.head_bytes, limits.headers
        ),
        ErrorKind::RequestTimeout => {
            format!("the request's head was not complete after {:?}", limits.head)
        }
        _ => "this is not an HTTP/1.1 request".to_owned(),
    }
}

fn note_refusal(id: &RequestId, kind: ErrorKind) {
    let record = AccessRecord {
        request: id.to_string(),
        method: "-".to_owned(),
        path: "-".to_owned(),
        status: kind.status(),
        end: EndCode { ender: Ender::Policy, phase: Phase::Request },
        ..AccessRecord::default()
    };
    record.write();
}

/// Why a request is answered without its handler, if it is: what RFC 9112 (section 3.2) says of `Host` and RFC 9110
/// (section 8.4) of encodings that are not understood, and what there is no room for.
fn refusal(request: &Request<Incoming>, scope: Scope, limits: &Limits) -> Option<Response<Body>> {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let host_is_good = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.is_empty() || host.to_str().is_ok_and(is_authority),
        (None, _) => request.version() < Version::HTTP_11,
        (Some(_), Some(_)) => false,
    };
    if !host_is_good {
        let why = "expected one `Host` header with a host and perhaps a port";
        return Some(reply::error(&ApiError::new(ErrorKind::InvalidRequest, why)));
    }
    if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|value| *value != "identity") {
        let why =
            format!("the content encoding {encoding:?} is not understood; send the body as it is");
        let mut response = reply::error(&ApiError::new(ErrorKind::UnsupportedMediaType, why));
        response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        return Some(response);
    }
    (scope == Scope::Vital && !limits.vital.contains(&request.uri().path())).then(|| {
        let why = "the server has as many connections as it may; try again in a moment";
        let mut response = reply::error(&ApiError::overloaded(why));
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    })
}

fn is_authority(host: &str) -> bool {
    host.parse::<Authority>().is_ok() && !host.contains('@')
}

/// Makes an exchange of every request on one connection.
struct Acceptor<S> {
    shared: Arc<Shared<S>>,
    line: Arc<Line>,
    peer: SocketAddr,
    drain: Drain,
    scope: Scope,
}

impl<S: Service> HyperService<Request<Incoming>> for Acceptor<S> {
    type Response = Response<Watched>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let shared = Arc::clone(&self.shared);
        let id = request
            .headers()
            .get(REQUEST_ID)
            .and_then(|value| value.to_str().ok())
            .and_then(RequestId::from_client)
            .unwrap_or_else(|| shared.ids.next());
        let exchange = Exchange {
            id: id.clone(),
            peer: self.peer,
            begun: shared.clock.now(),
            access: Access::default(),
            drain: self.drain.clone(),
            body: Arc::new(shared.bodies.lease(self.peer.ip())),
        };
        exchange.access.note(|record| {
            id.as_str().clone_into(&mut record.request);
            request.method().as_str().clone_into(&mut record.method);
            request.uri().path().clone_into(&mut record.path);
        });
        let guard = AccessGuard::new(&exchange, shared.clock, Arc::clone(&self.line));
        let line = Arc::clone(&self.line);
        let refusal = refusal(&request, self.scope, &shared.limits);
        let lease = Arc::clone(&exchange.body);
        let request = request.map(|body| RequestBody::new(body, &shared.limits, line, lease));
        let handler = Box::pin(async move {
            match refusal {
                Some(refused) => refused,
                None => shared.service.call(exchange, request).await,
            }
        });
        Answering::new(handler, id, guard)
    }
}
