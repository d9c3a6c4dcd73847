//! Requests that are held until a worker of their model is up, and what is told to those that are.

use std::net::SocketAddr;

use overdraft_gateway::{
    CascadeSettings, DnsSettings, GatewaySettings, ModelSettings, Pool, ScrapeFailure, Source,
    WebAddress, WebhookSettings, WorkerSettings,
};

use super::{named, one_at_a_time, queued, saying, waiting};
use crate::client::{Client, End};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, NEVER, SOON, chat, finish, token};
use crate::mock::Mock;
use crate::routing::{page, until};
use crate::worker_file::WorkerFile;

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
    gateway.until_words(wanted).await;
    mock.behave(|manner| manner.health = 200);
    for (number, mut client) in (0..COUNT).zip(clients) {
        let call = mock.call().await;
        assert_eq!(named(&call), number.to_string(), "the oldest first");
        call.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
    assert!(mock.is_idle(), "none was sent twice");
}

/// A gateway before workers that nobody has started yet, which holds the requests for them.
async fn empty(adjust: impl FnOnce(&mut GatewaySettings)) -> Gateway {
    Gateway::start_unready(&[], |settings| {
        settings.admission.hold = NEVER;
        settings.probe.timeout = SOON;
        adjust(settings);
    })
    .await
}

/// Workers of a pool for `model` if they say so, by a name that has no addresses.
fn sought(name: &str, pool: Pool, model: Option<&str>) -> Source {
    let mut source = DnsSettings::new(name, 8000);
    // Nobody answers there.
    source.server = Some(SocketAddr::from(([127, 0, 0, 1], 9)));
    source.pool = pool;
    source.model = model.map(str::to_owned);
    Source::Dns(source)
}

/// What waits for each pool, as autoscalers are told.
async fn wakes(gateway: &Gateway, target: u32, draft: u32) {
    for (pool, count) in [("target", target), ("draft", draft)] {
        let line = format!("overdraft_pool_waiting{{pool=\"{pool}\"}} {count}");
        gateway.until_line(&line).await;
    }
}

const SMALL: &str = r#"{"model":"small","messages":[]}"#;

#[tokio::test]
async fn who_is_held_wakes_the_pool_that_discovery_names_for_its_model() {
    let gateway = empty(|settings| {
        let large = sought("large.test.", Pool::Target, Some(MODEL));
        settings.discovery = vec![large, sought("small.test.", Pool::Draft, Some("small"))];
    })
    .await;
    let _one = queued(&gateway, "", SMALL, ("default", 1)).await;
    let _two = queued(&gateway, "", SMALL, ("default", 2)).await;
    wakes(&gateway, 0, 2).await;
    let _three = queued(&gateway, "", &chat(""), ("default", 3)).await;
    wakes(&gateway, 1, 2).await;
}

#[tokio::test]
async fn who_is_held_for_the_draft_of_a_cascade_wakes_the_drafts_where_nobody_says_their_model() {
    let gateway = empty(|settings| {
        settings.discovery = vec![sought("all.test.", Pool::Target, None)];
        let cascade = CascadeSettings::new("small", MODEL);
        settings.cascades.insert("smart".to_owned(), cascade);
    })
    .await;
    let _one = queued(&gateway, "", SMALL, ("default", 1)).await;
    wakes(&gateway, 0, 1).await;
    let _two = queued(&gateway, "", &chat(""), ("default", 2)).await;
    wakes(&gateway, 1, 1).await;
}

#[tokio::test]
async fn who_is_held_wakes_the_pool_in_which_its_model_was_before() {
    let mock = Mock::start(&["small"]).await;
    let file = WorkerFile::new(&format!("{} pool=draft\n", mock.url()));
    let gateway = empty(|settings| settings.discovery = vec![file.source()]).await;
    gateway.until_up(1).await;
    file.write("[]");
    until(&gateway, |list| list["workers"].as_array().unwrap().is_empty()).await;
    let _one = queued(&gateway, "", SMALL, ("default", 1)).await;
    wakes(&gateway, 0, 1).await;
}

#[tokio::test]
async fn who_is_held_is_served_as_soon_as_its_worker_tells_its_load_again() {
    let mut mock = Mock::start(&[MODEL]).await;
    let told = || Some(page(0, 0, "0.25"));
    mock.behave(|manner| manner.metrics = told());
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.admission.hold = NEVER;
        settings.scrape.interval = SOON;
        settings.scrape.idle_interval = SOON;
        settings.scrape.failure = ScrapeFailure::Unhealthy;
    })
    .await;
    mock.behave(|manner| manner.metrics = None);
    until(&gateway, |list| list["workers"][0]["health"] == "unmeasured").await;
    let mut client = queued(&gateway, "", &chat(""), ("default", 1)).await;
    mock.behave(|manner| manner.metrics = told());
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn who_is_held_is_served_as_soon_as_its_worker_rejoins() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| settings.admission.hold = NEVER).await;
    let mut operator = gateway.operator().await;
    operator.post("/admin/workers/worker-0/drain", "").await;
    assert_eq!(operator.whole().await.0.status, 200);
    let mut client = queued(&gateway, "", &chat(""), ("default", 1)).await;
    assert!(mock.is_idle());
    operator.post("/admin/workers/worker-0/rejoin", "").await;
    assert_eq!(operator.whole().await.0.status, 200);
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
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
    assert!(body.contains("the queue of requests that wait for one is full"), "{body}");
    drop(held);
    gateway.until_line("overdraft_queue_requests{priority=\"default\"} 0").await;
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

/// Names `hook` as what starts workers of [`MODEL`].
fn woken_by(hook: &Mock, settings: &mut GatewaySettings) {
    let place = WebAddress::parse(&format!("{}/wake_up", hook.url())).unwrap();
    let wake = Some(WebhookSettings { place, token: None, timeout: NEVER });
    settings.routing.models.insert(MODEL.to_owned(), ModelSettings { wake, ..Default::default() });
}

#[tokio::test]
async fn a_hook_is_called_where_the_only_worker_drains() {
    let mock = Mock::start(&[MODEL]).await;
    let mut hook = Mock::start(&[]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.admission.hold = NEVER;
        woken_by(&hook, settings);
    })
    .await;
    let mut operator = gateway.operator().await;
    operator.post("/admin/workers/worker-0/drain", "").await;
    assert_eq!(operator.whole().await.0.status, 200);
    let _held = queued(&gateway, "", &chat(""), ("default", 1)).await;
    let call = hook.call().await;
    assert_eq!(call.text(), r#"{"model":"m","held":1}"#);
    call.answer(200, "{}").await;
    gateway.until_line("overdraft_wakes_total{result=\"answered\"} 1").await;
}

#[tokio::test]
async fn a_hook_is_called_once_for_all_that_are_held_and_again_after_it_failed() {
    let mock = Mock::start(&[MODEL]).await;
    let mut hook = Mock::start(&[]).await;
    let gateway = holding(&mock, |settings| woken_by(&hook, settings)).await;
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
    gateway.until_line("overdraft_wakes_total{result=\"failed\"} 1").await;
    gateway.until_line("overdraft_wakes_total{result=\"answered\"} 1").await;
}
