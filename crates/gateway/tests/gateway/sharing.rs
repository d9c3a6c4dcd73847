//! Workers that fail their requests, and gateways that tell each other.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::admit::ByPriority;
use overdraft_gateway::{GatewaySettings, ModelSettings};
use overdraft_store::Place;
use overdraft_units::Micros;
use serde_json::Value;

use crate::harness::{CHAT, Gateway, MODEL, NEVER, SOON, chat, in_time};
use crate::mock::{Alone, Mock};
use crate::redis::{Redis, free_port};

/// Workers that answer by themselves.
struct Workers {
    names: Vec<(String, String)>,
    alone: Vec<Arc<Alone>>,
}

impl Workers {
    async fn start(count: usize) -> Self {
        let (mut names, mut alone) = (Vec::new(), Vec::new());
        for index in 0..count {
            let mock = Mock::start(&[MODEL]).await;
            names.push((format!("worker-{index}"), mock.url()));
            alone.push(mock.answer_alone());
        }
        Self { names, alone }
    }

    /// A gateway before them.
    async fn gateway(&self, adjust: impl FnOnce(&mut GatewaySettings)) -> Gateway {
        let gateway = Gateway::start_unready(&[], |settings| {
            for (name, url) in &self.names {
                let mut worker = overdraft_gateway::WorkerSettings::new(url.clone());
                worker.name.clone_from(name);
                settings.workers.push(worker);
            }
            adjust(settings);
        })
        .await;
        gateway.until_up(self.names.len()).await;
        gateway
    }
}

/// One request; its status.
async fn ask(gateway: &Gateway) -> u16 {
    let mut client = gateway.client().await;
    client.post(CHAT, &chat("")).await;
    client.whole().await.0.status
}

async fn page(gateway: &Gateway, path: &str) -> String {
    gateway.client().await.get(path).await.1
}

/// Waits until a page says so.
async fn until_told(gateway: &Gateway, path: &str, wanted: &str) {
    let told = async {
        while !page(gateway, path).await.contains(wanted) {
            tokio::task::yield_now().await;
        }
    };
    in_time(told).await;
}

/// The figure of a metric on its page.
async fn figure(gateway: &Gateway, name: &str) -> u64 {
    let page = page(gateway, "/metrics").await;
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |rest| rest.trim().parse().unwrap())
}

pub(crate) fn place(settings: &mut GatewaySettings, url: &str) {
    settings.store.place = Place::parse(url).unwrap();
    settings.store.timeout = Duration::from_millis(500);
}

#[tokio::test]
async fn a_burst_of_throttling_is_forgotten_at_once() {
    let workers = Workers::start(2).await;
    let gateway = workers
        .gateway(|settings| {
            let now = Duration::ZERO;
            settings.admission.first_token = ByPriority { flex: now, default: now, priority: now };
        })
        .await;
    for worker in &workers.alone {
        worker.turn_to(429);
    }
    for _ in 0..4 {
        assert_eq!(ask(&gateway).await, 429);
    }
    for worker in &workers.alone {
        worker.turn_to(200);
    }
    for request in 0..30 {
        assert_eq!(ask(&gateway).await, 200, "request {request}");
    }
}

#[tokio::test]
async fn a_worker_that_turned_to_500_costs_no_client_a_failure() {
    let workers = Workers::start(2).await;
    let gateway = workers.gateway(|_| {}).await;
    workers.alone[0].turn_to(500);
    for request in 0..30 {
        assert_eq!(ask(&gateway).await, 200, "request {request}");
    }
    assert_eq!(workers.alone[0].asked(), 5, "then its breaker was open");
    until_told(
        &gateway,
        "/metrics",
        r#"overdraft_breaker_state{worker="worker-0",state="open"} 1"#,
    )
    .await;
    assert_eq!(figure(&gateway, r#"overdraft_breaker_transitions_total{to="open"}"#).await, 1);
    until_told(&gateway, "/admin/workers", r#""breaker":"open","breaker_streak":1"#).await;
}

#[tokio::test]
async fn a_worker_that_recovers_is_found_out_by_one_request() {
    let workers = Workers::start(2).await;
    let gateway =
        workers.gateway(|settings| settings.breaker.open_first = Micros::new(1_000)).await;
    workers.alone[0].turn_to(500);
    let opened = async {
        while figure(&gateway, r#"overdraft_breaker_transitions_total{to="open"}"#).await == 0 {
            assert_eq!(ask(&gateway).await, 200);
        }
    };
    in_time(opened).await;
    workers.alone[0].turn_to(200);
    let closed = async {
        while figure(&gateway, r#"overdraft_breaker_transitions_total{to="closed"}"#).await == 0 {
            assert_eq!(ask(&gateway).await, 200);
        }
    };
    in_time(closed).await;
    assert!(1 <= figure(&gateway, "overdraft_breaker_trials_total").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_opens_the_other_does_not_ask() {
    let redis = Redis::start(&[]);
    let workers = Workers::start(2).await;
    let one = workers.gateway(|settings| place(settings, &redis.url())).await;
    let other = workers.gateway(|settings| place(settings, &redis.url())).await;
    until_told(&other, "/metrics", "overdraft_store_gateways 2").await;
    workers.alone[0].turn_to(500);
    let opened = async {
        while figure(&one, r#"overdraft_breaker_transitions_total{to="open"}"#).await == 0 {
            assert_eq!(ask(&one).await, 200);
        }
    };
    in_time(opened).await;
    until_told(&other, "/admin/workers", r#""breaker":"open""#).await;
    let asked = workers.alone[0].asked();
    for _ in 0..20 {
        assert_eq!(ask(&other).await, 200);
    }
    assert_eq!(workers.alone[0].asked(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gateway_holds_the_other_tells_autoscalers_of() {
    let redis = Redis::start(&[]);
    let mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| manner.health = 503);
    let held = |settings: &mut GatewaySettings| {
        place(settings, &redis.url());
        settings.admission.hold = NEVER;
        settings.routing.models.insert(MODEL.to_owned(), ModelSettings::default());
    };
    let one = Gateway::start_unready(&[&mock], held).await;
    let other = Gateway::start_unready(&[&mock], held).await;
    let mut clients = Vec::new();
    for _ in 0..25 {
        clients.push(one.chat("").await);
    }
    let waiting = |count: u32| format!("overdraft_pool_waiting{{pool=\"target\"}} {count}\n");
    for gateway in [&one, &other] {
        until_told(gateway, "/metrics", &waiting(25)).await;
    }
    clients.push(other.chat("").await);
    for gateway in [&one, &other] {
        until_told(gateway, "/metrics", &waiting(26)).await;
    }
    drop(clients);
    for gateway in [&one, &other] {
        until_told(gateway, "/metrics", &waiting(0)).await;
    }
}

/// What a gateway tells of a worker, by its name.
async fn told_of(gateway: &Gateway, name: &str) -> Value {
    let list: Value = serde_json::from_str(&page(gateway, "/admin/workers").await).unwrap();
    let workers = list["workers"].as_array().unwrap();
    workers.iter().find(|one| one["name"] == name).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_replaces_another_under_its_name_begins_anew() {
    let redis = Redis::start(&[]);
    let workers = Workers::start(2).await;
    let for_long = |settings: &mut GatewaySettings| {
        place(settings, &redis.url());
        settings.breaker.open_first = Micros::new(3_600_000_000);
        settings.breaker.open_max = settings.breaker.open_first;
    };
    let one = workers.gateway(for_long).await;
    let other = workers.gateway(for_long).await;
    workers.alone[0].turn_to(500);
    let opened = async {
        while figure(&one, r#"overdraft_breaker_transitions_total{to="open"}"#).await == 0 {
            assert_eq!(ask(&one).await, 200);
        }
    };
    in_time(opened).await;
    until_told(&other, "/admin/workers", r#""breaker":"open""#).await;
    // As a pod of a StatefulSet: the same name at another address.
    let next = Mock::start(&[MODEL]).await;
    let url = next.url();
    let next = next.answer_alone();
    let mut settings = one.settings();
    settings.workers[0].url.clone_from(&url);
    one.change(settings);
    let up = async {
        loop {
            let told = told_of(&one, "worker-0").await;
            if told["url"] == url.as_str() && told["health"] == "up" {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    in_time(up).await;
    // Long enough for the board to be read several times.
    tokio::time::sleep(SOON * 3).await;
    assert_eq!(told_of(&one, "worker-0").await["breaker"], "closed");
    let asked = async {
        while next.asked() == 0 {
            assert_eq!(ask(&one).await, 200);
        }
    };
    in_time(asked).await;
    let still = told_of(&other, "worker-0").await;
    assert_eq!(still["breaker"], "open", "the other gateway has the one that fails: {still}");
}

// Faults: 61
#[tokio::test(flavor = "multi_thread")]
async fn of_two_gateways_one_tries_in_each_window() {
    let redis = Redis::start(&[]);
    let workers = Workers::start(2).await;
    let soon = |settings: &mut GatewaySettings| {
        place(settings, &redis.url());
        settings.breaker.open_first = Micros::new(50_000);
        settings.breaker.open_max = Micros::new(50_000);
    };
    let gateways = [workers.gateway(soon).await, workers.gateway(soon).await];
    until_told(&gateways[1], "/metrics", "overdraft_store_gateways 2").await;
    workers.alone[0].turn_to(500);
    let streak = |page: &str| -> usize {
        let (_, rest) = page.split_once(r#""breaker_streak":"#).unwrap();
        rest.split(',').next().unwrap().parse().unwrap()
    };
    let tried = async {
        loop {
            for gateway in &gateways {
                assert_eq!(ask(gateway).await, 200);
            }
            let windows = streak(&page(&gateways[0], "/admin/workers").await);
            if 8 <= windows {
                return windows;
            }
        }
    };
    let windows = in_time(tried).await;
    // Each window after the first opening had one trial.
    let trials = figure(&gateways[0], "overdraft_breaker_trials_total").await
        + figure(&gateways[1], "overdraft_breaker_trials_total").await;
    let trials = usize::try_from(trials).unwrap();
    assert!(windows - 1 <= trials && trials <= windows, "{trials} trials, {windows} windows");
    // Before, each gateway may have counted five failures of its own, the last before it heard.
    assert!(workers.alone[0].asked() <= 10 + trials, "{} asked", workers.alone[0].asked());
}

// Faults: 53, 54
#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_requests_go_on_and_it_is_told() {
    let port = free_port();
    let workers = Workers::start(2).await;
    let url = format!("redis://:s3cret@127.0.0.1:{port}");
    let gateway = workers.gateway(|settings| place(settings, &url)).await;
    until_told(&gateway, "/healthz", r#""store":"degraded""#).await;
    until_told(&gateway, "/metrics", "overdraft_store_degraded 1").await;
    assert_eq!(ask(&gateway).await, 200);
    let page = page(&gateway, "/admin/workers").await;
    assert!(page.contains(&format!("redis://127.0.0.1:{port}/0")) && !page.contains("s3cret"));
    let _redis = Redis::start_at(port, &["--requirepass", "s3cret"]).expect("the port is free");
    until_told(&gateway, "/healthz", r#""store":"ok""#).await;
    assert_eq!(ask(&gateway).await, 200);
}
