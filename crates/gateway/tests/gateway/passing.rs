//! Requests of dialects that pass to workers which speak them.

use overdraft_core::route::Policy;
use overdraft_gateway::{GatewaySettings, KeyDigest, KeySettings, SaltPolicy};
use overdraft_wire::dialect::Dialect;
use serde_json::{Value, json};

use crate::client::{Client, End};
use crate::harness::{ANSWER, DONE, Gateway, MODEL};
use crate::mock::{Call, Mock};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";
const CHAT: &str = "/v1/chat/completions";

/// What a worker answers in the dialect of Messages.
const MESSAGE: &str = r#"{"id":"msg_1", "type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"},{"type":"tomorrow"}],"stop_reason":"end_turn","usage":{"input_tokens":30,"cache_read_input_tokens":4,"output_tokens":5}}"#;

/// The same in that of Responses.
const RESPONSE: &str = r#"{"id":"resp_1","object":"response","status":"completed","error":null,"output":[],"usage":{"input_tokens":30,"output_tokens":5}}"#;

/// Both dialects pass.
fn pass(settings: &mut GatewaySettings) {
    let model = settings.routing.models.entry(MODEL.to_owned()).or_default();
    model.passed = vec![Dialect::Messages, Dialect::Responses];
    model.aliases = vec!["claude-x".to_owned()];
}

/// A message as no translator writes it.
fn odd(more: &str) -> String {
    format!(
        "{{ \"max_tokens\" : 9,\t\"model\":\"{MODEL}\" , \"unheard_of\":{{\"a\": [1.0, 2e3]}},\
         \"messages\":[{{\"role\":\"user\",\"content\":[{{\"type\":\"of_tomorrow\",\"text\":\"\\u0068i\"}}]}}]{more}}}"
    )
}

fn message(text: &str, more: &str) -> String {
    format!(
        r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"{text}"}}]{more}}}"#
    )
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn start() -> String {
    let usage = json!({"input_tokens": 30, "output_tokens": 0});
    event(&json!({"type": "message_start", "message": {"id": "msg_1", "usage": usage}}))
}

fn delta() -> String {
    let delta = json!({"type": "text_delta", "text": "a"});
    event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

fn last() -> String {
    let usage = json!({"output_tokens": 5});
    event(&json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}))
        + &event(&json!({"type": "message_stop"}))
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn path(call: &Call) -> &str {
    call.head.split(' ').nth(1).unwrap()
}

/// Tokens that are counted for the last request, of its prompt and of its answer.
async fn counted(gateway: &Gateway) -> (Value, Value) {
    let mut client = gateway.client().await;
    let host = gateway.address;
    client.send(format!("GET /admin/views/requests HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
    let row = &read(&client.whole().await.1)["rows"][0];
    (row["prompt_tokens"].clone(), row["completion_tokens"].clone())
}

#[tokio::test]
async fn a_message_and_its_answer_pass_byte_for_byte() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], pass).await;
    let mut client = gateway.client().await;
    let versions =
        "anthropic-version: 2023-06-01\r\nanthropic-beta: a-1,b-2\r\nanthropic-beta: c-3\r\n";
    client.post_with("/v1/messages?beta=true", versions, &odd("")).await;
    let call = mock.call().await;
    assert_eq!((path(&call), call.text()), (MESSAGES, odd("").as_str()));
    assert_eq!(call.header("anthropic-version"), Some("2023-06-01"));
    let betas = call.head.lines().filter(|line| line.starts_with("anthropic-beta: "));
    assert_eq!(betas.collect::<Vec<_>>(), ["anthropic-beta: a-1,b-2", "anthropic-beta: c-3"]);
    call.answer(200, MESSAGE).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, body.as_str()), (200, MESSAGE));
    assert_eq!(head.header("request-id"), head.header("x-request-id"));
    assert_eq!(counted(&gateway).await, (json!(34), json!(5)));
    // An alias and what no worker is told are all that changes.
    let aliased = odd(r#","kv_transfer_params":{}"#).replace(r#":"m""#, r#":"claude-x""#);
    client.post(MESSAGES, &aliased).await;
    let call = mock.call().await;
    assert_eq!(call.text(), odd(""));
    call.answer(200, MESSAGE).await;
    assert_eq!(client.whole().await.1, MESSAGE);
}

#[tokio::test]
async fn a_stream_is_whole_at_the_dialect_s_last_event_and_else_ends_with_its_error() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], pass).await;
    for (ending, expected) in [(last() + DONE, End::Clean), (DONE.to_owned(), End::Aborted)] {
        let mut client = gateway.client().await;
        client.post(MESSAGES, &odd(r#","stream":true"#)).await;
        let mut call = mock.call().await;
        assert_eq!(call.text(), odd(r#","stream":true"#), "nothing is asked for beside");
        call.stream().await;
        call.chunk(&start()).await;
        call.chunk(&delta()).await;
        client.head().await;
        let mut seen = String::new();
        while !seen.contains("text_delta") {
            seen += &client.chunk().await.unwrap();
        }
        assert_eq!(seen, start() + &delta());
        call.chunk(&ending).await;
        call.end().await;
        let (rest, end) = client.rest().await;
        assert_eq!(end, expected);
        if end == End::Clean {
            assert_eq!(rest, last());
            assert_eq!(counted(&gateway).await, (json!(30), json!(5)));
        } else {
            assert!(rest.starts_with("event: error\ndata: {\"type\":\"error\""), "{rest}");
            assert!(rest.contains("request_id") && rest.contains("api_error"), "{rest}");
            assert_ne!(counted(&gateway).await.1, json!(0), "what was told is counted");
        }
    }
}

#[tokio::test]
async fn limits_hold_in_any_spelling_of_a_number_and_tiers_are_the_engine_s() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        pass(settings);
        settings.limits.of_request.max_tokens = Some(100);
    })
    .await;
    let mut client = gateway.client().await;
    client.post(MESSAGES, &odd("").replace(": 9,", ": 100000.0,")).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 400, "{body}");
    client.post(MESSAGES, &odd(r#","service_tier":"standard_only""#)).await;
    mock.call().await.answer(200, MESSAGE).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_worker_that_fails_before_it_begins_is_replaced() {
    let [mut one, mut other] = Mock::pair().await;
    let gateway = Gateway::start_with(&[&one, &other], pass).await;
    let mut client = gateway.client().await;
    client.post(MESSAGES, &message("hi", r#","stream":true"#)).await;
    let (mut call, second) = tokio::select! {
        call = one.call() => (call, &mut other),
        call = other.call() => (call, &mut one),
    };
    call.stream().await;
    call.chunk(&start()).await;
    call.chunk(&event(&json!({"type": "error", "error": {"message": "no"}}))).await;
    let mut call = second.call().await;
    call.stream().await;
    call.chunk(&(start() + &delta() + &last())).await;
    call.end().await;
    assert_eq!(client.rest_after_head().await, start() + &delta() + &last());
}

#[tokio::test]
async fn a_response_passes_where_the_gateway_has_nothing_to_keep() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], pass).await;
    let mut client = gateway.client().await;
    let body = |more: &str| format!(r#"{{"model":"{MODEL}","input":"hi"{more}}}"#);
    let asked = async |mock: &mut Mock, client: &mut Client, more: &str| {
        client.post(RESPONSES, &body(more)).await;
        let call = mock.call().await;
        let path = path(&call).to_owned();
        let answer = if path == CHAT { ANSWER } else { RESPONSE };
        assert!(path == CHAT || call.text() == body(more), "{}", call.text());
        call.answer(200, answer).await;
        let (head, body) = client.whole().await;
        assert_eq!(head.status, 200, "{body}");
        (path, body)
    };
    let forgotten = r#","store":false"#;
    let (path, answer) = asked(&mut mock, &mut client, forgotten).await;
    assert_eq!((path.as_str(), answer.as_str()), (RESPONSES, RESPONSE));
    let (path, kept) = asked(&mut mock, &mut client, "").await;
    assert_eq!(path, CHAT, "it is kept unless its client says otherwise");
    let id = read(&kept)["id"].as_str().unwrap().to_owned();
    let after = format!(r#"{forgotten},"previous_response_id":"{id}""#);
    assert_eq!(asked(&mut mock, &mut client, &after).await.0, CHAT);
    // Only the gateway can open what it has sealed.
    client.post("/v1/responses/compact", &body("")).await;
    mock.call().await.answer(200, ANSWER).await;
    let sealed = read(&client.whole().await.1)["output"].clone();
    let body = json!({"model": MODEL, "store": false, "input": sealed}).to_string();
    client.post(RESPONSES, &body).await;
    let call = mock.call().await;
    assert!(call.head.starts_with(&format!("POST {CHAT} ")), "{}", call.head);
    call.answer(200, ANSWER).await;
    client.whole().await;
}

#[tokio::test]
async fn a_response_that_broke_off_ends_with_an_error_event() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], pass).await;
    let delta = "response.output_text.delta";
    let added = event(&json!({"type": delta, "delta": "a", "sequence_number": 3}));
    let whole = |kind: &str| event(&json!({"type": kind, "response": read(RESPONSE)}));
    let all = ["response.completed", "response.incomplete", "response.failed", "response.cut"];
    for kind in all {
        let mut client = gateway.client().await;
        let body = format!(r#"{{"model":"{MODEL}","input":"hi","store":false,"stream":true}}"#);
        client.post(RESPONSES, &body).await;
        let mut call = mock.call().await;
        call.stream().await;
        call.chunk(&added).await;
        client.head().await;
        assert_eq!(client.chunk().await.unwrap(), added);
        call.chunk(&whole(kind)).await;
        call.end().await;
        let (rest, end) = client.rest().await;
        if kind == "response.cut" {
            assert_eq!(end, End::Aborted);
            assert!(rest.contains("event: error\ndata: {\"type\":\"error\""), "{rest}");
            let told = read(rest.rsplit("data: ").next().unwrap());
            assert_eq!(
                (&told["code"], &told["sequence_number"]),
                (&json!("server_error"), &json!(4))
            );
            assert_eq!(told["error"]["message"], told["message"], "{rest}");
        } else {
            assert_eq!((rest, end), (whole(kind), End::Clean), "{kind}");
        }
    }
}

#[tokio::test]
async fn errors_have_the_dialect_s_own_words() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], pass).await;
    let mut client = gateway.client().await;
    client.post(MESSAGES, &odd("")).await;
    let error = r#"{"type":"error","error":{"type":"BadRequestError","message":"no such block"}}"#;
    mock.call().await.answer(400, error).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 400);
    let told = &read(&body)["error"];
    assert_eq!(told, &json!({"type": "invalid_request_error", "message": "no such block"}));
    client.post(MESSAGES, &odd("").replace(r#""model":"m""#, r#""model":"nope""#)).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, &read(&body)["type"]), (400, &json!("error")), "no such model passes");
    client.post(MESSAGES, "half").await;
    assert_eq!(client.whole().await.0.status, 400);
}

#[tokio::test]
async fn a_thread_is_refused_though_messages_pass() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], pass).await;
    let mut client = gateway.client().await;
    client.post(MESSAGES, &odd(r#","thread":{"type":"create"}"#)).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 400, "{body}");
    let code = &read(&body)["error"]["details"]["error_code"];
    assert_eq!(code, "thread_unsupported_request");
    assert!(mock.is_idle(), "an engine would answer a part as if it were all");
    client.post(MESSAGES, &odd(r#","thread":null"#)).await;
    mock.call().await.answer(200, MESSAGE).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_prompt_for_the_cache_alone_is_translated_though_messages_pass() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], pass).await;
    let mut client = gateway.client().await;
    client.post(MESSAGES, &message("hi", "").replace(":9,", ":0,")).await;
    let call = mock.call().await;
    assert_eq!(path(&call), CHAT);
    assert_eq!(call.json()["max_tokens"], 1, "engines refuse 0");
    call.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, &read(&body)["content"]), (200, &json!([])), "{body}");
}

#[tokio::test]
async fn messages_of_tenants_are_translated_where_workers_are_told_salts() {
    let mut mock = Mock::start(&[MODEL]).await;
    let key = |settings: &mut GatewaySettings| {
        pass(settings);
        settings.keys = vec![KeySettings::new(KeyDigest::of("sk-acme-0123456789"), "acme")];
    };
    let acme = "x-api-key: sk-acme-0123456789\r\n";
    let gateway = Gateway::start_with(&[&mock], key).await;
    let mut client = gateway.client().await;
    client.post_with(MESSAGES, acme, &message("hi", "")).await;
    let call = mock.call().await;
    assert!(path(&call) == CHAT && read(call.text())["cache_salt"].is_string(), "{}", call.text());
    call.answer(200, ANSWER).await;
    client.whole().await;
    // Responses have a field for it.
    let body = format!(r#"{{"model":"{MODEL}","input":"hi","store":false}}"#);
    client.post_with(RESPONSES, acme, &body).await;
    let call = mock.call().await;
    assert_eq!(path(&call), RESPONSES);
    assert!(read(call.text())["cache_salt"].is_string() && call.text().ends_with(&body[1..]));
    call.answer(200, RESPONSE).await;
    client.whole().await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        key(settings);
        settings.workers[0].traits.cache_salt = SaltPolicy::Untold;
    })
    .await;
    let mut client = gateway.client().await;
    client.post_with(MESSAGES, acme, &message("hi", "")).await;
    let call = mock.call().await;
    assert_eq!((path(&call), call.text()), (MESSAGES, message("hi", "").as_str()));
    call.answer(200, MESSAGE).await;
    client.whole().await;
}

#[tokio::test]
async fn a_conversation_stays_where_its_translation_says_it_is() {
    let [one, other] = Mock::pair().await;
    let gateway = Gateway::start_with(&[&one, &other], |settings| {
        pass(settings);
        settings.routing.route.policy = Policy::PrefixAffinity;
    })
    .await;
    for mock in [one, other] {
        mock.handle(|call| call.answer(200, MESSAGE));
    }
    let mut client = gateway.client().await;
    let long = "word ".repeat(2_000);
    let mut servers = Vec::new();
    for turn in 0..6 {
        // It changes with each request, before everything else.
        let line = format!("x-anthropic-billing-header: cch={turn}");
        let system = json!([{"type": "text", "text": line}, {"type": "text", "text": long}]);
        client.post(MESSAGES, &message("hi", &format!(r#","system":{system}"#))).await;
        let (head, _) = client.whole().await;
        servers.push(head.header("x-overdraft-worker").unwrap().to_owned());
    }
    servers.dedup();
    assert_eq!(servers.len(), 1, "{servers:?}");
}
