//! Who waits where there is no room, who goes first, and what is told to those who cannot wait.
//!
//! Each worker takes one request at a time, so that the test decides when there is room.

use std::time::Duration;

use overdraft_core::admit::{ByPriority, Mode};
use overdraft_gateway::{
    GatewaySettings, ModelSettings, WebPlace, WebhookSettings, WorkerSettings,
};

use crate::client::{Client, End, Head};
use crate::harness::{
    ANSWER, CHAT, DONE, Gateway, MODEL, NEVER, SOON, chat, finish, in_time, token,
};
use crate::keys::until_metrics;
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
    until_metrics(gateway, &line).await;
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
    until_metrics(&gateway, "overdraft_pool_waiting{pool=\"target\"} 1").await;
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(second.whole().await.0.status, 200);
    waiting(&gateway, "default", 0).await;
    let line = "overdraft_queue_wait_seconds_count{priority=\"default\"} 1";
    until_metrics(&gateway, line).await;
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
    until_metrics(&gateway, line).await;
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
    assert!(body.contains("of yours"), "{body}");
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
    let (mut one, mut two) = (Mock::start(&[MODEL]).await, Mock::start(&[MODEL]).await);
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
        until_metrics(&gateway, &line).await;
    }
    until_metrics(&gateway, "overdraft_inflight_requests 1").await;
}

/// A gateway before a worker that is not up, which holds the requests for it.
async fn holding(mock: &Mock, adjust: impl FnOnce(&mut GatewaySettings)) -> Gateway {
    mock.behave(|manner| manner.health = 503);
    Gateway::start_unready(&[mock], |settings| {
        one_at_a_time(settings);
        settings.admission.hold = NEVER;
        settings.probe.interval = SOON;
        settings.routing.models.insert(MODEL.to_owned(), ModelSettings::default());
        adjust(settings);
    })
    .await
}

#[tokio::test]
async fn fifty_requests_are_held_until_a_worker_is_up_and_all_are_answered_in_their_order() {
    const COUNT: u32 = 50;
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |_| {}).await;
    let mut clients = Vec::new();
    for number in 0..COUNT {
        let body = saying(&number.to_string(), "");
        clients.push(queued(&gateway, "", &body, ("default", number + 1)).await);
    }
    assert!(mock.is_idle());
    // They wake a pool from zero: ten may wait for each worker.
    let wanted = r#"overdraft_pool_desired_load{pool="target",signal="waiting"} 5"#;
    crate::care::told(&gateway, wanted).await;
    mock.behave(|manner| manner.health = 200);
    for (number, mut client) in (0..COUNT).zip(clients) {
        let call = mock.call().await;
        assert_eq!(named(&call), number.to_string(), "the oldest first");
        call.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
    assert!(mock.is_idle(), "none was sent twice");
}

#[tokio::test]
async fn who_is_held_for_too_long_is_told_to_come_back() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |settings| settings.admission.hold = SOON).await;
    let (head, body) = gateway.chat("").await.whole().await;
    assert_eq!(head.status, 503);
    assert!(head.header("retry-after").is_some());
    assert!(body.contains("has come up within"), "{body}");
    // A model that nobody knows is not waited for.
    let mut client = gateway.client().await;
    client.post(CHAT, r#"{"model":"unknown","messages":[]}"#).await;
    assert_eq!(client.whole().await.0.status, 404);
}

/// A gateway before a worker that does not answer yet, a client that asked it at once, and the worker.
async fn at_once(body: &str) -> (Gateway, Client, Mock) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let gateway = Gateway::start_unready(&[], |settings| {
        settings.workers = vec![WorkerSettings::new(url)];
    })
    .await;
    let mut client = gateway.client().await;
    client.post(CHAT, body).await;
    // Time enough for a refusal.
    tokio::time::sleep(SOON).await;
    (gateway, client, Mock::start_at(listener, &[MODEL]))
}

#[tokio::test]
async fn who_comes_right_after_a_start_waits_until_the_workers_have_told_what_they_serve() {
    let (_gateway, mut client, mut mock) = at_once(&chat("")).await;
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_model_that_no_worker_has_told_of_is_unknown_once_all_were_asked() {
    let (_gateway, mut client, _mock) = at_once(r#"{"model":"unknown","messages":[]}"#).await;
    assert_eq!(client.whole().await.0.status, 404);
}

#[tokio::test]
async fn no_more_are_held_than_may_and_who_leaves_makes_room() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |settings| settings.admission.queue.held = 1).await;
    let held = queued(&gateway, "", &chat(""), ("default", 1)).await;
    let (head, body) = gateway.chat("").await.whole().await;
    assert_eq!(head.status, 503);
    assert!(body.contains("as many requests wait for one as may"), "{body}");
    drop(held);
    until_metrics(&gateway, "overdraft_queue_requests{priority=\"default\"} 0").await;
    let _held = queued(&gateway, "", &chat(""), ("default", 1)).await;
}

/// A chat that wants a stream.
fn streamed() -> String {
    chat(r#","stream":true"#)
}

const COMMENT: &str = ": waiting for a worker\n\n";

#[tokio::test]
async fn a_stream_that_is_held_is_sent_comments_and_then_its_answer() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |settings| settings.admission.keep_alive = SOON / 4).await;
    let mut client = queued(&gateway, "", &streamed(), ("default", 1)).await;
    let head = client.head().await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    for _ in 0..3 {
        assert_eq!(client.chunk().await, Ok(COMMENT.to_owned()));
    }
    mock.behave(|manner| manner.health = 200);
    let mut call = mock.call().await;
    call.stream().await;
    let whole = format!("{}{}{DONE}", token("a"), finish("stop"));
    call.chunk(&whole).await;
    call.end().await;
    let (rest, end) = client.rest().await;
    assert_eq!((rest.replace(COMMENT, ""), end), (whole, End::Clean));
}

#[tokio::test]
async fn one_that_may_be_kept_is_told_as_well_that_it_is_held() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |settings| {
        settings.admission.keep_alive = SOON / 4;
        settings.cache.mode = overdraft_gateway::CacheMode::On;
    })
    .await;
    let greedy = chat(r#","stream":true,"temperature":0"#);
    let mut client = queued(&gateway, "", &greedy, ("default", 1)).await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(client.chunk().await, Ok(COMMENT.to_owned()));
    mock.behave(|manner| manner.health = 200);
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}{DONE}", token("a"), finish("stop"))).await;
    call.end().await;
    assert_eq!(client.rest().await.1, End::Clean);
}

#[tokio::test]
async fn a_stream_of_a_dialect_that_is_held_hears_of_it_in_that_dialect() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |settings| settings.admission.keep_alive = SOON / 4).await;
    let message = chat(r#","max_tokens":9,"stream":true"#);
    let response = format!(r#"{{"model":"{MODEL}","input":"hi","stream":true}}"#);
    let ping = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    for (path, body, sign) in
        [("/v1/messages", &message, ping), ("/v1/responses", &response, ": keep-alive\n\n")]
    {
        let mut client = gateway.client().await;
        client.post(path, body).await;
        assert_eq!(client.head().await.status, 200);
        for _ in 0..3 {
            assert_eq!(client.chunk().await, Ok(sign.to_owned()), "{path}");
        }
        drop(client);
        waiting(&gateway, "default", 0).await;
    }
    mock.behave(|manner| manner.health = 200);
    let mut client = gateway.client().await;
    client.post("/v1/messages", &message).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&format!("{}{}{DONE}", token("a"), finish("stop"))).await;
    call.end().await;
    assert!(client.rest_after_head().await.contains("event: message_stop"));
}

#[tokio::test]
async fn what_is_refused_after_a_comment_is_told_in_band() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |settings| {
        settings.admission.hold = 3 * SOON;
        settings.admission.keep_alive = SOON / 4;
    })
    .await;
    let mut client = queued(&gateway, "", &streamed(), ("default", 1)).await;
    assert_eq!(client.head().await.status, 200);
    let (rest, end) = client.rest().await;
    let (comments, error) = rest.split_once("data: ").unwrap();
    assert!(comments.replace(COMMENT, "").is_empty() && end == End::Aborted, "{rest}");
    assert!(error.starts_with(r#"{"error":{"#) && error.contains("has come up within"), "{rest}");
    // Who wants no stream gets a status of its own.
    assert_eq!(gateway.chat("").await.whole().await.0.status, 503);
}

#[tokio::test]
async fn who_leaves_while_it_is_told_to_wait_is_out_of_the_queue() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = holding(&mock, |settings| settings.admission.keep_alive = SOON / 4).await;
    let mut client = queued(&gateway, "", &streamed(), ("default", 1)).await;
    assert_eq!(client.head().await.status, 200);
    drop(client);
    waiting(&gateway, "default", 0).await;
}

#[tokio::test]
async fn a_hook_is_called_once_for_all_that_are_held_and_again_after_it_failed() {
    let mock = Mock::start(&[MODEL]).await;
    let mut hook = Mock::start(&[]).await;
    let place = WebPlace::parse(&format!("{}/wake_up", hook.url())).unwrap();
    let gateway = holding(&mock, |settings| {
        let wake = Some(WebhookSettings { place, token: None, timeout: NEVER });
        settings
            .routing
            .models
            .insert(MODEL.to_owned(), ModelSettings { wake, ..Default::default() });
    })
    .await;
    let _first = queued(&gateway, "", &chat(""), ("default", 1)).await;
    let call = hook.call().await;
    assert!(call.head.starts_with("POST /wake_up HTTP/1.1"), "{}", call.head);
    assert_eq!(call.text(), r#"{"model":"m","held":1}"#);
    let _second = queued(&gateway, "", &chat(""), ("default", 2)).await;
    assert!(hook.is_idle(), "one is under way");
    call.answer(500, "{}").await;
    let call = hook.call().await;
    assert_eq!(call.text(), r#"{"model":"m","held":2}"#);
    call.answer(200, "{}").await;
    until_metrics(&gateway, "overdraft_wakes_total{result=\"failed\"} 1").await;
    until_metrics(&gateway, "overdraft_wakes_total{result=\"answered\"} 1").await;
}
