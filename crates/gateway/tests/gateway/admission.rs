//! Who waits where there is no room, who goes first, and what is told to those who cannot wait.
//!
//! Each worker takes one request at a time, so that the test decides when there is room.

mod holding;

use std::time::Duration;

use overdraft_core::admit::{ByPriority, Mode};
use overdraft_gateway::GatewaySettings;

use crate::client::{Client, Head};
use crate::harness::{ANSWER, CHAT, Gateway, MODEL, NEVER, SOON, chat, in_time};
use crate::mock::{Call, Mock};

fn one_at_a_time(settings: &mut GatewaySettings) {
    settings.routing.route.admission.mode = Mode::Static(1);
    settings.admission.first_token = ByPriority { flex: NEVER, default: NEVER, priority: NEVER };
}

/// A request that can be told from others by what it says.
fn saying(name: &str, more: &str) -> String {
    format!(
        r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"name={name}."}}],"max_tokens":9{more}}}"#
    )
}

/// Which of them a worker was asked.
fn named(call: &Call) -> String {
    let body = String::from_utf8_lossy(&call.body);
    let (_, rest) = body.split_once("name=").expect("it has a name");
    rest.split_once('.').expect("the name ends").0.to_owned()
}

/// Posts and waits until so many of that priority are in the queue.
async fn queued(
    gateway: &Gateway,
    header: &str,
    body: &str,
    (priority, count): (&str, u32),
) -> Client {
    let mut client = gateway.client().await;
    client.post_with(CHAT, header, body).await;
    waiting(gateway, priority, count).await;
    client
}

async fn waiting(gateway: &Gateway, priority: &str, count: u32) {
    let line = format!("overdraft_queue_requests{{priority=\"{priority}\"}} {count}");
    gateway.until_line(&line).await;
}

/// Whether a refusal says when to come back as the SDKs want it.
fn comes_back(head: &Head) {
    let number = |name: &str| head.header(name).unwrap().parse::<u64>().unwrap();
    assert!((1..=30).contains(&number("retry-after")), "{}", head.text);
    assert!((1_000..=30_000).contains(&number("retry-after-ms")), "{}", head.text);
}

#[tokio::test]
async fn what_finds_no_room_waits_and_goes_when_there_is() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], one_at_a_time).await;
    let mut first = gateway.chat("").await;
    let held = mock.call().await;
    let mut second = queued(&gateway, "", &chat(""), ("default", 1)).await;
    assert!(mock.is_idle());
    // Whoever adds workers must know of those who wait for one.
    gateway.until_line("overdraft_pool_waiting{pool=\"target\"} 1").await;
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(second.whole().await.0.status, 200);
    waiting(&gateway, "default", 0).await;
    let line = "overdraft_queue_wait_seconds_count{priority=\"default\"} 1";
    gateway.until_line(line).await;
}

#[tokio::test]
async fn the_more_urgent_goes_first() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], one_at_a_time).await;
    let _first = gateway.chat("").await;
    let mut held = mock.call().await;
    let mut clients = Vec::new();
    for tier in ["flex", "default", "priority"] {
        let body = saying(tier, &format!(r#","service_tier":"{tier}""#));
        clients.push(queued(&gateway, "", &body, (tier, 1)).await);
    }
    for tier in ["priority", "default", "flex"] {
        held.answer(200, ANSWER).await;
        held = mock.call().await;
        assert_eq!(named(&held), tier);
    }
}

#[tokio::test]
async fn tenants_take_turns() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], one_at_a_time).await;
    let _first = gateway.chat("").await;
    let mut held = mock.call().await;
    let mut clients = Vec::new();
    let many = ["a1", "a2", "a3", "a4", "b1", "b2"];
    for (index, name) in (1..).zip(many) {
        let header = format!("authorization: Bearer {}\r\n", &name[..1]);
        clients.push(queued(&gateway, &header, &saying(name, ""), ("default", index)).await);
    }
    let mut order = Vec::new();
    for _ in many {
        held.answer(200, ANSWER).await;
        held = mock.call().await;
        order.push(named(&held));
    }
    // Whoever came late with little is not behind all of what another had sent before.
    assert_eq!(order, ["a1", "b1", "a2", "b2", "a3", "a4"]);
}

#[tokio::test]
async fn a_model_without_room_holds_up_no_other() {
    let mut full = Mock::start(&[MODEL]).await;
    let mut other = Mock::start(&["other"]).await;
    let gateway = Gateway::start_with(&[&full, &other], one_at_a_time).await;
    let _first = gateway.chat("").await;
    let _held = full.call().await;
    let _waits = queued(&gateway, "", &chat(""), ("default", 1)).await;
    let mut client = gateway.client().await;
    client.post(CHAT, r#"{"model":"other","messages":[]}"#).await;
    other.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    // Nor does anything wait that generates nothing.
    client.post("/tokenize", &format!(r#"{{"model":"{MODEL}","prompt":"hi"}}"#)).await;
    full.call().await.answer(200, "{}").await;
    assert_eq!(client.whole().await.0.status, 200);
}

// Faults: 64
#[tokio::test]
async fn a_client_that_goes_away_is_out_of_the_queue() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], one_at_a_time).await;
    let _first = gateway.chat("").await;
    let held = mock.call().await;
    let leaves = queued(&gateway, "", &saying("leaves", ""), ("default", 1)).await;
    let mut stays = queued(&gateway, "", &saying("stays", ""), ("default", 2)).await;
    drop(leaves);
    waiting(&gateway, "default", 1).await;
    held.answer(200, ANSWER).await;
    let call = mock.call().await;
    assert_eq!(named(&call), "stays");
    call.answer(200, ANSWER).await;
    assert_eq!(stays.whole().await.0.status, 200);
    waiting(&gateway, "default", 0).await;
}

#[tokio::test]
async fn who_has_waited_for_too_long_is_told_why_and_when_to_come_back() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        one_at_a_time(settings);
        settings.admission.first_token.flex = SOON;
    })
    .await;
    let _first = gateway.chat("").await;
    let _held = mock.call().await;
    let mut client = gateway.chat(r#","service_tier":"flex""#).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 429, "{body}");
    comes_back(&head);
    assert_eq!(head.header("x-overdraft-priority"), Some("flex"));
    assert!(body.contains("\"rate_limit_exceeded\""), "{body}");
    assert!(body.contains("needs about") && body.contains("that is free"), "{body}");
    let line = "router_rejections_total{reason=\"late\",priority=\"flex\"} 1";
    gateway.until_line(line).await;
    waiting(&gateway, "flex", 0).await;
}

#[tokio::test]
async fn who_will_soon_be_started_is_kept_when_its_time_is_over() {
    const PATIENCE: Duration = Duration::from_secs(2);
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        one_at_a_time(settings);
        settings.admission.first_token.default = PATIENCE;
    })
    .await;
    let mut clients = vec![gateway.chat("").await];
    let mut call = mock.call().await;
    for place in 1..=11 {
        clients.push(queued(&gateway, "", &chat(""), ("default", place)).await);
    }
    // Nine are started one after the other, and the two that are left are over their time.
    for _ in 0..9 {
        tokio::time::sleep(SOON).await;
        call.answer(200, ANSWER).await;
        call = mock.call().await;
    }
    tokio::time::sleep(PATIENCE.saturating_sub(9 * SOON)).await;
    waiting(&gateway, "default", 2).await;
    for _ in 0..2 {
        call.answer(200, ANSWER).await;
        call = mock.call().await;
    }
    call.answer(200, ANSWER).await;
    for mut client in clients {
        assert_eq!(client.whole().await.0.status, 200);
    }
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_says_whose_fault_it_is() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        one_at_a_time(settings);
        (settings.admission.queue.requests, settings.admission.queue.per_tenant) = (4, 1);
    })
    .await;
    let _first = gateway.chat("").await;
    let _held = mock.call().await;
    let _waits = queued(&gateway, "", &chat(""), ("default", 1)).await;
    let mut client = gateway.chat("").await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, head.header("x-should-retry")), (429, Some("false")), "{body}");
    comes_back(&head);
    assert!(body.contains("your share of the wait queue is full"), "{body}");
    let mut others = Vec::new();
    for (index, tenant) in (2..).zip(["b", "c"]) {
        let header = format!("authorization: Bearer {tenant}\r\n");
        others.push(queued(&gateway, &header, &chat(""), ("default", index)).await);
    }
    client.post_with(CHAT, "authorization: Bearer d\r\n", &chat("")).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, head.header("x-should-retry")), (429, None), "{body}");
    comes_back(&head);
    // There is room for what is more urgent.
    let header = "authorization: Bearer e\r\nx-overdraft-priority: priority\r\n";
    let _urgent = queued(&gateway, header, &chat(""), ("priority", 1)).await;
}

#[tokio::test]
async fn a_gateway_that_shuts_down_lets_nobody_wait() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway = Gateway::start_with(&[&mock], one_at_a_time).await;
    let mut first = gateway.chat("").await;
    let held = mock.call().await;
    let mut waits = queued(&gateway, "", &chat(""), ("default", 1)).await;
    gateway.stop();
    let (head, body) = waits.whole().await;
    assert_eq!(head.status, 503, "{body}");
    comes_back(&head);
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    gateway.stopped().await;
}

#[tokio::test]
async fn an_explanation_says_what_is_asked_and_what_is_free() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], one_at_a_time).await;
    let _first = gateway.chat("").await;
    let _held = mock.call().await;
    let mut client = gateway.client().await;
    client.post("/admin/explain", &chat("")).await;
    let (_, body) = client.whole().await;
    let told: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["choice"], "saturated", "{body}");
    assert_eq!(told["candidates"][0]["reason"], "saturated", "{body}");
    assert!(told["saturated"]["asked_tokens"].as_u64().unwrap() > 0, "{body}");
    let wait = told["saturated"]["retry_after_us"].as_u64().unwrap();
    assert!((1_000_000..=30_000_000).contains(&wait), "{body}");
}

/// What clients of a storm do, drawn from a fixed sequence.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_storm_of_comings_and_goings_nothing_is_left_behind() {
    const REQUESTS: u64 = 300;
    let [mut one, mut two] = Mock::pair().await;
    let gateway = Gateway::start_with(&[&one, &two], |settings| {
        one_at_a_time(settings);
        settings.admission.first_token.flex = SOON;
        settings.admission.queue.per_tenant = 20;
    })
    .await;
    let storm = async {
        let mut state = 7;
        let mut clients = Vec::new();
        for _ in 0..REQUESTS {
            let tier = ["flex", "default", "priority"][(draw(&mut state) % 3) as usize];
            let tenant = draw(&mut state) % 4;
            let stream = draw(&mut state).is_multiple_of(2);
            let body = chat(&format!(r#","service_tier":"{tier}","stream":{stream}"#));
            let mut client = gateway.client().await;
            let header = format!("authorization: Bearer {tenant}\r\n");
            client.post_with(CHAT, &header, &body).await;
            clients.push(client);
            // Some leave while they wait, others while they are answered.
            if draw(&mut state).is_multiple_of(2) {
                let at = usize::try_from(draw(&mut state)).unwrap() % clients.len();
                drop(clients.swap_remove(at));
            }
        }
        // Those that are left want their answer, whatever it is.
        for client in &mut clients {
            client.head().await;
        }
    };
    let serve = async {
        loop {
            let call = tokio::select! { call = one.call() => call, call = two.call() => call };
            // The client may be gone, and the connection with it.
            call.answer_if_there(ANSWER).await;
        }
    };
    tokio::select! {
        () = in_time(storm) => {}
        () = serve => {}
    }
    // Answers to those who left are not read, and calls that came last are not answered.
    drop((one, two));
    for priority in ["flex", "default", "priority"] {
        waiting(&gateway, priority, 0).await;
    }
    for worker in ["worker-0", "worker-1"] {
        let line = format!("overdraft_worker_inflight{{worker=\"{worker}\"}} 0");
        gateway.until_line(&line).await;
    }
    gateway.until_line("overdraft_inflight_requests 1").await;
}
