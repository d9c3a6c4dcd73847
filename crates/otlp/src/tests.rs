//! Tests of the exporter against a sink that decodes with the official messages.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use overdraft_telemetry::metrics::{Exposition, GatewayMetrics, TraceMetrics};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::*;

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_trace_parent_is_read_and_written_as_it_came() {
    let context = TraceContext::parse(GOOD.as_bytes()).unwrap();
    assert_eq!(context.sampled, Sampled::Yes);
    assert_eq!(context.trace.to_hex(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(context.header().as_slice(), GOOD.as_bytes());
    let later = GOOD.replacen("00", "cc", 1) + "-what-comes-later";
    assert_eq!(TraceContext::parse(later.as_bytes()), Some(context));
}

#[test]
fn a_trace_parent_that_is_not_one_is_no_context() {
    for bad in [
        "",
        "00",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01more",
    ] {
        assert_eq!(TraceContext::parse(bad.as_bytes()), None, "{bad}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_a_client_sends_is_read_or_not(value in proptest::collection::vec(0_u8.., 0..80)) {
        if let Some(context) = TraceContext::parse(&value) {
            assert_eq!(TraceContext::parse(&context.header()), Some(context));
        }
    }
}

#[test]
fn a_tenth_is_a_tenth_and_a_parent_decides_where_it_may() {
    let ids = Ids::seeded(7);
    let tenth = Sampler::new(100, Parents::Honoured);
    let yes = (0..20_000).filter(|_| tenth.decide(ids.trace(), None) == Sampled::Yes).count();
    assert!((1_800..2_200).contains(&yes), "{yes}");
    let decide =
        |permille, parents, parent| Sampler::new(permille, parents).decide(ids.trace(), parent);
    assert_eq!(decide(0, Parents::Honoured, Some(Sampled::Yes)), Sampled::Yes);
    assert_eq!(decide(1_000, Parents::Honoured, Some(Sampled::No)), Sampled::No);
    assert_eq!(decide(0, Parents::Ignored, Some(Sampled::Yes)), Sampled::No);
    assert_eq!(decide(1_000, Parents::Ignored, Some(Sampled::No)), Sampled::Yes);
}

#[test]
fn an_address_has_the_path_and_port_of_the_protocol() {
    let shown = |url| Endpoint::parse(url).map(|endpoint| (endpoint.to_string(), endpoint.port));
    assert_eq!(shown("http://c:4318"), Ok(("http://c:4318/v1/traces".to_owned(), 4_318)));
    assert_eq!(shown("http://c/"), Ok(("http://c/v1/traces".to_owned(), 4_318)));
    assert_eq!(shown("https://c/otlp/v1/traces?k=s").unwrap().0, "https://c/otlp/v1/traces");
    assert_eq!(shown("https://c").unwrap().1, 443);
    for bad in ["c:4318", "grpc://c:4317", "http://user:word@c", "http://c:0", "http://"] {
        let error = Endpoint::parse(bad).unwrap_err().to_string();
        assert!(!error.contains("word"), "{error}");
    }
}

fn span(number: u64) -> Span {
    Span {
        trace: TraceId([1; 16]),
        id: SpanId(number.to_be_bytes()),
        parent: Some(SpanId([9; 8])),
        is_parent_remote: true,
        state: Some("vendor=1".into()),
        name: "POST /v1/chat/completions".into(),
        kind: Kind::Server,
        begun_ns: 1_000,
        ended_ns: 2_000,
        attributes: vec![
            Attribute::new("text", "a"),
            Attribute::new("count", 3_u64),
            Attribute { key: "share".into(), value: Value::Float(0.5) },
            Attribute { key: "flag".into(), value: Value::Flag(true) },
        ],
        events: vec![SpanEvent { at_ns: 1_500, name: "first_token", attributes: Vec::new() }],
        events_dropped: 2,
        outcome: Outcome::Failed(Cow::Borrowed("silent")),
    }
}

/// A collector that answers each batch with the next of `answers`, and the last one for ever.
struct Sink {
    listener: TcpListener,
    answers: Vec<&'static str>,
}

const TAKEN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nretry-after: 0\r\n\r\n";
const NEVER: &str = "HTTP/1.1 400 Bad\r\ncontent-length: 3\r\n\r\nbad";

impl Sink {
    async fn start(answers: &[&'static str]) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut answers = answers.to_vec();
        answers.reverse();
        (Self { listener, answers }, address)
    }

    fn answer(&mut self) -> &'static str {
        if 1 < self.answers.len() { self.answers.pop().unwrap() } else { self.answers[0] }
    }

    /// The next batch that is answered with 200.
    async fn take(&mut self) -> (String, ExportTraceServiceRequest) {
        loop {
            let (mut stream, _) = self.listener.accept().await.unwrap();
            while let Some((head, body)) = request(&mut stream).await {
                let answer = self.answer();
                stream.write_all(answer.as_bytes()).await.unwrap();
                if answer == TAKEN {
                    return (head, ExportTraceServiceRequest::decode(&*body).unwrap());
                }
            }
        }
    }
}

async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    let head_end = loop {
        if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return None;
        }
    };
    let head = String::from_utf8(read[..head_end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let length: usize = length.parse().unwrap();
    while read.len() < head_end + length {
        stream.read_buf(&mut read).await.unwrap();
    }
    Some((head, read.split_off(head_end)))
}

struct Running {
    queue: SpanQueue,
    metrics: GatewayMetrics,
    end: oneshot::Sender<()>,
    exporter: JoinSet<()>,
}

fn start(address: SocketAddr) -> Running {
    let mut metrics = GatewayMetrics::new();
    let (queue, source) = queue(TraceMetrics::new(metrics.registry_mut()));
    let settings = ExporterSettings {
        endpoint: Endpoint::parse(&format!("http://{address}")).unwrap(),
        headers: vec![Header::new("X-Key", "secret").unwrap()],
        timeout: Duration::from_secs(5),
        resource: vec![Attribute::new("service.name", "overdraft")],
    };
    let (end, ended) = oneshot::channel();
    let mut exporter = JoinSet::new();
    exporter.spawn(Exporter::new(settings, source).run(async {
        let _ = ended.await;
    }));
    Running { queue, metrics, end, exporter }
}

impl Running {
    #[track_caller]
    fn counts(&self, line: &str) {
        let page = self.page();
        assert!(page.lines().any(|one| one == line), "no `{line}` in {page}");
    }

    /// Waits until the metrics say so.
    async fn until_counts(&self, line: &str) {
        let told = async {
            while !self.page().lines().any(|one| one == line) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("it is counted");
    }

    fn page(&self) -> String {
        self.metrics.encode(Exposition::for_accept(None))
    }
}

#[tokio::test]
async fn the_official_messages_read_what_is_sent() {
    let (mut sink, address) = Sink::start(&[TAKEN]).await;
    let running = start(address);
    running.queue.push(vec![span(1), span(2)]);
    let (head, batch) = sink.take().await;
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf") && head.contains("x-key: secret")
    );
    let resource = &batch.resource_spans[0];
    assert_eq!(resource.resource.as_ref().unwrap().attributes[0].key, "service.name");
    let scope = &resource.scope_spans[0];
    assert_eq!(scope.scope.as_ref().unwrap().name, "overdraft");
    let read = &scope.spans[0];
    assert_eq!((scope.spans.len(), read.trace_id.as_slice()), (2, &[1; 16][..]));
    assert_eq!(
        (read.parent_span_id.as_slice(), read.trace_state.as_str()),
        (&[9; 8][..], "vendor=1")
    );
    assert_eq!((read.kind, read.flags), (2, 0x301));
    assert_eq!((read.start_time_unix_nano, read.end_time_unix_nano), (1_000, 2_000));
    let values: Vec<_> =
        read.attributes.iter().map(|one| one.value.clone().unwrap().value.unwrap()).collect();
    let expected = [
        ProtoValue::StringValue("a".to_owned()),
        ProtoValue::IntValue(3),
        ProtoValue::DoubleValue(0.5),
        ProtoValue::BoolValue(true),
    ];
    assert_eq!(values, expected);
    assert_eq!(
        (read.events[0].name.as_str(), read.events[0].time_unix_nano),
        ("first_token", 1_500)
    );
    let status = read.status.as_ref().unwrap();
    assert_eq!((read.dropped_events_count, status.code, status.message.as_str()), (2, 2, "silent"));
}

#[tokio::test]
async fn what_may_be_taken_later_is_sent_again_and_what_may_not_is_lost() {
    let (mut sink, address) = Sink::start(&[BUSY, BUSY, TAKEN, NEVER, TAKEN]).await;
    let running = start(address);
    running.queue.push(vec![span(1)]);
    sink.take().await;
    drop(sink.listener);
    // The same place, opened anew: a collector that was restarted gets what comes then.
    sink.listener = TcpListener::bind(address).await.unwrap();
    running.queue.push(vec![span(2)]);
    let next = async {
        // In a batch of its own: the one before has been refused.
        running.until_counts("overdraft_trace_spans_dropped_total{reason=\"refused\"} 1").await;
        running.queue.push(vec![span(3)]);
    };
    let ((_, batch), ()) = tokio::join!(sink.take(), next);
    let id = &batch.resource_spans[0].scope_spans[0].spans[0].span_id;
    assert_eq!(id.as_slice(), 3_u64.to_be_bytes());
}

#[tokio::test]
async fn a_collector_that_is_gone_costs_spans_and_no_time() {
    let (sink, address) = Sink::start(&[TAKEN]).await;
    drop(sink);
    let mut running = start(address);
    let begun = tokio::time::Instant::now();
    for number in 0..u64::try_from(QUEUE_TRACES_MAX).unwrap() * 2 {
        running.queue.push(vec![span(number)]);
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    running.counts(&format!(
        "overdraft_trace_spans_dropped_total{{reason=\"queue_full\"}} {QUEUE_TRACES_MAX}"
    ));
    running.end.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(10), running.exporter.join_next()).await.unwrap();
}

#[tokio::test]
async fn what_is_left_at_the_end_is_sent() {
    let (mut sink, address) = Sink::start(&[TAKEN]).await;
    let mut running = start(address);
    running.queue.push(vec![span(1)]);
    running.end.send(()).unwrap();
    sink.take().await;
    running.exporter.join_next().await;
}
