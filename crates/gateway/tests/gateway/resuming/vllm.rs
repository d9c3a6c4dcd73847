//! Streams of workers that speak as vLLM does: they go on by token ids, or by text where no ids are known.

use serde_json::json;

use super::{LONG, ROLE, ids_chunk, text, text_chunk, three_vllms, vllms};
use crate::client::{Client, End};
use crate::harness::{CHAT, DONE, Gateway, MODEL, finish, token};
use crate::mock::{Call, Mock};
use crate::relaying::row;

#[tokio::test]
async fn ids_go_on_where_they_are_known_and_stay_with_the_gateway() {
    let ([mut first, mut second], gateway) = vllms(LONG).await;
    let mut client = gateway.chat(r#","stream":true,"max_tokens":9,"stop":"end""#).await;
    let mut call = first.call().await;
    assert_eq!(call.json()["return_token_ids"], true);
    call.stream().await;
    // The second token is held back by its worker: it may be the beginning of the stop.
    call.chunk(&format!("{ROLE}{}{}", ids_chunk("one", &[10]), ids_chunk("", &[11]))).await;
    client.head().await;
    let seen = client.chunk().await.unwrap();
    assert!(!seen.contains("token_ids") && seen.matches("data:").count() == 2, "{seen}");
    call.chunk("data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"abort\"}]}\n\ndata: [DONE]\n\n").await;
    let ask = second.call().await;
    assert!(ask.head.starts_with("POST /detokenize"), "{}", ask.head);
    assert_eq!(ask.json()["tokens"], json!([10, 11]));
    ask.answer(200, r#"{"prompt":"one en"}"#).await;
    let mut call = second.call().await;
    let asked = call.json();
    assert!(call.head.starts_with("POST /v1/completions"), "{}", call.head);
    assert_eq!(asked["prompt"], json!([1, 2, 10, 11]));
    assert_eq!((&asked["max_tokens"], asked.get("stop")), (&json!(7), None));
    call.stream().await;
    call.chunk(&text_chunk("ds soon", &[12], None)).await;
    // What ends the answer is a stop that neither worker has seen whole.
    let (rest, end) = client.rest().await;
    call.gone().await;
    assert_eq!(end, End::Clean, "{rest}");
    let comment = ": x-overdraft-resumed: 1; way=ids; cause=failed\n\n";
    let space = r#"data: {"id":"c","created":5,"choices":[{"index":0,"delta":{"content":" "},"logprobs":null,"finish_reason":null}]}"#;
    let last = r#"data: {"id":"c","created":5,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":"end"}]}"#;
    assert_eq!(rest, format!("{comment}{space}\n\n{last}\n\n{DONE}"));
}

/// A client that was shown one token of a stream whose worker then broke off.
async fn broken_off(mocks: &mut [Mock], gateway: &Gateway) -> Client {
    let mut client = gateway.chat(r#","stream":true,"max_tokens":9"#).await;
    let mut call = Mock::any(mocks).await;
    call.stream().await;
    call.chunk(&format!("{ROLE}{}", ids_chunk("one", &[10]))).await;
    client.head().await;
    client.chunk().await.unwrap();
    call.reset();
    client
}

#[tokio::test]
async fn a_worker_that_dies_when_it_is_asked_for_a_text_closes_no_way() {
    let (mut mocks, gateway) = three_vllms().await;
    let mut client = broken_off(&mut mocks, &gateway).await;
    let ask = Mock::any(&mut mocks).await;
    assert!(ask.head.starts_with("POST /detokenize"), "{}", ask.head);
    ask.reset();
    // A kept connection that is reset may have been stale: it is asked once more.
    let ask = Mock::any(&mut mocks).await;
    assert!(ask.head.starts_with("POST /detokenize"), "{}", ask.head);
    ask.answer(200, r#"{"prompt":"one"}"#).await;
    let mut call = Mock::any(&mut mocks).await;
    assert!(call.head.starts_with("POST /v1/completions"), "{}", call.head);
    call.stream().await;
    call.chunk(&text_chunk(" two", &[11], None)).await;
    call.chunk(&format!("{}{DONE}", text_chunk("", &[12], Some("stop")))).await;
    call.end().await;
    let (rest, end) = client.rest().await;
    assert_eq!(end, End::Clean, "{rest}");
    assert!(rest.contains("way=ids") && rest.contains(" two"), "{rest}");
}

#[tokio::test]
async fn a_member_that_only_the_gateway_wants_is_left_out_where_it_is_refused() {
    let ([mut first, second], gateway) = vllms(LONG).await;
    drop(second);
    let mut client = gateway.stream().await;
    for expected in [true, false] {
        let call = first.call().await;
        assert_eq!(call.json()["return_token_ids"] == true, expected);
        if expected {
            let error =
                r#"{"error":{"message":"return_token_ids: Extra inputs are not permitted"}}"#;
            call.answer(400, error).await;
        } else {
            let mut call = call;
            call.stream().await;
            call.chunk(&format!("{}{}{DONE}", token("a"), finish("stop"))).await;
            call.end().await;
        }
    }
    assert_eq!(text(&mut client).await.0, "a");
    let _next = gateway.stream().await;
    assert_eq!(first.call().await.json().get("return_token_ids"), None);
}

#[tokio::test]
async fn a_malformed_request_that_is_repeated_in_its_refusal_is_asked_once_and_teaches_nothing() {
    let ([mut first, second], gateway) = vllms(LONG).await;
    drop(second);
    let malformed = format!(r#"{{"model":"{MODEL}","stream":true,"max_tokens":3}}"#);
    // As vLLM says which request lacks its messages, with all that the gateway added, and the same in JSON.
    let printed = |call: &Call| {
        let input = call.text().replace('"', "'").replace("true", "True");
        format!("[{{'type': 'missing', 'loc': ('body', 'messages'), 'input': {input}}}]")
    };
    let dumped = |call: &Call| {
        let place = json!(["body", "messages"]);
        json!([{"type": "missing", "loc": place, "input": call.json()}]).to_string()
    };
    for status in [400, 422] {
        let mut client = gateway.client().await;
        client.post(CHAT, &malformed).await;
        let call = first.call().await;
        assert_eq!(call.json()["return_token_ids"], true);
        let detail = if status == 400 { printed(&call) } else { dumped(&call) };
        call.answer(status, &json!({"error": {"message": detail}}).to_string()).await;
        let (head, told) = client.whole().await;
        assert!(head.status == status && told.contains("missing"), "{told}");
        assert!(first.is_idle(), "its own fault is told at once");
    }
    let _next = gateway.stream().await;
    let asked = first.call().await.json();
    assert_eq!(asked["return_token_ids"], true);
    assert_eq!(asked["stream_options"]["continuous_usage_stats"], true);
}

#[tokio::test]
async fn text_goes_on_where_ids_are_not_told() {
    let ([mut first, mut second], gateway) = vllms(LONG).await;
    let mut client = gateway.stream().await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}", token("one"), token(" \\n"))).await;
    client.head().await;
    client.chunk().await.unwrap();
    call.reset();
    let mut call = second.call().await;
    let asked = call.json();
    assert_eq!(asked["messages"][1], json!({"role": "assistant", "content": "one"}));
    assert_eq!(asked["add_generation_prompt"], false);
    call.stream().await;
    call.chunk(&format!("{}{}{DONE}", token(" \\ntwo"), finish("stop"))).await;
    call.end().await;
    let (rest, end) = client.rest().await;
    assert_eq!(end, End::Clean);
    assert!(rest.contains(r#"{"content":"two"}"#), "{rest}");
}

/// The next question for the rest of an answer, behind those for the texts of its tokens.
async fn asked_to_go_on(mocks: &mut [Mock]) -> Call {
    loop {
        let call = Mock::any(mocks).await;
        if !call.head.starts_with("POST /detokenize") {
            return call;
        }
        let asked = call.json();
        let tokens = asked["tokens"].as_array().unwrap().iter();
        let text: String = tokens.map(|id| if id == 10 { "one" } else { " two" }).collect();
        call.answer(200, &json!({ "prompt": text }).to_string()).await;
    }
}

#[tokio::test]
async fn who_leaves_while_a_third_worker_is_asked_has_its_own_prompt_counted() {
    let (mut mocks, gateway) = three_vllms().await;
    let mut client = broken_off(&mut mocks, &gateway).await;
    // The second has read what the first had said, and counts that as its prompt.
    let mut call = asked_to_go_on(&mut mocks).await;
    assert_eq!(call.json()["prompt"], json!([1, 2, 10]));
    call.stream().await;
    let choice = json!({"index": 0, "text": " two", "finish_reason": null, "token_ids": [11]});
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4});
    let told = json!({"id": "other", "created": 9, "choices": [choice], "usage": usage});
    call.chunk(&format!("data: {told}\n\n")).await;
    let mut shown = String::new();
    while !shown.contains(" two") {
        shown.push_str(&client.chunk().await.unwrap());
    }
    call.reset();
    let call = asked_to_go_on(&mut mocks).await;
    assert_eq!(call.json()["prompt"], json!([1, 2, 10, 11]));
    drop(client);
    call.gone().await;
    let row = row(&gateway).await;
    assert_eq!(row["prompt_tokens"], 2, "{row}");
}
