//! Traces: the spans of a request at a collector, read with the official messages.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use overdraft_gateway::{GatewaySettings, GenAi, ModelSettings, TracingSettings};
use overdraft_otlp::{Attribute, Endpoint, ExporterSettings, Parents};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::{ANSWER, CHAT, DONE, Gateway, MODEL, chat, finish, in_time, token};
use crate::mock::Mock;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector.
struct Sink(TcpListener);

impl Sink {
    async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn traced(&self, sample_permille: u16) -> impl FnOnce(&mut GatewaySettings) + use<> {
        let url = format!("http://{}", self.0.local_addr().unwrap());
        move |settings| {
            settings.tracing = Some(TracingSettings {
                exporter: ExporterSettings {
                    endpoint: Endpoint::parse(&url).unwrap(),
                    headers: Vec::new(),
                    timeout: Duration::from_secs(5),
                    resource: vec![Attribute::new("service.name", "overdraft")],
                },
                sample_permille,
                parents: Parents::Honoured,
                gen_ai: GenAi::Latest,
            });
        }
    }

    /// The spans of the next batch, the server's last.
    async fn spans(&self) -> Vec<Span> {
        in_time(async {
            let (mut stream, _) = self.0.accept().await.unwrap();
            let mut read = Vec::new();
            let body = loop {
                assert!(stream.read_buf(&mut read).await.unwrap() != 0);
                let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
                    continue;
                };
                let head = String::from_utf8_lossy(&read[..at]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.unwrap().parse().unwrap();
                if at + 4 + length <= read.len() {
                    break read.split_off(at + 4);
                }
            };
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            let mut batch = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            batch.resource_spans.remove(0).scope_spans.remove(0).spans
        })
        .await
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// An attribute as text.
#[track_caller]
fn said(span: &Span, key: &str) -> String {
    let found = span.attributes.iter().find(|one| one.key == key);
    match found.and_then(|one| one.value.clone()).and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => panic!("`{key}` of `{}` is {other:?}: {:?}", span.name, span.attributes),
    }
}

#[tokio::test]
async fn a_request_that_was_tried_twice_is_one_trace_of_three_spans() {
    let sink = Sink::start().await;
    let [mut one, mut other] = Mock::pair().await;
    let gateway = Gateway::start_with(&[&one, &other], sink.traced(0)).await;
    let mut client = gateway.client().await;
    let head = format!("traceparent: {PARENT}\r\ntracestate: vendor=1\r\nx-request-id: r-1\r\n");
    client.post_with(CHAT, &head, &chat("")).await;
    let mut told = Vec::new();
    for status in [500, 200] {
        let call = tokio::select! {
            call = one.call() => call,
            call = other.call() => call,
        };
        told.push(call.header("traceparent").unwrap().to_owned());
        assert_eq!(call.header("tracestate"), Some("vendor=1"));
        call.answer(status, ANSWER).await;
    }
    assert_eq!(client.whole().await.0.status, 200);
    let spans = sink.spans().await;
    let [failed, answered, request] = spans.as_slice() else { panic!("{spans:?}") };
    assert!(spans.iter().all(|span| hex(&span.trace_id) == "0af7651916cd43dd8448eb211c80319c"));
    assert_eq!(hex(&request.parent_span_id), "b7ad6b7169203331");
    assert_eq!((request.kind, request.name.as_str()), (2, "POST /v1/chat/completions"));
    assert_eq!(request.trace_state, "vendor=1");
    assert!(request.status.is_none(), "it was answered");
    for (attempt, told) in [failed, answered].into_iter().zip(&told) {
        assert_eq!((attempt.kind, attempt.name.as_str()), (3, "chat m"));
        assert_eq!(attempt.parent_span_id, request.span_id);
        // Workers go on under the attempt that asked them.
        let expected = format!("00-{}-{}-01", hex(&attempt.trace_id), hex(&attempt.span_id));
        assert_eq!(*told, expected);
        assert!(request.start_time_unix_nano <= attempt.start_time_unix_nano);
        assert!(attempt.end_time_unix_nano <= request.end_time_unix_nano);
    }
    assert_eq!(
        (said(failed, "error.type").as_str(), failed.status.as_ref().unwrap().code),
        ("faulty", 2)
    );
    assert_eq!(said(answered, "http.request.resend_count"), "1");
    assert_eq!(said(answered, "gen_ai.usage.output_tokens"), "1");
    assert_eq!(said(answered, "overdraft.tokens_out"), "1");
    assert_eq!(said(answered, "gen_ai.provider.name"), "overdraft");
    assert_eq!(
        (said(request, "overdraft.request_id"), said(request, "overdraft.attempts")),
        ("r-1".to_owned(), "2".to_owned())
    );
    assert_eq!(said(request, "overdraft.end"), "--");
    let text = format!("{spans:?}");
    assert!(!text.contains("hello") && !text.contains("content"), "no text of an answer: {text}");
}

#[tokio::test]
async fn another_model_is_asked_for_the_first_time_and_its_tokens_need_no_convention() {
    let sink = Sink::start().await;
    let (own, mut other) = (Mock::start(&[MODEL]).await, Mock::start(&["stand-in"]).await);
    let traced = sink.traced(1_000);
    let gateway = Gateway::start_with(&[&own, &other], |settings| {
        traced(settings);
        settings.tracing.as_mut().unwrap().gen_ai = GenAi::Off;
        let fallback = vec!["stand-in".to_owned()];
        let model = ModelSettings { fallback, ..ModelSettings::default() };
        settings.routing.models.insert(MODEL.to_owned(), model);
    })
    .await;
    own.answer_alone().turn_to(500);
    let mut client = gateway.chat("").await;
    other.call().await.answer(200, ANSWER).await;
    assert_eq!(client.whole().await.0.status, 200);
    let spans = sink.spans().await;
    let [.., stood_in, request] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(said(request, "overdraft.served_by"), "fallback");
    assert_eq!(said(stood_in, "overdraft.model"), "stand-in");
    let tokens = ["overdraft.tokens_prompt", "overdraft.tokens_out"].map(|key| said(stood_in, key));
    assert_eq!(tokens, ["3", "1"]);
    let is_resent =
        |one: &&Span| one.attributes.iter().any(|one| one.key == "http.request.resend_count");
    assert!(spans.len() > 2 && !is_resent(&stood_in), "{spans:?}");
}

#[tokio::test]
async fn a_stream_has_its_first_token_as_an_event() {
    let sink = Sink::start().await;
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], sink.traced(1_000)).await;
    let mut client = gateway.stream().await;
    let mut call = mock.call().await;
    call.stream().await;
    call.chunk(&(token("a") + &finish("stop") + DONE)).await;
    call.end().await;
    client.rest_after_head().await;
    let spans = sink.spans().await;
    let [attempt, request] = spans.as_slice() else { panic!("{spans:?}") };
    for span in [attempt, request] {
        let [event] = span.events.as_slice() else { panic!("{span:?}") };
        assert_eq!(event.name, "overdraft.first_token");
        let times = [span.start_time_unix_nano, event.time_unix_nano, span.end_time_unix_nano];
        assert!(times.is_sorted(), "{times:?}");
    }
    assert!(request.parent_span_id.is_empty(), "it begins here");
}

#[tokio::test]
async fn what_is_not_sampled_is_passed_on_and_a_bad_context_is_replaced() {
    let sink = Sink::start().await;
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start_with(&[&mock], sink.traced(0)).await;
    let unsampled = PARENT.replace("-01", "-00");
    for (sent, expected) in [(unsampled.as_str(), Some(unsampled.as_str())), ("00-bad", None)] {
        let mut client = gateway.client().await;
        let head = format!("traceparent: {sent}\r\ntracestate: vendor=1\r\n");
        client.post_with(CHAT, &head, &chat("")).await;
        let call = mock.call().await;
        let told = call.header("traceparent").unwrap();
        match expected {
            Some(expected) => assert_eq!(told, expected),
            None => assert!(told.ends_with("-00") && told.len() == PARENT.len(), "{told}"),
        }
        assert_eq!(call.header("tracestate"), expected.map(|_| "vendor=1"));
        call.answer(200, ANSWER).await;
        client.whole().await;
    }
}

#[tokio::test]
async fn a_collector_that_is_gone_costs_no_request_anything() {
    let sink = Sink::start().await;
    let mut mock = Mock::start(&[MODEL]).await;
    let adjust = sink.traced(1_000);
    drop(sink);
    let mut gateway = Gateway::start_with(&[&mock], adjust).await;
    for _ in 0..3 {
        let mut client = gateway.chat("").await;
        mock.call().await.answer(200, ANSWER).await;
        assert_eq!(client.whole().await.0.status, 200);
    }
    gateway.stop();
    gateway.stopped().await;
}

#[tokio::test]
async fn without_tracing_only_a_context_that_is_one_is_passed_on() {
    let mut mock = Mock::start(&[MODEL]).await;
    let gateway = Gateway::start(&[&mock]).await;
    for (sent, expected) in [(PARENT, Some(PARENT)), ("00-bad", None)] {
        let mut client = gateway.client().await;
        client.post_with(CHAT, &format!("traceparent: {sent}\r\n"), &chat("")).await;
        let call = mock.call().await;
        assert_eq!(call.header("traceparent"), expected);
        call.answer(200, ANSWER).await;
        client.whole().await;
    }
}
