//! A listener for operators, probes and scrapers apart from clients'.

mod audit;

use crate::client::{Client, End};
use crate::harness::{ANSWER, CHAT, Gateway, MODEL, NEVER, SOON, chat, in_time, token};
use crate::mock::Mock;

/// What a request to a path comes to where it names `host`.
async fn ask_as(client: &mut Client, host: &str, path: &str) -> u16 {
    client.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
    client.whole().await.0.status
}

#[tokio::test]
async fn clients_find_models_and_operators_find_metrics() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with_admin(&[&mock], |_| {}).await;
    let (mut client, mut operator) = (gateway.client().await, gateway.operator().await);
    for (path, of_clients, of_operators) in [
        ("/v1/models", 200, 404),
        ("/metrics", 404, 200),
        ("/admin/workers", 404, 200),
        ("/healthz", 200, 200),
        ("/readyz", 200, 200),
        ("/livez", 200, 200),
        ("/version", 200, 200),
    ] {
        assert_eq!(client.get(path).await.0.status, of_clients, "{path} of a client");
        assert_eq!(operator.get(path).await.0.status, of_operators, "{path} of an operator");
    }
    operator.post(CHAT, &chat("")).await;
    assert_eq!(operator.whole().await.0.status, 404);
    let (told, asked) = (client.get("/").await.1, operator.get("/").await.1);
    assert!(told.contains(CHAT) && !told.contains("/metrics"), "{told}");
    assert!(!asked.contains(CHAT) && asked.contains("/metrics"), "{asked}");
}

#[tokio::test]
async fn a_gateway_without_room_for_clients_still_answers_its_operators() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway =
        Gateway::start_with_admin(&[&mock], |settings| settings.listen.connections = 1).await;
    let held = gateway.client().await;
    assert_eq!(gateway.operator().await.get("/livez").await.0.status, 200);
    drop(held);
}

#[tokio::test]
async fn a_page_that_points_its_own_name_here_reads_nothing() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with_admin(&[&mock], |settings| {
        settings.admin.hosts = vec!["gateway-admin".to_owned()];
        settings.admin.token = Some("secret".to_owned());
    })
    .await;
    let mut operator = gateway.operator().await;
    for path in ["/metrics", "/admin/workers", "/"] {
        assert_eq!(ask_as(&mut operator, "page.example:9091", path).await, 403, "{path}");
    }
    assert_eq!(ask_as(&mut operator, "page.example:9091", "/livez").await, 200, "a probe");
    assert_eq!(ask_as(&mut operator, "gateway-admin:9091", "/metrics").await, 200);
    let named = "page.example\r\nauthorization: Bearer secret";
    assert_eq!(ask_as(&mut operator, named, "/admin/workers").await, 200, "with the token");
}

#[tokio::test]
async fn without_a_token_loopback_is_not_enough_under_a_foreign_name() {
    let mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    assert_eq!(ask_as(&mut client, "page.example:8080", "/admin/workers").await, 403);
    assert_eq!(ask_as(&mut client, "127.0.0.1:8080", "/admin/workers").await, 200);
}

#[tokio::test]
async fn operators_are_answered_until_the_last_client_has_gone() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway =
        Gateway::start_with_admin(&[&mock], |settings| settings.listen.drain = NEVER).await;
    let mut client = gateway.chat("").await;
    let waiting = mock.call().await;
    let mut operator = gateway.operator().await;
    assert_eq!(operator.get("/readyz").await.0.status, 200);
    gateway.stop();
    let left = async { while operator.get("/readyz").await.0.status != 503 {} };
    in_time(left).await;
    assert_eq!(gateway.operator().await.get("/livez").await.0.status, 200);
    assert_eq!(gateway.operator().await.get("/metrics").await.0.status, 200);
    waiting.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    drop(client);
    assert!(operator.is_closed().await);
    assert_eq!(gateway.stopped().await.connections_cut, 0);
}

/// Begins a stream and cuts it by a drain.
async fn cut(gateway: &mut Gateway, mock: &mut Mock) {
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    client.head().await;
    client.chunk().await.unwrap();
    gateway.stop();
    assert_eq!(client.rest().await.1, End::Aborted);
}

#[tokio::test]
async fn who_cuts_streams_is_scraped_once_more_before_it_ends() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway =
        Gateway::start_with_admin(&[&mock], |settings| settings.listen.drain = SOON).await;
    // Somebody scrapes.
    assert_eq!(gateway.operator().await.get("/metrics").await.0.status, 200);
    cut(&mut gateway, &mut mock).await;
    let cut = "overdraft_request_ends_total{end=\"DD\"} 1";
    let told = async { while !gateway.operator().await.get("/metrics").await.1.contains(cut) {} };
    in_time(told).await;
    assert_eq!(gateway.stopped().await.connections_cut, 1);
}

#[tokio::test]
async fn who_cuts_streams_and_was_never_scraped_waits_for_nobody() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut gateway =
        Gateway::start_with_admin(&[&mock], |settings| settings.listen.drain = SOON).await;
    cut(&mut gateway, &mut mock).await;
    let begun = std::time::Instant::now();
    assert_eq!(gateway.stopped().await.connections_cut, 1);
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}
