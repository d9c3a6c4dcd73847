//! Deadlines of requests and the limits of their attempts, as clients are told of them.

use std::time::Duration;

use overdraft_core::deadline::DeadlineSettings;
use overdraft_core::route::RouteSettings;
use overdraft_gateway::{GatewaySettings, KeyDigest, KeySettings, ModelSettings};

use crate::client::{Client, End, Head};
use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, SOON, chat, token};
use crate::mock::{Call, Mock};

/// A model whose first tokens are not waited for for long; a stream of it is the clock of a test.
const CLOCK: &str = "clock";

fn deadline(milliseconds: &str) -> String {
    format!("x-overdraft-deadline-ms: {milliseconds}\r\n")
}

/// A chat with a prompt of about so many tokens.
fn prompt(tokens: usize, more: &str) -> String {
    let text = "word ".repeat(tokens * 4 / 5);
    format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"{text}"}}]{more}}}"#)
}

fn with_clock(settings: &mut GatewaySettings) {
    let deadlines = DeadlineSettings { first_token: SOON.into(), ..DeadlineSettings::default() };
    let route = Some(RouteSettings { deadlines, ..settings.routing.route });
    let own = ModelSettings { route, ..ModelSettings::default() };
    settings.routing.models.insert(CLOCK.to_owned(), own);
}

/// Lets the limit of the clock pass.
async fn passes(gateway: &Gateway, clock: &mut Mock) -> (Head, String) {
    let mut client = gateway.client().await;
    client.post(CHAT, &format!(r#"{{"model":"{CLOCK}","stream":true}}"#)).await;
    clock.call().await.gone().await;
    client.whole().await
}

async fn asked(gateway: &Gateway, header: &str, body: &str) -> Client {
    let mut client = gateway.client().await;
    client.post_with(CHAT, header, body).await;
    client
}

/// Ends a stream of twenty tokens.
async fn finish(mut call: Call) {
    let usage = r#""usage":{"prompt_tokens":500,"completion_tokens":20,"total_tokens":520}"#;
    let last = format!(
        "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],{usage}}}\n\n"
    );
    call.chunk(&format!("{last}{DONE}")).await;
    call.end().await;
}

#[tokio::test]
async fn a_deadline_that_is_no_time_is_named() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for silly in ["soon", "0", "-1", "1.5", "86400001"] {
        let (head, body) = asked(&gateway, &deadline(silly), &chat("")).await.whole().await;
        assert_eq!(head.status, 400);
        assert!(body.contains(&format!("`{silly}` is not a `x-overdraft-deadline-ms`")), "{body}");
    }
    assert!(mock.is_idle());
}

#[tokio::test]
async fn a_missed_deadline_ends_the_request_at_its_worker() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let mut client = asked(&gateway, &deadline("1000"), &chat("")).await;
    mock.call().await.gone().await;
    let (head, body) = client.whole().await;
    assert_eq!(head.status, 504, "{body}");
    assert_eq!(head.header("x-should-retry"), Some("false"), "SDKs retry every 5xx");
    // In mid-stream it is an error in band.
    let mut client = asked(&gateway, &deadline("2000"), &chat(r#","stream":true"#)).await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&token("one")).await;
    assert_eq!(client.head().await.status, 200);
    let (events, end) = client.rest().await;
    assert!(events.contains("did not end by its deadline"), "{events}");
    assert_ne!(end, End::Clean);
    call.gone().await;
}

#[tokio::test]
async fn a_key_gives_a_deadline_to_requests_that_name_none() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        let mut key = KeySettings::new(KeyDigest::of("sk-hurried"), "hurried");
        key.deadline = Some(10 * SOON);
        settings.keys = vec![key];
    })
    .await;
    let key = "authorization: Bearer sk-hurried\r\n";
    let mut client = asked(&gateway, key, &chat("")).await;
    mock.call().await.gone().await;
    assert_eq!(client.whole().await.0.status, 504);
    let patient = format!("{key}{}", deadline("60000"));
    let mut client = asked(&gateway, &patient, &chat("")).await;
    let call = mock.call().await;
    // One that names none is the clock.
    let mut hurried = asked(&gateway, key, &chat("")).await;
    mock.call().await.gone().await;
    assert_eq!(hurried.whole().await.0.status, 504);
    call.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
}

#[tokio::test]
async fn a_model_may_have_limits_of_its_own_and_the_client_is_told_which_was_passed() {
    let mock = Mock::start(&[MODEL]).await;
    let mut clock = Mock::start(&[CLOCK]).await;
    let gateway = Gateway::start_with(&[&mock, &clock], with_clock).await;
    let (head, body) = passes(&gateway, &mut clock).await;
    assert_eq!(head.status, 504);
    assert!(body.contains("it had 0.1 s, as `timeouts.first_byte` is set"), "{body}");
}

#[tokio::test]
async fn an_answer_that_clearly_cannot_end_in_time_is_refused_at_once() {
    let mut mock = Mock::start(&[MODEL]).await;
    let mut clock = Mock::start(&[CLOCK]).await;
    let gateway = Gateway::start_with(&[&mock, &clock], with_clock).await;
    // Of a worker that nothing was measured of, nothing is clear.
    let long = prompt(100_000, r#","stream":true"#);
    let client = asked(&gateway, &deadline("3000"), &long).await;
    let call = mock.call().await;
    drop(client);
    call.gone().await;
    // Five hundred tokens take it a tenth of a second.
    let mut client = asked(&gateway, "", &prompt(500, r#","stream":true"#)).await;
    let mut call = mock.call().await;
    passes(&gateway, &mut clock).await;
    call.stream().await;
    call.chunk(&token("one")).await;
    assert_eq!(client.head().await.status, 200);
    finish(call).await;
    assert_eq!(client.rest().await.1, End::Clean);
    // A hundred thousand take it far more than three.
    let (head, body) = asked(&gateway, &deadline("3000"), &long).await.whole().await;
    assert_eq!(head.status, 504, "{body}");
    assert!(body.contains("are predicted") && body.contains("for its own"), "{body}");
    assert_eq!(head.header("x-should-retry"), Some("false"));
    assert!(mock.is_idle(), "nobody was asked");
    // With time enough it is asked.
    let minute = Duration::from_mins(2).as_millis().to_string();
    let client = asked(&gateway, &deadline(&minute), &long).await;
    let call = mock.call().await;
    drop(client);
    call.gone().await;
}

#[tokio::test]
async fn an_explanation_tells_the_limits_and_what_they_rest_on() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for (tokens, by, least) in [(10, "least", 60_000_000), (100_000, "assumed", 3_000_000_000_u64)]
    {
        let mut client = asked(&gateway, "x-overdraft-explain: 1\r\n", &prompt(tokens, "")).await;
        mock.call().await.answer(200, ANSWER).await;
        let (head, _) = client.whole().await;
        let told = head.header("x-overdraft-explain").unwrap();
        let told: serde_json::Value = serde_json::from_str(told).unwrap();
        let limits = &told["limits"];
        assert_eq!(limits["first_token_by"], by, "{limits}");
        assert!(least <= limits["first_token_us"].as_u64().unwrap(), "{limits}");
    }
}
