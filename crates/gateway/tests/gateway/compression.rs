//! Compressed requests, and answers where the operator allows it and the client asks.

use std::io::Write;

use async_compression::tokio::bufread::{GzipDecoder, GzipEncoder, ZstdDecoder};
use overdraft_gateway::CompressionSettings;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::client::Head;
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, chat, finish, token};
use crate::mock::Mock;

async fn all(mut coded: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    coded.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// An answer of some kilobytes.
fn long() -> String {
    ANSWER.replace("hello", &"hello, or good-bye; ".repeat(200))
}

async fn start(mock: &Mock, answers: bool) -> Gateway {
    Gateway::start_with(&[mock], |settings| {
        settings.compression = CompressionSettings { answers };
    })
    .await
}

/// Asks with that `accept-encoding`; the worker gives `answer`.
async fn asked(gateway: &Gateway, mock: &mut Mock, accept: &str, answer: &str) -> (Head, Vec<u8>) {
    let mut client = gateway.client().await;
    let accept = format!("accept-encoding: {accept}\r\nconnection: close\r\n");
    client.post_with(CHAT, &accept, &chat("")).await;
    mock.call().await.answer(200, answer).await;
    let head = client.head().await;
    (head, client.rest_of_bytes().await)
}

/// What chunks carry.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let line = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&bytes[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.write_all(&bytes[line + 2..line + 2 + size]).unwrap();
        bytes = &bytes[line + 4 + size..];
    }
}

#[tokio::test]
async fn a_compressed_request_reaches_the_worker_as_it_was() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let body = chat(r#","user":"somebody","x_unknown":[1,  2]"#);
    let gzip = all(GzipEncoder::new(body.as_bytes())).await;
    let length = gzip.len();
    client
        .send(format!(
            "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
        ))
        .await;
    client.send(gzip).await;
    let call = mock.call().await;
    assert!(call.text().contains(r#""x_unknown":[1,  2]"#), "{}", call.text());
    assert_eq!(call.header("content-encoding"), None);
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_whole_answer_is_compressed_as_the_client_likes() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock, true).await;
    let long = long();
    let (head, body) = asked(&gateway, &mut mock, "gzip, deflate", &long).await;
    assert_eq!(head.header("content-encoding"), Some("gzip"), "{}", head.text);
    assert_eq!(head.header("vary"), Some("accept-encoding"));
    assert_eq!(head.header("content-length"), None);
    let body = unchunked(&body);
    assert!(body.len() < long.len() / 4, "{} of {}", body.len(), long.len());
    assert_eq!(all(GzipDecoder::new(&body[..])).await, long.as_bytes());

    let (head, body) = asked(&gateway, &mut mock, "gzip, zstd", &long).await;
    assert_eq!(head.header("content-encoding"), Some("zstd"));
    assert_eq!(all(ZstdDecoder::new(&unchunked(&body)[..])).await, long.as_bytes());

    let (head, body) = asked(&gateway, &mut mock, "br", &long).await;
    assert_eq!(head.header("content-encoding"), None);
    assert_eq!((head.header("vary"), body.as_slice()), (Some("accept-encoding"), long.as_bytes()));
}

#[tokio::test]
async fn short_answers_streams_and_gateways_without_it_stay_as_they_are() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock, true).await;
    let (head, body) = asked(&gateway, &mut mock, "gzip", ANSWER).await;
    assert_eq!((head.header("content-encoding"), body.as_slice()), (None, ANSWER.as_bytes()));

    let mut client = gateway.client().await;
    client.post_with(CHAT, "accept-encoding: gzip\r\n", &chat(r#","stream":true"#)).await;
    let mut call = mock.call().await;
    call.stream().await;
    let events = format!("{}{}{DONE}", token(&"a".repeat(3_000)), finish("stop"));
    call.chunk(&events).await;
    call.end().await;
    let head = client.head().await;
    assert_eq!(head.header("content-encoding"), None, "{}", head.text);
    assert_eq!(client.rest().await.0, events);

    let without = start(&mock, false).await;
    let (head, body) = asked(&without, &mut mock, "gzip", &long()).await;
    assert_eq!((head.header("content-encoding"), head.header("vary")), (None, None));
    assert_eq!(body, long().as_bytes());
}
