//! What a client on a real socket sees of a listener, whatever it sends and however it leaves.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world should panic")]

#[path = "coding/mod.rs"]
mod coding;
#[path = "http2/mod.rs"]
mod http2;
mod support;

use std::time::Duration;

use overdraft_http::{Http2Limits, Limits};

use self::support::{Running, get, logged};

/// So long that nothing in a test waits for it.
const NEVER: Duration = Duration::from_hours(1);

fn quick() -> Limits {
    Limits {
        head: Duration::from_millis(80),
        body: Duration::from_millis(80),
        idle: Duration::from_millis(200),
        write_stall: Duration::from_millis(150),
        drain: Duration::from_millis(200),
        head_bytes: 8 * 1024,
        body_bytes: 1024,
        http2: Some(Http2Limits::default()),
        ..Limits::default()
    }
}

#[tokio::test]
async fn every_answer_names_its_request_and_keeps_the_connection() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    let first = client.ask(&get("/hello")).await;
    assert_eq!((first.status, first.text()), (200, "hello"));
    assert!(first.header("x-request-id").starts_with("req_"), "{first:?}");
    let second = client.ask("GET /hello HTTP/1.1\r\nhost: x\r\nx-request-id: mine-1\r\n\r\n").await;
    assert_eq!(second.header("x-request-id"), "mine-1");
    let third =
        client.ask("GET /hello HTTP/1.1\r\nhost: x\r\nx-request-id: not mine\r\n\r\n").await;
    assert!(third.header("x-request-id").starts_with("req_"), "{third:?}");
    assert_ne!(first.header("x-request-id"), third.header("x-request-id"));
}

#[tokio::test]
async fn rubbish_gets_an_error_object_and_harms_nobody() {
    let server = Running::start(quick()).await;
    for rubbish in [
        "\0\u{1}\u{2}\u{3} nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ] {
        let mut client = server.client().await;
        let reply = client.ask(rubbish).await;
        assert_eq!(reply.status, 400, "{rubbish:?}: {reply:?}");
        assert!(reply.text().contains("\"invalid_request_error\""), "{reply:?}");
        assert!(reply.header("x-request-id").starts_with("req_"));
        assert!(client.is_closed().await);
    }
    assert_eq!(server.client().await.ask(&get("/hello")).await.status, 200);
}

// Faults: 68
#[tokio::test]
async fn a_head_too_large_is_431() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    let long = format!("GET /hello HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "a".repeat(20_000));
    let reply = client.ask(&long).await;
    assert_eq!(reply.status, 431, "{reply:?}");
    assert!(reply.text().contains("head_too_large"), "{reply:?}");
    let mut client = server.client().await;
    let many = format!("GET /hello HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert_eq!(client.ask(&many).await.status, 431);
}

// Faults: 69
#[tokio::test]
async fn a_body_too_large_is_413_declared_or_not() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 5000\r\n\r\n";
    let reply = client.ask(head).await;
    assert_eq!(reply.status, 413, "refused before the body was sent: {reply:?}");
    assert!(reply.text().contains("request_too_large"));
    assert_eq!(reply.header("connection"), "close");
    client.send(&"x".repeat(5000)).await;

    let mut client = server.client().await;
    let chunk = format!("400\r\n{}\r\n", "x".repeat(0x400));
    let chunked = format!(
        "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n"
    );
    assert_eq!(client.ask(&chunked).await.status, 413);

    let fits = format!("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 1024\r\n\r\n{:1024}", "");
    assert_eq!(server.client().await.ask(&fits).await.body.len(), 1024);
}

// Faults: 66
#[tokio::test]
async fn slow_heads_slow_bodies_and_idle_connections_are_closed() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    client.send("GET /hello HTTP/1.1\r\nho").await;
    let reply = client.reply().await;
    assert_eq!(reply.status, 408, "{reply:?}");
    assert!(reply.text().contains("request_timeout"));
    assert!(client.is_closed().await);
    let mut client = server.client().await;
    client.send("POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc").await;
    assert_eq!(client.reply().await.status, 408);
    let mut client = server.client().await;
    assert_eq!(client.ask(&get("/hello")).await.status, 200);
    assert!(client.is_closed().await, "an idle connection is closed");
}

#[tokio::test]
async fn a_panic_costs_one_request() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    let reply = client.ask(&get("/panic")).await;
    assert_eq!(reply.status, 500, "{reply:?}");
    assert!(reply.text().contains("server_error"));
    assert_eq!(client.ask(&get("/hello")).await.status, 200, "even the connection lives on");
    let mut client = server.client().await;
    client.send(&get("/stream/panic")).await;
    assert!(client.rest().await.starts_with("HTTP/1.1 200"));
    assert_eq!(server.client().await.ask(&get("/hello")).await.status, 200);
}

#[tokio::test]
async fn a_client_that_leaves_while_the_handler_works_cancels_it() {
    let (server, lines) = logged(quick()).await;
    let mut client = server.client().await;
    client.send(&get("/pending")).await;
    server.until_entered(1).await;
    drop(client);
    server.until_dropped(1).await;
    lines.until("path=\"/pending\" status=0 stream=false", "end=CH").await;
}

#[tokio::test]
async fn a_client_that_leaves_a_silent_stream_cancels_it() {
    let (server, lines) = logged(quick()).await;
    let mut client = server.client().await;
    client.send(&get("/stream/silent")).await;
    client.until("data: one").await;
    drop(client);
    server.until_dropped(1).await;
    lines.until("path=\"/stream/silent\" status=200", "end=CD").await;
}

#[tokio::test]
async fn closing_the_sending_half_counts_as_leaving() {
    let server = Running::start(quick()).await;
    for (path, ready) in [("/pending", ""), ("/stream/silent", "data: one")] {
        let entered = server.entered() + 1;
        let mut client = server.client().await;
        client.send(&get(path)).await;
        server.until_entered(entered).await;
        client.until(ready).await;
        client.half_close().await;
        server.until_dropped(entered).await;
    }
}

#[tokio::test]
async fn a_broken_stream_never_ends_cleanly() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    client.send(&get("/stream/broken")).await;
    let text = client.rest().await;
    assert!(text.contains("data: one"), "{text}");
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
    let mut client = server.client().await;
    client.send(&get("/stream/whole")).await;
    assert!(client.until("0\r\n\r\n").await.contains("data: two"));
}

// Faults: 65
#[tokio::test]
async fn a_client_that_never_reads_is_cut_off() {
    let (server, lines) = logged(quick()).await;
    let mut client = server.client().await;
    client.send(&get("/stream/endless")).await;
    server.until_dropped(1).await;
    lines.until("path=\"/stream/endless\" status=200", "end=cD").await;
}

#[tokio::test]
async fn a_drain_finishes_streams_and_takes_no_new_request() {
    let server = Running::start(quick()).await;
    let mut idle = server.client().await;
    assert_eq!(idle.ask(&get("/hello")).await.status, 200);
    let fresh = server.client().await;
    let mut streaming = server.client().await;
    streaming.send(&get("/stream/gated")).await;
    streaming.until("data: one").await;
    server.stop();
    assert!(idle.is_closed().await, "an idle connection is closed at once");
    assert!(fresh.closes().await, "a connection without a request too");
    server.open_gate();
    assert!(streaming.until("0\r\n\r\n").await.contains("data: two"));
    assert_eq!(server.ended().await.connections_cut, 0);
}

#[tokio::test]
async fn a_drain_cuts_what_outlasts_its_deadline() {
    let (server, lines) = logged(quick()).await;
    let mut polite = server.client().await;
    polite.send(&get("/stream/polite")).await;
    polite.until("data: one").await;
    let mut stubborn = server.client().await;
    stubborn.send(&get("/stream/silent")).await;
    stubborn.until("data: one").await;
    server.stop();
    let text = polite.rest().await;
    assert!(text.contains("data: cut") && !text.ends_with("0\r\n\r\n"), "{text}");
    assert!(!stubborn.rest().await.ends_with("0\r\n\r\n"));
    lines.until("path=\"/stream/silent\" status=200", "end=DD").await;
    assert_eq!(server.ended().await.connections_cut, 2);
}

#[tokio::test]
async fn while_leaving_it_still_accepts_and_says_so() {
    let limits = Limits { lame_duck: Duration::from_mins(1), ..quick() };
    let server = Running::start(limits).await;
    assert_eq!(server.client().await.ask(&get("/leaving")).await.text(), "false");
    server.stop();
    let mut client = server.client().await;
    while client.ask(&get("/leaving")).await.text() != "true" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn while_leaving_each_answer_ends_its_connection() {
    let server = Running::start(Limits { lame_duck: NEVER, ..quick() }).await;
    let mut kept = server.client().await;
    assert_eq!(kept.ask(&get("/leaving")).await.header("connection"), "");
    server.stop();
    let last = loop {
        let reply = kept.ask(&get("/leaving")).await;
        if reply.text() == "true" {
            break reply;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(last.header("connection"), "close");
    assert!(kept.is_closed().await, "no request can be lost on it any more");
    let mut streaming = server.client().await;
    streaming.send(&get("/stream/whole")).await;
    let all = streaming.rest().await;
    assert!(all.contains("connection: close") && all.ends_with("0\r\n\r\n"), "{all}");
}

// Faults: 67
#[tokio::test]
async fn a_connection_beyond_the_bound_takes_the_place_of_an_idle_one() {
    let server = Running::start(Limits { connections: 1, idle: NEVER, ..quick() }).await;
    let mut first = server.client().await;
    assert_eq!(first.ask(&get("/hello")).await.status, 200);
    let mut second = server.client().await;
    assert_eq!(second.ask(&get("/hello")).await.status, 200);
    assert!(first.is_closed().await);
    // One that has never asked for anything is idle as well.
    let mut third = server.client().await;
    assert!(second.is_closed().await);
    assert_eq!(third.ask(&get("/hello")).await.status, 200);
}

// Faults: 67
#[tokio::test]
async fn where_no_connection_is_idle_there_is_room_for_what_is_vital() {
    let vital = &["/leaving"];
    let server =
        Running::start(Limits { connections: 1, connections_vital: 1, vital, ..quick() }).await;
    let mut busy = server.client().await;
    busy.send(&get("/pending")).await;
    server.until_entered(1).await;
    let mut probe = server.client().await;
    assert_eq!(probe.ask(&get("/leaving")).await.status, 200);
    let refused = probe.ask(&get("/hello")).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert!(probe.is_closed().await);
}

#[tokio::test]
async fn a_request_needs_one_good_host() {
    let server = Running::start(quick()).await;
    for (hosts, status) in [
        ("", 400),
        ("host: a\r\nhost: a\r\n", 400),
        ("host: a b\r\n", 400),
        ("host: user@a\r\n", 400),
        ("host: a:80\r\n", 200),
        ("host: [::1]:80\r\n", 200),
        ("host:\r\n", 200),
    ] {
        let mut client = server.client().await;
        let reply = client.ask(&format!("GET /hello HTTP/1.1\r\n{hosts}\r\n")).await;
        assert_eq!(reply.status, status, "{hosts:?}: {reply:?}");
    }
    let mut old = server.client().await;
    assert_eq!(old.ask("GET /hello HTTP/1.0\r\n\r\n").await.status, 200);
}

// Faults: 79
#[tokio::test]
async fn bodies_that_others_have_no_room_for_are_refused() {
    let limits = Limits { body_bytes: 1 << 20, bodies_bytes: 600_000, body: NEVER, ..quick() };
    let server = Running::start(limits).await;
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n";
    let part = "a".repeat(200_000);
    let mut unfinished = server.client().await;
    unfinished.send(&format!("{head}{part}")).await;
    // Until it has been read, the second one is as welcome as the first.
    let refused = loop {
        let mut other = server.client().await;
        let whole = "a".repeat(300_000);
        let reply = other.ask(&format!("{head}{whole}")).await;
        if reply.status != 200 {
            break reply;
        }
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    unfinished.send(&"a".repeat(100_000)).await;
    assert_eq!(unfinished.reply().await.status, 200);
    let mut other = server.client().await;
    assert_eq!(other.ask(&format!("{head}{}", "a".repeat(300_000))).await.status, 200);
}

// Faults: 77
#[tokio::test]
async fn a_body_whose_end_readers_may_see_elsewhere_is_refused_with_its_connection() {
    let server = Running::start(quick()).await;
    for lines in [
        "content-length: 3\r\ncontent-length: 4\r\n",
        "content-length: 3, 4\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n",
    ] {
        let mut client = server.client().await;
        let second = get("/hello");
        let request =
            format!("POST /echo HTTP/1.1\r\nhost: x\r\n{lines}\r\n3\r\nabc\r\n0\r\n\r\n{second}");
        let reply = client.ask(&request).await;
        assert_eq!(reply.status, 400, "{lines:?}: {reply:?}");
        assert!(client.is_closed().await, "{lines:?}: the second is not answered");
    }
}

// Faults: 77
#[tokio::test]
async fn an_upgrade_is_not_offered_and_the_next_request_is_answered() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    let upgrade =
        "GET /hello HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    client.send(&format!("{upgrade}{}", get("/leaving"))).await;
    let first = client.reply().await;
    assert_eq!((first.status, first.text()), (200, "hello"));
    assert_eq!(client.reply().await.text(), "false");
}

// Faults: 77
#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Running::start(quick()).await;
    let mut client = server.client().await;
    client.send(&format!("{}{}", get("/hello"), get("/leaving"))).await;
    assert_eq!(client.reply().await.text(), "hello");
    assert_eq!(client.reply().await.text(), "false");
}
