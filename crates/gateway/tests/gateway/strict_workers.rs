//! Workers that ask for a key, and workers that refuse fields which the gateway adds to requests.

use overdraft_gateway::{KeyDigest, KeySettings, StreamOptions, Token};

use crate::client::End;
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, chat, finish, in_time, token};
use crate::mock::{Call, Mock};

const KEY: &str = "sk-worker";

/// A 400 as strict servers give it.
fn unknown(field: &str) -> String {
    format!(
        r#"{{"error":{{"message":"Unrecognized request argument supplied: {field}","code":null}}}}"#
    )
}

fn has(call: &Call, field: &str) -> bool {
    let body = call.json();
    body.get(field).is_some()
}

async fn stream_well(mut call: Call) {
    call.stream().await;
    call.chunk(&(token("hello") + &finish("stop") + DONE)).await;
    call.end().await;
}

#[tokio::test]
async fn a_worker_is_shown_its_key_by_probes_and_requests() {
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.key = Some(KEY));
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.workers[0].traits.api_key = Some(Token::new(KEY));
    })
    .await;
    let mut client = gateway.client().await;
    client.post_with(CHAT, "authorization: Bearer sk-client\r\n", &chat("")).await;
    let call = mock.call().await;
    assert_eq!(call.header("authorization"), Some("Bearer sk-worker"));
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn without_keys_of_its_own_a_gateway_shows_the_clients_to_a_worker_that_asks() {
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.key = Some(KEY));
    let gateway = Gateway::start_unready(&[&mock], |_| {}).await;
    let ask = async |key: &str| {
        let mut client = gateway.client().await;
        client.post_with(CHAT, &format!("authorization: Bearer {key}\r\n"), &chat("")).await;
        client
    };
    let refused = async |key: &str| ask(key).await.whole().await.0.status;
    assert_eq!(refused("sk-wrong").await, 404, "nobody lists the model to that key");
    let served = in_time(async {
        // Until the probe has found out that it asks for a key.
        loop {
            let mut client = ask(KEY).await;
            tokio::select! {
                call = mock.call() => break (client, call),
                (head, _) = client.whole() => assert_eq!(head.status, 404),
            }
        }
    });
    let (mut client, call) = served.await;
    assert_eq!(call.header("authorization"), Some("Bearer sk-worker"));
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    // Each client's own: what the worker says of it is the client's to know.
    let mut client = ask("sk-wrong").await;
    let call = mock.call().await;
    assert_eq!(call.header("authorization"), Some("Bearer sk-wrong"));
    call.answer(401, r#"{"error":{"message":"no"}}"#).await;
    assert_eq!(client.whole().await.0.status, 401);
}

#[tokio::test]
async fn a_gateway_with_keys_shows_them_to_no_worker() {
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.key = Some(KEY));
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.keys = vec![KeySettings::new(KeyDigest::of(KEY), "acme")];
    })
    .await;
    let mut client = gateway.client().await;
    client.post_with(CHAT, "authorization: Bearer sk-worker\r\n", &chat("")).await;
    assert_eq!(client.whole().await.0.status, 404);
}

#[tokio::test]
async fn a_worker_that_refuses_to_be_asked_for_counts_is_asked_without() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.stream().await;
    let call = mock.call().await;
    assert!(has(&call, "stream_options"));
    call.answer(400, &unknown("stream_options")).await;
    let call = mock.call().await;
    assert!(!has(&call, "stream_options"));
    stream_well(call).await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(client.rest().await.1, End::Clean);
    // That was learnt.
    let mut client = gateway.stream().await;
    let call = mock.call().await;
    assert!(!has(&call, "stream_options"));
    stream_well(call).await;
    assert_eq!(client.head().await.status, 200);
}

#[tokio::test]
async fn what_a_client_asks_for_itself_is_its_own_to_hear_about() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let own = r#","stream":true,"stream_options":{"include_usage":true}"#;
    let mut client = gateway.chat(own).await;
    mock.call().await.answer(400, &unknown("stream_options")).await;
    assert_eq!(client.head().await.status, 400);
    // A request that is wrong without the field as well teaches nothing.
    let mut client = gateway.stream().await;
    mock.call().await.answer(400, &unknown("stream_options")).await;
    mock.call().await.answer(400, &unknown("messages")).await;
    let (head, body) = client.whole().await;
    assert!(head.status == 400 && body.contains("messages"), "{body}");
    let _client = gateway.stream().await;
    assert!(has(&mock.call().await, "stream_options"));
}

#[tokio::test]
async fn a_worker_that_is_not_to_be_asked_for_counts_is_not() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.workers[0].traits.stream_options = StreamOptions::Unasked;
    })
    .await;
    let _client = gateway.stream().await;
    assert!(!has(&mock.call().await, "stream_options"));
}

#[tokio::test]
async fn a_rank_that_is_refused_is_given_up_and_a_salt_is_not() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.workers[0].traits.priority_scheduling = true;
    })
    .await;
    let mut client = gateway.chat("").await;
    let call = mock.call().await;
    assert!(has(&call, "priority"));
    call.answer(400, &unknown("priority")).await;
    let call = mock.call().await;
    assert!(!has(&call, "priority"));
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);

    let mut client = gateway.client().await;
    client.post_with(CHAT, "authorization: Bearer sk-a\r\n", &chat("")).await;
    let call = mock.call().await;
    assert!(has(&call, "cache_salt") && !has(&call, "priority"));
    call.answer(400, &unknown("cache_salt")).await;
    assert_eq!(client.whole().await.0.status, 400, "tenants are kept apart or not served");
    assert!(mock.is_idle());
}

#[tokio::test]
async fn an_effort_that_a_worker_refuses_is_left_out_where_it_is_a_hint() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let message = format!(
        r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"hi"}}],"output_config":{{"effort":"minimal"}}}}"#
    );
    let response = format!(
        r#"{{"model":"{MODEL}","input":"hi","store":false,"reasoning":{{"effort":"xhigh"}}}}"#
    );
    let cases = [
        ("/v1/messages", message.as_str(), "output_config.effort"),
        ("/v1/responses", response.as_str(), "reasoning.effort"),
        // Nothing is learnt: another word for it may be known.
        ("/v1/responses", response.as_str(), "reasoning.effort"),
    ];
    for (path, body, name) in cases {
        let mut client = gateway.client().await;
        client.post(path, body).await;
        let call = mock.call().await;
        assert!(has(&call, "reasoning_effort"));
        call.answer(400, &unknown("reasoning_effort")).await;
        let call = mock.call().await;
        assert!(!has(&call, "reasoning_effort"));
        call.answer(200, ANSWER).await;
        let (head, _) = client.whole().await;
        assert_eq!((head.status, head.header("x-overdraft-left-out")), (200, Some(name)));
    }
    let mut client = gateway.chat(r#","reasoning_effort":"xhigh""#).await;
    mock.call().await.answer(400, &unknown("reasoning_effort")).await;
    assert_eq!(client.whole().await.0.status, 400, "a chat's words are its client's own");
    assert!(mock.is_idle());
}
