//! Workers that fail: unseen where nothing has been sent yet, loudly where something has.

use std::time::Duration;

use overdraft_core::admit::ByPriority;

use crate::client::{Client, End};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, NEVER, SOON, chat, finish, token};
use crate::mock::{Call, Mock};

/// Two workers and a gateway before them; the first request goes to the first.
async fn pair() -> ([Mock; 2], Gateway) {
    pair_within(NEVER).await
}

/// The same where a first token may take so long.
async fn pair_within(first_token: Duration) -> ([Mock; 2], Gateway) {
    let mocks = Mock::pair().await;
    let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
        settings.routing.route.deadlines.first_token = first_token.into();
        impatient(settings);
        // A fresh connection for each attempt: on a kept one, a reset could be mere staleness.
        settings.limits.idle_connections = 0;
    })
    .await;
    (mocks, gateway)
}

/// Lets the second worker answer and checks that the client sees nothing else.
async fn rescued(mut client: Client, mock: &mut Mock) {
    let call = mock.call().await;
    if call.text().contains("\"stream\":true") {
        let mut call = call;
        call.stream().await;
        call.chunk(&format!("{}{}{DONE}", token("a"), finish("stop"))).await;
        call.end().await;
        let head = client.head().await;
        assert_eq!((head.status, head.header("x-overdraft-worker")), (200, Some("worker-1")));
        let expected = format!("{}{}{DONE}", token("a"), finish("stop"));
        assert_eq!(client.rest().await, (expected, End::Clean));
    } else {
        call.answer(200, ANSWER).await;
        let (head, body) = client.whole().await;
        assert_eq!((head.status, head.header("x-overdraft-worker")), (200, Some("worker-1")));
        assert_eq!(body, ANSWER);
    }
}

/// Nobody waits for a worker that is full.
fn impatient(settings: &mut overdraft_gateway::GatewaySettings) {
    settings.admission.first_token = ByPriority { flex: SOON, default: SOON, priority: SOON };
}

// Faults: 11
#[tokio::test]
async fn a_request_that_a_worker_is_too_full_for_waits_and_is_sent_again() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.chat("").await;
    for status in [503, 429] {
        mock.call().await.answer(status, r#"{"error":{"message":"full"}}"#).await;
    }
    mock.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    // One that asks to be left alone for longer than a request waits is believed.
    let mut client = gateway.chat("").await;
    let long = "HTTP/1.1 503 X\r\ncontent-type: application/json\r\nretry-after: 900\r\n\
                content-length: 2\r\n\r\n{}";
    mock.call().await.write(long).await;
    assert_eq!(client.whole().await.0.status, 503);
}

// Faults: 1
#[tokio::test]
async fn a_worker_that_is_gone_is_replaced() {
    let ([first, mut second], gateway) = pair().await;
    first.stop().await;
    rescued(gateway.chat("").await, &mut second).await;
}

// Faults: 3, 4, 8, 10, 13, 14, 16, 18, 19, 20, 21, 22
#[tokio::test]
async fn whatever_a_worker_does_before_the_first_byte_another_one_answers() {
    for fate in [
        "reset",
        "close",
        "garbage",
        "500",
        "503",
        "429",
        "401",
        "403",
        "404",
        "408",
        "425",
        "nothing",
        "no choice",
        "redirect",
        "html",
        "gzip",
        "huge head",
        "half a body",
        "a length too long",
        "a length too short",
        "two lengths",
        "a folded header",
        "aborted",
    ] {
        let ([mut first, mut second], gateway) = pair().await;
        let client = gateway.chat("").await;
        suffer(first.call().await, fate).await;
        rescued(client, &mut second).await;
        assert!(first.is_idle() && second.is_idle(), "{fate}: asked once more than needed");
    }
}

// Faults: 4, 5, 6, 7
#[tokio::test]
async fn whatever_a_stream_does_before_its_first_event_another_one_answers() {
    for fate in ["reset", "silence", "head only", "half an event", "error event", "500"] {
        // Who takes over answers within the limit, also where the machine does other things.
        let is_silent = matches!(fate, "silence" | "head only");
        let limit = if is_silent { 10 * SOON } else { NEVER };
        let ([mut first, mut second], gateway) = pair_within(limit).await;
        let client = gateway.stream().await;
        suffer(first.call().await, fate).await;
        rescued(client, &mut second).await;
        assert!(first.is_idle() && second.is_idle(), "{fate}: asked once more than needed");
    }
}

async fn suffer(mut call: Call, fate: &str) {
    match fate {
        "reset" => call.reset(),
        "close" => call.close().await,
        "garbage" => call.write("SSH-2.0-OpenSSH_9.2\r\n\r\n").await,
        "500" => call.answer(500, r#"{"error":{"message":"no"}}"#).await,
        "503" | "429" | "401" | "403" | "404" | "408" | "425" => {
            call.answer(fate.parse().unwrap(), r#"{"error":{"message":"no"}}"#).await;
        }
        "nothing" => call.answer(200, "").await,
        "no choice" => call.answer(200, r#"{"error":{"message":"no"}}"#).await,
        "redirect" => {
            call.write("HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n").await;
        }
        "html" => call.write(typed(200, "text/html", ANSWER)).await,
        "gzip" => call.write(framed("content-encoding: gzip\r\n", ANSWER.len())).await,
        "huge head" => {
            let line = format!("x-filler: {}\r\n", "f".repeat(1_000));
            // The gateway hangs up in the middle of it, which the mock may notice.
            let head = format!("HTTP/1.1 200 OK\r\n{}", line.repeat(200));
            call.try_write(&head).await;
        }
        "half a body" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                        content-length: 100\r\n\r\n";
            call.write(format!("{head}{{")).await;
            call.close().await;
        }
        "a length too long" => {
            call.write(framed("", ANSWER.len() + 1)).await;
            call.close().await;
        }
        "a length too short" => call.write(framed("", ANSWER.len() - 1)).await,
        "two lengths" => {
            // The first and the last of them are right.
            let (right, wrong) = (ANSWER.len(), ANSWER.len() + 1);
            let lines = format!("content-length: {right}\r\ncontent-length: {wrong}\r\n");
            call.write(framed(&lines, right)).await;
        }
        "a folded header" => call.write(framed("x-a: one\r\n two\r\n", ANSWER.len())).await,
        "aborted" => {
            call.answer(200, r#"{"choices":[{"index":0,"finish_reason": "abort"}]}"#).await;
        }
        "silence" => call.gone().await,
        "head only" => {
            call.stream().await;
            call.gone().await;
        }
        "half an event" => {
            call.stream().await;
            call.chunk("data: {\"choi").await;
            call.reset();
        }
        "error event" => {
            call.stream().await;
            call.chunk("data: {\"error\":{\"message\":\"no\"}}\n\n").await;
            call.gone().await;
        }
        other => panic!("`{other}` is no fate"),
    }
}

/// A whole answer, with these header lines and this length in its head.
fn framed(lines: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{lines}content-length: {length}\r\n\r\n{ANSWER}"
    )
}

// Faults: 21
#[tokio::test]
async fn what_follows_the_length_of_an_answer_is_no_part_of_it_and_ends_its_connection() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.chat("").await;
    let mut call = mock.call().await;
    call.write(format!("{}{ANSWER}", framed("", ANSWER.len()))).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, body.as_str()), (200, ANSWER));
    call.gone().await;
}

// Faults: 17
#[tokio::test]
async fn what_comes_before_a_head_is_swallowed() {
    let ([mut first, _second], gateway) = pair().await;
    let mut client = gateway.chat("").await;
    let mut call = first.call().await;
    call.write("HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n").await;
    call.write("HTTP/1.1 100 Continue\r\n\r\n").await;
    call.answer(200, ANSWER).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, head.header("link"), body.as_str()), (200, None, ANSWER));
}

// Faults: 2
#[tokio::test]
async fn a_worker_that_packets_do_not_reach_is_left_for_another() {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(1).unwrap();
    socket.set_nonblocking(true).unwrap();
    // Who takes no connection off a full backlog is as deaf as one behind a cut cable.
    let deaf = socket.try_clone().unwrap();
    let first = Mock::start_at(tokio::net::TcpListener::from_std(socket.into()).unwrap(), &[MODEL]);
    let mut second = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&first, &second], |settings| {
        settings.timeouts.connect = SOON;
        settings.limits.idle_connections = 0;
    })
    .await;
    let address = first.address;
    first.stop().await;
    let mut queued = Vec::new();
    while let Ok(connection) = std::net::TcpStream::connect_timeout(&address, SOON / 4) {
        queued.push(connection);
    }
    let begun = tokio::time::Instant::now();
    rescued(gateway.chat("").await, &mut second).await;
    assert!(SOON <= begun.elapsed(), "the first was asked before");
    drop(deaf);
}

#[tokio::test]
async fn a_stale_kept_connection_is_no_failure_of_the_worker() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.client().await;
    for _ in 0..5 {
        client.post(CHAT, &chat("")).await;
        let mut call = mock.call().await;
        // The answer invites further use; the connection is then reset under the next request.
        let length = ANSWER.len();
        call.write(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{ANSWER}"
        ))
        .await;
        assert_eq!(client.whole().await.0.status, 200);
        client.post(CHAT, &chat("")).await;
        call.next_bytes().await;
        call.reset();
        mock.call().await.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
}

// Faults: 24, 25, 26, 27, 28, 30, 32
#[tokio::test]
async fn a_broken_stream_ends_with_an_error_event_and_an_abort() {
    for fate in [
        "reset",
        "close",
        "clean end",
        "clean end of whole events",
        "silence",
        "drip",
        "abort",
        "error event",
        "garbage",
    ] {
        let mut mocks = Mock::pair().await;
        let gateway = Gateway::start_with(&[&mocks[0], &mocks[1]], |settings| {
            // The other fates are to be told by themselves.
            let limit = if matches!(fate, "silence" | "drip") { SOON } else { NEVER };
            settings.routing.route.deadlines.stall = limit.into();
        })
        .await;
        let mut client = gateway.stream().await;
        let mut call = mocks[0].call().await;
        call.stream().await;
        call.chunk(&token("a")).await;
        assert_eq!(client.head().await.status, 200);
        assert_eq!(client.chunk().await, Ok(token("a")));
        // Half an event more: it must not reach the client, for an error has to follow.
        call.chunk("data: {\"half").await;
        match fate {
            "reset" => call.reset(),
            "close" => call.close().await,
            "clean end" => call.end().await,
            "clean end of whole events" => {
                call.chunk("\":1}\n\n").await;
                call.end().await;
            }
            "silence" => call.gone().await,
            "drip" => call.drip().await,
            "abort" => call.chunk(&format!("\":1}}\n\n{}{DONE}", finish("abort"))).await,
            "error event" => call.chunk("\":1}\n\ndata: {\"error\":\"no\"}\n\n").await,
            "garbage" => call.write("this is no chunk\r\n").await,
            other => panic!("`{other}` is no fate"),
        }
        let (rest, end) = client.rest().await;
        assert_eq!(end, End::Aborted, "{fate}");
        let error = rest.strip_prefix("data: {\"half\":1}\n\n").unwrap_or(&rest);
        assert!(error.starts_with("data: {\"error\":{\"message\":"), "{fate}: {rest}");
        assert!(error.ends_with("}\n\n"), "{fate}: {rest}");
        assert!(!rest.contains("[DONE]"), "{fate}: {rest}");
        assert!(mocks[1].is_idle(), "{fate}: asked again after the first byte");
    }
}

// Faults: 36
#[tokio::test]
async fn an_event_without_end_is_a_broken_stream() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.limits.event_bytes = 4 * 1024;
    })
    .await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("a")).await;
    client.head().await;
    client.chunk().await.unwrap();
    call.chunk(&format!("data: {}", "x".repeat(8 * 1024))).await;
    let (rest, end) = client.rest().await;
    assert_eq!(end, End::Aborted);
    assert!(rest.contains("exceeds the limit"), "{rest}");
    call.gone().await;
}

// Faults: 9
#[tokio::test]
async fn with_nobody_left_the_last_worker_speaks_for_itself() {
    let ([mut first, mut second], gateway) = pair().await;
    let mut client = gateway.chat("").await;
    first.call().await.answer(429, r#"{"error":{"message":"first"}}"#).await;
    let mut call = second.call().await;
    call.write(
        "HTTP/1.1 503 X\r\ncontent-type: application/json\r\nretry-after: 7\r\n\
         content-length: 30\r\n\r\n{\"error\":{\"message\":\"second\"}}",
    )
    .await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, head.header("retry-after")), (503, Some("7")));
    assert_eq!(body, r#"{"error":{"message":"second"}}"#);
    assert_eq!(head.header("x-overdraft-worker"), Some("worker-1"));
}

#[tokio::test]
async fn who_says_when_to_come_back_is_heard_before_who_fails() {
    let ([mut first, mut second], gateway) = pair().await;
    let mut client = gateway.chat("").await;
    first.call().await.answer(503, r#"{"error":{"message":"full"}}"#).await;
    second.call().await.answer(500, r#"{"error":{"message":"broken"}}"#).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, head.header("retry-after")), (503, Some("1")));
    assert_eq!(body, r#"{"error":{"message":"full"}}"#);
}

// Faults: 12, 15
#[tokio::test]
async fn a_refusal_that_blames_the_request_is_passed_on_and_not_repeated() {
    let ([mut first, mut second], gateway) = pair().await;
    for status in [400, 405, 413, 422] {
        let mut client = gateway.chat("").await;
        let error = format!(r#"{{"error":{{"message":"bad","code":{status}}}}}"#);
        let call = if status == 400 || status == 413 { &mut first } else { &mut second };
        call.call().await.answer(status, &error).await;
        let (head, body) = client.whole().await;
        assert_eq!((head.status, body), (status, error));
        assert!(first.is_idle() && second.is_idle());
    }
}

// Faults: 12
#[tokio::test]
async fn what_two_workers_do_not_have_is_told_as_they_say_it() {
    let ([mut first, mut second], gateway) = pair().await;
    for _ in 0..3 {
        let mut client = gateway.chat("").await;
        let denied = |call: Call| async { call.answer(404, r#"{"detail":"Not Found"}"#).await };
        tokio::join!(async { denied(first.call().await).await }, async {
            denied(second.call().await).await;
        },);
        let (head, body) = client.whole().await;
        assert_eq!((head.status, body.as_str()), (404, r#"{"detail":"Not Found"}"#));
        assert!(first.is_idle() && second.is_idle());
        // Whoever said so is still asked for what there is.
        let mut client = gateway.chat("").await;
        let call = tokio::select! { call = first.call() => call, call = second.call() => call };
        call.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
}

#[tokio::test]
async fn a_client_error_that_is_no_json_is_the_clients_as_well() {
    let ([mut first, mut second], gateway) = pair().await;
    let mut client = gateway.chat("").await;
    let mut call = first.call().await;
    let head = "HTTP/1.1 413 X\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n";
    call.write(format!("{head}<html>")).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, body.as_str()), (413, "<html>"));
    assert!(second.is_idle(), "it was asked once");
}

// Faults: 13
#[tokio::test]
async fn a_worker_that_refuses_our_credentials_is_no_business_of_the_clients() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = gateway.chat("").await;
    mock.call().await.answer(401, r#"{"error":{"message":"key sk-secret is wrong"}}"#).await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 502);
    assert!(!body.contains("secret"), "{body}");
}

#[tokio::test]
async fn a_whole_answer_may_take_longer_than_a_first_token() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut other = Mock::start(&["other"]).await;
    let gateway = Gateway::start_with(&[&mock, &other], |settings| {
        settings.routing.route.deadlines.first_token = SOON.into();
        settings.routing.route.deadlines.total = NEVER.into();
    })
    .await;
    let mut slow = gateway.chat("").await;
    let held = mock.call().await;
    // A stream that gives up in the meantime is the clock of this test.
    let mut client = gateway.client().await;
    client.post(CHAT, r#"{"model":"other","stream":true}"#).await;
    other.call().await.gone().await;
    assert_eq!(client.whole().await.0.status, 504);
    held.answer(200, ANSWER).await;
    assert_eq!(slow.whole().await.0.status, 200);
}

/// What an engine says whose memory is full.
const OUT_OF_MEMORY: &str =
    r#"{"error":{"message":"CUDA out of memory. Tried to allocate 2 GiB"}}"#;

/// An answer with this status and type.
fn typed(status: u16, media_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn a_worker_that_is_out_of_memory_is_full_and_another_one_answers() {
    let trace = "Traceback (most recent call last):\ntorch.OutOfMemoryError: HIP";
    for (status, media_type, says) in [
        (500, "application/json", OUT_OF_MEMORY),
        (400, "application/json", OUT_OF_MEMORY),
        (424, "application/json", OUT_OF_MEMORY),
        (500, "text/plain", trace),
        (200, "application/json", OUT_OF_MEMORY),
    ] {
        let ([mut first, mut second], gateway) = pair().await;
        let client = gateway.chat("").await;
        first.call().await.write(typed(status, media_type, says)).await;
        rescued(client, &mut second).await;
        let full = r#"overdraft_upstream_errors_total{kind="saturated"} 1"#;
        gateway.until_words(full).await;
        // It is left alone for a moment, as one that says that it is full.
        let client = gateway.chat("").await;
        rescued(client, &mut second).await;
        assert!(first.is_idle(), "{status} {media_type}");
    }
}

#[tokio::test]
async fn a_stream_that_begins_with_out_of_memory_is_begun_elsewhere() {
    let ([mut first, mut second], gateway) = pair().await;
    let client = gateway.stream().await;
    let mut call = first.call().await;
    call.stream().await;
    call.chunk(&format!("data: {OUT_OF_MEMORY}\n\n")).await;
    rescued(client, &mut second).await;
    gateway.until_words(r#"overdraft_upstream_errors_total{kind="saturated"} 1"#).await;
}

#[tokio::test]
async fn out_of_memory_everywhere_is_503_with_a_time_to_come_back() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], impatient).await;
    let mut client = gateway.chat("").await;
    mock.call().await.answer(500, OUT_OF_MEMORY).await;
    let (head, body) = client.whole().await;
    assert_eq!((head.status, head.header("retry-after")), (503, Some("1")), "{body}");
    assert!(body.contains("overloaded") && body.contains("out of memory"), "{body}");
}

#[tokio::test]
async fn words_of_the_client_that_are_said_back_to_it_are_no_sign_of_a_full_worker() {
    let ([mut first, mut second], gateway) = pair().await;
    for text in ["CUDA out of memory", r"CUDA out of m\u0065mory"] {
        let mut client = gateway.client().await;
        let asked = chat("").replace(r#""hi""#, &format!(r#""{text}""#));
        client.post(CHAT, &asked).await;
        let call = tokio::select! { call = first.call() => call, call = second.call() => call };
        call.answer(400, OUT_OF_MEMORY).await;
        assert_eq!(client.whole().await.0.status, 400);
        assert!(first.is_idle() && second.is_idle(), "it was asked once");
    }
}

#[tokio::test]
async fn where_three_of_four_refuse_and_one_is_full_a_client_is_told_when_to_come_back() {
    for refusals in
        [[401, 404, 500], [401, 401, 401], [404, 404, 404], [500, 500, 500], [408, 425, 503]]
    {
        let mut mocks = Vec::new();
        for _ in 0..4 {
            mocks.push(Mock::start(&[MODEL]).await);
        }
        let gateway = Gateway::start_with(&mocks.iter().collect::<Vec<_>>(), impatient).await;
        let alone: Vec<_> = mocks.into_iter().map(Mock::answer_alone).collect();
        for (mock, status) in alone.iter().zip(refusals) {
            mock.turn_to(status);
        }
        let mut client = gateway.client().await;
        // Until the three are known a request may meet nobody else; then the fourth serves for as long as it has room.
        let mut served = 0;
        for _ in 0..20 {
            client.post(CHAT, &chat("")).await;
            let (head, _) = client.whole().await;
            served += u32::from(head.status == 200);
            let is_told = head.header("retry-after").is_some();
            assert_ne!(head.status == 200, is_told, "{refusals:?}: {}", head.status);
        }
        assert!(18 <= served, "{refusals:?}: {served} of 20");
        let before = alone[3].asked();
        alone[3].turn_to(503);
        for _ in 0..20 {
            client.post(CHAT, &chat("")).await;
            let (head, body) = client.whole().await;
            assert!(400 <= head.status, "{refusals:?}: {body}");
            assert!(head.header("retry-after").is_some(), "{refusals:?}: {}: {body}", head.status);
        }
        assert!(before < alone[3].asked(), "{refusals:?}: it was not asked whether it has room");
    }
}
