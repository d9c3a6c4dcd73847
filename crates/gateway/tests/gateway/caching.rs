//! Answers that are given again: to whom, in which form, and what becomes of all who ask at once.

mod bounds;
mod headers;

use std::time::Duration;

use overdraft_gateway::{CacheMode, GatewaySettings, KeyDigest, KeySettings};
use overdraft_store::Place;
use overdraft_units::Micros;

use crate::client::{Client, End, Head};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, chat, finish, in_time, token};
use crate::mock::Mock;
use crate::redis::{Redis, free_port};

/// What makes a request deterministic.
const GREEDY: &str = r#","temperature":0"#;

const STREAM: &str = r#","temperature":0,"stream":true"#;

/// A whole answer without anything a stream could not tell.
const PLAIN: &str = r#"{"id":"chatcmpl-9","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}"#;

fn on(settings: &mut GatewaySettings) {
    settings.cache.mode = CacheMode::On;
}

async fn start(mock: &Mock) -> Gateway {
    Gateway::start_with(&[mock], on).await
}

/// One request; its head and body.
async fn ask(gateway: &Gateway, headers: &str, more: &str) -> (Head, String) {
    let mut client = gateway.client().await;
    client.post_with(CHAT, headers, &chat(more)).await;
    answer(&mut client).await
}

/// A whole answer, or all of a stream.
async fn answer(client: &mut Client) -> (Head, String) {
    let head = client.head().await;
    if head.header("content-length").is_some() {
        let body = client.body_of(&head).await;
        return (head, body);
    }
    let (text, end) = client.rest().await;
    assert_eq!(end, End::Clean);
    (head, text)
}

fn x_cache(head: &Head) -> &str {
    head.header("x-cache").unwrap_or("-")
}

/// Asks while the worker answers with `json`; how the gateway marked it.
async fn asked(
    gateway: &Gateway,
    mock: &mut Mock,
    (headers, more): (&str, &str),
    json: &str,
) -> String {
    let mut client = gateway.client().await;
    client.post_with(CHAT, headers, &chat(more)).await;
    mock.call().await.answer(200, json).await;
    let (head, _) = answer(&mut client).await;
    x_cache(&head).to_owned()
}

/// The stream that the mock tells.
async fn tell(mock: &mut Mock) {
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("hel")).await;
    call.chunk(&token("lo")).await;
    call.chunk(&finish("stop")).await;
    call.chunk("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n").await;
    call.chunk(DONE).await;
    call.end().await;
}

#[tokio::test]
async fn the_second_of_equal_requests_gets_the_same_bytes_and_no_worker_is_asked() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    assert_eq!(asked(&gateway, &mut mock, ("", GREEDY), ANSWER).await, "MISS");
    let (head, body) = ask(&gateway, "", GREEDY).await;
    assert_eq!((x_cache(&head), body.as_str()), ("HIT", ANSWER));
    assert!(head.header("age").is_some() && head.header("x-overdraft-worker").is_none());
    // Written differently, and meaning the same.
    let (head, _) =
        ask(&gateway, "", r#", "stream" : false, "temperature" : 0.0 , "user":"u""#).await;
    assert_eq!(x_cache(&head), "HIT");
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_stream_is_given_again_byte_for_byte_with_its_usage_or_without() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    let mut client = gateway.chat(STREAM).await;
    tell(&mut mock).await;
    let (head, first) = answer(&mut client).await;
    assert_eq!(x_cache(&head), "MISS");
    assert!(!first.contains("\"usage\""), "nobody asked for it: {first}");
    let (head, again) = ask(&gateway, "", STREAM).await;
    assert_eq!((x_cache(&head), &again), ("HIT", &first));
    assert_eq!(head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let with_usage = r#","temperature":0,"stream":true,"stream_options":{"include_usage":true}"#;
    let (head, told) = ask(&gateway, "", with_usage).await;
    assert_eq!(x_cache(&head), "HIT");
    assert!(told.contains("\"total_tokens\":5") && told.ends_with(DONE), "{told}");
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_whole_answer_is_given_again_as_a_stream() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    assert_eq!(asked(&gateway, &mut mock, ("", GREEDY), PLAIN).await, "MISS");
    let (head, told) = ask(&gateway, "", STREAM).await;
    assert_eq!(x_cache(&head), "HIT");
    assert!(told.contains("\"chat.completion.chunk\"") && told.contains("hello"), "{told}");
    assert!(told.contains("chatcmpl-9") && told.ends_with(DONE));
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_worker_is_always_asked_for_the_usage_of_a_stream() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    let _client = gateway.chat(STREAM).await;
    let call = mock.call().await;
    let body = String::from_utf8(call.body.clone()).unwrap();
    assert!(body.contains(r#""stream_options":{"include_usage":true}"#), "{body}");
}

#[tokio::test]
async fn what_is_drawn_anew_and_what_nobody_knows_goes_past_the_cache() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    for (headers, more) in [
        ("", ""),
        ("", r#","temperature":0.7"#),
        ("", r#","temperature":0,"x_new":1"#),
        ("", r#","temperature":0,"seed":1,"seed":2"#),
        ("", r#","temperature":0,"store":true"#),
        ("", r#","temperature":0,"stream_options":{"continuous_usage_stats":true}"#),
        ("x-overdraft-cache: off\r\n", GREEDY),
        ("cache-control: no-store\r\n", GREEDY),
    ] {
        for _ in 0..2 {
            let marked = asked(&gateway, &mut mock, (headers, more), ANSWER).await;
            assert_eq!(marked, "BYPASS", "{headers}{more}");
        }
    }
    let (head, body) = ask(&gateway, "x-overdraft-cache: maybe\r\n", GREEDY).await;
    assert!(head.status == 400 && body.contains("`maybe`"), "{body}");
}

#[tokio::test]
async fn a_client_may_wish_for_the_cache_and_for_a_fresh_answer() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    let wish = ("x-overdraft-cache: on\r\n", "");
    assert_eq!(asked(&gateway, &mut mock, wish, ANSWER).await, "MISS");
    assert_eq!(x_cache(&ask(&gateway, wish.0, "").await.0), "HIT");
    assert_eq!(asked(&gateway, &mut mock, ("", GREEDY), ANSWER).await, "MISS");
    let fresh = ("cache-control: no-cache\r\n", GREEDY);
    assert_eq!(asked(&gateway, &mut mock, fresh, PLAIN).await, "MISS");
    let (head, body) = ask(&gateway, "", GREEDY).await;
    assert_eq!((x_cache(&head), body.as_str()), ("HIT", PLAIN));
}

#[tokio::test]
async fn nothing_is_kept_of_errors_calls_and_answers_that_broke_off() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        settings.resume.patience = Micros::ZERO;
    })
    .await;
    let calls = PLAIN.replace(r#""finish_reason":"stop""#, r#""finish_reason":"tool_calls""#);
    let withheld =
        PLAIN.replace(r#""finish_reason":"stop""#, r#""finish_reason":"content_filter""#);
    for json in [calls.as_str(), withheld.as_str()] {
        assert_eq!(asked(&gateway, &mut mock, ("", GREEDY), json).await, "MISS", "{json}");
    }
    // What is no answer is asked for once more.
    let mut client = gateway.chat(GREEDY).await;
    for _ in 0..2 {
        mock.call().await.answer(200, r#"{"object":"odd"}"#).await;
    }
    assert_eq!(client.whole().await.0.status, 502);
    let mut client = gateway.chat(GREEDY).await;
    mock.call().await.answer(400, r#"{"error":{"message":"no"}}"#).await;
    assert_eq!(client.whole().await.0.status, 400);
    let mut client = gateway.chat(STREAM).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("hel")).await;
    client.head().await;
    call.close().await;
    let (text, end) = client.rest().await;
    assert!(end == End::Aborted && text.contains("\"error\""), "{text}");
    assert_eq!(asked(&gateway, &mut mock, ("", GREEDY), PLAIN).await, "MISS");
}

// Faults: 63
#[tokio::test]
async fn two_tenants_never_share_an_answer() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        for (key, tenant) in [("sk-a", "acme"), ("sk-b", "bolt"), ("sk-c", "acme")] {
            settings.keys.push(KeySettings::new(KeyDigest::of(key), tenant));
        }
    })
    .await;
    let (a, b, c) = ("x-api-key: sk-a\r\n", "x-api-key: sk-b\r\n", "x-api-key: sk-c\r\n");
    assert_eq!(asked(&gateway, &mut mock, (a, GREEDY), ANSWER).await, "MISS");
    assert_eq!(asked(&gateway, &mut mock, (b, GREEDY), PLAIN).await, "MISS");
    assert_eq!(ask(&gateway, a, GREEDY).await.1, ANSWER);
    assert_eq!(ask(&gateway, b, GREEDY).await.1, PLAIN);
    // Another key of the same tenant.
    assert_eq!(ask(&gateway, c, GREEDY).await.1, ANSWER);
    // A purge of one tenant's leaves the other's.
    let mut client = gateway.client().await;
    client.post("/admin/cache/purge", r#"{"tenant":"acme"}"#).await;
    assert_eq!(client.whole().await.1, r#"{"entries_here":1}"#);
    assert_eq!(x_cache(&ask(&gateway, b, GREEDY).await.0), "HIT");
    assert_eq!(asked(&gateway, &mut mock, (a, GREEDY), ANSWER).await, "MISS");
    client.post("/admin/cache/purge", r#"{"tenants":"acme"}"#).await;
    assert_eq!(client.head().await.status, 400);
}

#[tokio::test]
async fn without_keys_tokens_are_tenants() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    let (one, other) = ("authorization: Bearer one\r\n", "authorization: Bearer other\r\n");
    for tenant in [one, other, ""] {
        assert_eq!(asked(&gateway, &mut mock, (tenant, GREEDY), ANSWER).await, "MISS");
    }
    for tenant in [one, other, ""] {
        assert_eq!(x_cache(&ask(&gateway, tenant, GREEDY).await.0), "HIT");
    }
}

#[tokio::test]
async fn a_hundred_at_once_are_one_question_and_each_may_leave() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(gateway.chat(STREAM).await);
    }
    let mut call = mock.call().await;
    until_waiting(&gateway, 100).await;
    call.stream().await;
    call.chunk(&token("hel")).await;
    let mut marks = Vec::new();
    for client in &mut clients {
        marks.push(x_cache(&client.head().await).to_owned());
        assert!(client.chunk().await.unwrap().contains("hel"));
    }
    assert_eq!(marks.iter().filter(|mark| *mark == "MISS").count(), 1);
    assert_eq!(marks.iter().filter(|mark| *mark == "COALESCED").count(), 99);
    // All but one that joined leave, the first to ask among them.
    let stays = marks.iter().position(|mark| mark == "COALESCED").unwrap();
    let mut last = clients.swap_remove(stays);
    drop(clients);
    until_waiting(&gateway, 1).await;
    call.chunk(&token("lo")).await;
    call.chunk(&finish("stop")).await;
    call.chunk(DONE).await;
    call.end().await;
    let (text, end) = last.rest().await;
    assert!(end == End::Clean && text.contains("lo") && text.ends_with(DONE), "{text}");
    assert!(mock.is_idle(), "one question");
    assert_eq!(x_cache(&ask(&gateway, "", STREAM).await.0), "HIT");
}

/// Waits until so many requests are being answered.
pub(crate) async fn until_waiting(gateway: &Gateway, count: usize) {
    // Whoever asks for the page is one of them.
    let wanted = format!("overdraft_inflight_requests {}\n", count + 1);
    gateway.until_words(&wanted).await;
}

#[tokio::test]
async fn when_the_last_one_leaves_the_worker_is_told() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    let clients = [gateway.chat(STREAM).await, gateway.chat(STREAM).await];
    let mut call = mock.call().await;
    until_waiting(&gateway, 2).await;
    call.stream().await;
    call.chunk(&token("hel")).await;
    drop(clients);
    call.gone().await;
}

#[tokio::test]
async fn when_the_first_fails_those_who_joined_ask_by_themselves_once() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        settings.retry.extra_attempts_max = 0;
    })
    .await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(gateway.chat(GREEDY).await);
    }
    let call = mock.call().await;
    until_waiting(&gateway, 3).await;
    call.answer(500, r#"{"error":{"message":"no"}}"#).await;
    for _ in 0..2 {
        mock.call().await.answer(200, PLAIN).await;
    }
    let mut statuses = Vec::new();
    for client in &mut clients {
        statuses.push(client.whole().await.0.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 500]);
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_hit_costs_its_request_and_no_tokens() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        let mut key = KeySettings::new(KeyDigest::of("sk-a"), "acme");
        key.budget.requests_per_minute = std::num::NonZeroU32::new(4);
        key.budget.tokens_per_minute = std::num::NonZeroU32::new(1_000_000);
        settings.keys.push(key);
    })
    .await;
    let a = "x-api-key: sk-a\r\n";
    let costly = PLAIN.replace("\"completion_tokens\":1", "\"completion_tokens\":100000");
    assert_eq!(asked(&gateway, &mut mock, (a, GREEDY), &costly).await, "MISS");
    // It is settled when its answer has been sent.
    let told = r#"overdraft_tenant_tokens_total{tenant="acme",kind="completion"} 100000"#;
    gateway.until_words(told).await;
    for requests in ["2", "1", "0"] {
        let (head, _) = ask(&gateway, a, GREEDY).await;
        let left = |what: &str| head.header(&format!("x-ratelimit-remaining-{what}")).unwrap();
        assert_eq!((x_cache(&head), left("requests")), ("HIT", requests));
        let tokens: u32 = left("tokens").parse().unwrap();
        // Some flow in meanwhile; twice the price would show.
        assert!((880_000..=999_000).contains(&tokens), "{tokens}");
    }
    assert_eq!(ask(&gateway, a, GREEDY).await.0.status, 429);
}

#[tokio::test]
async fn those_who_share_a_question_pay_its_tokens_once() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        on(settings);
        let mut key = KeySettings::new(KeyDigest::of("sk-a"), "acme");
        key.budget.tokens_per_minute = std::num::NonZeroU32::new(1_000_000);
        settings.keys.push(key);
    })
    .await;
    let a = "x-api-key: sk-a\r\n";
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = gateway.client().await;
        client.post_with(CHAT, a, &chat(GREEDY)).await;
        clients.push(client);
    }
    let call = mock.call().await;
    until_waiting(&gateway, 5).await;
    let costly = PLAIN.replace("\"completion_tokens\":1", "\"completion_tokens\":100000");
    call.answer(200, &costly).await;
    for client in &mut clients {
        assert_eq!(client.whole().await.0.status, 200);
    }
    let (head, _) = ask(&gateway, a, GREEDY).await;
    let left: u32 = head.header("x-ratelimit-remaining-tokens").unwrap().parse().unwrap();
    // Some flow in meanwhile; twice the price would show.
    assert!((880_000..=999_000).contains(&left), "{left}");
    let page = gateway.metrics().await;
    let told = r#"overdraft_tenant_tokens_total{tenant="acme",kind="completion"} 100000"#;
    assert!(page.contains(told), "{page}");
}

#[tokio::test]
async fn observed_nothing_is_given_again_but_counted() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway =
        Gateway::start_with(&[&mock], |settings| settings.cache.mode = CacheMode::Observe).await;
    for _ in 0..3 {
        assert_eq!(asked(&gateway, &mut mock, ("", GREEDY), ANSWER).await, "-");
    }
    let page = gateway.client().await.get("/admin/cache").await.1;
    assert!(page.contains(r#""would_hit":2,"would_miss":1"#), "{page}");
}

#[tokio::test]
async fn metrics_tell_a_ratio_and_what_was_saved() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = start(&mock).await;
    asked(&gateway, &mut mock, ("", GREEDY), PLAIN).await;
    for _ in 0..3 {
        ask(&gateway, "", GREEDY).await;
    }
    let page = gateway.metrics().await;
    for line in [
        "llm_cache_hit_ratio 0.75\n",
        r#"llm_request_duration_seconds_count{cache_hit="true",model="m"} 3"#,
        r#"llm_request_duration_seconds_count{cache_hit="false",model="m"} 1"#,
        "overdraft_cache_tokens_saved_total 12\n",
        "overdraft_cache_entries 1\n",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
}

fn shared(settings: &mut GatewaySettings, url: &str) {
    on(settings);
    settings.store.place = Place::parse(url).unwrap();
    settings.store.timeout = Duration::from_millis(100);
}

/// Waits until a counter of the metrics page is at least one.
async fn until_counted(gateway: &Gateway, name: &str) {
    let is_counted = |line: &str| line.starts_with(name) && !line.ends_with(" 0");
    gateway.metrics_until(|page| page.lines().any(is_counted)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_was_told_another_gives_again_until_it_is_purged() {
    let redis = Redis::start(&[]);
    let mut mock = Mock::start(&[MODEL]).await;
    let one = Gateway::start_with(&[&mock], |settings| shared(settings, &redis.url())).await;
    let other = Gateway::start_with(&[&mock], |settings| shared(settings, &redis.url())).await;
    asked(&one, &mut mock, ("", GREEDY), PLAIN).await;
    until_counted(&one, r#"overdraft_cache_stores_total{result="stored"}"#).await;
    let (head, body) = ask(&other, "", GREEDY).await;
    assert_eq!((x_cache(&head), body.as_str()), ("HIT", PLAIN));
    assert!(mock.is_idle());
    let mut client = one.client().await;
    client.post("/admin/cache/purge", r#"{"model":"m"}"#).await;
    let told = client.whole().await.1;
    assert!(told.contains(r#""store":"purged""#), "{told}");
    // The other hears of it within a second.
    let heard = async {
        while !other.client().await.get("/admin/cache").await.1.contains("\"entries\":0,") {
            tokio::task::yield_now().await;
        }
    };
    in_time(heard).await;
    assert_eq!(asked(&other, &mut mock, ("", GREEDY), PLAIN).await, "MISS");
}

// Faults: 54, 55
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_or_frozen_costs_no_answer() {
    let mut mock = Mock::start(&[MODEL]).await;
    let url = format!("redis://127.0.0.1:{}", free_port());
    let gateway = Gateway::start_with(&[&mock], |settings| shared(settings, &url)).await;
    for seed in 0..8 {
        let more = format!(r#","seed":{seed}"#);
        assert_eq!(asked(&gateway, &mut mock, ("", &more), PLAIN).await, "MISS");
        assert_eq!(x_cache(&ask(&gateway, "", &more).await.0), "HIT");
    }
    let redis = Redis::start(&[]);
    let gateway = Gateway::start_with(&[&mock], |settings| shared(settings, &redis.url())).await;
    asked(&gateway, &mut mock, ("", GREEDY), PLAIN).await;
    until_counted(&gateway, r#"overdraft_cache_stores_total{result="stored"}"#).await;
    redis.freeze();
    for seed in 0..8 {
        let more = format!(r#","seed":{seed}"#);
        assert_eq!(asked(&gateway, &mut mock, ("", &more), PLAIN).await, "MISS");
    }
    until_counted(&gateway, r#"overdraft_cache_store_faults_total{kind="fused"}"#).await;
    redis.thaw();
}

#[tokio::test]
async fn tenants_have_salts_of_their_own_and_reach_into_no_worker() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut salts = Vec::new();
    let more = r#","vllm_xargs":{"a":1},"kv_transfer_params":{},"prompt_logprobs":1,"request_id":"r","priority":-5"#;
    for (headers, more) in [
        ("authorization: Bearer one\r\n", more.to_owned()),
        ("authorization: Bearer other\r\n", more.to_owned()),
        ("authorization: Bearer one\r\n", format!(r#"{more},"cache_salt":"mine""#)),
        ("", format!(r#"{more},"cache_salt":"mine""#)),
        ("", more.to_owned()),
    ] {
        let mut client = gateway.client().await;
        client.post_with(CHAT, headers, &chat(&more)).await;
        let call = mock.call().await;
        let body = String::from_utf8(call.body.clone()).unwrap();
        for name in
            ["vllm_xargs", "kv_transfer_params", "prompt_logprobs", "request_id", "priority"]
        {
            assert!(!body.contains(name), "{name} in {body}");
        }
        let salt =
            body.split_once(r#""cache_salt":""#).map(|(_, rest)| rest.split('"').next().unwrap());
        salts.push(salt.unwrap_or("-").to_owned());
        call.answer(200, ANSWER).await;
        client.whole().await;
    }
    assert_eq!(salts[3..], ["mine", "-"], "nobody in particular has no salt");
    assert!(salts[..3].iter().all(|salt| salt.len() == 43), "{salts:?}");
    assert!(salts[0] != salts[1] && salts[0] != salts[2] && salts[2] != "mine");
}

#[tokio::test]
async fn a_worker_that_refuses_what_it_does_not_know_is_told_no_salt() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.workers[0].traits.cache_salt = overdraft_gateway::SaltPolicy::Untold;
    })
    .await;
    let mut client = gateway.client().await;
    let salted = chat(r#","cache_salt":"mine""#);
    client.post_with(CHAT, "authorization: Bearer one\r\n", &salted).await;
    let call = mock.call().await;
    assert!(!String::from_utf8(call.body.clone()).unwrap().contains("cache_salt"));
    call.answer(200, ANSWER).await;
    client.whole().await;
}
