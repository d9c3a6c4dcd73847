//! Requests that may be kept are bounded and charged as all others.

use overdraft_gateway::{KeyDigest, KeySettings, ModelSettings};

use super::{GREEDY, PLAIN, STREAM, on, start, until_waiting, x_cache};
use crate::client::End;
use crate::harness::{CHAT, DONE, Gateway, MODEL, chat, finish, token};
use crate::mock::Mock;

/// What a client asks for whose answer must have come within so many milliseconds.
fn deadline(milliseconds: u32) -> String {
    format!("x-overdraft-deadline-ms: {milliseconds}\r\n")
}

#[tokio::test]
async fn each_who_shares_an_answer_has_a_deadline_of_its_own() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    // Alone, the worker is told that nobody waits any more.
    let mut client = gateway.client().await;
    client.post_with(CHAT, &deadline(1_000), &chat(GREEDY)).await;
    let call = mock.call().await;
    let (head, body) = client.whole().await;
    assert!(head.status == 504 && body.contains("did not end by its deadline"), "{body}");
    call.gone().await;
    // One of two is late, before anything has come, and in the middle of a stream.
    let mut patient = gateway.chat(GREEDY).await;
    let call = mock.call().await;
    client.post_with(CHAT, &deadline(100), &chat(GREEDY)).await;
    assert_eq!(client.whole().await.0.status, 504);
    call.answer(200, PLAIN).await;
    assert_eq!(patient.whole().await.0.status, 200);
    let mut patient = gateway.chat(&format!("{STREAM},\"top_p\":1")).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("hel")).await;
    let mut hurried = gateway.client().await;
    let body = chat(&format!("{STREAM},\"top_p\":1"));
    hurried.post_with(CHAT, &deadline(2_000), &body).await;
    assert_eq!(hurried.head().await.status, 200);
    let (events, end) = hurried.rest().await;
    assert!(events.contains("hel") && events.contains("did not end by its deadline"), "{events}");
    assert_ne!(end, End::Clean);
    call.chunk(&finish("stop")).await;
    call.chunk(DONE).await;
    call.end().await;
    assert_eq!(patient.head().await.status, 200);
    assert_eq!(patient.rest().await.1, End::Clean);
}

#[tokio::test]
async fn what_may_be_kept_is_bounded_as_what_may_not() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        settings.limits.of_request.prompt_tokens = Some(50);
    })
    .await;
    let text = "word ".repeat(1_000);
    for more in ["", GREEDY] {
        let body = format!(
            r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"{text}"}}]{more}}}"#
        );
        let mut client = gateway.client().await;
        client.post(CHAT, &body).await;
        let (head, body) = client.whole().await;
        assert!(head.status == 400 && body.contains("50 are allowed"), "{body}");
    }
    assert!(mock.is_idle());
}

#[tokio::test]
async fn who_joined_and_asks_by_itself_pays_for_one_request() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        settings.retry.extra_attempts_max = 0;
        let mut key = KeySettings::new(KeyDigest::of("sk-a"), "acme");
        // Two at once: those that come back in a minute are one each half minute.
        key.budget.requests_per_minute = std::num::NonZeroU32::new(2);
        settings.keys.push(key);
    })
    .await;
    let mut clients = [gateway.client().await, gateway.client().await];
    for client in &mut clients {
        client.post_with(CHAT, "x-api-key: sk-a\r\n", &chat(GREEDY)).await;
    }
    let call = mock.call().await;
    until_waiting(&gateway, 2).await;
    call.answer(500, r#"{"error":{"message":"no"}}"#).await;
    mock.call().await.answer(200, PLAIN).await;
    let mut statuses = Vec::new();
    for client in &mut clients {
        statuses.push(client.whole().await.0.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 500], "the one that joined was admitted once");
}

#[tokio::test]
async fn another_model_stands_in_for_what_may_be_kept_and_is_not_kept() {
    let mut stand_in = Mock::start(&["stand-in"]).await;
    let gateway = Gateway::start_with(&[&stand_in], |settings| {
        on(settings);
        let fallback = vec!["stand-in".to_owned()];
        let own = ModelSettings { fallback, ..ModelSettings::default() };
        settings.routing.models.insert(MODEL.to_owned(), own);
    })
    .await;
    for _ in 0..2 {
        let mut client = gateway.chat(GREEDY).await;
        let call = stand_in.call().await;
        assert!(call.text().contains("stand-in"));
        call.answer(200, PLAIN).await;
        let head = client.whole().await.0;
        assert_eq!((head.status, x_cache(&head)), (200, "MISS"));
        assert_eq!(head.header("x-overdraft-served-by"), Some("stand-in"));
    }
}
