//! The plain modes of the write-ups, to the letter: known figures in, the decision out.

use std::fmt::Write as _;

use overdraft_core::admit::{AdmitSettings, Mode};
use overdraft_core::route::Policy;
use overdraft_gateway::{CacheMode, GatewaySettings, RequestBounds};
use serde_json::Value;

use crate::harness::{ANSWER, CHAT, Gateway, MODEL, SOON, chat, in_time};
use crate::mock::Mock;

const EXPLAIN: &str = "x-overdraft-explain: 1\r\n";

/// A page of vLLM's with so much of a cache of 8,192 tokens in use.
fn page(kv_use: &str) -> Vec<u8> {
    page_of("0", kv_use)
}

/// The same with so many requests of others.
fn page_of(running: &str, kv_use: &str) -> Vec<u8> {
    let mut page = String::new();
    for (name, value) in [
        ("num_requests_running", running),
        ("num_requests_waiting", "0"),
        ("kv_cache_usage_perc", kv_use),
    ] {
        let _ = writeln!(page, "vllm:{name}{{model_name=\"m\"}} {value}");
    }
    page += "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"512\"} 1\n";
    page.into_bytes()
}

/// A chat whose prompt is taken for about so many tokens: four bytes each.
fn prompt(tokens: usize) -> String {
    let text = "one ".repeat(tokens.saturating_sub(10));
    format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

fn fit_score(settings: &mut GatewaySettings) {
    settings.scrape.interval = SOON;
    settings.scrape.idle_interval = SOON;
    settings.routing.route.policy = Policy::FitScore;
    settings.routing.route.admission = AdmitSettings::off();
}

/// Waits until the gateway knows what the workers say of their caches.
async fn until_known(gateway: &Gateway, workers: usize) {
    in_time(async {
        loop {
            let (_, body) = gateway.client().await.get("/admin/workers").await;
            let list: Value = serde_json::from_str(&body).unwrap();
            let all = list["workers"].as_array().unwrap();
            if all.iter().filter(|one| one["kv_capacity_tokens"] == 8_192).count() == workers {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Which of two workers, each with so much of its cache in use, gets a prompt of so many tokens, and by
/// which score, in thousandths.
async fn check_fit(uses: [&str; 2], tokens: usize, (worker, score): (&str, u64)) {
    let mut mocks = Mock::pair().await;
    for (mock, kv_use) in mocks.iter().zip(uses) {
        mock.behave(|manner| manner.metrics = Some(page(kv_use)));
    }
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], fit_score).await;
    until_known(&gateway, 2).await;
    let mut client = gateway.client().await;
    client.post_with(CHAT, EXPLAIN, &prompt(tokens)).await;
    Mock::any(&mut mocks).await.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 200, "{body}");
    let told: Value = serde_json::from_str(head.header("x-overdraft-explain").unwrap()).unwrap();
    let best = &told["candidates"][0];
    let thousandths = (best["score"].as_u64().unwrap() + 500) / 1_000;
    let told_as = (told["worker"].as_str().unwrap(), thousandths);
    assert_eq!(told_as, (worker, score), "{uses:?}, {tokens} tokens: {told}");
    // C6: what is told of it is what decided.
    let metrics = gateway.metrics().await;
    let sum = metrics.lines().find_map(|line| line.strip_prefix("router_fit_score_sum "));
    let sum: f64 = sum.unwrap().parse().unwrap();
    assert!((sum * 1e3 - f64::from(u32::try_from(score).unwrap())).abs() < 0.6, "{sum}");
    for name in ["router_evictions_prevented ", "router_evictions_prevented_total "] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "{name}");
    }
}

/// What becomes of a request of this priority where so much of the only cache is in use.
async fn check_valve(
    gateway: &Gateway,
    mock: &mut Mock,
    (tier, kv_use): (&str, &str),
    status: u16,
) {
    // Somebody has to be there: who is idle takes one whatever it says.
    mock.behave(|manner| manner.metrics = Some(page_of("1", kv_use)));
    let permille: f64 = kv_use.parse().unwrap();
    let used = (permille * 8_192.0).floor();
    in_time(async {
        loop {
            let (_, body) = gateway.client().await.get("/admin/workers").await;
            let list: Value = serde_json::from_str(&body).unwrap();
            let told = list["workers"][0]["kv_used_tokens"].as_f64();
            if told.is_some_and(|told| (told - used).abs() < 2.0) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut client = gateway.chat(&format!(r#","max_tokens":1,"service_tier":"{tier}""#)).await;
    if status == 200 {
        mock.call().await.answer(200, ANSWER).await;
    }
    let (head, body) = client.whole().await;
    assert_eq!(head.status, status, "{tier} at {kv_use}: {body}");
    assert_eq!(head.header("retry-after").is_some(), status == 503, "{tier} at {kv_use}");
}

#[tokio::test]
async fn a3_above_its_threshold_a_request_is_refused_at_once_with_503() {
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.metrics = Some(page("0")));
    let gateway = Gateway::start_with(&[&mock], |settings| {
        fit_score(settings);
        settings.routing.route.policy = Policy::LeastLoad;
        settings.routing.route.admission =
            AdmitSettings { mode: Mode::Threshold, ..AdmitSettings::default() };
    })
    .await;
    until_known(&gateway, 1).await;
    for (asked, status) in [
        (("flex", "0.849"), 200),
        (("flex", "0.851"), 503),
        (("default", "0.851"), 200),
        (("default", "0.969"), 200),
        (("default", "0.971"), 503),
        (("priority", "0.971"), 200),
        (("priority", "0.991"), 503),
    ] {
        check_valve(&gateway, &mut mock, asked, status).await;
    }
}

#[tokio::test]
async fn c2_the_best_fit_wins_and_workers_without_room_are_skipped() {
    // 0.8 free: 0.8 * 0.8 + 0.8 * 0.2, and so on.
    check_fit(["0.2", "0.4"], 100, ("worker-0", 800)).await;
    check_fit(["0.400", "0.399"], 100, ("worker-1", 601)).await;
    // 410 tokens are free of the first, and nobody has sent it anything.
    check_fit(["0.95", "0.5"], 3_008, ("worker-1", 500)).await;
    check_fit(["0.5", "0.95"], 3_008, ("worker-0", 500)).await;
    check_fit(["0.95", "0.96"], 300, ("worker-0", 50)).await;
}

#[tokio::test]
async fn c3_a_prompt_that_no_cache_could_hold_is_refused_at_once_with_both_figures() {
    for adjust in [fit_score as fn(&mut GatewaySettings), |settings| {
        fit_score(settings);
        settings.routing.route.policy = Policy::Cost;
        settings.routing.route.admission = AdmitSettings::default();
    }] {
        let mut mock = Mock::start(&[MODEL]).await;
        mock.behave(|manner| manner.metrics = Some(page("0")));
        let gateway = Gateway::start_with(&[&mock], adjust).await;
        until_known(&gateway, 1).await;
        let mut client = gateway.client().await;
        client.post(CHAT, &prompt(20_000)).await;
        let (head, body) = client.whole().await;
        assert_eq!(head.status, 400, "{body}");
        assert!(body.contains("about 19") && body.contains("has room for 8192"), "{body}");
        assert_eq!(head.header("retry-after"), None);
        assert!(mock.call_now().is_none());
    }
}

#[tokio::test]
async fn c3_it_does_not_wait_behind_others_either() {
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.metrics = Some(page("0")));
    let gateway = Gateway::start_with(&[&mock], |settings| {
        fit_score(settings);
        settings.routing.route.policy = Policy::Cost;
        settings.routing.route.admission.mode = Mode::Static(1);
    })
    .await;
    until_known(&gateway, 1).await;
    let mut first = gateway.chat("").await;
    let held = mock.call().await;
    let mut second = gateway.chat("").await;
    gateway.until_line("overdraft_queue_requests{priority=\"default\"} 1").await;
    let mut client = gateway.client().await;
    client.post(CHAT, &prompt(20_000)).await;
    assert_eq!(client.whole().await.0.status, 400);
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(second.whole().await.0.status, 200);
}

#[tokio::test]
async fn b4_the_hit_ratio_is_of_all_requests_and_absent_before_the_first() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway =
        Gateway::start_with(&[&mock], |settings| settings.cache.mode = CacheMode::On).await;
    let before = gateway.metrics().await;
    assert!(!before.contains("\nllm_cache_hit_ratio "), "{before}");
    // Sampled without a seed: it bypasses the cache, and no worker is spared.
    for body in [r#","temperature":0"#, r#","temperature":0.7"#] {
        let mut client = gateway.chat(body).await;
        mock.call().await.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
    let mut again = gateway.chat(r#","temperature":0"#).await;
    assert_eq!(again.whole().await.0.status, 200);
    let metrics = gateway.metrics().await;
    let ratio = metrics.lines().find_map(|line| line.strip_prefix("llm_cache_hit_ratio "));
    let ratio: f64 = ratio.expect("there were requests").parse().unwrap();
    assert!((ratio - 1.0 / 3.0).abs() < 1e-3, "{ratio}");
    for edge in ["0.05", "0.1", "0.2", "0.5", "1.0", "2.0"] {
        let bucket = format!("le=\"{edge}\"");
        let name = "llm_request_duration_seconds_bucket{";
        let mut lines = metrics.lines().filter(|line| line.starts_with(name));
        assert!(lines.any(|line| line.contains(&bucket)), "no edge at {edge}");
    }
}

#[tokio::test]
async fn d6_the_gateway_s_health_is_where_the_write_ups_have_it() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    let [short, long] = [client.get("/health").await, client.get("/healthz").await];
    assert_eq!((short.0.status, short.1), (200, long.1));
    mock.behave(|manner| manner.health = 503);
    let alone = Gateway::start_unready(&[&mock], |_| {}).await;
    assert_eq!(alone.client().await.get("/health").await.0.status, 503);
}

// Faults: 73
#[tokio::test]
async fn requests_are_held_to_the_bounds_that_are_configured() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let bounds = RequestBounds {
            prompt_tokens: Some(1_000),
            max_tokens: Some(2_048),
            max_tokens_default: Some(512),
        };
        settings.limits.of_request = bounds;
    })
    .await;
    let mut client = gateway.client().await;
    for (body, says) in [
        (chat(r#","max_tokens":2049"#), "`max_tokens` is 2049; expected 1 to 2048"),
        (chat(r#","max_tokens":0"#), "max_tokens"),
        (prompt(1_500), "and 1000 are allowed"),
    ] {
        client.post(CHAT, &body).await;
        let (head, told) = client.whole().await;
        assert_eq!(head.status, 400, "{told}");
        assert!(told.contains(says), "{told}");
    }
    for (body, sent) in [(chat(""), 512), (chat(r#","max_tokens":2048"#), 2_048)] {
        client.post(CHAT, &body).await;
        let call = mock.call().await;
        let asked = call.json();
        assert_eq!(asked["max_tokens"], sent);
        call.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
}

#[tokio::test]
async fn s3_every_gateway_metric_of_the_write_ups_has_its_name_and_labels() {
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.metrics = Some(page("0")));
    let gateway = Gateway::start_with(&[&mock], |settings| {
        fit_score(settings);
        settings.cache.mode = CacheMode::On;
        settings.routing.route.admission.mode = Mode::Static(1);
        settings.admission.queue.requests = 0;
    })
    .await;
    until_known(&gateway, 1).await;
    let mut first = gateway.chat(r#","temperature":0"#).await;
    let held = mock.call().await;
    // The next finds no room and may not wait.
    let mut refused = gateway.chat(r#","temperature":0.5"#).await;
    let refusal = refused.whole().await.0.status;
    assert!(matches!(refusal, 429 | 503), "{refusal}");
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    let mut again = gateway.chat(r#","temperature":0"#).await;
    assert_eq!(again.whole().await.0.status, 200);
    let metrics = gateway.metrics().await;
    for (name, label) in [
        ("router_request_duration_seconds_bucket{", "pool=\"target\""),
        ("router_rejections_total{", "reason="),
        ("router_fit_score_bucket{", "le="),
        ("router_evictions_prevented ", ""),
        ("router_evictions_prevented_total ", ""),
        ("llm_cache_hit_ratio ", ""),
        ("llm_request_duration_seconds_bucket{", "cache_hit=\"true\""),
        ("llm_request_duration_seconds_bucket{", "model=\"m\""),
    ] {
        let mut lines = metrics.lines().filter(|line| line.starts_with(name));
        assert!(lines.any(|line| line.contains(label)), "{name}…{label}: {metrics}");
    }
}

#[tokio::test]
async fn f_methods_bodies_and_misses_are_told_as_the_write_ups_do() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway =
        Gateway::start_with(&[&mock], |settings| settings.cache.mode = CacheMode::On).await;
    let mut client = gateway.client().await;
    for (method, body, status) in [
        ("GET", "", 405),
        ("PUT", "{}", 405),
        ("DELETE", "", 405),
        ("POST", "", 400),
        ("POST", "{", 400),
        ("POST", "[]", 400),
        ("POST", "{}", 400),
        ("POST", r#"{"model":7}"#, 400),
    ] {
        let length = body.len();
        let head = format!("{method} {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: {length}\r\n");
        client.send(format!("{head}\r\n{body}")).await;
        let (head, told) = client.whole().await;
        assert_eq!(head.status, status, "{method} {body}: {told}");
        assert_eq!(head.header("allow"), (status == 405).then_some("POST"), "{method}");
    }
    for (more, marked, is_asked) in [
        (r#","temperature":0"#, Some("MISS"), true),
        (r#","temperature":0"#, Some("HIT"), false),
        (r#","temperature":0,"seed":1"#, Some("MISS"), true),
    ] {
        let mut client = gateway.chat(more).await;
        if is_asked {
            mock.call().await.answer(200, ANSWER).await;
        }
        let head = client.head().await;
        assert_eq!((head.status, head.header("x-cache")), (200, marked), "{more}");
        assert!(mock.is_idle(), "{more}");
    }
}
