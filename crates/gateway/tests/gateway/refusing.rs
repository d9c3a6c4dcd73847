//! What the gateway does not pass on, and how it says so.

use overdraft_gateway::{KeyDigest, KeySettings};

use crate::client::Head;
use crate::harness::{ANSWER, CHAT, Gateway, MODEL, chat};
use crate::mock::Mock;

/// Status, `error.code` and `error.param` of a refusal, which must be OpenAI's object.
fn refusal(head: &Head, body: &str) -> (u16, Option<String>, Option<String>) {
    let object: serde_json::Value = serde_json::from_str(body).unwrap();
    let error = &object["error"];
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert!(error["type"].is_string(), "{body}");
    let text = |name: &str| error[name].as_str().map(str::to_owned);
    (head.status, text("code"), text("param"))
}

// Faults: 70, 72
#[tokio::test]
async fn requests_that_cannot_be_routed_get_an_error_object_and_reach_nobody() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let deep = format!(r#"{{"model":"m","x":{}1{}}}"#, "[".repeat(20_000), "]".repeat(20_000));
    let cases = [
        ("rubbish", "not json", 400, Some("invalid_json"), None),
        ("nothing", "", 400, Some("invalid_json"), None),
        ("an array", "[]", 400, Some("invalid_json"), None),
        ("too deep", &deep, 400, Some("invalid_json"), None),
        ("no model", "{}", 400, None, Some("model")),
        ("a model that is a number", r#"{"model":1}"#, 400, None, Some("model")),
        ("half a character as a model", r#"{"model":"\ud800"}"#, 400, None, Some("model")),
        ("stream that is text", r#"{"model":"m","stream":"yes"}"#, 400, None, Some("stream")),
        ("unknown", r#"{"model":"gpt-17"}"#, 404, Some("model_not_found"), Some("model")),
    ];
    let mut client = gateway.client().await;
    for (name, body, status, code, param) in cases {
        client.post(CHAT, body).await;
        let (head, body) = client.whole().await;
        let expected = (status, code.map(str::to_owned), param.map(str::to_owned));
        assert_eq!(refusal(&head, &body), expected, "{name}: {body}");
    }
    assert!(mock.is_idle());
}

// Faults: 74
#[tokio::test]
async fn an_unknown_model_is_told_which_ones_are_known() {
    let first = Mock::start(&["large", "small"]).await;
    let second = Mock::start(&["small", "tiny"]).await;
    let gateway = Gateway::start(&[&first, &second]).await;
    let mut client = gateway.client().await;
    client.post(CHAT, r#"{"model":"huge"}"#).await;
    let (_, body) = client.whole().await;
    assert!(body.contains("`large`, `small`, `tiny`"), "{body}");
}

#[tokio::test]
async fn a_request_without_a_model_goes_to_the_default_one_unchanged() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.model_default = Some(MODEL.to_owned());
    })
    .await;
    let mut client = gateway.client().await;
    client.post("/tokenize", r#"{"prompt":"hi"}"#).await;
    let call = mock.call().await;
    assert_eq!(call.body, br#"{"prompt":"hi"}"#);
    call.answer(200, "{}").await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn paths_and_methods_that_do_not_exist_are_told_apart() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let (head, body) = client.get("/v1/nowhere").await;
    assert_eq!(refusal(&head, &body).0, 404);
    let (head, body) = client.get(CHAT).await;
    assert_eq!(refusal(&head, &body).0, 405);
    assert_eq!(head.header("allow"), Some("POST"));
    client.post("/v1/models", "{}").await;
    let (head, body) = client.whole().await;
    assert_eq!(refusal(&head, &body).0, 405);
}

// Faults: 69
#[tokio::test]
async fn a_body_over_the_limit_is_refused_before_it_is_read() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.listen.body_bytes = 1_000;
    })
    .await;
    let mut client = gateway.client().await;
    client.send(format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: 1001\r\n\r\n")).await;
    let (head, body) = client.whole().await;
    assert_eq!(refusal(&head, &body).0, 413);

    let mut client = gateway.client().await;
    let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
    client
        .send(format!(
            "POST {CHAT} HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n{chunk}"
        ))
        .await;
    let (head, body) = client.whole().await;
    assert_eq!(refusal(&head, &body).0, 413);
    assert!(mock.is_idle());
}

// Faults: 68
#[tokio::test]
async fn a_head_over_the_limit_is_refused() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let filler = format!("x-filler: {}\r\n", "f".repeat(1_000)).repeat(100);
    client.send(format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\n{filler}\r\n")).await;
    let (head, body) = client.whole().await;
    assert_eq!(refusal(&head, &body).0, 431);
}

#[tokio::test]
async fn more_in_flight_than_allowed_is_told_to_come_back() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.limits.requests = 2;
        settings.limits.streams = 1;
    })
    .await;
    let mut streaming = gateway.stream().await;
    let mut held = mock.call().await;
    held.stream().await;
    held.chunk(&crate::harness::token("a")).await;
    streaming.head().await;

    let (head, body) = gateway.stream().await.whole().await;
    assert_eq!(refusal(&head, &body).0, 429);
    assert!(head.header("retry-after").is_some());
    assert!(body.contains("streams"), "{body}");

    // Whole answers still have a place, but only one.
    let mut whole = gateway.chat("").await;
    let call = mock.call().await;
    let (head, body) = gateway.chat("").await.whole().await;
    assert_eq!(refusal(&head, &body).0, 429);
    assert!(body.contains("requests"), "{body}");

    // Places are given back however a request ends.
    call.answer(200, ANSWER).await;
    assert_eq!(whole.whole().await.0.status, 200);
    drop(streaming);
    held.gone().await;
    let mut again = gateway.stream().await;
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(again.whole().await.0.status, 200);
}

#[tokio::test]
async fn bodies_that_a_tenant_does_not_end_leave_places_to_the_others() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.limits.requests = 4;
        let key = |key: &str| KeySettings::new(KeyDigest::of(key), key);
        settings.keys = ["a", "b"].map(key).into();
    })
    .await;
    let begun = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer a\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = gateway.client().await;
        client.send(&begun).await;
        clients.push(client);
    }
    // Two of the four may go on with their bodies.
    let line = "router_rejections_total{reason=\"bodies\",priority=\"default\"} 2";
    gateway.until_line(line).await;
    for _ in 0..2 {
        let mut client = gateway.client().await;
        client.post_with(CHAT, "authorization: Bearer b\r\n", &chat("")).await;
        mock.call().await.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
    // The key says whose they are, though all come from one address.
    let mut client = gateway.client().await;
    client.send(&begun).await;
    let (head, body) = client.whole().await;
    assert_eq!(refusal(&head, &body).0, 429);
    assert!(head.header("retry-after").is_some() && body.contains("limits.requests"), "{body}");
}

#[tokio::test]
async fn only_listed_headers_reach_a_worker() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let headers = "Authorization: Bearer sk-secret\r\nX-Request-Id: mine-1\r\nCookie: a=b\r\n\
                   X-Forwarded-For: 10.0.0.1\r\nTraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nTE: trailers\r\n\
                   Connection: x-secret\r\nX-Secret: s\r\nContent-Type: text/plain\r\n";
    client.post_with("/v1/chat/completions?x=1", headers, &chat("")).await;
    let call = mock.call().await;
    let mut names: Vec<&str> = call
        .head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": ").map(|(name, _)| name))
        .collect();
    names.sort_unstable();
    let expected = [
        "accept",
        "content-length",
        "content-type",
        "host",
        "traceparent",
        "user-agent",
        "via",
        "x-request-id",
    ];
    assert_eq!(names, expected);
    assert!(call.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", call.head);
    assert_eq!(call.header("x-request-id"), Some("mine-1"));
    assert_eq!(call.header("content-type"), Some("application/json"));
    assert_eq!(call.header("host"), Some(mock.address.to_string().as_str()));
    call.answer(200, ANSWER).await;
    let (head, _) = client.whole().await;
    assert_eq!(head.header("x-request-id"), Some("mine-1"));
}

#[tokio::test]
async fn credentials_reach_a_worker_only_when_they_should() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.credentials = overdraft_gateway::Credentials::Forward;
    })
    .await;
    let mut client = gateway.client().await;
    client.post_with(CHAT, "authorization: Bearer sk-secret\r\n", &chat("")).await;
    let call = mock.call().await;
    assert_eq!(call.header("authorization"), Some("Bearer sk-secret"));
    call.answer(403, r#"{"error":{"message":"no"}}"#).await;
    assert_eq!(client.whole().await.0.status, 403);
}

#[tokio::test]
async fn an_answer_loses_the_headers_of_its_connection_and_keeps_the_others() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.chat("").await;
    let mut call = mock.call().await;
    call.write(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         server: uvicorn\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\nset-cookie: a=b\r\n\
         connection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\n\
         x-request-id: theirs\r\nopenai-processing-ms: 17\r\nx-ratelimit-limit-requests: 9\r\n\
         \r\n{ANSWER}",
        ANSWER.len()
    ))
    .await;
    let (head, _) = client.whole().await;
    for gone in ["server", "set-cookie", "x-hop", "keep-alive"] {
        assert_eq!(head.header(gone), None, "{}", head.text);
    }
    assert_eq!(head.header("openai-processing-ms"), Some("17"));
    assert_eq!(head.header("x-ratelimit-limit-requests"), Some("9"));
    assert_eq!(head.text.matches("x-request-id").count(), 1);
    assert_ne!(head.header("x-request-id"), Some("theirs"));
    assert_eq!(head.text.matches("date: ").count(), 1);
    assert!(!head.text.contains("1970"), "{}", head.text);
}
