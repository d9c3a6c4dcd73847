//! A small model answers first: what is accepted, refused, verified, handed over, and what goes wrong.

mod costs;
mod explaining;
mod judging;
mod learning;
mod prefilling;
mod recorded;
mod scoring;
mod useless;
mod waking;

use overdraft_core::cascade::Mode;
use overdraft_core::cost::{Price, Prices};
use overdraft_gateway::{CascadeSettings, Pool};
use overdraft_units::Ratio;
use serde_json::{Value, json};

use crate::client::{Client, End};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, chat};
use crate::mock::{Call, Mock};

/// The model that drafts.
pub(crate) const SMALL: &str = "small";

/// What every prompt is to both models.
pub(crate) const TOKENS: &[u8] = br#"{"count":2,"max_model_len":512,"tokens":[1,2]}"#;

/// A draft's worker, and workers of the target.
struct Pair {
    gateway: Gateway,
    draft: Mock,
    targets: Vec<Mock>,
}

impl Pair {
    /// A gate that gives every draft's answer, with windows of two tokens, changed by `adjust`.
    async fn start(targets: usize, adjust: impl FnOnce(&mut CascadeSettings)) -> Self {
        let draft = tokenizing(SMALL, TOKENS).await;
        let mut all = Vec::new();
        for _ in 0..targets {
            all.push(tokenizing(MODEL, TOKENS).await);
        }
        let mut cascade = CascadeSettings::new(SMALL, MODEL);
        cascade.threshold = Some(Ratio::NONE);
        (cascade.first_window, cascade.next_window) = (2, 2);
        cascade.shadow.start = Ratio::NONE;
        adjust(&mut cascade);
        let mocks: Vec<&Mock> = all.iter().chain([&draft]).collect();
        let gateway = Gateway::start_with(&mocks, |settings| {
            settings.cascades.insert(MODEL.to_owned(), cascade);
            settings.workers.last_mut().expect("the draft's is the last").pool = Pool::Draft;
        })
        .await;
        let pair = Self { gateway, draft, targets: all };
        pair.until(r#"overdraft_cascade_parity{cascade="m",state="same"} 1"#).await;
        pair
    }

    /// Waits until the metrics say so.
    async fn until(&self, line: &str) {
        self.gateway.until_words(line).await;
    }

    async fn chat(&self, more: &str) -> Client {
        self.gateway.chat(&format!(r#","max_tokens":64{more}"#)).await
    }

    async fn streamed(&self) -> Client {
        self.chat(r#","stream":true"#).await
    }

    /// A stream whose draft has filled its first window, of which the client has the beginning; the draft's call.
    async fn begun(&mut self) -> (Client, Call) {
        let mut client = self.streamed().await;
        let call = begin_draft(&mut self.draft, &window()).await;
        client.head().await;
        (client, call)
    }

    /// The next call to either of two targets, and which of them it is not.
    async fn either_target(&mut self) -> (Call, usize) {
        let [one, other] = self.targets.as_mut_slice() else { panic!("there are two") };
        tokio::select! {
            call = one.call() => (call, 1),
            call = other.call() => (call, 0),
        }
    }

    async fn target(&mut self) -> Call {
        self.targets[0].call().await
    }
}

/// A worker of that model whose tokenizer says this of every prompt.
pub(crate) async fn tokenizing(model: &str, tokens: &[u8]) -> Mock {
    let mock = Mock::start(&[model]).await;
    mock.behave(|manner| drop(manner.pages.insert("/tokenize", tokens.to_vec())));
    mock
}

/// A draft begins its answer with these events.
async fn begin_answer(call: &mut Call, events: &str) {
    call.stream().await;
    call.chunk(&(opening() + events)).await;
}

/// The next call to a draft's worker, whose answer has begun with these events.
async fn begin_draft(draft: &mut Mock, events: &str) -> Call {
    let mut call = draft.call().await;
    begin_answer(&mut call, events).await;
    call
}

/// A draft's worker answers the next call with these events, to the end.
pub(crate) async fn give_draft(draft: &mut Mock, events: &str) {
    begin_draft(draft, events).await.end().await;
}

/// The two tokens of a draft's first window.
fn window() -> String {
    said("a", 11) + &said("b", 12)
}

/// An event of a draft that is fairly sure of what it says.
pub(crate) fn said(text: &str, id: u32) -> String {
    let logprobs = json!({"content": [{"token": text, "logprob": -0.1, "bytes": text.as_bytes(),
        "top_logprobs": [{"token": text, "logprob": -0.1}, {"token": "?", "logprob": -3.0}]}]});
    let chunk = json!({"id": "d", "model": SMALL, "choices": [{"index": 0, "token_ids": [id],
        "delta": {"content": text}, "logprobs": logprobs, "finish_reason": null}]});
    format!("data: {chunk}\n\n")
}

fn opening() -> String {
    let chunk = json!({"id": "d", "model": SMALL, "prompt_token_ids": [1, 2],
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]});
    format!("data: {chunk}\n\n")
}

/// The end of a draft of two prompt tokens, with its end token.
pub(crate) fn ended(completion: u32) -> String {
    let last = json!({"id": "d", "choices": [{"index": 0, "delta": {"content": ""},
        "token_ids": [9], "finish_reason": "stop",
        "logprobs": {"content": [{"token": "</s>", "logprob": -0.1, "top_logprobs": []}]}}]});
    let usage = json!({"id": "d", "choices": [], "usage": {"prompt_tokens": 2,
        "completion_tokens": completion, "total_tokens": completion + 2}});
    format!("data: {last}\n\ndata: {usage}\n\n{DONE}")
}

/// What a target says to go on: completion events.
fn more(text: &str, id: u32, finish: &str) -> String {
    let finish = if finish.is_empty() { Value::Null } else { finish.into() };
    let chunk = json!({"id": "t", "choices": [{"index": 0, "text": text, "token_ids": [id],
        "finish_reason": finish}]});
    format!("data: {chunk}\n\n")
}

/// A target goes on with one token, and ends the answer.
async fn go_on(mut call: Call, text: &str, id: u32) {
    call.stream().await;
    call.chunk(&(more(text, id, "") + &more("", 9, "stop") + DONE)).await;
    call.end().await;
}

/// A target's score: of each token whether it is the likeliest.
fn score(tokens: &[(u32, bool)], ends: bool) -> String {
    let row = |&(id, likeliest): &(u32, bool)| {
        if likeliest {
            json!({id.to_string(): {"logprob": -0.1, "rank": 1}})
        } else {
            json!({id.to_string(): {"logprob": -4.0, "rank": 7}, "77": {"logprob": -0.2, "rank": 1}})
        }
    };
    let prompt = [Value::Null, json!({"2": {"logprob": -0.5, "rank": 1}})];
    let rows: Vec<Value> = prompt.into_iter().chain(tokens.iter().map(row)).collect();
    json!({"id": "s", "choices": [{"index": 0, "text": "x", "prompt_logprobs": rows,
        "finish_reason": if ends { "stop" } else { "length" }}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}})
    .to_string()
}

/// The texts of a stream's events, joined.
fn text(events: &str) -> String {
    let datas = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks = datas.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let texts = chunks.filter_map(|chunk| {
        Some(chunk["choices"].get(0)?["delta"]["content"].as_str()?.to_owned())
    });
    texts.collect()
}

#[tokio::test]
async fn an_accepted_answer_is_the_draft_s_in_the_target_s_name() {
    let mut pair = Pair::start(1, |cascade| {
        let price = |micros| Prices {
            prompt: Price::new(micros),
            cached: Price::new(micros),
            completion: Price::new(micros),
        };
        cascade.prices = Some([price(100_000), price(1_000_000)]);
    })
    .await;
    let mut client = pair.chat(r#","temperature":0.5"#).await;
    let mut call = pair.draft.call().await;
    assert!(call.head.starts_with("POST /v1/chat/completions "));
    let asked = call.json();
    assert_eq!(asked["model"], SMALL);
    assert_eq!(asked["logprobs"], true);
    assert_eq!(asked["temperature"], 0.5);
    assert_eq!(asked["stream_options"], json!({"include_usage": true}));
    begin_answer(&mut call, &(said("Hel", 11) + &said("lo", 12) + &ended(3))).await;
    call.end().await;
    let (head, told) = client.whole().await;
    assert_eq!(head.status, 200, "{told}");
    assert_eq!(head.header("x-overdraft-served-by"), Some("draft"));
    assert_eq!(head.header("x-overdraft-worker"), Some("worker-1"));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["model"], MODEL);
    assert_eq!(told["object"], "chat.completion");
    let choice = &told["choices"][0];
    assert_eq!(choice["message"]["content"], "Hello");
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["logprobs"], Value::Null);
    assert_eq!(told["usage"]["completion_tokens"], 3);
    assert!(pair.targets[0].is_idle());
    pair.until(r#"overdraft_cascade_answers_total{cascade="m",outcome="draft"} 1"#).await;
    pair.until(r#"speculative_acceptance_ratio{cascade="m"} 1"#).await;
    pair.until(r#"overdraft_cascade_break_even{cascade="m"} 0.1"#).await;
}

#[tokio::test]
async fn what_is_refused_the_target_answers_as_if_nothing_had_been() {
    let mut pair = Pair::start(1, |it| it.threshold = Some(Ratio::WHOLE)).await;
    let request = chat(r#","max_tokens":64,"odd" : 0.30000000000000004"#);
    let mut client = pair.gateway.client().await;
    client.post(CHAT, &request).await;
    give_draft(&mut pair.draft, &(said("no", 11) + &ended(2))).await;
    let call = pair.target().await;
    assert_eq!(std::str::from_utf8(&call.body).unwrap(), request);
    call.answer(200, ANSWER).await;
    let (head, told) = client.whole().await;
    assert_eq!(told, ANSWER);
    assert_eq!(head.header("x-overdraft-served-by"), Some("target"));
    pair.until(r#"overdraft_cascade_answers_total{cascade="m",outcome="refused"} 1"#).await;
}

#[tokio::test]
async fn a_refused_stream_ends_the_draft_and_shows_nothing_of_it() {
    let mut pair = Pair::start(1, |it| it.threshold = Some(Ratio::WHOLE)).await;
    let mut client = pair.streamed().await;
    let call = begin_draft(&mut pair.draft, &(said("no", 11) + &said("pe", 12))).await;
    // Its first window is full, and it is told so.
    call.gone().await;
    let mut call = pair.target().await;
    call.stream().await;
    let events =
        format!("{}{}{DONE}", crate::harness::token("yes"), crate::harness::finish("stop"));
    call.chunk(&events).await;
    call.end().await;
    assert_eq!(client.head().await.header("x-overdraft-served-by"), Some("target"));
    assert_eq!(client.rest().await, (events, End::Clean));
}

#[tokio::test]
async fn a_window_is_shown_when_it_is_full_and_stays() {
    let mut pair = Pair::start(1, |_| {}).await;
    let mut client = pair.chat(r#","stream":true,"stream_options":{"include_usage":true}"#).await;
    let mut call = begin_draft(&mut pair.draft, &window()).await;
    let head = client.head().await;
    assert_eq!(head.header("x-overdraft-served-by"), Some("draft"));
    assert!(head.header("content-type").is_some_and(|it| it.starts_with("text/event-stream")));
    assert_eq!(text(&client.chunk().await.unwrap()), "");
    assert_eq!(text(&client.chunk().await.unwrap()), "ab");
    call.chunk(&(said("c", 13) + &said("d", 14))).await;
    assert_eq!(text(&client.chunk().await.unwrap()), "cd");
    call.chunk(&(said("e", 15) + &ended(6))).await;
    call.end().await;
    let (rest, end) = client.rest().await;
    assert_eq!((text(&rest).as_str(), end), ("e", End::Clean));
    assert!(rest.contains(r#""finish_reason":"stop""#), "{rest}");
    assert!(rest.contains(r#""completion_tokens":6"#), "{rest}");
    assert!(rest.contains(r#""model":"m""#) && !rest.contains("logprob\":-"), "{rest}");
    assert!(rest.ends_with(DONE));
    assert!(pair.targets[0].is_idle());
}

#[tokio::test]
async fn a_first_token_is_counted_of_drafts_that_are_streamed_alone() {
    let mut pair = Pair::start(1, |_| {}).await;
    let counted = r#"overdraft_time_to_first_token_seconds_count{model="m"}"#;
    for (more, requests) in [("", 1), (r#","stream":true"#, 2)] {
        let mut client = pair.chat(more).await;
        give_draft(&mut pair.draft, &(window() + &ended(3))).await;
        if more.is_empty() {
            assert_eq!(client.whole().await.0.header("x-overdraft-served-by"), Some("draft"));
        } else {
            assert_eq!(text(&client.rest_after_head().await), "ab");
        }
        let line = format!("router_request_duration_seconds_count{{pool=\"draft\"}} {requests}");
        pair.until(&line).await;
        let page = pair.gateway.metrics().await;
        assert_eq!(page.contains(&format!("{counted} 1")), !more.is_empty(), "{page}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_draft_and_the_target() {
    let mut pair = Pair::start(1, |_| {}).await;
    for shown in [false, true] {
        let mut client = pair.streamed().await;
        let mut call = begin_draft(&mut pair.draft, &said("a", 11)).await;
        if shown {
            call.chunk(&said("b", 12)).await;
            client.head().await;
        }
        drop(client);
        call.gone().await;
    }
    let (client, call) = pair.begun().await;
    call.reset();
    let mut call = pair.target().await;
    call.stream().await;
    drop(client);
    call.gone().await;
}

// Faults: 44
#[tokio::test]
async fn a_draft_that_dies_after_it_was_shown_is_continued_by_its_tokens() {
    let mut pair = Pair::start(2, |_| {}).await;
    let (mut client, mut call) = pair.begun().await;
    call.chunk(&said("never shown", 13)).await;
    call.reset();
    let (mut call, other) = pair.either_target().await;
    assert!(call.head.starts_with("POST /v1/completions "), "{}", call.head);
    let asked = call.json();
    assert_eq!(asked["prompt"], json!([1, 2, 11, 12]));
    assert_eq!((&asked["model"], &asked["max_tokens"]), (&json!(MODEL), &json!(62)));
    call.stream().await;
    call.chunk(&more("c", 21, "")).await;
    // That one dies as well, and the other goes on behind both.
    call.reset();
    let call = pair.targets[other].call().await;
    assert_eq!(call.json()["prompt"], json!([1, 2, 11, 12, 21]));
    assert_eq!(call.json()["max_tokens"], 61);
    go_on(call, "d", 22).await;
    let (rest, end) = client.rest().await;
    assert_eq!((text(&rest).as_str(), end), ("abcd", End::Clean));
    assert!(rest.contains(": overdraft served-by=draft,target draft-tokens=2\n"), "{rest}");
    pair.until(r#"overdraft_cascade_answers_total{cascade="m",outcome="handed_over"} 1"#).await;
}

#[tokio::test]
async fn a_continued_answer_is_whole_though_its_connection_breaks_behind_the_finish_reason() {
    for counts in ["", r#","stream_options":{"include_usage":true}"#] {
        let mut pair = Pair::start(1, |_| {}).await;
        let mut client = pair.chat(&format!(r#","stream":true{counts}"#)).await;
        let call = begin_draft(&mut pair.draft, &window()).await;
        client.head().await;
        call.reset();
        let mut call = pair.target().await;
        call.stream().await;
        call.chunk(&(more("c", 21, "") + &more("", 9, "length"))).await;
        let mut shown = String::new();
        while !shown.ends_with('c') {
            shown.push_str(&text(&client.chunk().await.unwrap()));
        }
        call.reset();
        let (rest, end) = client.rest().await;
        assert_eq!((shown.as_str(), end), ("abc", End::Clean), "{rest}");
        assert!(rest.contains(r#""finish_reason":"length""#) && rest.ends_with(DONE), "{rest}");
        assert!(pair.targets[0].is_idle());
    }
}

// Faults: 44
#[tokio::test]
async fn where_nobody_can_go_on_the_answer_breaks_off_with_an_error() {
    let mut pair = Pair::start(1, |_| {}).await;
    let (mut client, call) = pair.begun().await;
    pair.targets.remove(0).stop().await;
    call.reset();
    let (rest, end) = client.rest().await;
    assert_eq!((text(&rest).as_str(), end), ("ab", End::Aborted));
    assert!(rest.contains(r#"data: {"error""#) && !rest.contains("[DONE]"), "{rest}");
}

#[tokio::test]
async fn a_draft_pool_that_is_down_costs_nothing_but_the_draft() {
    let mut pair = Pair::start(1, |_| {}).await;
    // It refuses, then breaks off, then is gone.
    for broken in [false, true] {
        let mut client = pair.chat("").await;
        let mut call = pair.draft.call().await;
        if broken {
            begin_answer(&mut call, &said("a", 11)).await;
            call.reset();
        } else {
            call.answer(500, "{}").await;
        }
        pair.target().await.answer(200, ANSWER).await;
        let (head, told) = client.whole().await;
        assert_eq!((head.status, told.as_str()), (200, ANSWER));
        assert_eq!(head.header("x-overdraft-served-by"), Some("target"));
    }
    let Pair { gateway, draft, mut targets } = pair;
    draft.stop().await;
    let mut client = gateway.chat(r#","max_tokens":64"#).await;
    targets[0].call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    let page = gateway.metrics().await;
    assert!(page.contains(r#"outcome="draft_failed"} 3"#), "{page}");
}

#[tokio::test]
async fn a_target_pool_that_is_down_leaves_accepted_drafts_and_clean_errors() {
    let mut pair = Pair::start(1, |_| {}).await;
    pair.targets.remove(0).stop().await;
    let mut client = pair.chat("").await;
    give_draft(&mut pair.draft, &(said("fine", 11) + &ended(2))).await;
    let (head, told) = client.whole().await;
    assert_eq!((head.status, head.header("x-overdraft-served-by")), (200, Some("draft")));
    assert!(told.contains(r#""content":"fine""#), "{told}");
    let mut client = pair.chat(r#","seed":7"#).await;
    let (head, told) = client.whole().await;
    assert_eq!(head.status, 503, "{told}");
}

#[tokio::test]
async fn a_verified_answer_goes_on_where_the_target_differs() {
    let mut pair = Pair::start(1, |it| it.mode = Mode::Verify).await;
    let mut client = pair.chat(r#","stream":true,"temperature":0"#).await;
    let mut call = begin_draft(&mut pair.draft, &window()).await;
    let asked = pair.target().await;
    let scored = asked.json();
    assert_eq!(scored["prompt"], json!([1, 2, 11, 12]));
    assert_eq!((&scored["prompt_logprobs"], &scored["max_tokens"]), (&json!(1), &json!(1)));
    asked.answer(200, &score(&[(11, true), (12, true)], false)).await;
    let head = client.head().await;
    assert_eq!(head.header("x-overdraft-served-by"), Some("verified"));
    assert_eq!(text(&client.chunk().await.unwrap()), "");
    assert_eq!(text(&client.chunk().await.unwrap()), "ab");
    call.chunk(&(said("c", 13) + &said("wrong", 14))).await;
    let asked = pair.target().await;
    assert_eq!(asked.json()["prompt"], json!([1, 2, 11, 12, 13, 14]));
    let both = [(11, true), (12, true), (13, true), (14, false)];
    asked.answer(200, &score(&both, false)).await;
    // What it said beyond is nobody's.
    call.gone().await;
    let asked = pair.target().await;
    assert_eq!(asked.json()["prompt"], json!([1, 2, 11, 12, 13]));
    go_on(asked, "d", 77).await;
    let (rest, end) = client.rest().await;
    assert_eq!((text(&rest).as_str(), end), ("cd", End::Clean));
    pair.until(r#"overdraft_cascade_accepted_prefix_tokens_sum{cascade="m"} 3"#).await;
    pair.until(r#"overdraft_cascade_answers_total{cascade="m",outcome="verified"} 1"#).await;
    // A7: each pool has its own time, the target's for what it scored and said.
    for pool in ["draft", "target"] {
        pair.until(&format!("router_request_duration_seconds_count{{pool=\"{pool}\"}} 1")).await;
    }
}

#[tokio::test]
async fn a8_a_draft_that_makes_other_tokens_is_not_asked_unless_that_is_wanted() {
    for any_tokenizers in [false, true] {
        let others = br#"{"count":2,"max_model_len":512,"tokens":[3,4]}"#;
        let mut draft = tokenizing(SMALL, others).await;
        let mut target = tokenizing(MODEL, TOKENS).await;
        let mut cascade = CascadeSettings::new(SMALL, MODEL);
        (cascade.threshold, cascade.any_tokenizers) = (Some(Ratio::NONE), any_tokenizers);
        cascade.shadow.start = Ratio::NONE;
        let gateway = Gateway::start_with(&[&target, &draft], |settings| {
            settings.cascades.insert(MODEL.to_owned(), cascade);
        })
        .await;
        gateway.until_words(r#"overdraft_cascade_parity{cascade="m",state="different"} 1"#).await;
        let mut client = gateway.chat("").await;
        if any_tokenizers {
            give_draft(&mut draft, &(said("Hel", 3) + &said("lo", 4) + &ended(3))).await;
        } else {
            target.call().await.answer(200, ANSWER).await;
            let line = r#"overdraft_cascade_excluded_total{cascade="m",reason="tokenizers"} 1"#;
            gateway.until_words(line).await;
        }
        assert_eq!(client.whole().await.0.status, 200);
    }
}

#[tokio::test]
async fn a_whole_draft_that_the_target_would_have_said_is_the_answer() {
    let mut pair = Pair::start(2, |it| it.mode = Mode::Verify).await;
    let mut client = pair.chat(r#","temperature":0"#).await;
    give_draft(&mut pair.draft, &(window() + &ended(3))).await;
    // The first verifier fails; the other is asked.
    let (call, other) = pair.either_target().await;
    call.answer(500, "{}").await;
    let asked = pair.targets[other].call().await;
    assert_eq!(asked.json()["prompt"], json!([1, 2, 11, 12, 9]));
    asked.answer(200, &score(&[(11, true), (12, true), (9, true)], false)).await;
    let (head, told) = client.whole().await;
    assert_eq!(head.header("x-overdraft-served-by"), Some("verified"));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["choices"][0]["message"]["content"], "ab");
    assert_eq!(told["usage"]["completion_tokens"], 3);
}

#[tokio::test]
async fn without_a_verifier_the_target_is_asked_as_ever() {
    let mut pair = Pair::start(1, |it| it.mode = Mode::Verify).await;
    let mut client = pair.chat(r#","temperature":0"#).await;
    give_draft(&mut pair.draft, &(said("a", 11) + &ended(2))).await;
    pair.target().await.answer(400, r#"{"error":{"message":"no prompt_logprobs here"}}"#).await;
    pair.target().await.answer(200, ANSWER).await;
    let (head, told) = client.whole().await;
    assert_eq!((told.as_str(), head.header("x-overdraft-served-by")), (ANSWER, Some("target")));
    // Drawn answers are no business of a verifier.
    let mut client = pair.chat("").await;
    pair.target().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    assert!(pair.draft.is_idle());
    pair.until(r#"overdraft_cascade_excluded_total{cascade="m",reason="not_greedy"} 1"#).await;
}

#[tokio::test]
async fn some_requests_never_meet_a_draft() {
    let mut pair = Pair::start(1, |it| {
        it.tenants_out.insert("other".to_owned());
    })
    .await;
    let mut client = pair.chat("").await;
    pair.target().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.header("x-overdraft-served-by"), Some("target"));
    pair.until(r#"overdraft_cascade_excluded_total{cascade="m",reason="tenant_opted_out"} 1"#)
        .await;

    let mut pair = Pair::start(1, |_| {}).await;
    let excluded = [
        (r#","max_tokens":64,"tools":[{"type":"function"}]"#, "tools"),
        (r#","max_tokens":64,"logprobs":true"#, "logprobs"),
        (r#","max_tokens":64,"return_token_ids":true"#, "logprobs"),
        (r#","max_tokens":64,"seed":1"#, "determinism"),
        (r#","max_tokens":64,"n":2"#, "several_answers"),
        (r#","max_tokens":31"#, "short_answer"),
    ];
    for (more, reason) in excluded {
        let mut client = pair.gateway.chat(more).await;
        pair.target().await.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.1, ANSWER);
        pair.until(&format!(r#"cascade_excluded_total{{cascade="m",reason="{reason}"}}"#)).await;
    }
    let mut client = pair.gateway.client().await;
    client.post_with(CHAT, "x-overdraft-cascade: off\r\n", &chat("")).await;
    pair.target().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.1, ANSWER);
    assert!(pair.draft.is_idle());
    client.post_with(CHAT, "x-overdraft-cascade: maybe\r\n", &chat("")).await;
    let (head, told) = client.whole().await;
    assert_eq!(head.status, 400);
    assert!(
        told.contains("`maybe` is not an `x-overdraft-cascade`; expected `off` or `on`"),
        "{told}"
    );
}

#[tokio::test]
async fn an_answer_that_breaks_its_schema_is_not_given() {
    let mut pair = Pair::start(1, |_| {}).await;
    for (text, is_json) in [("{1", false), (r#"{\"a\":1}"#, true)] {
        let format = r#","stream":true,"response_format":{"type":"json_object"}"#;
        let mut client = pair.chat(format).await;
        let text = text.replace('\\', "");
        let events = said(&text[..1], 11) + &said(&text[1..], 12) + &ended(3);
        give_draft(&mut pair.draft, &events).await;
        if is_json {
            assert_eq!(client.head().await.header("x-overdraft-served-by"), Some("draft"));
            assert_eq!(self::text(&client.rest().await.0), text);
        } else {
            pair.target().await.answer(200, ANSWER).await;
            assert_eq!(client.whole().await.0.header("x-overdraft-served-by"), Some("target"));
        }
    }
    pair.until(r#"overdraft_cascade_answers_total{cascade="m",outcome="schema_failed"} 1"#).await;
}
