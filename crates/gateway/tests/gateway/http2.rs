//! Clients that speak HTTP/2: whole answers, streams and cancels, over TLS and without, on one connection.

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{Method, Request, Response};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{
    ANSWER, CHAT, DONE, Gateway, MODEL, NEVER, SOON, chat, finish, in_time, token,
};
use crate::mock::Mock;
use crate::tls::Authority;

const STREAMED: &str = r#","stream":true"#;

/// A connection to a gateway.
#[derive(Clone)]
struct Client(SendRequest<Bytes>);

impl Client {
    async fn connect(gateway: &Gateway) -> Self {
        Self::over(TcpStream::connect(gateway.address).await.unwrap()).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(async move {
            let _ended = connection.await;
        });
        Self(requests)
    }

    /// Sends a request with a body, or with none.
    async fn send(&self, method: Method, uri: &str, body: &str) -> ResponseFuture {
        let mut ready = in_time(self.0.clone().ready()).await.unwrap();
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let (response, mut sending) = ready.send_request(request, body.is_empty()).unwrap();
        if !body.is_empty() {
            sending.send_data(Bytes::copy_from_slice(body.as_bytes()), true).unwrap();
        }
        response
    }

    async fn chat(&self, more: &str) -> ResponseFuture {
        self.send(Method::POST, &format!("http://localhost{CHAT}"), &chat(more)).await
    }

    async fn status(&self, uri: &str) -> u16 {
        in_time(self.send(Method::GET, uri, "").await).await.unwrap().status().as_u16()
    }
}

async fn whole(response: ResponseFuture) -> (Response<()>, String) {
    let (head, mut body) = in_time(response).await.unwrap().into_parts();
    let mut text = String::new();
    while let Some(part) = part(&mut body).await {
        text.push_str(&part.unwrap());
    }
    (Response::from_parts(head, ()), text)
}

/// The next bytes of an answer; nothing at its end.
async fn part(body: &mut RecvStream) -> Option<Result<String, h2::Error>> {
    let part = in_time(body.data()).await?;
    Some(part.map(|part| {
        body.flow_control().release_capacity(part.len()).unwrap();
        String::from_utf8(part.to_vec()).unwrap()
    }))
}

#[tokio::test]
async fn a_whole_answer_goes_over_a_stream_of_its_own() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let client = Client::connect(&gateway).await;
    let first = client.chat("").await;
    let waiting = mock.call().await;
    assert!(waiting.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", waiting.head);
    // The second does not wait for the first.
    let second = client.chat(r#","seed":1"#).await;
    mock.call().await.answer(200, ANSWER).await;
    let (head, body) = whole(second).await;
    assert_eq!((head.status().as_u16(), body.as_str()), (200, ANSWER));
    assert!(!head.headers().contains_key("connection"), "{head:?}");
    waiting.answer(200, ANSWER).await;
    assert_eq!(whole(first).await.0.status(), 200);
}

#[tokio::test]
async fn a_stream_comes_event_by_event() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let client = Client::connect(&gateway).await;
    let response = client.chat(STREAMED).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    let mut body = in_time(response).await.unwrap().into_body();
    assert_eq!(part(&mut body).await.unwrap().unwrap(), token("a"), "before there is a second");
    call.chunk(&format!("{}{DONE}", finish("stop"))).await;
    call.end().await;
    let mut rest = String::new();
    while let Some(part) = part(&mut body).await {
        rest.push_str(&part.unwrap());
    }
    assert_eq!(rest, format!("{}{DONE}", finish("stop")));
}

#[tokio::test]
async fn what_a_client_cancels_stops_at_the_worker_and_nothing_else_does() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let client = Client::connect(&gateway).await;
    let kept = client.chat(STREAMED).await;
    let mut keeps = mock.call().await;
    let streamed = client.chat(STREAMED).await;
    let mut streams = mock.call().await;
    streams.stream().await;
    streams.chunk(&token("a")).await;
    let mut body = in_time(streamed).await.unwrap().into_body();
    part(&mut body).await.unwrap().unwrap();
    let unanswered = client.chat("").await;
    let waits = mock.call().await;
    drop(body);
    streams.gone().await;
    drop(unanswered);
    waits.gone().await;
    keeps.stream().await;
    keeps.chunk(&format!("{}{}{DONE}", token("b"), finish("stop"))).await;
    keeps.end().await;
    assert!(whole(kept).await.1.ends_with(DONE));
}

#[tokio::test]
async fn a_stream_that_outlives_the_drain_ends_with_an_error_event_and_a_reset() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway = Gateway::start_with(&[&mock], |settings| settings.listen.drain = SOON).await;
    let client = Client::connect(&gateway).await;
    let response = client.chat(STREAMED).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    let mut body = in_time(response).await.unwrap().into_body();
    part(&mut body).await.unwrap().unwrap();
    gateway.stop();
    let mut rest = String::new();
    let error = loop {
        match part(&mut body).await.expect("it does not end cleanly") {
            Ok(more) => rest.push_str(&more),
            Err(error) => break error,
        }
    };
    assert!(rest.starts_with("data: {\"error\":") && rest.contains("shutting down"), "{rest}");
    assert!(error.is_reset(), "{error}");
    call.gone().await;
    drop(body);
    assert_eq!(gateway.stopped().await.connections_cut, 1);
}

#[tokio::test]
async fn a_drain_lets_streams_finish() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway = Gateway::start_with(&[&mock], |settings| settings.listen.drain = NEVER).await;
    let client = Client::connect(&gateway).await;
    let response = client.chat("").await;
    let call = mock.call().await;
    gateway.stop();
    while client.0.clone().ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
    call.answer(200, ANSWER).await;
    assert_eq!(whole(response).await.0.status(), 200);
    drop(client);
    assert_eq!(gateway.stopped().await.connections_cut, 0);
}

/// A page whose name was made to point here must not read what the operator may (DNS rebinding): its browser sends
/// the name as `:authority` and no `host`.
#[tokio::test]
async fn the_name_that_was_asked_counts_as_with_http1() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let client = Client::connect(&gateway).await;
    assert_eq!(client.status("http://127.0.0.1/admin/workers").await, 200);
    assert_ne!(client.status("http://page.example/admin/workers").await, 200);
    assert_eq!(client.status("http://page.example/livez").await, 200);
    assert_eq!(client.status("http://user@127.0.0.1/livez").await, 400);
}

/// A connection over TLS by a client that offers those protocols, and the one that was agreed on.
async fn encrypted(
    gateway: &Gateway,
    authority: &Authority,
    offers: &[&[u8]],
) -> (tokio_rustls::client::TlsStream<TcpStream>, Option<Vec<u8>>) {
    let mut roots = rustls::RootCertStore::empty();
    let pem = rustls::pki_types::CertificateDer::from_pem_file(authority.file("ca.pem")).unwrap();
    roots.add(pem).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offers.iter().map(|offer| offer.to_vec()).collect();
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = in_time(stream).await.unwrap();
    let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    (stream, agreed)
}

#[tokio::test]
async fn over_tls_both_sides_agree_on_the_protocol() {
    let (mut mock, authority) = (Mock::start(&[MODEL]).await, Authority::new());
    let server = authority.server(authority.vouch("own", "localhost"), false);
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.tls = Some(server.clone());
    })
    .await;
    let (stream, agreed) = encrypted(&gateway, &authority, &[b"h2", b"http/1.1"]).await;
    assert_eq!(agreed.as_deref(), Some(&b"h2"[..]));
    let client = Client::over(stream).await;
    let up = async {
        loop {
            let health = client.send(Method::GET, "https://localhost/healthz", "").await;
            if whole(health).await.1.contains("\"workers_up\":1,") {
                break;
            }
        }
    };
    in_time(up).await;
    let response = client.chat("").await;
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(whole(response).await.1, ANSWER);

    let (_, agreed) = encrypted(&gateway, &authority, &[b"http/1.1"]).await;
    assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
    let off = Gateway::start_unready(&[&mock], |settings| {
        settings.tls = Some(server);
        settings.listen.http2 = None;
    })
    .await;
    let (_, agreed) = encrypted(&off, &authority, &[b"h2", b"http/1.1"]).await;
    assert_eq!(agreed.as_deref(), Some(&b"http/1.1"[..]));
}
