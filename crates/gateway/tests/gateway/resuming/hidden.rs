//! Streams that go on although their text is not all of their answer: special tokens are hidden in it.

use serde_json::json;

use super::{LONG, ROLE, ids_chunk, text_chunk, vllms};
use crate::harness::{DONE, finish};

/// What a stream leaves out and a look-up does not is no text; the next worker gets its id all the same.
#[tokio::test]
async fn a_special_token_at_the_seam_is_not_told() {
    let ([mut first, mut second], gateway) = vllms(LONG).await;
    let mut client = gateway.chat(r#","stream":true,"max_tokens":9"#).await;
    let mut call = first.call().await;
    call.stream().await;
    let hidden = [ids_chunk("", &[1]), ids_chunk("one", &[7]), ids_chunk("", &[1])].concat();
    call.chunk(&format!("{ROLE}{hidden}")).await;
    client.head().await;
    client.chunk().await.unwrap();
    call.reset();
    let ask = second.call().await;
    assert!(ask.head.starts_with("POST /detokenize"), "{}", ask.head);
    ask.answer(200, r#"{"prompt":"<|im_start|>one<|im_start|>"}"#).await;
    let mut next = second.call().await;
    assert_eq!(next.json()["prompt"], json!([1, 2, 1, 7, 1]));
    next.stream().await;
    next.chunk(&format!("{}{DONE}", text_chunk(" two", &[8], Some("stop")))).await;
    next.end().await;
    let (rest, _) = client.rest().await;
    assert!(rest.contains("way=ids") && rest.contains(" two"), "{rest}");
    assert!(!rest.contains("im_start"), "{rest}");
}

/// A byte that begins no character is told as one that stands for it, and is over.
#[tokio::test]
async fn an_answer_that_broke_off_behind_a_byte_that_is_no_character_goes_on() {
    let ([mut first, mut second], gateway) = vllms(LONG).await;
    let mut client = gateway.chat(r#","stream":true,"max_tokens":9"#).await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&format!("{ROLE}{}", ids_chunk("one\u{fffd}", &[7, 249]))).await;
    client.head().await;
    client.chunk().await.unwrap();
    call.reset();
    second.call().await.answer(200, "{\"prompt\":\"one\u{fffd}\"}").await;
    let mut next = second.call().await;
    assert_eq!(next.json()["prompt"], json!([1, 2, 7, 249]));
    next.stream().await;
    next.chunk(&format!("{}{DONE}", text_chunk(" two", &[8], Some("stop")))).await;
    next.end().await;
    let (rest, _) = client.rest().await;
    assert!(rest.contains("way=ids") && rest.contains("\" two\""), "{rest}");
}

/// An answer with something hidden in it is not known by its text: it goes on by a replay, or not at all.
#[tokio::test]
async fn an_answer_that_is_more_than_its_text_does_not_go_on_by_text() {
    let ([mut first, mut second], gateway) = vllms(LONG).await;
    for (greedy, expected) in [(r#","temperature":0"#, "way=replay"), ("", "capability")] {
        let mut client = gateway.chat(&format!(r#","stream":true,"max_tokens":9{greedy}"#)).await;
        let (mut call, other) = tokio::select! {
            call = first.call() => (call, &mut second),
            call = second.call() => (call, &mut first),
        };
        call.stream().await;
        call.chunk(&format!("{ROLE}{}", ids_chunk("one", &[7]))).await;
        client.head().await;
        client.chunk().await.unwrap();
        call.reset();
        other.call().await.answer(200, r#"{"prompt":"eins"}"#).await;
        if !greedy.is_empty() {
            let mut next = other.call().await;
            assert!(next.head.starts_with("POST /v1/chat"), "{}", next.head);
            assert_eq!(next.json()["messages"].as_array().unwrap().len(), 1);
            next.stream().await;
            next.chunk(&format!("{ROLE}{}", ids_chunk("one", &[7]))).await;
            next.chunk(&format!("{}{}{DONE}", ids_chunk(" two", &[8]), finish("stop"))).await;
            next.end().await;
        }
        let (rest, _) = client.rest().await;
        assert!(rest.contains(expected), "{rest}");
    }
}
