//! The same promises for a client that speaks HTTP/2, and what only such a client can try.

mod client;

use overdraft_http::{Http2Limits, Limits};

use self::client::{
    CONTINUATION, DATA, END_HEADERS, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, Polite, RST_STREAM,
    Raw, SETTINGS, answer, begun, fields, frame, part, request,
};
use crate::support::{Running, get, logged};
use crate::{NEVER, quick};

/// What h2 calls a stream that was refused before anything was done for it (RFC 9113, section 7).
const REFUSED_STREAM: u32 = 7;

/// Nobody is cut off for being slow.
fn patient() -> Limits {
    Limits { head: NEVER, body: NEVER, idle: NEVER, write_stall: NEVER, drain: NEVER, ..quick() }
}

#[tokio::test]
async fn one_port_speaks_both_and_says_the_same() {
    let server = Running::start(patient()).await;
    let mut client = Polite::connect(server.address()).await;
    let told = client.ask("/hello").await;
    assert_eq!((told.head.status().as_u16(), told.body.as_str()), (200, "hello"));
    let id = told.head.headers()["x-request-id"].to_str().unwrap();
    assert!(id.starts_with("req_"), "{told:?}");
    assert_eq!(client.post(None, &["one ", "two"], true).await.body, "one two");
    assert_eq!(server.client().await.ask(&get("/hello")).await.status, 200);
}

#[tokio::test]
async fn where_it_is_switched_off_it_is_no_request() {
    let server = Running::start(Limits { http2: None, ..patient() }).await;
    let mut client = server.client().await;
    client.send(PREFACE).await;
    let reply = client.reply().await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(reply.text().contains("not an HTTP/1.1 request"), "{reply:?}");
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn a_preface_in_pieces_is_still_one() {
    let server = Running::start(patient()).await;
    let mut client = server.client().await;
    for byte in PREFACE {
        client.send([*byte]).await;
        tokio::task::yield_now().await;
    }
    let settings = frame(SETTINGS, 0, 0, &[]);
    client.send([settings, request(1, "/hello")].concat()).await;
    client.until("hello").await;
}

#[tokio::test]
async fn many_requests_share_a_connection_and_none_waits_for_another() {
    let server = Running::start(patient()).await;
    let mut client = Polite::connect(server.address()).await;
    let mut pending = Vec::new();
    for _ in 0..40 {
        pending.push(client.begin("/pending").await);
    }
    server.until_entered(40).await;
    for _ in 0..40 {
        assert_eq!(client.ask("/hello").await.body, "hello");
    }
    drop(pending);
    server.until_dropped(80).await;
}

#[tokio::test]
async fn a_stream_that_its_client_cancels_ends_its_handler_and_no_other() {
    let (server, lines) = logged(patient()).await;
    let mut client = Polite::connect(server.address()).await;
    let waiting = client.begin("/pending").await;
    let mut silent = begun(client.begin("/stream/silent").await).await.into_body();
    assert_eq!(part(&mut silent).await.unwrap().unwrap(), "data: one\n\n");
    server.until_entered(2).await;
    drop(silent);
    server.until_dropped(1).await;
    lines.until("path=\"/stream/silent\" status=200", "end=CD").await;
    drop(waiting);
    server.until_dropped(2).await;
    lines.until("path=\"/pending\" status=0 stream=false", "end=CH").await;
    assert_eq!(client.ask("/hello").await.body, "hello", "the connection lives on");
}

#[tokio::test]
async fn a_client_that_leaves_cancels_all_its_streams() {
    let server = Running::start(patient()).await;
    let mut client = Polite::connect(server.address()).await;
    let pending = [client.begin("/pending").await, client.begin("/pending").await];
    let silent = begun(client.begin("/stream/silent").await).await;
    server.until_entered(3).await;
    client.leave();
    server.until_dropped(3).await;
    drop((pending, silent));
}

#[tokio::test]
async fn a_panic_costs_one_stream() {
    let server = Running::start(patient()).await;
    let mut client = Polite::connect(server.address()).await;
    assert_eq!(client.ask("/panic").await.head.status(), 500);
    let mut body = begun(client.begin("/stream/panic").await).await.into_body();
    assert_eq!(part(&mut body).await.unwrap().unwrap(), "data: one\n\n");
    assert!(part(&mut body).await.unwrap().is_err());
    assert_eq!(client.ask("/hello").await.body, "hello");
}

#[tokio::test]
async fn a_broken_stream_is_reset_after_what_came_before_it() {
    let server = Running::start(patient()).await;
    let mut client = Polite::connect(server.address()).await;
    for _ in 0..20 {
        let mut body = begun(client.begin("/stream/broken").await).await.into_body();
        assert_eq!(part(&mut body).await.unwrap().unwrap(), "data: one\n\n");
        let error = part(&mut body).await.unwrap().unwrap_err();
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR), "{error}");
    }
    assert!(answer(client.begin("/stream/whole").await).await.body.ends_with("data: two\n\n"));
}

// Faults: 69, 66
#[tokio::test]
async fn bodies_have_the_same_bounds() {
    let server = Running::start(Limits { body: quick().body, ..patient() }).await;
    let mut client = Polite::connect(server.address()).await;
    let declared = client.post(Some(5_000), &[], false).await;
    assert_eq!(declared.head.status(), 413, "refused before the body was sent: {declared:?}");
    assert!(!declared.head.headers().contains_key("connection"), "{declared:?}");
    let half = "x".repeat(600);
    assert_eq!(client.post(None, &[&half, &half], false).await.head.status(), 413);
    assert_eq!(client.post(Some(10), &["abc"], false).await.head.status(), 408);
    assert_eq!(client.post(Some(3), &["abc"], true).await.body, "abc");
}

// Faults: 66
#[tokio::test]
async fn heads_that_do_not_end_and_idle_connections_are_closed() {
    let server = Running::start(quick()).await;
    let beginnings = [
        Vec::new(),
        frame(HEADERS, 0, 1, &fields("/hello")),
        request(1, "/hello")[..12].to_vec(),
        frame(SETTINGS, 0, 0, &[0; 6])[..11].to_vec(),
    ];
    for beginning in beginnings {
        let mut client = Raw::connect(server.address()).await;
        client.send(&beginning).await;
        client.until_closed().await;
    }
    let mut client = Polite::connect(server.address()).await;
    assert_eq!(client.ask("/hello").await.body, "hello");
    client.ended().await.expect("an idle connection is closed in peace");
}

// Faults: 65
#[tokio::test]
async fn a_stream_whose_client_makes_no_room_is_cut_off_alone() {
    let limits = Limits { write_stall: quick().write_stall, ..patient() };
    let (server, lines) = logged(limits).await;
    let mut client = Polite::connect(server.address()).await;
    let endless = begun(client.begin("/stream/endless").await).await;
    server.until_dropped(1).await;
    lines.until("path=\"/stream/endless\" status=200", "end=cD").await;
    assert_eq!(client.ask("/hello").await.body, "hello", "the connection lives on");
    drop(endless);
}

#[tokio::test]
async fn a_drain_finishes_streams_and_takes_no_new_one() {
    let server = Running::start(patient()).await;
    let mut idle = Polite::connect(server.address()).await;
    assert_eq!(idle.ask("/hello").await.body, "hello");
    let mut client = Polite::connect(server.address()).await;
    let mut body = begun(client.begin("/stream/gated").await).await.into_body();
    part(&mut body).await.unwrap().unwrap();
    server.stop();
    idle.ended().await.expect("an idle connection is closed in peace");
    while client.requests.clone().ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
    server.open_gate();
    assert_eq!(part(&mut body).await.unwrap().unwrap(), "data: two\n\n");
    assert!(part(&mut body).await.is_none(), "it ends cleanly");
    drop(body);
    client.ended().await.expect("so does its connection");
    assert_eq!(server.ended().await.connections_cut, 0);
}

#[tokio::test]
async fn a_drain_cuts_what_outlasts_its_deadline() {
    let (server, lines) = logged(Limits { drain: quick().drain, ..patient() }).await;
    let mut client = Polite::connect(server.address()).await;
    let mut polite = begun(client.begin("/stream/polite").await).await.into_body();
    part(&mut polite).await.unwrap().unwrap();
    let mut stubborn = begun(client.begin("/stream/silent").await).await.into_body();
    part(&mut stubborn).await.unwrap().unwrap();
    server.stop();
    assert_eq!(part(&mut polite).await.unwrap().unwrap(), "data: cut\n\n");
    assert!(part(&mut polite).await.unwrap().is_err());
    assert!(part(&mut stubborn).await.unwrap().is_err());
    lines.until("path=\"/stream/silent\" status=200", "end=DD").await;
    assert_eq!(server.ended().await.connections_cut, 1);
}

// Faults: 67
#[tokio::test]
async fn an_idle_connection_makes_room_and_a_busy_one_does_not() {
    let vital = &["/leaving"];
    let limits = Limits { connections: 1, connections_vital: 1, vital, ..patient() };
    let server = Running::start(limits).await;
    let mut first = Polite::connect(server.address()).await;
    assert_eq!(first.ask("/hello").await.body, "hello");
    let mut second = Polite::connect(server.address()).await;
    first.ended().await.expect("it is closed in peace");
    let pending = second.begin("/pending").await;
    server.until_entered(1).await;
    let mut probe = Polite::connect(server.address()).await;
    assert_eq!(probe.ask("/leaving").await.head.status(), 200);
    assert_eq!(probe.ask("/hello").await.head.status(), 503);
    probe.ended().await.expect("its place is given up");
    drop(pending);
}

// Faults: 68
#[tokio::test]
async fn heads_have_the_same_bounds() {
    let server = Running::start(patient()).await;
    let mut client = Polite::connect(server.address()).await;
    let ask = |name: &'static str, value: String, count: usize| {
        let mut request = http::Request::get("http://test/hello");
        for _ in 0..count {
            request = request.header(name, &value);
        }
        client.requests.send_request(request.body(()).unwrap(), true).unwrap().0
    };
    let mut ask = ask;
    assert_eq!(begun(ask("a", "b".to_owned(), 200)).await.status(), 431);
    assert_eq!(begun(ask("a", "b".repeat(10_000), 1)).await.status(), 431);
    assert_eq!(begun(ask("a", "b".to_owned(), 50)).await.status(), 200);
}

#[tokio::test]
async fn a_stream_beyond_the_bound_is_refused_and_the_others_go_on() {
    let limits = Limits { http2: Some(Http2Limits { streams: 2 }), ..patient() };
    let server = Running::start(limits).await;
    let mut client = Raw::connect(server.address()).await;
    for stream in [1, 3, 5] {
        client.send(&request(stream, "/pending")).await;
    }
    let refused = client.until(RST_STREAM).await;
    assert_eq!((refused.stream, refused.code()), (5, REFUSED_STREAM));
    server.until_entered(2).await;
    client.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).await;
    server.until_dropped(1).await;
    client.send(&request(7, "/hello")).await;
    assert_eq!(client.until(DATA).await.payload, b"hello");
}

/// Sends the same until the connection is closed; meanwhile another client is answered.
async fn floods(what: &str, bytes: impl Fn(u32) -> Vec<u8>) {
    let (server, _lines) = logged(patient()).await;
    let mut other = Polite::connect(server.address()).await;
    let mut client = Raw::connect(server.address()).await;
    let answered = async {
        for _ in 0..20 {
            assert_eq!(other.ask("/hello").await.body, "hello");
        }
    };
    tokio::join!(client.flood(bytes), answered);
    assert_eq!(other.ask("/hello").await.body, "hello", "after {what}");
}

// Faults: 76
#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let reset = 8_u32.to_be_bytes();
    let one = |sent: u32| {
        let stream = 2 * sent + 1;
        [request(stream, "/pending"), frame(RST_STREAM, 0, stream, &reset)].concat()
    };
    floods("rapid reset", one).await;
}

// Faults: 76
#[tokio::test]
async fn frames_that_ask_for_nothing_end_the_connection() {
    floods("PING", |_| frame(PING, 0, 0, &[0; 8])).await;
    floods("SETTINGS", |_| frame(SETTINGS, 0, 0, &[])).await;
    floods("PRIORITY", |_| frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])).await;
    floods("unknown frames", |_| frame(0xfa, 0, 0, &[])).await;
}

// Faults: 76
#[tokio::test]
async fn empty_frames_of_a_body_end_the_connection() {
    floods("empty DATA", |sent| {
        if sent == 0 {
            return frame(HEADERS, END_HEADERS, 1, &fields("/pending"));
        }
        frame(DATA, 0, 1, &[])
    })
    .await;
}

// Faults: 76
#[tokio::test]
async fn a_head_of_endless_continuations_ends_the_connection() {
    floods("CONTINUATION", |sent| {
        if sent == 0 {
            return frame(HEADERS, 0, 1, &fields("/hello"));
        }
        frame(CONTINUATION, 0, 1, &[])
    })
    .await;
    // A header with a value that is never whole.
    floods("a large CONTINUATION", |sent| {
        if sent == 0 {
            return frame(HEADERS, 0, 1, &[0x00, 0x01, b'a', 0x7f, 0x80, 0x80, 0x80, 0x01]);
        }
        frame(CONTINUATION, 0, 1, &[b'a'; 16_000])
    })
    .await;
}

#[tokio::test]
async fn what_is_no_frame_ends_the_connection() {
    let server = Running::start(patient()).await;
    for rubbish in [
        frame(SETTINGS, 0, 1, &[0; 6]),
        frame(DATA, 0, 1, b"x"),
        frame(HEADERS, END_HEADERS, 1, &[0xff; 40]),
        vec![0xff; 64],
    ] {
        let mut client = Raw::connect(server.address()).await;
        client.send(&rubbish).await;
        client.until(GOAWAY).await;
        client.until_closed().await;
    }
    assert_eq!(Polite::connect(server.address()).await.ask("/hello").await.body, "hello");
}
