//! Endpoints: each one of `wire::Endpoint` is served, counted and listed without a word about it anywhere else.

use overdraft_core::admit::Mode;
use overdraft_wire::Endpoint;

use crate::harness::{ANSWER, Gateway, MODEL};
use crate::mock::Mock;

#[tokio::test]
async fn every_endpoint_is_served_counted_and_listed() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    let body = format!(r#"{{"model":"{MODEL}","messages":[],"prompt":"p","input":"i"}}"#);
    for endpoint in Endpoint::ALL {
        let path = endpoint.path();
        let mut client = gateway.client().await;
        client.post(path, &body).await;
        let call = mock.call().await;
        assert!(call.head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{}", call.head);
        call.answer(200, ANSWER).await;
        let (head, answer) = client.whole().await;
        assert_eq!((head.status, answer.as_str()), (200, ANSWER), "{path}");
        // Who asks in another way is told which way there is.
        let (head, _) = gateway.client().await.get(path).await;
        assert_eq!((head.status, head.header("allow")), (405, Some("POST")), "{path}");
    }
    let (_, metrics) = gateway.client().await.get("/metrics").await;
    let (_, index) = gateway.client().await.get("/").await;
    for endpoint in Endpoint::ALL {
        let (path, summary) = (endpoint.path(), endpoint.summary());
        assert!(metrics.contains(&format!("route=\"{path}\"")), "{path} is not counted");
        assert!(index.contains(&format!("POST {path}")), "{path} is not listed");
        assert!(index.contains(summary), "{path} is not explained");
    }
}

#[tokio::test]
async fn what_a_model_reads_waits_for_room_and_what_takes_no_engine_does_not() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], |settings| {
        settings.routing.route.admission.mode = Mode::Static(1);
    })
    .await;
    let mut first = gateway.chat("").await;
    let held = mock.call().await;
    let body = format!(r#"{{"model":"{MODEL}","input":"a text","prompt":"a text"}}"#);
    let mut reading = gateway.client().await;
    reading.post("/v1/embeddings", &body).await;
    let mut chore = gateway.client().await;
    chore.post("/tokenize", &body).await;
    let call = mock.call().await;
    assert!(call.head.starts_with("POST /tokenize "), "{}", call.head);
    call.answer(200, "{}").await;
    assert_eq!(chore.whole().await.0.status, 200);
    held.answer(200, ANSWER).await;
    assert_eq!(first.whole().await.0.status, 200);
    let call = mock.call().await;
    assert!(call.head.starts_with("POST /v1/embeddings "), "{}", call.head);
    call.answer(200, r#"{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}"#).await;
    assert_eq!(reading.whole().await.0.status, 200);
}
