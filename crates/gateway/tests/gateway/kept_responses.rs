//! Kept responses: how much memory those take that clients go on from or read.

use overdraft_gateway::GatewaySettings;
use serde_json::{Value, json};

use crate::dialects::{RESPONSES, answered, ask, read};
use crate::harness::{Gateway, MODEL, in_time};
use crate::mock::Mock;

/// Characters of each input in a chain.
const LINK_CHARS: usize = 100_000;

/// Characters that no two sockets hold between them.
const UNREAD_CHARS: usize = 16_000_000;

/// A request with a long input.
fn long(chars: usize, more: &str) -> String {
    format!(r#"{{"model":"{MODEL}","input":"{}"{more}}}"#, "x".repeat(chars))
}

/// What becomes of a request that goes on from two long ones.
async fn third_of_a_chain(adjust: impl FnOnce(&mut GatewaySettings)) -> (u16, Value) {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], adjust).await;
    let mut client = gateway.client().await;
    let mut more = String::new();
    for _ in 0..2 {
        let post = long(LINK_CHARS, &more);
        let (_, answer) = answered(&mut mock, &mut client, (RESPONSES, "", &post)).await;
        more = format!(r#","previous_response_id":"{}""#, answer["id"].as_str().unwrap());
    }
    client.post(RESPONSES, &long(LINK_CHARS, &more)).await;
    let (head, error) = client.whole().await;
    assert!(mock.is_idle(), "no worker is asked");
    (head.status, read(&error)["error"].clone())
}

#[tokio::test]
async fn what_a_request_goes_on_from_is_bounded_as_its_body_is() {
    let (status, error) = third_of_a_chain(|settings| settings.listen.body_bytes = 150_000).await;
    assert_eq!((status, &error["code"]), (413, &json!("request_too_large")), "{error}");
    assert_eq!(error["param"], "previous_response_id");
}

#[tokio::test]
async fn what_a_request_goes_on_from_shares_the_memory_of_bodies() {
    // Of 64 KiB and more the rest counts, and one client has at most half: room for 200,000 bytes and not for 300,000.
    let (status, error) = third_of_a_chain(|settings| settings.listen.bodies_bytes = 400_000).await;
    assert_eq!((status, &error["code"]), (503, &json!("server_is_overloaded")), "{error}");
}

#[tokio::test]
async fn who_reads_nothing_has_a_place_and_gives_it_back_at_the_end() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.limits.requests = 1;
        settings.responses.entry_bytes = 2 * UNREAD_CHARS;
    })
    .await;
    let mut client = gateway.client().await;
    let post = long(UNREAD_CHARS, "");
    let (_, answer) = answered(&mut mock, &mut client, (RESPONSES, "", &post)).await;
    let place = format!("{RESPONSES}/{}", answer["id"].as_str().unwrap());
    client.send(format!("GET {place}/input_items HTTP/1.1\r\nhost: g\r\n\r\n")).await;
    let head = client.head().await;
    assert_eq!(head.status, 200);
    let mut other = gateway.client().await;
    let line = format!("GET {place}");
    let (refused, error) = ask(&mut other, &line, "").await;
    assert_eq!((refused.status, &error["error"]["code"]), (429, &json!("rate_limit_exceeded")));
    assert!(UNREAD_CHARS < client.body_of(&head).await.len());
    let freed = async {
        while ask(&mut other, &line, "").await.0.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    in_time(freed).await;
}
