//! One connection from accept to close.
//!
//! hyper speaks HTTP/1.1 on it, or HTTP/2 ([`crate::http2`]). A client that closes its side while it is being answered counts as
//! gone, also when it only closed the sending half: nobody can tell the two apart before writing,
//! and computing for a client that left costs more than cutting off one that half-closes.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use overdraft_telemetry::{AccessRecord, EndCode, Ender, Phase, RequestId};
use overdraft_tls::Transport;
use overdraft_wire::{ApiError, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::acceptor::{Acceptor, Client};
use crate::http2;
use crate::limits::Limits;
use crate::line::Line;
use crate::reply;
use crate::service::Service;
use crate::shared::{LINGER, ListenerStream, Shared};
use crate::timed_socket::TimedSocket;
use crate::wake_coalescer::WakeCoalescer;

/// Serves one client until it leaves, misbehaves, or the listener ends.
pub(crate) async fn serve<S: Service>(stream: TcpStream, client: Client<S>) {
    let shared = Arc::clone(&client.shared);
    let Some(stream) = secured(stream, client.peer, &shared).await else { return };
    let multiplexed = if stream.speaks_http2() {
        Some((stream, Bytes::new()))
    } else {
        serve_http1(stream, client.clone()).await
    };
    if let (Some((stream, begun)), Some(limits)) = (multiplexed, shared.limits.http2) {
        // In a box: connections of HTTP/1 need not carry its room along.
        Box::pin(http2::serve(stream, begun, client, limits)).await;
    }
}

/// Serves a client that speaks HTTP/1. Where it turns out to speak HTTP/2 and may, returns its connection and what was
/// read of it: that is known when the first head cannot be parsed, so that HTTP/1 pays nothing for it.
async fn serve_http1<S: Service>(
    stream: ListenerStream,
    client: Client<S>,
) -> Option<(ListenerStream, Bytes)> {
    let (shared, peer) = (Arc::clone(&client.shared), client.peer);
    let line = Arc::new(Line::default());
    let _entered = shared.idle.enter(&line);
    let socket = TimedSocket::new(stream, Arc::clone(&line), Arc::clone(&shared.limits));
    let mut closing = client.drain.until_closing();
    let acceptor = Acceptor::new(client, Arc::clone(&line), None);
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The socket keeps the time; hyper's own clock does not tell idling from a slow head.
        .header_read_timeout(None)
        .max_headers(shared.limits.headers)
        .max_header_size(shared.limits.head_bytes)
        .serve_connection(TokioIo::new(socket), acceptor);

    let quiet = WakeCoalescer::new();
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
    let http1::Parts { io, read_buf, .. } = connection.into_parts();
    let socket = io.into_inner();
    if line.requests() == 0 && http2::begins(&read_buf) {
        if shared.limits.http2.is_some() {
            return Some((socket.into_stream(), read_buf));
        }
        // hyper leaves that to us.
        part(socket.into_stream(), Some(ErrorKind::InvalidRequest), &shared, peer).await;
        return None;
    }
    if let Err(error) = &result {
        tracing::debug!(%peer, %error, "a connection broke off");
    }
    if let (Some(stream), refusal) = socket.into_rest() {
        part(stream, refusal, &shared, peer).await;
    }
    None
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
