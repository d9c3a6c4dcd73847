//! The end: no stream is cut that can still finish, and none that cannot ends as if it had.

use crate::client::End;
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, NEVER, SOON, chat, finish, token};
use crate::mock::Mock;

// Faults: 78
#[tokio::test]
async fn a_drain_lets_what_runs_finish_and_takes_nothing_new() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway = Gateway::start_with(&[&mock], |settings| settings.listen.drain = NEVER).await;
    let mut streaming = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    streaming.head().await;
    streaming.chunk().await.unwrap();
    let mut whole = gateway.chat("").await;
    let waiting = mock.call().await;
    let mut idle = gateway.client().await;
    idle.get("/livez").await;

    gateway.stop();
    // Idle connections are closed, so this one tells when the drain has begun.
    assert!(idle.is_closed().await);
    assert!(tokio::net::TcpStream::connect(gateway.address).await.is_err());

    waiting.answer(200, ANSWER).await;
    assert_eq!(whole.whole().await.0.status, 200);
    call.chunk(&format!("{}{}{DONE}", token("b"), finish("stop"))).await;
    call.end().await;
    let expected = format!("{}{}{DONE}", token("b"), finish("stop"));
    assert_eq!(streaming.rest().await, (expected, End::Clean));
    drop((streaming, whole, idle));
    assert_eq!(gateway.stopped().await.connections_cut, 0);
}

#[tokio::test]
async fn before_it_stops_accepting_it_says_that_it_will() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway =
        Gateway::start_with(&[&mock], |settings| settings.listen.lame_duck = NEVER).await;
    gateway.stop();
    let (_, body) = gateway.until_down().await;
    assert!(body.contains("shutting down"), "{body}");
    // Until load balancers have noticed, requests are served as ever.
    let mut client = gateway.client().await;
    client.post(CHAT, &chat("")).await;
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_stream_that_outlives_the_drain_ends_with_an_error_event_and_an_abort() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway = Gateway::start_with(&[&mock], |settings| settings.listen.drain = SOON).await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    client.head().await;
    client.chunk().await.unwrap();
    gateway.stop();
    let (rest, end) = client.rest().await;
    assert_eq!(end, End::Aborted);
    assert!(rest.starts_with("data: {\"error\":") && rest.contains("shutting down"), "{rest}");
    call.gone().await;
    drop(client);
    assert_eq!(gateway.stopped().await.connections_cut, 1);
}
