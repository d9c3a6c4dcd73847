//! Recordings and pictures: forms on their way to a worker, and answers that are no documents.

use std::collections::BTreeSet;

use overdraft_core::admit::Mode;
use overdraft_gateway::{KeyDigest, KeySettings};
use serde_json::Value;

use crate::client::{Client, End};
use crate::harness::{ANSWER, DONE, Gateway, MODEL};
use crate::mock::{Call, Mock};

const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";
const SPEECH: &str = "/v1/audio/speech";
const HEARD: &str = r#"{"text":"hello","usage":{"type":"tokens","input_tokens":14,"output_tokens":45,"total_tokens":59}}"#;
const FORM: &str = "content-type: multipart/form-data; boundary=\"b 1\"\r\n";
const END: &str = "--b 1--\r\n";

/// A recording with all that could be mistaken for something else.
const RECORDING: &[u8] = b"RIFF\xff\xfe\r\n\r\n--b\r\n--b 2\n--b 1\r\n\0name=\"model\"\r";

fn field(name: &str, value: &str) -> Vec<u8> {
    format!("--b 1\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").into()
}

fn file() -> Vec<u8> {
    let head = "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\
                Content-Type: audio/wav";
    [format!("--b 1\r\n{head}\r\n\r\n").as_bytes(), RECORDING, b"\r\n"].concat()
}

/// A form with a recording, this model and these fields.
fn form(model: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let more: Vec<u8> = more.iter().flat_map(|(name, value)| field(name, value)).collect();
    [&file()[..], &field("model", model), &more, END.as_bytes()].concat()
}

/// Posts a body with these header lines.
async fn send(client: &mut Client, path: &str, headers: &str, body: &[u8]) {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n"
    );
    client.send([head.as_bytes(), body].concat()).await;
}

async fn sent(gateway: &Gateway, body: &[u8]) -> Client {
    let mut client = gateway.client().await;
    send(&mut client, TRANSCRIPTIONS, FORM, body).await;
    client
}

async fn spoken(gateway: &Gateway) -> Client {
    let mut client = gateway.client().await;
    let body = format!(r#"{{"model":"{MODEL}","input":"hello","voice":"alloy"}}"#);
    client.post(SPEECH, &body).await;
    client
}

/// Begins an answer of this media type.
async fn begin(call: &mut Call, media_type: &str) {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n";
    call.write(format!("{head}content-type: {media_type}\r\n\r\n")).await;
}

#[tokio::test]
async fn a_form_goes_on_byte_for_byte_and_is_logged_with_its_tokens() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let body = form(MODEL, &[("language", "en"), ("timestamp_granularities[]", "word")]);
    let mut client = gateway.client().await;
    let headers = format!("{FORM}x-request-id: r-1\r\nx-overdraft-explain: 1\r\n");
    send(&mut client, TRANSCRIPTIONS, &headers, &body).await;
    let call = mock.call().await;
    assert!(call.head.starts_with(&format!("POST {TRANSCRIPTIONS} HTTP/1.1\r\n")), "{}", call.head);
    assert_eq!(call.header("content-type"), Some("multipart/form-data; boundary=\"b 1\""));
    assert_eq!(call.header("accept"), Some("*/*"));
    assert!(call.body == body);
    call.answer(200, HEARD).await;
    let (head, answer) = client.whole().await;
    assert_eq!((head.status, answer.as_str()), (200, HEARD));
    let told: Value = serde_json::from_str(head.header("x-overdraft-explain").unwrap()).unwrap();
    assert_eq!(told["candidates"][0]["worker"], "worker-0", "{told}");
    let (_, row) = gateway.client().await.get("/admin/views/requests/r-1").await;
    let row: Value = serde_json::from_str(&row).unwrap();
    let tokens = |name: &str| row[name].as_u64();
    let counted = (tokens("prompt_tokens"), tokens("completion_tokens"));
    assert_eq!((row["route"].as_str(), counted), (Some(TRANSCRIPTIONS), (Some(14), Some(45))));
}

#[tokio::test]
async fn a_recording_is_placed_by_its_length() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut guessed = Vec::new();
    for bytes in [320_000, 640_000] {
        let recording = vec![b'x'; bytes];
        let head = b"--b 1\r\ncontent-disposition: form-data; name=file; filename=a.mp3\r\n\r\n";
        let body =
            [&head[..], &recording, b"\r\n", &field("model", MODEL), END.as_bytes()].concat();
        let mut client = gateway.client().await;
        let headers = format!("{FORM}x-overdraft-explain: 1\r\n");
        send(&mut client, TRANSCRIPTIONS, &headers, &body).await;
        mock.call().await.answer(200, r#"{"text":"hello"}"#).await;
        let (head, _) = client.whole().await;
        let told = head.header("x-overdraft-explain").unwrap();
        let told: Value = serde_json::from_str(told).unwrap();
        guessed.push(told["prompt_tokens"].as_u64().unwrap());
    }
    assert!((1_000..1_100).contains(&guessed[0]), "{guessed:?}");
    assert!((2_000..2_100).contains(&guessed[1]), "{guessed:?}");
}

#[tokio::test]
async fn an_alias_and_fields_that_end_here_are_all_that_changes() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let own = settings.routing.models.entry(MODEL.to_owned()).or_default();
        own.aliases = vec!["whisper-1".to_owned()];
        settings.model_default = Some("whisper-1".to_owned());
    })
    .await;
    let ending = [("priority", "-9"), ("vllm_xargs", "{}"), ("cache_salt", "mine")];
    let mut client = sent(&gateway, &form("whisper-1", &ending)).await;
    let call = mock.call().await;
    assert!(call.body == form(MODEL, &[]), "{}", String::from_utf8_lossy(&call.body));
    call.answer(200, HEARD).await;
    assert_eq!(client.whole().await.0.status, 200);
    // Where none is named, the worker is told which one it is.
    let unnamed = [&file()[..], END.as_bytes()].concat();
    let mut client = sent(&gateway, &unnamed).await;
    let call = mock.call().await;
    let told = String::from_utf8_lossy(&call.body).into_owned();
    assert!(
        told.starts_with("--b 1\r\n") && told.contains("name=\"model\"\r\n\r\nm\r\n"),
        "{told}"
    );
    assert!(call.body.ends_with(&unnamed));
    call.answer(200, HEARD).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_form_whose_worker_fails_goes_to_another_as_it_was() {
    let [mut one, mut other] = Mock::pair().await;
    let gateway = Gateway::start(&[&one, &other]).await;
    let body = form(MODEL, &[]);
    let mut client = sent(&gateway, &body).await;
    for status in [500, 200] {
        let call = tokio::select! {
            call = one.call() => call,
            call = other.call() => call,
        };
        assert!(call.body == body);
        call.answer(status, HEARD).await;
    }
    let (head, answer) = client.whole().await;
    assert_eq!((head.status, answer.as_str()), (200, HEARD));
}

#[tokio::test]
async fn what_is_no_form_is_refused_by_name() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let whole = form(MODEL, &[]);
    let unnamed = [&file()[..], END.as_bytes()].concat();
    let long = format!("content-type: multipart/form-data; boundary={}\r\n", "x".repeat(71));
    let cases: [(&str, &[u8], &str); 7] = [
        (FORM, &unnamed, "no part `model`"),
        (FORM, &form(MODEL, &[("model", "other")]), "more than one part `model`"),
        (FORM, &whole[..whole.len() - 9], "breaks off"),
        (FORM, b"", "breaks off"),
        ("content-type: multipart/form-data\r\n", &whole, "no boundary"),
        (&long, &whole, "71 bytes; expected 1 to 70"),
        ("content-type: multipart/form-data; boundary=other\r\n", &whole, "does not begin"),
    ];
    for (headers, body, expected) in cases {
        let mut client = gateway.client().await;
        send(&mut client, TRANSCRIPTIONS, headers, body).await;
        let (head, text) = client.whole().await;
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(head.status, 400, "{text}");
        assert_eq!(error["error"]["type"], "invalid_request_error", "{text}");
        assert!(error["error"]["message"].as_str().unwrap().contains(expected), "{text}");
    }
    // A second content type could be the one that the worker goes by.
    let mut client = gateway.client().await;
    let twice = format!("{FORM}content-type: multipart/form-data; boundary=other\r\n");
    send(&mut client, TRANSCRIPTIONS, &twice, &whole).await;
    assert_eq!(client.whole().await.0.status, 400);
    // A chat is no form.
    let mut client = gateway.client().await;
    send(&mut client, "/v1/chat/completions", FORM, &whole).await;
    assert_eq!(client.whole().await.0.status, 400);
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_form_is_bound_by_its_key_and_by_the_limits_of_bodies() {
    const KEY: &str = "sk-acme-0123456789";
    let mut mock = Mock::start(&[MODEL, "other"]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let mut key = KeySettings::new(KeyDigest::of(KEY), "acme");
        key.models = Some(BTreeSet::from(["other".to_owned()]));
        settings.keys = vec![key];
        settings.listen.body_bytes = 2_000;
    })
    .await;
    let headers = format!("{FORM}authorization: Bearer {KEY}\r\n");
    let long = form("other", &[("prompt", &"word ".repeat(500))]);
    let refusals = [
        (FORM, form("other", &[]), 401),
        (&headers, form(MODEL, &[]), 404),
        (&headers, form("other", &[("model", MODEL)]), 400),
        (&headers, long, 413),
    ];
    for (headers, body, status) in refusals {
        let mut client = gateway.client().await;
        send(&mut client, TRANSCRIPTIONS, headers, &body).await;
        assert_eq!(client.head().await.status, status, "{}", String::from_utf8_lossy(&body));
    }
    assert!(mock.is_idle());
    let mut client = gateway.client().await;
    send(&mut client, TRANSCRIPTIONS, &headers, &form("other", &[])).await;
    let call = mock.call().await;
    assert!(!call.head.contains(KEY), "{}", call.head);
    call.answer(200, HEARD).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_recording_waits_for_room_as_a_prompt_does() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.routing.route.admission.mode = Mode::Static(1);
    })
    .await;
    let mut first = gateway.chat("").await;
    let held = mock.call().await;
    let mut waiting = vec![sent(&gateway, &form(MODEL, &[])).await, spoken(&gateway).await];
    gateway.until_line(r#"overdraft_queue_requests{priority="default"} 2"#).await;
    assert!(mock.is_idle());
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    for client in &mut waiting {
        mock.call().await.answer(200, HEARD).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
}

#[tokio::test]
async fn speech_is_heard_while_it_is_made() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = spoken(&gateway).await;
    let mut call = mock.call().await;
    assert_eq!(call.header("content-type"), Some("application/json"));
    begin(&mut call, "audio/mpeg").await;
    call.chunk("ID3 data: one").await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("audio/mpeg")));
    assert_eq!(client.chunk().await.as_deref(), Ok("ID3 data: one"));
    call.chunk("two").await;
    assert_eq!(client.chunk().await.as_deref(), Ok("two"));
    call.write("0\r\n\r\n").await;
    call.serve_on();
    assert_eq!(client.chunk().await, Err(End::Clean));
    // The connection serves the next request.
    let mut client = spoken(&gateway).await;
    mock.call().await.answer(404, r#"{"detail":"Not Found"}"#).await;
    assert_eq!(client.whole().await.0.status, 404);
}

#[tokio::test]
async fn half_a_recording_ends_as_one() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = spoken(&gateway).await;
    let mut call = mock.call().await;
    begin(&mut call, "audio/mpeg").await;
    call.chunk("half").await;
    assert_eq!(client.head().await.status, 200);
    drop(call);
    assert_eq!(client.rest().await, ("half".to_owned(), End::Aborted));
}

#[tokio::test]
async fn a_worker_that_makes_no_sound_is_replaced() {
    let [mut one, mut other] = Mock::pair().await;
    let gateway = Gateway::start(&[&one, &other]).await;
    let mut client = spoken(&gateway).await;
    // It says that it has begun and breaks off.
    let mut call = tokio::select! {
        call = one.call() => call,
        call = other.call() => call,
    };
    begin(&mut call, "audio/wav").await;
    drop(call);
    let mut call = tokio::select! {
        call = one.call() => call,
        call = other.call() => call,
    };
    begin(&mut call, "audio/wav").await;
    call.chunk("whole").await;
    call.write("0\r\n\r\n").await;
    call.serve_on();
    assert_eq!(client.rest_after_head().await, "whole");
}

#[tokio::test]
async fn a_page_is_no_recording() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    mock.handle(|mut call| async move {
        let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi";
        call.write(page).await;
        call.serve_on();
    });
    let (head, text) = spoken(&gateway).await.whole().await;
    assert_eq!(head.status, 502, "{text}");
    assert!(text.contains("`text/html`"), "{text}");
}

#[tokio::test]
async fn subtitles_come_whole_with_their_type() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = sent(&gateway, &form(MODEL, &[("response_format", "vtt")])).await;
    let mut call = mock.call().await;
    begin(&mut call, "text/vtt; charset=utf-8").await;
    call.chunk("WEBVTT\n\n").await;
    call.chunk("00:00.000 --> 00:01.000\nhello\n").await;
    call.write("0\r\n\r\n").await;
    call.serve_on();
    let (head, text) = client.whole().await;
    assert_eq!(head.header("content-type"), Some("text/vtt; charset=utf-8"));
    assert_eq!(text, "WEBVTT\n\n00:00.000 --> 00:01.000\nhello\n");
}

/// The events of a streamed transcription, and how it ended.
async fn heard(mock: &mut Mock, gateway: &Gateway, events: &[&str]) -> (String, End) {
    let mut client = sent(gateway, &form(MODEL, &[("stream", "true")])).await;
    let mut call = mock.call().await;
    call.stream().await;
    for event in events {
        call.chunk(event).await;
    }
    call.write("0\r\n\r\n").await;
    call.serve_on();
    let head = client.head().await;
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    client.rest().await
}

#[tokio::test]
async fn events_of_media_end_with_the_last_one() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let delta = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"hel\"}\n\n";
    let last = "event: transcript.text.done\ndata: {\"type\":\"transcript.text.done\",\"text\":\"hello\"}\n\n";
    let whole = heard(&mut mock, &gateway, &[delta, last]).await;
    assert_eq!(whole, (format!("{delta}{last}"), End::Clean));
    // vLLM's are those of a chat.
    let chunk = "data: {\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\n";
    let whole = heard(&mut mock, &gateway, &[chunk, DONE]).await;
    assert_eq!(whole, (format!("{chunk}{DONE}"), End::Clean));
    let (text, end) = heard(&mut mock, &gateway, &[delta]).await;
    assert_eq!(end, End::Aborted);
    let error = text.strip_prefix(delta).unwrap();
    assert!(error.contains("upstream_error"), "{text}");
}
