//! Anthropic Messages and OpenAI Responses before a worker that speaks chat completions.

use overdraft_core::admit::ByPriority;
use overdraft_gateway::{GatewaySettings, KeyDigest, KeySettings};
use overdraft_store::Place;
use serde_json::{Value, json};

use crate::client::{Client, End, Head};
use crate::harness::{ANSWER, DONE, Gateway, MODEL, SOON, finish, in_time, token};
use crate::mock::Mock;
use crate::redis::Redis;

const MESSAGES: &str = "/v1/messages";
const COUNT: &str = "/v1/messages/count_tokens";
pub(crate) const RESPONSES: &str = "/v1/responses";
const INPUT_TOKENS: &str = "/v1/responses/input_tokens";
const COMPACT: &str = "/v1/responses/compact";

fn message(more: &str) -> String {
    format!(
        r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}]{more}}}"#
    )
}

/// A message for another model.
fn named(model: &str) -> String {
    message("").replacen(&format!(r#""{MODEL}""#), &format!(r#""{model}""#), 1)
}

pub(crate) fn response(more: &str) -> String {
    format!(r#"{{"model":"{MODEL}","input":"hi"{more}}}"#)
}

pub(crate) fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Posts what the mock answers with `ANSWER`; the messages that it was sent, and the client's answer.
pub(crate) async fn answered(
    mock: &mut Mock,
    client: &mut Client,
    post: (&str, &str, &str),
) -> (Value, Value) {
    let (path, headers, body) = post;
    client.post_with(path, headers, body).await;
    let call = mock.call().await;
    assert!(call.head.starts_with("POST /v1/chat/completions "), "{}", call.head);
    let asked = read(call.text());
    call.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 200, "{body}");
    (asked, read(&body))
}

/// Asks for something that no worker is asked for.
pub(crate) async fn ask(client: &mut Client, line: &str, headers: &str) -> (Head, Value) {
    client.send(format!("{line} HTTP/1.1\r\nhost: g\r\n{headers}content-length: 0\r\n\r\n")).await;
    let (head, body) = client.whole().await;
    (head, read(&body))
}

/// The names of the events in a stream.
fn names(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

#[tokio::test]
async fn a_message_is_asked_as_a_chat_and_answered_as_a_message() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    client.post("/v1/messages?beta=true", &message(r#","system":"S.""#)).await;
    let call = mock.call().await;
    let asked = read(call.text());
    assert_eq!(asked["messages"][0], json!({"role": "system", "content": "S."}));
    call.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    let message = read(&body);
    assert_eq!(message["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!((&message["model"], &message["stop_reason"]), (&json!(MODEL), &json!("end_turn")));
    assert_eq!(head.header("request-id"), head.header("x-request-id"));
}

#[tokio::test]
async fn a_streamed_message_ends_whole_or_with_an_error() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for (last, expected) in [(finish("stop") + DONE, End::Clean), (String::new(), End::Aborted)] {
        let mut client = gateway.client().await;
        client.post(MESSAGES, &message(r#","stream":true"#)).await;
        let mut call = mock.call().await;
        assert_eq!(read(call.text())["stream_options"], json!({"include_usage": true}));
        call.stream().await;
        call.chunk(&token("a")).await;
        client.head().await;
        let mut seen = String::new();
        while !seen.contains("text_delta") {
            seen += &client.chunk().await.unwrap();
        }
        if !last.is_empty() {
            call.chunk(&last).await;
        }
        call.end().await;
        let (rest, end) = client.rest().await;
        assert_eq!(end, expected);
        let rest = names(&rest);
        if end == End::Clean {
            assert_eq!(rest, ["content_block_stop", "message_delta", "message_stop"]);
        } else {
            assert_eq!(rest, ["error"]);
        }
    }
}

#[tokio::test]
async fn a_message_begins_with_its_text_unless_thoughts_were_asked_for() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let said = json!({"role": "assistant", "content": "said", "reasoning": "thought"});
    let choice = json!({"index": 0, "message": said, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10});
    let answer = json!({"id": "x", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [choice], "usage": usage});
    for (thinking, kinds) in [
        ("", &["text"][..]),
        (r#","thinking":{"type":"enabled","budget_tokens":1024}"#, &["thinking", "text"][..]),
    ] {
        let mut client = gateway.client().await;
        client.post(MESSAGES, &message(thinking)).await;
        mock.call().await.answer(200, &answer.to_string()).await;
        let told = read(&client.whole().await.1);
        let blocks = told["content"].as_array().unwrap().iter();
        assert_eq!(blocks.map(|block| block["type"].as_str().unwrap()).collect::<Vec<_>>(), kinds);
        assert_eq!(told["usage"]["output_tokens"], 7, "thoughts count");
    }
}

#[tokio::test]
async fn errors_have_the_shape_of_their_dialect() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.keys = vec![KeySettings::new(KeyDigest::of("sk-acme-0123456789"), "acme")];
        // Nobody waits for long for a worker that is full.
        settings.admission.first_token = ByPriority { flex: SOON, default: SOON, priority: SOON };
    })
    .await;
    let mut client = gateway.client().await;
    let key = "x-api-key: sk-acme-0123456789\r\n";
    let mut refused = async |path: &str, headers: &str, body: &str| {
        client.post_with(path, headers, body).await;
        let (head, body) = client.whole().await;
        (head.status, read(&body))
    };
    let (status, error) = refused(MESSAGES, "", &message("")).await;
    assert_eq!((status, &error["error"]["type"]), (401, &json!("authentication_error")));
    assert_eq!(error["type"], "error");
    let (status, error) = refused(MESSAGES, key, &named("nope")).await;
    assert_eq!((status, &error["error"]["type"]), (404, &json!("not_found_error")));
    let (status, error) = refused(MESSAGES, key, &message(r#","container":"c""#)).await;
    assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
    let (status, error) = refused(RESPONSES, "", &response("")).await;
    assert_eq!((status, &error["error"]["code"]), (401, &json!("invalid_api_key")));
    let (status, error) = refused(RESPONSES, key, &response(r#","conversation":"c""#)).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("conversation")));
    let mut client = gateway.client().await;
    client.post_with(MESSAGES, key, &message("")).await;
    mock.call().await.answer(503, r#"{"error":{"message":"busy"}}"#).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, &read(&body)["error"]["type"]), (529, &json!("overloaded_error")));
    assert!(head.header("retry-after").is_some());
}

#[tokio::test]
async fn tokens_are_counted_and_nothing_is_generated() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let asked = message("").replace(r#""max_tokens":9,"#, "");
    let posts = [(COUNT, asked), (INPUT_TOKENS, response(r#","truncation":"auto""#))];
    for (path, body) in posts {
        client.post(path, &body).await;
        let call = mock.call().await;
        assert!(call.head.starts_with("POST /tokenize "), "{}", call.head);
        let prompt = read(call.text());
        assert_eq!(prompt["messages"], json!([{"role": "user", "content": "hi"}]));
        assert_eq!(
            (&prompt["add_generation_prompt"], &prompt["truncation"]),
            (&json!(true), &Value::Null)
        );
        call.answer(200, r#"{"count":17}"#).await;
        assert_eq!(read(&client.whole().await.1)["input_tokens"], 17, "{path}");
    }
    // A worker that cannot count: it is guessed from the length, and is not asked again.
    client.post(COUNT, &message("")).await;
    mock.call().await.answer(404, "{}").await;
    assert!(0 < read(&client.whole().await.1)["input_tokens"].as_u64().unwrap());
    let (head, counted) = ask(&mut client, &format!("POST {INPUT_TOKENS}"), "").await;
    assert_eq!((head.status, &counted["error"]["type"]), (400, &json!("invalid_request_error")));
}

#[tokio::test]
async fn a_response_is_kept_for_its_tenant_and_gone_on_from() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let key = |key: &str, tenant: &str| KeySettings::new(KeyDigest::of(key), tenant);
        settings.keys = vec![key("sk-acme-0123456789", "acme"), key("sk-beta-0123456789", "beta")];
    })
    .await;
    let mut client = gateway.client().await;
    let acme = "authorization: Bearer sk-acme-0123456789\r\n";
    let beta = "authorization: Bearer sk-beta-0123456789\r\n";
    let (_, first) = answered(&mut mock, &mut client, (RESPONSES, acme, &response(""))).await;
    assert_eq!(first["output"][0]["content"][0]["text"], "hello");
    let id = first["id"].as_str().unwrap();
    let place = format!("{RESPONSES}/{id}");
    let (_, kept) = ask(&mut client, &format!("GET {place}"), acme).await;
    assert_eq!(kept, first);
    let (_, items) = ask(&mut client, &format!("GET {place}/input_items"), acme).await;
    assert_eq!(items["data"][0]["content"], json!([{"type": "input_text", "text": "hi"}]));
    let more = format!(r#","previous_response_id":"{id}""#);
    let (asked, _) = answered(&mut mock, &mut client, (RESPONSES, acme, &response(&more))).await;
    let said: Vec<&Value> =
        asked["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(said, [&json!("hi"), &json!("hello"), &json!("hi")]);
    // To another tenant it is as unknown as one that never was.
    for line in [
        format!("GET {place}"),
        format!("DELETE {place}"),
        format!("POST {place}/cancel"),
        format!("GET {place}/input_items"),
    ] {
        let (head, foreign) = ask(&mut client, &line, beta).await;
        let (_, unknown) = ask(&mut client, &line.replace(id, "resp_x"), beta).await;
        assert_eq!(head.status, 404, "{line}");
        let text = foreign.to_string().replace(id, "resp_x");
        assert_eq!(read(&text), unknown);
    }
    client.post_with(RESPONSES, beta, &response(&more)).await;
    let (head, error) = client.whole().await;
    assert_eq!(
        (head.status, &read(&error)["error"]["code"]),
        (404, &json!("previous_response_not_found"))
    );
    assert_eq!(ask(&mut client, &format!("POST {place}/cancel"), acme).await.0.status, 400);
    assert_eq!(ask(&mut client, &format!("DELETE {place}"), acme).await.1["deleted"], json!(true));
    assert_eq!(ask(&mut client, &format!("GET {place}"), acme).await.0.status, 404);
    assert!(mock.is_idle());
}

#[tokio::test]
async fn the_tier_of_a_response_is_its_priority() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.workers[0].traits.priority_scheduling = true;
    })
    .await;
    let mut client = gateway.client().await;
    client.post(RESPONSES, &response(r#","service_tier":"flex""#)).await;
    let call = mock.call().await;
    assert_eq!(read(call.text())["priority"], 10);
    call.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.header("x-overdraft-priority"), Some("flex"));
    assert_eq!(read(&body)["service_tier"], "flex");
    client.post(RESPONSES, &response(r#","service_tier":"turbo""#)).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, &read(&body)["error"]["param"]), (400, &json!("service_tier")));
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_response_that_is_not_stored_is_not_kept() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let body = response(r#","store":false"#);
    let (_, answer) = answered(&mut mock, &mut client, (RESPONSES, "", &body)).await;
    let line = format!("GET {RESPONSES}/{}", answer["id"].as_str().unwrap());
    assert_eq!(ask(&mut client, &line, "").await.0.status, 404);
}

#[tokio::test]
async fn a_response_in_the_background_is_followed_and_given_up() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    client.post(RESPONSES, &response(r#","background":true"#)).await;
    let begun = read(&client.whole().await.1);
    assert_eq!(begun["status"], "in_progress");
    let place = format!("{RESPONSES}/{}", begun["id"].as_str().unwrap());
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    let mut follower = gateway.client().await;
    follower.send(format!("GET {place}?stream=true HTTP/1.1\r\nhost: g\r\n\r\n")).await;
    assert_eq!(follower.head().await.status, 200);
    let mut seen = String::new();
    while !seen.contains("output_text.delta") {
        seen += &follower.chunk().await.unwrap();
    }
    for _ in 0..2 {
        let (_, cancelled) = ask(&mut client, &format!("POST {place}/cancel"), "").await;
        assert_eq!(cancelled["status"], "cancelled");
    }
    call.gone().await;
    assert_eq!(follower.rest().await.1, End::Clean);
    let (_, kept) = ask(&mut client, &format!("GET {place}"), "").await;
    assert_eq!(kept["status"], "cancelled");
}

#[tokio::test]
async fn a_response_in_the_background_outlives_its_client() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    client.post(RESPONSES, &response(r#","background":true,"stream":true"#)).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    client.head().await;
    let first = client.chunk().await.unwrap();
    drop(client);
    let data = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let id = read(data)["response"]["id"].as_str().unwrap().to_owned();
    call.chunk(&(token("b") + &finish("stop") + DONE)).await;
    call.end().await;
    let mut client = gateway.client().await;
    let ended = async {
        loop {
            let (_, object) = ask(&mut client, &format!("GET {RESPONSES}/{id}"), "").await;
            if object["status"] != "in_progress" {
                return object;
            }
            tokio::task::yield_now().await;
        }
    };
    let object = in_time(ended).await;
    assert_eq!(object["output"][0]["content"][0]["text"], "ab");
    client
        .send(format!(
            "GET {RESPONSES}/{id}?stream=true&starting_after=1 HTTP/1.1\r\nhost: g\r\n\r\n"
        ))
        .await;
    let rest = client.rest_after_head().await;
    assert_eq!(names(&rest).first(), Some(&"response.output_item.added"));
    assert_eq!(names(&rest).last(), Some(&"response.completed"));
}

#[tokio::test]
async fn names_that_begin_alike_share_an_alias() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let model = settings.routing.models.entry(MODEL.to_owned()).or_default();
        model.aliases = vec!["claude-*".to_owned(), "claude-listed".to_owned()];
    })
    .await;
    let mut client = gateway.client().await;
    let body = named("claude-sonnet-9");
    let (asked, answer) = answered(&mut mock, &mut client, (MESSAGES, "", &body)).await;
    assert_eq!((&asked["model"], &answer["model"]), (&json!(MODEL), &json!("claude-sonnet-9")));
    let (_, list) = ask(&mut client, "GET /v1/models", "anthropic-version: 2023-06-01\r\n").await;
    let ids: Vec<&Value> =
        list["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, [&json!("claude-listed"), &json!(MODEL)]);
    assert_eq!(list["has_more"], json!(false));
    // A client that looks for its model before it asks finds it, though it is not listed.
    let (head, card) = ask(&mut client, "GET /v1/models/claude-sonnet-9", "").await;
    assert_eq!((head.status, &card["id"]), (200, &json!("claude-sonnet-9")));
    assert_eq!(ask(&mut client, "GET /v1/models/gpt-9", "").await.0.status, 404);
}

#[tokio::test]
async fn clients_of_anthropic_read_their_own_errors_at_shared_paths() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let version = "anthropic-version: 2023-06-01\r\n";
    for path in ["/v1/models/nope", "/v1/messages/batches"] {
        let line = format!("GET {path}");
        let (head, error) = ask(&mut client, &line, version).await;
        assert_eq!((head.status, &error["error"]["type"]), (404, &json!("not_found_error")));
        assert_eq!(error["request_id"].as_str(), head.header("request-id"), "{path}");
        let (head, error) = ask(&mut client, &line, "").await;
        assert_eq!((head.status, &error["type"]), (404, &Value::Null));
        assert_eq!(head.header("request-id"), None);
    }
    let (head, _) = ask(&mut client, "GET /v1/models", version).await;
    assert_eq!(head.header("request-id"), head.header("x-request-id"));
}

#[tokio::test]
async fn gateways_that_share_a_store_keep_responses_together() {
    let redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let share = |settings: &mut GatewaySettings| {
        settings.store.place = Place::parse(&redis.url()).unwrap();
    };
    let one = Gateway::start_with(&[&mock], share).await;
    let other = Gateway::start_with(&[&mock], share).await;
    let (mut here, mut there) = (one.client().await, other.client().await);
    let (_, first) = answered(&mut mock, &mut here, (RESPONSES, "", &response(""))).await;
    let line = format!("GET {RESPONSES}/{}", first["id"].as_str().unwrap());
    // It is written beside the answer.
    let found = async {
        loop {
            let (head, kept) = ask(&mut there, &line, "").await;
            if head.status == 200 {
                return kept;
            }
        }
    };
    assert_eq!(in_time(found).await, first);
    let (head, _) = ask(&mut there, &line.replace("GET", "DELETE"), "").await;
    assert_eq!(head.status, 200);
    assert_eq!(ask(&mut here, &line, "").await.0.status, 404);
}

#[tokio::test]
async fn a_conversation_is_made_shorter_and_gone_on_from() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let (_, first) = answered(&mut mock, &mut client, (RESPONSES, "", &response(""))).await;
    let id = first["id"].as_str().unwrap();
    // With nothing but the response before, its whole conversation is meant.
    let body = format!(r#"{{"model":"{MODEL}","previous_response_id":"{id}"}}"#);
    let (asked, shorter) = answered(&mut mock, &mut client, (COMPACT, "", &body)).await;
    let said: Vec<&Value> =
        asked["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
    assert_eq!(said[..2], [&json!("hi"), &json!("hello")]);
    assert!(said[2].as_str().unwrap().contains("summary"), "{}", said[2]);
    assert_eq!(shorter["object"], "response.compaction");
    assert!(shorter["usage"]["total_tokens"].is_u64());
    let kinds: Vec<&Value> =
        shorter["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["message", "compaction"]);
    assert!(!shorter.to_string().contains("hello"), "the summary is under its seal");
    // What came out goes in again, with more behind it.
    let mut input = shorter["output"].as_array().unwrap().clone();
    input.push(json!({"role": "user", "content": "go on"}));
    let body = json!({"model": MODEL, "input": input}).to_string();
    let (asked, _) = answered(&mut mock, &mut client, (RESPONSES, "", &body)).await;
    let messages = asked["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert!(messages[1]["content"].as_str().unwrap().ends_with(":\n\nhello"), "{}", messages[1]);
    // Another gateway has another key, and says so instead of forgetting.
    let other = Gateway::start(&[&mock]).await;
    let mut client = other.client().await;
    client.post(RESPONSES, &body).await;
    let (head, error) = client.whole().await;
    let param = &read(&error)["error"]["param"];
    assert_eq!((head.status, param), (400, &json!("input[1].encrypted_content")));
    let (head, error) = ask(&mut client, &format!("GET {COMPACT}"), "").await;
    assert_eq!((head.status, &error["error"]["type"]), (405, &json!("invalid_request_error")));
}
