//! Where requests go, as a client and an operator see it.

mod coming_and_going;

use std::time::Duration;

use http::HeaderName;
use overdraft_core::route::{Canary, Policy, RouteSettings, Sticky};
use overdraft_gateway::{AdminSettings, ModelSettings, ScrapeFailure};
use overdraft_wire::kv_blocks::SOURCE_HEADER;
use serde_json::Value;

use crate::client::{Client, End};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, SOON, chat, finish, in_time, token};
use crate::mock::Mock;

const EXPLAIN: &str = "x-overdraft-explain: 1\r\n";

/// A page of vLLM's with so many requests and so much of a cache of 16,000 tokens in use.
pub(crate) fn page(running: u32, waiting: u32, kv_use: &str) -> Vec<u8> {
    format!(
        "vllm:num_requests_running{{model_name=\"m\"}} {running}\n\
         vllm:num_requests_waiting{{model_name=\"m\"}} {waiting}\n\
         vllm:kv_cache_usage_perc{{model_name=\"m\"}} {kv_use}\n\
         vllm:cache_config_info{{block_size=\"16\",num_gpu_blocks=\"1000\"}} 1\n"
    )
    .into_bytes()
}

/// A chat whose prompt begins with `tenant`'s long instructions.
fn long(tenant: &str, question: &str) -> String {
    let instructions = format!("{tenant} ").repeat(1_000);
    format!(
        r#"{{"model":"{MODEL}","messages":[{{"role":"system","content":"{instructions}"}},{{"role":"user","content":"{question}"}}]}}"#
    )
}

/// Asks and is answered by whichever mock is asked; the answer's head as an explanation.
async fn explained(gateway: &Gateway, mocks: &mut [Mock], body: &str) -> Value {
    let mut client = gateway.client().await;
    client.post_with(CHAT, EXPLAIN, body).await;
    Mock::any(mocks).await.answer(200, ANSWER).await;
    let (head, _) = client.whole().await;
    serde_json::from_str(head.header("x-overdraft-explain").expect("it was asked for")).unwrap()
}

pub(crate) async fn workers(gateway: &Gateway) -> Value {
    let (head, body) = gateway.client().await.get("/admin/workers").await;
    assert_eq!(head.status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Waits until the list of workers is as it should be.
pub(crate) async fn until(gateway: &Gateway, holds: impl Fn(&Value) -> bool) -> Value {
    in_time(async {
        loop {
            let list = workers(gateway).await;
            if holds(&list) {
                return list;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Waits until that worker is the only one.
pub(crate) async fn until_only(gateway: &Gateway, mock: &Mock) {
    let name = mock.address.to_string();
    until(gateway, |list| {
        let all = list["workers"].as_array().unwrap();
        all.len() == 1 && all[0]["name"] == name
    })
    .await;
}

#[tokio::test]
async fn a_prompt_goes_where_its_prefix_is_and_says_so() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start(&[&mocks[0], &mocks[1]]).await;
    let mut homes = Vec::new();
    for tenant in ["ada", "bob"] {
        let first = explained(&gateway, &mut mocks, &long(tenant, "one")).await;
        assert_eq!(first["policy"], "cost");
        homes.push(first["worker"].clone());
    }
    assert_ne!(homes[0], homes[1], "an idle fleet is spread over");
    for (tenant, home) in ["ada", "bob", "ada"].iter().zip([0, 1, 0]) {
        let again = explained(&gateway, &mut mocks, &long(tenant, "two")).await;
        assert_eq!(again["worker"], homes[home], "{again}");
        let best = &again["candidates"][0];
        assert_eq!(best["reason"], "chosen");
        assert!(best["cached_tokens"].as_u64() > Some(500), "{again}");
        assert_eq!(again["candidates"][1]["reason"], "outscored");
        assert!(again["candidates"][1]["score"].as_u64() > best["score"].as_u64(), "{again}");
    }
}

#[tokio::test]
async fn a_worker_is_told_who_has_the_prefix_that_it_lacks() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
        settings.workers.iter_mut().for_each(|worker| worker.traits.kv_share = true);
    })
    .await;
    let first = explained(&gateway, &mut mocks, &long("ada", "one")).await;
    assert_eq!(first["worker"], "worker-0");
    let mut client = gateway.client().await;
    client.post("/admin/workers/worker-0/drain", "").await;
    assert_eq!(client.whole().await.0.status, 200);
    let had = format!("\r\n{SOURCE_HEADER}: {}\r\n", mocks[0].url());
    for (tenant, told) in [("ada", true), ("bob", false)] {
        // What a client says under that name goes no further.
        let forged = format!("{SOURCE_HEADER}: http://10.0.0.1:1\r\n");
        client.post_with(CHAT, &forged, &long(tenant, "two")).await;
        let call = mocks[1].call().await;
        assert_eq!(call.head.contains(&had), told, "{}", call.head);
        assert_eq!(call.head.matches(SOURCE_HEADER).count(), usize::from(told), "{}", call.head);
        call.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
}

#[tokio::test]
async fn explaining_sends_nothing() {
    let mut mocks = [Mock::start(&[MODEL]).await];
    let gateway = Gateway::start(&[&mocks[0]]).await;
    let mut client = gateway.client().await;
    client.post("/admin/explain", &chat("")).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 200, "{body}");
    let told: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&told["choice"], &told["worker"]), (&"send".into(), &"worker-0".into()));
    assert!(mocks[0].call_now().is_none());
    client.post("/admin/explain", &chat("").replace("\"m\"", "\"other\"")).await;
    let told: Value = serde_json::from_str(&client.whole().await.1).unwrap();
    assert_eq!(told["choice"], "unknown_model");
}

#[tokio::test]
async fn with_a_token_only_who_has_it_is_told() {
    let mut mocks = [Mock::start(&[MODEL]).await];
    let gateway = Gateway::start_with(&[&mocks[0]], |settings| {
        settings.admin =
            AdminSettings { token: Some("secret".to_owned()), ..AdminSettings::default() };
    })
    .await;
    let mut client = gateway.client().await;
    let (head, body) = client.get("/admin/workers").await;
    assert_eq!(head.status, 403);
    assert!(body.contains("expected the token of `admin.token`"), "{body}");
    client.post_with("/admin/explain", "authorization: Bearer wrong\r\n", &chat("")).await;
    assert_eq!(client.whole().await.0.status, 403);
    client.post_with("/admin/explain", "authorization: Bearer secret\r\n", &chat("")).await;
    assert_eq!(client.whole().await.0.status, 200);
    client.post_with(CHAT, EXPLAIN, &chat("")).await;
    mocks[0].call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.header("x-overdraft-explain"), None);
    let both = format!("{EXPLAIN}x-overdraft-admin: secret\r\n");
    client.post_with(CHAT, &both, &chat("")).await;
    mocks[0].call().await.answer(200, ANSWER).await;
    assert!(client.whole().await.0.header("x-overdraft-explain").is_some());
}

#[tokio::test]
async fn a_drained_worker_finishes_its_streams_and_gets_nothing_new() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start(&[&mocks[0], &mocks[1]]).await;
    let mut streaming = gateway.stream().await;
    let mut call = mocks[0].call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    let mut client = gateway.client().await;
    client.post("/admin/workers/worker-0/drain", "").await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, body.contains("\"draining\":true")), (200, true), "{body}");
    for _ in 0..3 {
        let mut other = gateway.chat("").await;
        mocks[1].call().await.answer(200, ANSWER).await;
        assert_eq!(other.whole().await.0.status, 200);
    }
    call.chunk(&format!("{}{DONE}", finish("stop"))).await;
    call.end().await;
    streaming.head().await;
    assert_eq!(streaming.rest().await.1, End::Clean);
    client.post("/admin/workers/worker-0/rejoin", "").await;
    assert!(client.whole().await.1.contains("\"draining\":false"));
    let mut back = gateway.chat("").await;
    mocks[0].call().await.answer(200, ANSWER).await;
    assert_eq!(back.whole().await.0.status, 200);
    client.post("/admin/workers/nobody/drain", "").await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 404);
    assert!(body.contains("known workers: `worker-0`, `worker-1`"), "{body}");
}

#[tokio::test]
async fn an_alias_reaches_the_worker_as_the_model_behind_it() {
    let mut mocks = [Mock::start(&[MODEL]).await];
    let gateway = Gateway::start_with(&[&mocks[0]], |settings| {
        let aliases = vec!["gpt-4o".to_owned()];
        let model = ModelSettings { aliases, ..ModelSettings::default() };
        settings.routing.models.insert(MODEL.to_owned(), model);
    })
    .await;
    let mut client = gateway.client().await;
    client.post(CHAT, &chat(r#","x": 1.50"#).replace("\"m\"", "\"gpt-4o\"")).await;
    let call = mocks[0].call().await;
    assert_eq!(call.body, chat(r#","x": 1.50"#).into_bytes(), "nothing but the name differs");
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    let (_, list) = client.get("/v1/models").await;
    assert!(list.contains("\"gpt-4o\"") && list.contains("\"m\""), "{list}");
}

#[tokio::test]
async fn a_worker_with_another_model_than_configured_is_sent_nothing() {
    let mocks = [Mock::start(&["other"]).await, Mock::start(&[MODEL]).await];
    let gateway = Gateway::start_unready(&[&mocks[0], &mocks[1]], |settings| {
        settings.workers[0].model = Some(MODEL.to_owned());
    })
    .await;
    gateway.until_up(1).await;
    let list = until(&gateway, |list| list["workers"][0]["health"] == "wrong_model").await;
    assert_eq!(list["workers"][1]["health"], "up");
    let (_, models) = gateway.client().await.get("/v1/models").await;
    assert!(!models.contains("other"), "{models}");
}

// Faults: 45, 48
#[tokio::test]
async fn what_a_worker_says_of_its_load_counts_and_ages_when_it_says_nonsense() {
    let mocks = [Mock::start(&[MODEL]).await];
    mocks[0].behave(|manner| manner.metrics = Some(page(3, 1, "0.25")));
    let gateway = Gateway::start_with(&[&mocks[0]], |settings| {
        settings.scrape.interval = SOON;
        settings.scrape.idle_interval = SOON;
        settings.scrape.page_bytes = 64 * 1024;
    })
    .await;
    let known = |list: &Value| {
        let one = &list["workers"][0];
        one["requests_foreign"] == 4
            && one["kv_used_tokens"] == 4_000
            && one["kv_capacity_tokens"] == 16_000
    };
    until(&gateway, known).await;
    let nonsense: [(&str, Vec<u8>); 5] = [
        ("unreadable", b"<html><body>Service Temporarily Unavailable</body></html>".to_vec()),
        ("unreadable", page(3, 1, "0.9").replace_name("num_requests", "renamed_requests")),
        ("unreadable", b"vllm:num_requests_running NaN\nvllm:num_requests_waiting NaN\n".to_vec()),
        ("too_long", vec![b'#'; 100 * 1024]),
        ("unreadable", vec![0xff; 1024]),
    ];
    for (kind, text) in nonsense {
        let before = count(&gateway, kind).await;
        mocks[0].behave(|manner| manner.metrics = Some(text));
        in_time(async {
            while count(&gateway, kind).await < before + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let list = workers(&gateway).await;
        assert!(known(&list), "{kind}: the last good page stands: {list}");
        assert!(list["workers"][0]["load_age_us"].as_u64() > Some(50_000), "and ages: {list}");
    }
    mocks[0].behave(|manner| manner.metrics = Some(page(0, 0, "0.5")));
    until(&gateway, |list| list["workers"][0]["kv_used_tokens"] == 8_000).await;
}

#[tokio::test]
async fn where_it_is_asked_for_a_worker_without_metrics_is_out_until_it_has_them() {
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.metrics = Some(page(0, 0, "0.25")));
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.scrape.interval = SOON;
        settings.scrape.idle_interval = SOON;
        settings.scrape.failure = ScrapeFailure::Unhealthy;
        settings.probe.interval = Duration::from_millis(5);
    })
    .await;
    for _ in 0..2 {
        until(&gateway, |list| list["workers"][0]["health"] == "up").await;
        // What cannot be read is no reason: the last word stands.
        let before = count(&gateway, "unreadable").await;
        mock.behave(|manner| manner.metrics = Some(b"<html>".to_vec()));
        until(&gateway, |list| list["workers"][0]["health"] == "up").await;
        while count(&gateway, "unreadable").await < before + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(workers(&gateway).await["workers"][0]["health"], "up");
        mock.behave(|manner| manner.metrics = None);
        until(&gateway, |list| list["workers"][0]["health"] == "unmeasured").await;
        let (head, _) = gateway.chat("").await.whole().await;
        assert_eq!((head.status, head.header("retry-after")), (503, Some("1")));
        assert!(mock.is_idle());
        mock.behave(|manner| manner.metrics = Some(page(0, 0, "0.25")));
    }
}

/// Scrapes of the only worker that came to this.
async fn count(gateway: &Gateway, result: &str) -> u64 {
    let page = gateway.metrics().await;
    let start = format!("overdraft_scrapes_total{{worker=\"worker-0\",result=\"{result}\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(start.as_str()));
    line.map_or(0, |count| count.parse().unwrap())
}

trait ReplaceName {
    fn replace_name(self, from: &str, to: &str) -> Self;
}

impl ReplaceName for Vec<u8> {
    fn replace_name(self, from: &str, to: &str) -> Self {
        String::from_utf8(self).unwrap().replace(from, to).into_bytes()
    }
}

// Faults: 73
#[tokio::test]
async fn a_prompt_that_fits_nowhere_is_told_what_was_asked_and_what_would_fit() {
    let mocks = [Mock::start(&[MODEL]).await];
    mocks[0].behave(|manner| manner.metrics = Some(page(0, 0, "0.0")));
    let gateway = Gateway::start_with(&[&mocks[0]], |settings| {
        settings.routing.route.policy = Policy::FitScore;
    })
    .await;
    until(&gateway, |list| list["workers"][0]["kv_capacity_tokens"] == 16_000).await;
    let words = "word ".repeat(20_000);
    let mut client = gateway.client().await;
    client.post(CHAT, &chat("").replace("hi", &words)).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 400);
    assert!(body.contains("the prompt has about 250"), "{body}");
    assert!(body.contains("has room for 16000"), "{body}");
}

#[tokio::test]
async fn sessions_stick_by_header_and_arms_are_counted_apart() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
        settings.routing.route = RouteSettings {
            sticky: Some(Sticky::default()),
            canary: Some(Canary { policy: Policy::RoundRobin, share_permille: 500 }),
            ..RouteSettings::default()
        };
        settings.routing.session =
            overdraft_gateway::SessionKey::Header(HeaderName::from_static("x-session-id"));
    })
    .await;
    for session in 0..8 {
        let mut homes = Vec::new();
        for _ in 0..3 {
            let mut client = gateway.client().await;
            let header = format!("{EXPLAIN}x-session-id: s{session}\r\n");
            client.post_with(CHAT, &header, &chat("")).await;
            Mock::any(&mut mocks).await.answer(200, ANSWER).await;
            let (head, _) = client.whole().await;
            let told = head.header("x-overdraft-explain").unwrap().to_owned();
            assert!(told.contains("\"sticky\":true"), "{told}");
            homes.push(head.header("x-overdraft-worker").unwrap().to_owned());
        }
        assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
    }
    let page = gateway.metrics().await;
    for arm in ["policy=\"cost\",arm=\"baseline\"", "policy=\"round-robin\",arm=\"canary\""] {
        assert!(page.contains(arm), "{page}");
    }
}

// Faults: 78
#[tokio::test]
async fn settings_change_without_a_restart_and_bad_ones_change_nothing() {
    let mocks = Mock::pair().await;
    let gateway = Gateway::start(&[&mocks[0]]).await;
    let mut settings = gateway.settings();
    settings.workers.push(overdraft_gateway::WorkerSettings::new(mocks[1].url()));
    gateway.change(settings.clone());
    gateway.until_up(2).await;
    let mut bad = settings.clone();
    bad.workers.clear();
    gateway.change(bad);
    settings.workers.remove(0);
    gateway.change(settings);
    let list = until(&gateway, |list| list["workers"].as_array().unwrap().len() == 1).await;
    assert_eq!(list["workers"][0]["name"], mocks[1].address.to_string());
}

// Faults: 64
#[tokio::test]
async fn the_ledger_is_empty_after_clients_left_at_any_point() {
    let mut mocks = [Mock::start(&[MODEL]).await];
    let gateway = Gateway::start(&[&mocks[0]]).await;
    // The worker hangs up on nobody, so that only the clients' leaving can have emptied it.
    let mut calls = Vec::new();
    for way in 0..4 {
        let client: Client = gateway.stream().await;
        if way == 0 {
            drop(client);
            // The request may or may not have been sent on.
            continue;
        }
        let mut call = mocks[0].call().await;
        if way > 1 {
            call.stream().await;
        }
        if way > 2 {
            call.chunk(&token("one")).await;
        }
        drop(client);
        calls.push(call);
    }
    let empty = |list: &Value| {
        let one = &list["workers"][0];
        one["requests"] == 0 && one["tokens_inflight"] == 0 && one["tokens_queued"] == 0
    };
    until(&gateway, empty).await;
    drop(calls);
}

#[tokio::test]
async fn who_speaks_for_others_is_no_operator_and_an_empty_token_is_none() {
    let mocks = [Mock::start(&[MODEL]).await];
    let gateway = Gateway::start(&[&mocks[0]]).await;
    let mut client = gateway.client().await;
    for header in ["origin: http://page.example\r\n", "x-forwarded-for: 10.0.0.1\r\n"] {
        client.post_with("/admin/workers/worker-0/drain", header, "").await;
        assert_eq!(client.whole().await.0.status, 403, "{header}");
    }
    let mut settings = gateway.settings();
    settings.admin.token = Some(String::new());
    let refused = overdraft_gateway::run(
        tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap(),
        settings,
        std::future::pending(),
    );
    let why = in_time(Box::pin(refused)).await.unwrap_err().to_string();
    assert!(why.starts_with("`admin.token` is empty; expected a secret"), "{why}");
}

#[tokio::test]
async fn a_name_that_no_header_can_tell_is_refused() {
    let mut worker = overdraft_gateway::WorkerSettings::new("http://127.0.0.1:1");
    worker.name = "gpu-z\u{fc}rich".to_owned();
    let settings = overdraft_gateway::GatewaySettings::new(vec![worker]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refused = overdraft_gateway::run(listener, settings, std::future::pending());
    let why = in_time(Box::pin(refused)).await.unwrap_err().to_string();
    assert!(why.contains("expected printable ASCII"), "{why}");
}
