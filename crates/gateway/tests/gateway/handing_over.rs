//! Streams that a worker hands over while it lives, and one that nobody can go on with.

use std::time::Duration;

use overdraft_units::Micros;

use crate::client::End;
use crate::harness::{DONE, Gateway, MODEL, finish, token};
use crate::mock::Mock;
use crate::resuming::{text, vllms, vllms_with};

#[tokio::test]
async fn a_draining_worker_hands_its_streams_over_and_keeps_what_cannot_go() {
    let ([mut first, mut second], gateway) = vllms(Micros::ZERO).await;
    let mut client = gateway.stream().await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    client.head().await;
    client.chunk().await.unwrap();
    let mut drained = gateway.client().await;
    drained.post("/admin/workers/worker-0/drain", "").await;
    drained.whole().await;
    // Its next token shows that it lives; the answer goes on elsewhere from there.
    call.chunk(&token(" two")).await;
    assert_eq!(client.chunk().await, Ok(token(" two")));
    let next = second.call().await;
    assert_eq!(next.json()["messages"][1]["content"], "one two");
    // The other worker will not have it: it finishes where it is.
    next.answer(400, r#"{"error":{"message":"no"}}"#).await;
    call.chunk(&format!("{}{}{DONE}", token(" three"), finish("stop"))).await;
    call.end().await;
    let (rest, end) = client.rest().await;
    assert_eq!((rest, end), (format!("{}{}{DONE}", token(" three"), finish("stop")), End::Clean));
}

/// So does a worker that was told to end (SIGTERM): it says that it is not ready, and finishes what it has.
#[tokio::test]
async fn a_worker_that_is_not_ready_any_more_hands_its_streams_over() {
    let ([mut first, mut second], gateway) = vllms_with(|settings| {
        settings.resume.drain_after = Micros::ZERO;
        settings.probe.interval = Duration::from_millis(20);
    })
    .await;
    let mut client = gateway.stream().await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    client.head().await;
    client.chunk().await.unwrap();
    first.behave(|manner| manner.health = 503);
    gateway.until_up(1).await;
    call.chunk(&token(" two")).await;
    assert_eq!(client.chunk().await, Ok(token(" two")));
    let mut next = second.call().await;
    assert_eq!(next.json()["messages"][1]["content"], "one two");
    next.stream().await;
    next.chunk(&format!("{}{}{DONE}", token(" three"), finish("stop"))).await;
    next.end().await;
    let (rest, end) = client.rest().await;
    assert!(rest.contains("cause=drain") && rest.contains(" three"), "{rest}");
    assert_eq!(end, End::Clean);
    call.gone().await;
}

#[tokio::test]
async fn a_worker_whose_engine_stands_still_is_not_asked_to_go_on() {
    const LIMIT: Duration = Duration::from_secs(1);
    let mut mock = Mock::start(&[MODEL]).await;
    mock.behave(|manner| {
        let at_work = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n";
        manner.metrics = Some(format!("{at_work}vllm:generation_tokens_total 5\n").into());
    });
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.scrape.interval = Duration::from_millis(50);
        settings.scrape.idle_interval = settings.scrape.interval;
        let deadlines = &mut settings.routing.route.deadlines;
        (deadlines.first_token, deadlines.stall) = ((LIMIT / 4).into(), LIMIT.into());
        settings.resume.patience = Micros::from(LIMIT);
    })
    .await;
    let mut client = gateway.chat(r#","stream":true,"temperature":0"#).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    let (text, events, end) = text(&mut client).await;
    assert_eq!((text.as_str(), end), ("one", End::Aborted));
    assert!(events.contains("could not go on elsewhere: no_worker"), "{events}");
    assert!(mock.call_now().is_none(), "its engine computes nothing");
}
