//! Who is up, what can be asked for, and what the gateway says about itself.

use std::time::Duration;

use overdraft_gateway::CascadeSettings;

use crate::harness::{ANSWER, CHAT, Gateway, MODEL, in_time, token};
use crate::mock::Mock;

/// Often enough that a test need not wait.
const OFTEN: Duration = Duration::from_millis(5);

#[tokio::test]
async fn it_can_serve_once_a_worker_is_up() {
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.health = 503);
    let gateway =
        Gateway::start_unready(&[&mock], |settings| settings.probe.interval = OFTEN).await;
    let (head, body) = gateway.until_down().await;
    assert!(head.header("retry-after").is_some());
    assert!(body.contains("none of 1 workers is up"), "{body}");
    assert_eq!(gateway.client().await.get("/livez").await.0.status, 200);
    mock.behave(|manner| manner.health = 200);
    gateway.until_up(1).await;
}

#[tokio::test]
async fn with_nobody_up_requests_are_told_to_come_back() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| settings.probe.interval = OFTEN).await;
    mock.behave(|manner| manner.health = 503);
    gateway.until_down().await;
    let (head, body) = gateway.chat("").await.whole().await;
    assert_eq!(head.status, 503);
    assert!(head.header("retry-after").is_some());
    assert!(body.contains("overloaded"), "{body}");
}

#[tokio::test]
async fn a_worker_that_dies_is_out_at_once_and_back_after_a_probe() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
        settings.probe.interval = OFTEN;
    })
    .await;
    mocks[0].behave(|manner| manner.health = 500);
    gateway.until_up(1).await;
    for _ in 0..3 {
        let mut client = gateway.chat("").await;
        mocks[1].call().await.answer(200, ANSWER).await;
        client.whole().await;
    }
    mocks[0].behave(|manner| manner.health = 200);
    gateway.until_up(2).await;
    let mut client = gateway.chat("").await;
    mocks[0].call().await.answer(200, ANSWER).await;
    client.whole().await;
}

#[tokio::test]
async fn models_are_the_union_of_what_workers_that_are_up_serve() {
    let first = Mock::start(&["large", "org/small"]).await;
    let second = Mock::start(&["org/small", "tiny"]).await;
    let gateway = Gateway::start_with(&[&first, &second], |settings| {
        settings.probe.interval = OFTEN;
    })
    .await;
    let mut client = gateway.client().await;
    let (head, body) = client.get("/v1/models").await;
    assert_eq!(head.header("content-type"), Some("application/json"));
    let list: serde_json::Value = serde_json::from_str(&body).unwrap();
    let names: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|card| card["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["large", "org/small", "tiny"]);
    for path in ["/v1/models/org/small", "/v1/models/org%2Fsmall"] {
        let (head, body) = client.get(path).await;
        assert_eq!((head.status, body.as_str()), (200, r#"{"id":"org/small","object":"model"}"#));
    }
    assert_eq!(client.get("/v1/models/huge").await.0.status, 404);
    second.stop().await;
    gateway.until_up(1).await;
    let (_, body) = client.get("/v1/models").await;
    assert!(!body.contains("tiny") && body.contains("org/small"), "{body}");
}

#[tokio::test]
async fn once_ready_it_stays_ready_whatever_becomes_of_its_workers() {
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.health = 503);
    let gateway =
        Gateway::start_unready(&[&mock], |settings| settings.probe.interval = OFTEN).await;
    let mut client = gateway.client().await;
    let (head, body) = client.get("/readyz").await;
    assert_eq!(head.status, 503, "it knows of no worker that another gateway may know of");
    assert!(body.contains("no worker has been found up yet"), "{body}");
    mock.behave(|manner| manner.health = 200);
    gateway.until_up(1).await;
    assert_eq!(client.get("/readyz").await.0.status, 200);
    mock.behave(|manner| manner.health = 503);
    gateway.until_down().await;
    assert_eq!(client.get("/readyz").await.0.status, 200, "refusing is done better here");
}

#[tokio::test]
async fn no_model_is_unknown_before_a_worker_has_said_what_it_serves() {
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.health = 503);
    let gateway =
        Gateway::start_unready(&[&mock], |settings| settings.probe.interval = OFTEN).await;
    let other = r#"{"model":"other","messages":[]}"#;
    let mut client = gateway.client().await;
    client.post(CHAT, other).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, head.header("retry-after").is_some()), (503, true), "{body}");
    mock.behave(|manner| manner.health = 200);
    gateway.until_up(1).await;
    client.post(CHAT, other).await;
    assert_eq!(client.whole().await.0.status, 404, "now they have");
}

#[tokio::test]
async fn closed_label_sets_are_there_before_their_first_event() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let text = gateway.metrics().await;
    for line in [
        r#"router_rejections_total{reason="queue_full",priority="flex"} 0"#,
        r#"overdraft_request_ends_total{end="sH"} 0"#,
        r#"overdraft_upstream_errors_total{kind="unreachable"} 0"#,
        r#"overdraft_breaker_transitions_total{to="open"} 0"#,
        r#"overdraft_warm_ups_total{result="failed"} 0"#,
        r#"overdraft_pool_kv_use{pool="draft"} 0.0"#,
        r#"overdraft_pool_workers{pool="draft",state="serving"} 0"#,
        r#"router_request_duration_seconds_count{pool="draft"} 0"#,
    ] {
        assert!(text.lines().any(|own| own == line), "{line} is missing in\n{text}");
    }
}

#[tokio::test]
async fn a_worker_that_speaks_nonsense_is_never_up() {
    let mock = Mock::start(&["quote\" breaks the list"]).await;
    let gateway =
        Gateway::start_unready(&[&mock], |settings| settings.probe.interval = OFTEN).await;
    // Who is asked a third time has been judged by the first two answers.
    let asked = async {
        while mock.listings() < 3 {
            tokio::task::yield_now().await;
        }
    };
    in_time(asked).await;
    let (_, body) = gateway.until_down().await;
    assert!(body.contains("none of 1 workers is up"), "{body}");
    let (head, body) = gateway.chat("").await.whole().await;
    assert_eq!((head.status, head.header("retry-after").is_some()), (503, true), "{body}");
}

#[tokio::test]
async fn the_index_says_what_this_is() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let (head, body) = gateway.client().await.get("/").await;
    assert_eq!(head.status, 200);
    assert!(body.starts_with("Overdraft") && body.contains("/v1/chat/completions"), "{body}");
}

#[tokio::test]
async fn metrics_count_requests_by_how_they_ended() {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start(&[&mocks[0], &mocks[1]]).await;
    let mut client = gateway.chat("").await;
    mocks[0].call().await.answer(500, "{}").await;
    mocks[1].call().await.answer(200, ANSWER).await;
    client.whole().await;
    client.post(CHAT, "{}").await;
    client.whole().await;
    let mut streaming = gateway.stream().await;
    let mut call = mocks[0].call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    streaming.head().await;
    drop(streaming);
    call.gone().await;
    let mut scraper = gateway.client().await;
    let (head, text) = scraper.get("/metrics").await;
    assert_eq!(head.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for line in [
        r#"overdraft_requests_total{route="/v1/chat/completions",code="200"} 2"#,
        r#"overdraft_requests_total{route="/v1/chat/completions",code="400"} 1"#,
        r#"overdraft_request_ends_total{end="PR"} 1"#,
        r#"overdraft_request_ends_total{end="CD"} 1"#,
        r#"overdraft_upstream_errors_total{kind="faulty"} 1"#,
        "overdraft_retries_total 1",
        r#"overdraft_worker_up{worker="worker-0"} 1"#,
        r#"overdraft_worker_inflight{worker="worker-0"} 0"#,
        r#"overdraft_tokens_total{model="m",kind="prompt"} 3"#,
    ] {
        assert!(text.lines().any(|own| own == line), "{line} is missing in\n{text}");
    }
}

#[tokio::test]
async fn paths_that_vllm_has_are_there_with_any_number_of_slashes() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for path in ["/health", "/ping", "/version", "/healthz/", "//v1//models", "/v1/models/"] {
        assert_eq!(gateway.client().await.get(path).await.0.status, 200, "{path}");
    }
    let (_, version) = gateway.client().await.get("/version").await;
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    assert_eq!(gateway.client().await.get("/v2/").await.0.status, 404);
}

#[tokio::test]
async fn a_model_that_is_configured_and_not_there_yet_is_worth_coming_back_for() {
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.health = 503);
    let gateway = Gateway::start_unready(&[&mock], |settings| {
        settings.probe.interval = OFTEN;
        settings.workers[0].model = Some(MODEL.to_owned());
        settings.cascades.insert("economy".to_owned(), CascadeSettings::new("small", "large"));
    })
    .await;
    let ask = async |model: &str| {
        let mut client = gateway.client().await;
        client.post(CHAT, &format!(r#"{{"model":"{model}","messages":[]}}"#)).await;
        client.whole().await.0
    };
    for model in [MODEL, "economy", "small", "large"] {
        let head = ask(model).await;
        assert_eq!(head.status, 503, "{model}");
        assert!(head.header("retry-after").is_some());
    }
    assert_eq!(ask("other").await.status, 404);
}
