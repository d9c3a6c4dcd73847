//! Pages of browsers: which may ask, and what they are told.

use overdraft_gateway::CorsSettings;

use crate::client::{Client, Head};
use crate::harness::{ANSWER, CHAT, Gateway, MODEL, chat};
use crate::mock::Mock;

const PAGE: &str = "https://app.example.com";

async fn start(mock: &Mock, origins: &[&str]) -> Gateway {
    Gateway::start_with(&[mock], |settings| {
        settings.cors = CorsSettings {
            origins: origins.iter().map(|&origin| origin.to_owned()).collect(),
            ..CorsSettings::default()
        };
    })
    .await
}

/// A browser asks whether a page may post to a path, with two headers.
async fn preflight(client: &mut Client, path: &str, origin: &str) -> Head {
    let asks = format!(
        "OPTIONS {path} HTTP/1.1\r\nhost: localhost\r\norigin: {origin}\r\n\
         access-control-request-method: POST\r\n\
         access-control-request-headers: authorization,x-stainless-os\r\n\r\n"
    );
    client.send(asks).await;
    client.head().await
}

fn allows(head: &Head) -> Option<&str> {
    head.header("access-control-allow-origin")
}

#[tokio::test]
async fn a_page_of_the_list_asks_beforehand_and_reads_the_answer() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock, &["http://localhost:3000", PAGE]).await;
    let mut client = gateway.client().await;
    for path in [CHAT, "/v1/messages", "/v1/models", "/v1/responses/x", "/v1/nowhere"] {
        let head = preflight(&mut client, path, PAGE).await;
        assert_eq!((head.status, allows(&head)), (204, Some(PAGE)), "{path}");
        let headers = head.header("access-control-allow-headers");
        assert_eq!(headers, Some("authorization,x-stainless-os"));
        assert_eq!(head.header("access-control-max-age"), Some("600"));
        let methods = head.header("access-control-allow-methods");
        assert!(methods.is_some_and(|methods| methods.contains("POST")), "{methods:?}");
        assert!(head.text.contains("vary: origin\r\n"), "{}", head.text);
        assert_eq!(head.header("access-control-allow-credentials"), None);
    }
    assert!(mock.is_idle());
    client.post_with(CHAT, &format!("origin: {PAGE}\r\n"), &chat("")).await;
    mock.call().await.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, body.as_str(), allows(&head)), (200, ANSWER, Some(PAGE)));
    assert!(head.text.contains("vary: origin\r\n"), "{}", head.text);
    let exposed = head.header("access-control-expose-headers").unwrap_or_default();
    for name in ["x-request-id", "x-ratelimit-remaining-tokens", "retry-after"] {
        assert!(exposed.split(", ").any(|own| own == name), "{name}: {exposed}");
    }
    // A page reads errors as well, also those that the listener itself gives.
    client.post_with(CHAT, &format!("origin: {PAGE}\r\ncontent-encoding: br\r\n"), "x").await;
    let (head, _) = client.whole().await;
    assert_eq!((head.status, allows(&head)), (415, Some(PAGE)));
    let mut client = gateway.client().await;
    client.post_with(CHAT, &format!("origin: {PAGE}\r\n"), "rubbish").await;
    let (head, _) = client.whole().await;
    assert_eq!((head.status, allows(&head)), (400, Some(PAGE)));
}

#[tokio::test]
async fn a_stream_is_shared_as_a_whole_answer_is() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock, &["*"]).await;
    let mut client = gateway.client().await;
    let body = chat(r#","stream":true"#);
    client.post_with(CHAT, &format!("origin: {PAGE}\r\n"), &body).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&crate::harness::token("one")).await;
    let head = client.head().await;
    assert_eq!((head.status, allows(&head)), (200, Some("*")));
    // Every page is told the same.
    assert!(!head.text.contains("vary: origin"), "{}", head.text);
}

#[tokio::test]
async fn another_page_and_a_gateway_without_pages_allow_nothing() {
    let mut mock = Mock::start(&[MODEL]).await;
    let near = ["https://app.example.com.evil.example", "http://app.example.com", "null"];
    for origins in [&[][..], &[PAGE][..]] {
        let gateway = start(&mock, origins).await;
        let mut client = gateway.client().await;
        for origin in near {
            let head = preflight(&mut client, CHAT, origin).await;
            client.body_of(&head).await;
            assert_eq!((head.status, allows(&head)), (405, None), "{origin}");
            client.post_with(CHAT, &format!("origin: {origin}\r\n"), &chat("")).await;
            // What a worker would allow is not for it to say.
            let mut call = mock.call().await;
            call.write(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                 access-control-allow-origin: *\r\ncontent-length: {}\r\n\r\n{ANSWER}",
                ANSWER.len()
            ))
            .await;
            let (head, _) = client.whole().await;
            assert_eq!((head.status, allows(&head)), (200, None), "{origin}");
            call.serve_on();
        }
    }
}

#[tokio::test]
async fn operators_places_are_shared_with_no_page() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock, &["*"]).await;
    let mut client = gateway.client().await;
    for path in ["/admin/workers", "/metrics", "/dashboard", "/admin/cache/purge"] {
        let head = preflight(&mut client, path, PAGE).await;
        client.body_of(&head).await;
        assert!(head.status >= 400 && allows(&head).is_none(), "{path}: {}", head.text);
        client.send(format!("GET {path} HTTP/1.1\r\nhost: g\r\norigin: {PAGE}\r\n\r\n")).await;
        let head = client.head().await;
        assert_eq!(allows(&head), None, "{path}");
        client.body_of(&head).await;
    }
}
