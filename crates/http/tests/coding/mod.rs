//! Bodies that come encoded: what they decode to is bounded, whatever goes in.

use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use overdraft_http::Limits;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::support::{Client, Reply, Running};
use crate::{NEVER, quick};

const MEBIBYTE: usize = 1 << 20;

/// As patient as can be, with bodies of up to eight mebibytes.
fn roomy() -> Limits {
    Limits { body_bytes: 8 * MEBIBYTE, body: NEVER, idle: NEVER, ..quick() }
}

async fn all(mut encoder: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoder.read_to_end(&mut bytes).await.unwrap();
    bytes
}

async fn gzip(bytes: &[u8]) -> Vec<u8> {
    all(GzipEncoder::new(bytes)).await
}

async fn zstd(bytes: &[u8]) -> Vec<u8> {
    all(ZstdEncoder::new(bytes)).await
}

async fn post(client: &mut Client, coding: &str, body: &[u8]) -> Reply {
    let length = body.len();
    client
        .send(format!(
            "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-encoding: {coding}\r\n\
             content-length: {length}\r\n\r\n"
        ))
        .await;
    client.send(body).await;
    client.reply().await
}

/// Bytes that no coding makes much shorter.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test]
async fn handlers_read_what_was_encoded() {
    let server = Running::start(roomy()).await;
    let mut client = server.client().await;
    let long = noise(3 * MEBIBYTE);
    for text in [&b"hello"[..], &[], &long] {
        let (gzip, zstd) = (gzip(text).await, zstd(text).await);
        for (coding, body) in [("gzip", &gzip), ("x-gzip", &gzip), ("Zstd", &zstd)] {
            let reply = post(&mut client, coding, body).await;
            assert_eq!((reply.status, reply.body == text), (200, true), "{coding}: {}", reply.head);
        }
    }
    // Members of gzip that follow each other are one text.
    let two = [gzip(b"one ").await, gzip(b"two").await].concat();
    assert_eq!(post(&mut client, "gzip", &two).await.text(), "one two");
}

// Faults: 69
#[tokio::test]
async fn a_body_that_decodes_to_too_much_is_413() {
    let server = Running::start(roomy()).await;
    let large = noise(8 * MEBIBYTE + 1);
    let bomb = vec![b'a'; 8 * MEBIBYTE];
    let cases = [
        ("gzip", gzip(&large).await, "exceeds the limit"),
        ("zstd", zstd(&large[..].repeat(2)).await, "exceeds the limit"),
        ("gzip", gzip(&bomb).await, "more than 200 times"),
        ("zstd", zstd(&bomb).await, "more than 200 times"),
    ];
    for (coding, body, why) in cases {
        let reply = post(&mut server.client().await, coding, &body).await;
        assert_eq!(reply.status, 413, "{coding}: {reply:?}");
        assert!(reply.text().contains(why), "{coding}: {reply:?}");
    }
    // Some are short because they say the same again and again.
    let same = vec![b'a'; MEBIBYTE];
    let reply = post(&mut server.client().await, "zstd", &zstd(&same).await).await;
    assert_eq!((reply.status, reply.body == same), (200, true), "{}", reply.head);
}

#[tokio::test]
async fn a_body_that_is_not_what_it_says_is_400() {
    let server = Running::start(roomy()).await;
    let whole = gzip(b"hello").await;
    let mut wrong_sum = whole.clone();
    let place = wrong_sum.len() - 8;
    wrong_sum[place] ^= 1;
    let short = zstd(&noise(1_000)).await;
    // A frame whose window is larger than anybody should need: 2 GiB.
    let wide = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00];
    let cases: [(&str, &[u8]); 6] = [
        ("gzip", b"{\"model\":\"m\"}"),
        ("gzip", &whole[..whole.len() - 4]),
        ("gzip", &wrong_sum),
        ("zstd", b"{\"model\":\"m\"}"),
        ("zstd", &short[..short.len() / 2]),
        ("zstd", &wide),
    ];
    for (coding, body) in cases {
        let reply = post(&mut server.client().await, coding, body).await;
        assert_eq!(reply.status, 400, "{coding} {body:?}: {reply:?}");
        assert!(reply.text().contains(&format!("not whole and valid {coding}")), "{reply:?}");
    }
}

#[tokio::test]
async fn a_coding_that_is_not_understood_is_415() {
    let server = Running::start(roomy()).await;
    for coding in ["br", "deflate", "gzip, gzip"] {
        let reply = post(&mut server.client().await, coding, b"hi").await;
        assert_eq!(reply.status, 415, "{coding}: {reply:?}");
        assert_eq!(reply.header("accept-encoding"), "gzip, zstd, identity");
    }
    assert_eq!(post(&mut server.client().await, "identity", b"hi").await.text(), "hi");
}
