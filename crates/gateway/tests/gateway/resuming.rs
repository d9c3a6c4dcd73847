//! Streams that break off and go on at another worker, as the client and the workers see it.

mod hidden;
mod vllm;

use std::time::Duration;

use overdraft_core::cascade;
use overdraft_core::resume::Mode;
use overdraft_gateway::{CascadeSettings, GatewaySettings, Pool};
use overdraft_units::{Micros, Ratio};
use serde_json::{Value, json};

use crate::cascade::SMALL;
use crate::client::{Client, End};
use crate::harness::{CHAT, DONE, Gateway, MODEL, chat, finish, in_time, token};
use crate::mock::Mock;

const VLLM: &str = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n";

/// Two workers and a gateway before them; the first request goes to the first.
async fn pair() -> ([Mock; 2], Gateway) {
    let mocks = Mock::pair().await;
    let gateway = Gateway::start(&[&mocks[0], &mocks[1]]).await;
    (mocks, gateway)
}

/// The same with workers that speak as vLLM does, once the gateway knows it.
pub(crate) async fn vllms(drain_after: Micros) -> ([Mock; 2], Gateway) {
    vllms_with(|settings| settings.resume.drain_after = drain_after).await
}

pub(crate) async fn vllms_with(change: impl FnOnce(&mut GatewaySettings)) -> ([Mock; 2], Gateway) {
    let mocks = Mock::pair().await;
    for mock in &mocks {
        mock.behave(|manner| manner.metrics = Some(VLLM.into()));
    }
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], change).await;
    gateway.until_scraped(2).await;
    (mocks, gateway)
}

/// Three of them.
async fn three_vllms() -> (Vec<Mock>, Gateway) {
    let mut mocks = Vec::new();
    for _ in 0..3 {
        mocks.push(Mock::start(&[MODEL]).await);
        mocks.last().unwrap().behave(|manner| manner.metrics = Some(VLLM.into()));
    }
    let gateway = Gateway::start(&mocks.iter().collect::<Vec<_>>()).await;
    gateway.until_scraped(3).await;
    (mocks, gateway)
}

pub(crate) const LONG: Micros = Micros::new(3_600_000_000);

/// A chunk with ids.
pub(crate) fn ids_chunk(text: &str, ids: &[u32]) -> String {
    let choice =
        json!({"index": 0, "delta": {"content": text}, "finish_reason": null, "token_ids": ids});
    format!("data: {}\n\n", json!({"id": "c", "created": 5, "choices": [choice]}))
}

/// A chunk of a completion with ids.
pub(crate) fn text_chunk(text: &str, ids: &[u32], finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "text": text, "finish_reason": finish, "token_ids": ids});
    format!("data: {}\n\n", json!({"id": "other", "created": 9, "choices": [choice]}))
}

pub(crate) const ROLE: &str = "data: {\"id\":\"c\",\"created\":5,\"prompt_token_ids\":[1,2],\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";

/// The text of a chat's stream, and how it ended.
pub(crate) async fn text(client: &mut Client) -> (String, String, End) {
    client.head().await;
    let (events, end) = client.rest().await;
    let texts = events.lines().filter_map(|line| {
        let data: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        Some(data["choices"][0]["delta"]["content"].as_str()?.to_owned())
    });
    (texts.collect(), events, end)
}

// Faults: 24, 39
#[tokio::test]
async fn a_greedy_answer_is_asked_for_again_and_told_once() {
    let ([mut first, mut second], gateway) = pair().await;
    let mut client = gateway.chat(r#","stream":true,"temperature":0"#).await;
    let mut call = first.call().await;
    let asked = call.json();
    call.stream().await;
    call.chunk(&format!("{}{}", token("one"), token(" two"))).await;
    client.head().await;
    assert_eq!(client.chunk().await, Ok(format!("{}{}", token("one"), token(" two"))));
    call.reset();
    let mut call = second.call().await;
    assert_eq!(call.json(), asked);
    call.stream().await;
    let whole = [token("one t"), token("wo three"), finish("stop"), DONE.to_owned()];
    call.chunk(&whole.concat()).await;
    call.end().await;
    let (rest, end) = client.rest().await;
    let comment = ": x-overdraft-resumed: 1; way=replay; cause=broken\n\n";
    let new = r#"data: {"id":"c","choices":[{"index":0,"delta":{"content":" three"},"logprobs":null,"finish_reason":null}]}"#;
    let last = r#"data: {"id":"c","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}"#;
    assert_eq!((rest, end), (format!("{comment}{new}\n\n{last}\n\n{DONE}"), End::Clean));
}

#[tokio::test]
async fn a_stream_that_a_cascade_s_target_answers_is_asked_for_again_as_well() {
    let mut mocks = Mock::pair().await;
    let draft = Mock::start(&[SMALL]).await;
    let mut shadow = CascadeSettings::new(SMALL, MODEL);
    (shadow.mode, shadow.shadow.start) = (cascade::Mode::Shadow, Ratio::NONE);
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1], &draft], |settings| {
        settings.cascades.insert(MODEL.to_owned(), shadow);
        settings.workers[2].pool = Pool::Draft;
    })
    .await;
    let mut client = gateway.chat(r#","stream":true,"temperature":0"#).await;
    let mut call = Mock::any(&mut mocks).await;
    call.stream().await;
    call.chunk(&token("one")).await;
    assert_eq!(client.head().await.header("x-overdraft-served-by"), Some("target"));
    assert_eq!(client.chunk().await, Ok(token("one")));
    call.reset();
    let mut call = Mock::any(&mut mocks).await;
    call.stream().await;
    call.chunk(&format!("{}{}{DONE}", token("one two"), finish("stop"))).await;
    call.end().await;
    let (rest, end) = client.rest().await;
    assert!(rest.contains("way=replay; cause=broken") && rest.contains(" two"), "{rest}");
    assert_eq!(end, End::Clean);
}

#[tokio::test]
async fn one_that_may_be_kept_is_logged_with_its_decision_and_where_it_went_on() {
    let mocks = Mock::pair().await;
    let on =
        |settings: &mut GatewaySettings| settings.cache.mode = overdraft_gateway::CacheMode::On;
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], on).await;
    let [mut first, mut second] = mocks;
    let mut client = gateway.chat(r#","stream":true,"temperature":0"#).await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    client.head().await;
    assert_eq!(client.chunk().await, Ok(token("one")));
    call.reset();
    let mut call = second.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}{}{DONE}", token("one"), token(" two"), finish("stop"))).await;
    call.end().await;
    assert_eq!(client.rest().await.1, End::Clean);
    let listed = async {
        loop {
            let page = gateway.client().await.get("/admin/views/requests").await.1;
            let page: Value = serde_json::from_str(&page).unwrap();
            if let Some(row) = page["rows"].as_array().and_then(|rows| rows.first()) {
                return row.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    let row = in_time(listed).await;
    assert_eq!((&row["attempts"], &row["worker"]), (&json!(1), &json!("worker-1")));
}

#[tokio::test]
async fn an_answer_that_its_only_worker_broke_off_is_asked_for_again_there() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.chat(r#","stream":true,"temperature":0"#).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    client.head().await;
    assert_eq!(client.chunk().await, Ok(token("one")));
    call.reset();
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}{}{DONE}", token("one"), token(" two"), finish("stop"))).await;
    call.end().await;
    let (events, end) = client.rest().await;
    assert!(end == End::Clean && events.contains(" two") && !events.contains("error"), "{events}");
}

#[tokio::test]
async fn counts_that_come_with_the_finish_reason_stay_there() {
    let ([mut first, _second], gateway) = pair().await;
    let wants = r#","stream":true,"temperature":0,"stream_options":{"include_usage":true}"#;
    let mut client = gateway.chat(wants).await;
    let mut call = first.call().await;
    call.stream().await;
    let choice = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8, "prompt_tokens_details": {"cached_tokens": 6}});
    let last = format!("data: {}\n\n", json!({"id": "c", "choices": [choice], "usage": usage}));
    let whole = format!("{}{last}{DONE}", token("one"));
    call.chunk(&whole).await;
    call.end().await;
    client.head().await;
    assert_eq!(client.rest().await, (whole, End::Clean));
}

#[tokio::test]
async fn counts_that_llama_server_ends_completions_with_stay_though_nobody_asked() {
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| {
        manner.metrics =
            Some(b"llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n".into());
    });
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    gateway.until_scraped(1).await;
    let asked = format!(r#"{{"model":"{MODEL}","prompt":"p","stream":true,"temperature":0}}"#);
    client.post("/v1/completions", &asked).await;
    let mut call = mock.call().await;
    call.stream().await;
    let event = |choice: &str, more: &str| format!("data: {{\"choices\":[{choice}]{more}}}\n\n");
    let text = event(r#"{"text":" one","index":0,"finish_reason":null}"#, "");
    let usage = r#","usage":{"completion_tokens":1,"prompt_tokens":7,"total_tokens":8}"#;
    let last = event(r#"{"text":"","index":0,"finish_reason":"stop"}"#, usage);
    let whole = format!("{text}{last}{DONE}");
    call.chunk(&whole).await;
    call.end().await;
    client.head().await;
    assert_eq!(client.rest().await, (whole, End::Clean));
}

#[tokio::test]
async fn an_answer_that_differs_is_an_error_and_none_of_it_is_told() {
    let ([mut first, mut second], gateway) = pair().await;
    let mut client = gateway.chat(r#","stream":true,"seed":7"#).await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    call.close().await;
    let mut call = second.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}{DONE}", token("another"), finish("stop"))).await;
    let (text, events, end) = text(&mut client).await;
    assert_eq!((text.as_str(), end), ("one", End::Aborted));
    assert!(events.contains("could not go on elsewhere: diverged"), "{events}");
    assert!(
        gateway.metrics().await.contains(
            "overdraft_resumes_total{cause=\"broken\",way=\"none\",result=\"diverged\"} 1"
        )
    );
}

/// What a worker of theirs says before it is cut within an event.
fn half(text: &str) -> String {
    format!("{}data: {{\"id\":\"c\",\"choices\":[{{\"delta\":{{\"content\": \n\n", token(text))
}

/// Counts that the client has asked for.
const WANTS_COUNTS: &str =
    r#","stream":true,"temperature":0,"stream_options":{"include_usage":true}"#;

fn counts(completion: u32) -> String {
    let usage = json!({"prompt_tokens": 7, "completion_tokens": completion, "total_tokens": 7 + completion});
    format!("data: {}\n\n", json!({"id": "c", "choices": [], "usage": usage}))
}

// Faults: 31
#[tokio::test]
async fn what_follows_an_event_that_is_no_json_is_told_once_nothing_can_be_missing() {
    let ([mut first, mut second], gateway) = pair().await;
    let mut client = gateway.chat(WANTS_COUNTS).await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&half("one")).await;
    client.head().await;
    assert_eq!(client.chunk().await, Ok(token("one")));
    let rest = format!("{}{}{}{DONE}", token(" two"), finish("stop"), counts(2));
    call.chunk(&rest).await;
    call.end().await;
    assert_eq!(client.rest().await, (rest, End::Clean));
    assert!(second.is_idle());
}

// Faults: 31
#[tokio::test]
async fn where_a_token_went_with_an_event_that_is_no_json_the_answer_goes_on_from_there() {
    for count in [Some(3), None] {
        let ([mut first, mut second], gateway) = pair().await;
        let mut client = gateway.chat(WANTS_COUNTS).await;
        let mut call = first.call().await;
        call.stream().await;
        call.chunk(&half("one")).await;
        let told = count.map(counts).unwrap_or_default();
        call.chunk(&format!("{}{}{told}{DONE}", token(" three"), finish("stop"))).await;
        call.end().await;
        let mut call = second.call().await;
        call.stream().await;
        let whole = format!("{}{}", token("one two three"), finish("stop"));
        call.chunk(&format!("{whole}{}{DONE}", counts(3))).await;
        call.end().await;
        let (text, events, end) = text(&mut client).await;
        assert_eq!((text.as_str(), end), ("one two three", End::Clean), "{events}");
    }
}

// Faults: 32, 33
#[tokio::test]
async fn bytes_that_are_no_text_are_told_to_nobody() {
    let no_text = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n";
    let no_json = b"data: {\"choices\":[{\"delta\":{\"content\": \n\n";
    for bytes in [&no_text[..], no_json] {
        for (headers, more) in [("", ""), ("x-overdraft-resume: off\r\n", ""), ("", r#","n":2"#)] {
            let ([mut first, mut second], gateway) = pair().await;
            let mut client = gateway.client().await;
            let body = chat(&format!(r#","stream":true,"temperature":0{more}"#));
            client.post_with(CHAT, headers, &body).await;
            let mut call = first.call().await;
            call.stream().await;
            call.chunk(&token("one")).await;
            let size = format!("{:x}\r\n", bytes.len());
            call.write([size.as_bytes(), bytes, b"\r\n"].concat()).await;
            let is_resumed = headers.is_empty() && more.is_empty();
            if is_resumed {
                let mut call = second.call().await;
                call.stream().await;
                call.chunk(&format!("{}{}{DONE}", token("one two"), finish("stop"))).await;
                call.end().await;
            }
            // Whatever is no UTF-8 would end the reading of it.
            let (text, events, end) = text(&mut client).await;
            let expected = if is_resumed { ("one two", End::Clean) } else { ("one", End::Aborted) };
            assert_eq!((text.as_str(), end), expected, "{headers}{more}: {events}");
            let is_told = events.contains("an event of it is not ");
            assert!(is_told != is_resumed && second.is_idle(), "{headers}{more}: {events}");
            assert!(!events.contains("\"content\": \n"), "{headers}{more}: {events}");
        }
    }
}

// Faults: 40
#[tokio::test]
async fn what_was_counted_is_told_where_the_worker_tells_no_counts() {
    let ([mut first, _second], gateway) = vllms(LONG).await;
    let mut client = gateway.chat(WANTS_COUNTS).await;
    let mut call = first.call().await;
    call.stream().await;
    let said = format!("{}{}", ids_chunk("one", &[10]), ids_chunk(" two", &[11, 12]));
    let last = json!({"index": 0, "delta": {}, "finish_reason": "stop", "token_ids": []});
    let last = format!("data: {}\n\n", json!({"id": "c", "created": 5, "choices": [last]}));
    call.chunk(&format!("{ROLE}{said}{last}{DONE}")).await;
    call.end().await;
    client.head().await;
    let (events, end) = client.rest().await;
    assert_eq!(end, End::Clean);
    let usage = r#""usage":{"prompt_tokens":2,"total_tokens":5,"completion_tokens":3}"#;
    assert!(events.contains(usage), "{events}");
}

// Faults: 41
#[tokio::test]
async fn where_the_second_worker_dies_as_well_a_third_goes_on_within_the_bound() {
    for attempts in [1, 2] {
        let mut mocks = Vec::new();
        for _ in 0..3 {
            mocks.push(Mock::start(&[MODEL]).await);
        }
        let all: Vec<&Mock> = mocks.iter().collect();
        let gateway = Gateway::start_with(&all, |settings| {
            settings.resume.attempts_max = attempts;
        })
        .await;
        let mut client = gateway.chat(r#","stream":true,"temperature":0"#).await;
        for said in ["one", "one two"] {
            let mut call = Mock::any(&mut mocks).await;
            call.stream().await;
            call.chunk(&token(said)).await;
            if said == "one" {
                client.head().await;
            }
            client.chunk().await.unwrap();
            call.reset();
        }
        if attempts == 2 {
            let mut call = Mock::any(&mut mocks).await;
            call.stream().await;
            call.chunk(&format!("{}{}{DONE}", token("one two three"), finish("stop"))).await;
            call.end().await;
        }
        let (events, end) = client.rest().await;
        if attempts == 2 {
            assert!(events.contains(" three") && end == End::Clean, "{events}");
        } else {
            assert!(events.contains("could not go on elsewhere: budget"), "{events}");
            assert_eq!(end, End::Aborted);
        }
    }
}

#[tokio::test]
async fn a_resume_that_takes_too_long_ends_by_the_limit_that_passed_and_is_counted() {
    for (header, said) in [
        ("", "it had 1.0 s, as `timeouts.total` is set"),
        ("x-overdraft-deadline-ms: 500\r\n", "did not end by its deadline"),
    ] {
        let mut mocks = Mock::pair().await;
        let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
            settings.routing.route.deadlines.total = Duration::from_secs(1).into();
        })
        .await;
        let mut client = gateway.client().await;
        client.post_with(CHAT, header, &chat(r#","stream":true,"temperature":0"#)).await;
        let mut call = Mock::any(&mut mocks).await;
        call.stream().await;
        call.chunk(&token("one")).await;
        client.head().await;
        assert_eq!(client.chunk().await, Ok(token("one")));
        call.reset();
        // The next one is asked, and says nothing.
        let call = Mock::any(&mut mocks).await;
        let (events, end) = client.rest().await;
        assert!(events.contains(said), "{events}");
        assert_eq!(end, End::Aborted);
        call.gone().await;
        let line = r#"overdraft_resumes_total{cause="broken",way="none",result="given_up"} 1"#;
        let page = gateway.metrics().await;
        assert!(page.contains(line), "{page}");
    }
}

async fn without_dashboard(gateway: &Gateway) {
    while gateway.client().await.get("/dashboard/").await.0.status != 404 {
        tokio::task::yield_now().await;
    }
}

// Faults: 26
#[tokio::test]
async fn who_wants_no_resume_gets_an_error() {
    for switch in ["header", "setting"] {
        let (mocks, gateway) = pair().await;
        let [mut first, mut second] = mocks;
        if switch == "setting" {
            let mut settings = gateway.settings();
            settings.resume.mode = Mode::Off;
            // Shows that they are in force.
            settings.dashboard.is_on = false;
            gateway.change(settings);
            in_time(without_dashboard(&gateway)).await;
        }
        let mut client = gateway.client().await;
        let headers = if switch == "header" { "x-overdraft-resume: off\r\n" } else { "" };
        let body = chat(r#","stream":true,"temperature":0"#);
        client.post_with(CHAT, headers, &body).await;
        let mut call = first.call().await;
        call.stream().await;
        call.chunk(&token("one")).await;
        call.end().await;
        let (text, events, end) = text(&mut client).await;
        assert_eq!((text.as_str(), end), ("one", End::Aborted), "{switch}");
        assert!(events.contains("\"error\"") && second.is_idle(), "{switch}");
    }
}
