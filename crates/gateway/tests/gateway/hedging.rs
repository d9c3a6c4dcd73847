//! Second attempts for late first tokens, as the client and the workers see them.

use overdraft_core::hedge::{HedgeSettings, Mode};

use crate::client::End;
use crate::harness::{DONE, Gateway, MODEL, SOON, finish, token};
use crate::mock::{Call, Mock};

/// First tokens that must have been seen before any is late.
const LEARNT: usize = 20;

/// Two workers whose first tokens came as usual so far, and a gateway that hedges.
async fn learnt() -> ([Mock; 2], Gateway) {
    let mut mocks = Mock::pair().await;
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
        settings.hedging = HedgeSettings { mode: Mode::On, budget_permille: 1_000 };
    })
    .await;
    for _ in 0..LEARNT {
        let mut client = gateway.stream().await;
        answer(either(&mut mocks).await.0).await;
        client.head().await;
        assert_eq!(client.rest().await.1, End::Clean);
    }
    (mocks, gateway)
}

/// The next request, and which worker it came to.
async fn either([one, other]: &mut [Mock; 2]) -> (Call, usize) {
    tokio::select! {
        call = one.call() => (call, 0),
        call = other.call() => (call, 1),
    }
}

async fn answer(mut call: Call) {
    call.stream().await;
    call.chunk(&format!("{}{}{DONE}", token("one"), finish("stop"))).await;
    call.end().await;
}

async fn counts(gateway: &Gateway, result: &str) -> bool {
    let metrics = gateway.metrics().await;
    metrics.contains(&format!("overdraft_hedges_total{{result=\"{result}\"}} 1"))
}

#[tokio::test]
async fn the_faster_of_two_answers_and_the_slower_is_told() {
    let (mut mocks, gateway) = learnt().await;
    let mut client = gateway.stream().await;
    let (slow, at) = either(&mut mocks).await;
    let second = mocks[1 - at].call().await;
    assert_eq!(second.text(), slow.text());
    answer(second).await;
    client.head().await;
    let (events, end) = client.rest().await;
    assert_eq!((events.matches("one").count(), end), (1, End::Clean));
    slow.gone().await;
    assert!(counts(&gateway, "won").await);
}

#[tokio::test]
async fn a_second_attempt_that_is_slower_is_told() {
    let (mut mocks, gateway) = learnt().await;
    let mut client = gateway.stream().await;
    let (first, at) = either(&mut mocks).await;
    let second = mocks[1 - at].call().await;
    answer(first).await;
    client.head().await;
    assert_eq!(client.rest().await.1, End::Clean);
    second.gone().await;
    assert!(counts(&gateway, "lost").await);
}

#[tokio::test]
async fn where_the_first_fails_the_second_goes_on() {
    let (mut mocks, gateway) = learnt().await;
    let mut client = gateway.stream().await;
    let (first, at) = either(&mut mocks).await;
    let second = mocks[1 - at].call().await;
    first.reset();
    answer(second).await;
    client.head().await;
    let (events, end) = client.rest().await;
    assert_eq!((events.matches("one").count(), end), (1, End::Clean));
    assert!(counts(&gateway, "won").await);
}

#[tokio::test]
async fn where_the_second_fails_the_first_goes_on() {
    let (mut mocks, gateway) = learnt().await;
    let mut client = gateway.stream().await;
    let (first, at) = either(&mut mocks).await;
    mocks[1 - at].call().await.answer(500, r#"{"error":{"message":"no"}}"#).await;
    while !counts(&gateway, "failed").await {
        tokio::task::yield_now().await;
    }
    answer(first).await;
    client.head().await;
    assert_eq!(client.rest().await.1, End::Clean);
}

#[tokio::test]
async fn why_no_second_attempt_was_sent_is_counted_when_the_first_has_answered() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.hedging = HedgeSettings { mode: Mode::On, budget_permille: 1_000 };
    })
    .await;
    let page = gateway.metrics().await;
    assert!(page.contains("overdraft_hedges_total{result=\"no_room\"} 0"), "{page}");
    // The last ones are late, by more each time: nobody knows how late is late here. All looks take longer than any.
    let late = [SOON, SOON * 2, SOON * 4].map(Some);
    for wait in [None; LEARNT].into_iter().chain(late) {
        let mut client = gateway.stream().await;
        let call = mock.call().await;
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        answer(call).await;
        client.head().await;
        assert_eq!(client.rest().await.1, End::Clean);
        if counts(&gateway, "no_room").await {
            return;
        }
    }
    panic!("no denial was counted");
}
