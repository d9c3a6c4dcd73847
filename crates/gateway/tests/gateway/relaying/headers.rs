//! Headers that the configuration lets through to workers, and to clients.

use std::sync::Arc;

use overdraft_gateway::{GatewaySettings, HeaderPattern, HeaderSettings, Token};

use crate::client::Head;
use crate::harness::{ANSWER, CHAT, Gateway, MODEL, chat};
use crate::mock::{Call, Mock};

fn patterns(names: &[&str]) -> Vec<HeaderPattern> {
    names.iter().map(|name| HeaderPattern::parse(name).unwrap()).collect()
}

fn let_through(settings: &mut GatewaySettings, to_workers: &[&str], to_clients: Option<&[&str]>) {
    let to_clients = to_clients.map(patterns);
    let headers = HeaderSettings { to_workers: patterns(to_workers), to_clients };
    settings.headers = Some(Arc::new(headers));
}

/// What a client sends beside its request.
const SENT: &str = "x-team: red\r\nx-team: blue\r\nX-Team-Cost: 7\r\naccept-language: de\r\nx-other: 1\r\n\
                    cookie: session=1\r\nauthorization: Bearer sk-client\r\nx-api-key: sk-client\r\n\
                    x-overdraft-cache: off\r\nx-hop: 1\r\nconnection: x-hop\r\nte: trailers\r\n\
                    user-agent: client\r\nx-request-id: r-1\r\n";

/// What a worker answers with beside its answer.
const ANSWERED: &str = "x-model-hash: abc\r\nx-model-secret: s\r\netag: e\r\nset-cookie: a=b\r\n\
                        x-overdraft-kv-blocks: 9\r\nx-hop: 1\r\nconnection: x-hop\r\nserver: w\r\n";

/// Sends a chat with these headers, and answers with those.
async fn exchanged(mock: &mut Mock, gateway: &Gateway) -> (Vec<String>, Head) {
    let mut client = gateway.client().await;
    client.post_with(CHAT, SENT, &chat("")).await;
    let mut call: Call = mock.call().await;
    let head = format!(
        "HTTP/1.1 200 OK\r\n{ANSWERED}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        ANSWER.len()
    );
    call.write(format!("{head}{ANSWER}")).await;
    let told = call.head.lines().skip(1).map(str::to_owned).collect();
    call.serve_on();
    (told, client.whole().await.0)
}

#[tokio::test]
async fn a_worker_is_sent_the_headers_that_are_named_and_no_credential() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let (usual, _) = exchanged(&mut mock, &gateway).await;
    assert!(!usual.iter().any(|line| line.starts_with("x-team")), "{usual:?}");
    let mut settings = gateway.settings();
    let_through(&mut settings, &["x-team*", "accept-language"], None);
    gateway.change(settings.clone());
    let named = loop {
        let (told, _) = exchanged(&mut mock, &gateway).await;
        if told != usual {
            break told;
        }
    };
    let more: Vec<&String> = named.iter().filter(|line| !usual.contains(line)).collect();
    assert_eq!(more, ["x-team: red", "x-team: blue", "x-team-cost: 7", "accept-language: de"]);
    // Whatever the pattern, what is a credential, of a connection or the gateway's own stays.
    let_through(&mut settings, &["*"], None);
    gateway.change(settings);
    let all = loop {
        let (told, _) = exchanged(&mut mock, &gateway).await;
        if told.len() != named.len() {
            break told;
        }
    };
    let text = all.join("\n");
    for never in ["sk-client", "session=1", "x-hop", "te:", "x-overdraft", "user-agent: client"] {
        assert!(!text.contains(never), "{never}: {text}");
    }
    assert_eq!(all.iter().filter(|line| line.starts_with("x-request-id")).count(), 1, "{text}");
}

#[tokio::test]
async fn a_client_is_sent_the_headers_that_are_named_and_no_other() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let_through(settings, &[], Some(&["x-model-h*", "x-overdraft-*", "set-cookie"]));
    })
    .await;
    let (_, head) = exchanged(&mut mock, &gateway).await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("application/json")));
    assert_eq!(head.header("x-model-hash"), Some("abc"));
    for never in ["x-model-secret", "etag", "set-cookie", "x-overdraft-kv-blocks", "x-hop"] {
        assert_eq!(head.header(never), None, "{}", head.text);
    }
    // What the gateway writes itself is there all the same.
    assert_eq!(head.header("x-overdraft-worker"), Some("worker-0"));
    assert_eq!(head.header("x-request-id"), Some("r-1"));
}

#[tokio::test]
async fn a_worker_knows_the_gateway_by_its_own_key_whatever_a_client_sends() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let_through(settings, &["x-worker-*"], None);
        let traits = &mut settings.workers[0].traits;
        traits.api_key = Some(Token::new("the-worker-s"));
        traits.api_key_header = Some(http::HeaderName::from_static("x-worker-key"));
    })
    .await;
    let mut client = gateway.client().await;
    client.post_with(CHAT, "x-worker-key: guessed\r\nx-worker-hint: 1\r\n", &chat("")).await;
    let call = mock.call().await;
    let told = |name: &str| {
        let lines = call.head.lines().filter(|line| line.starts_with(name));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(told("x-worker-key"), ["x-worker-key: the-worker-s"]);
    assert_eq!(told("x-worker-hint"), ["x-worker-hint: 1"]);
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
}
