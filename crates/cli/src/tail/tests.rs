//! Tests of expressions, records and sources.

use std::time::Duration;

use overdraft_dash::views::RequestRow;
use overdraft_telemetry::AccessRecord;
use overdraft_telemetry::logging::{self, LogFormat, LogSettings};
use overdraft_units::{Micros, Tokens};
use serde_json::json;

use super::Reader;
use super::expression::Expression;
use super::record::{self, Record};
use super::source::Lines;

fn of_view() -> Record {
    Record::of_view(&json!({
        "id": "r-1", "route": "/v1/chat/completions", "ended_ms": 45_296_007_u64, "total_ms": 5_000.0, "ttft_ms": 2_100.0,
        "status": 200, "end": "--", "streamed": true, "model": "m", "tenant": "acme", "worker": "w3",
        "prompt_tokens": 4_096, "completion_tokens": 20, "cost_microusd": 20_000, "attempts": 2,
        "refused": "late", "resumed_by": "ids", "trace_id": "4bf92f35"
    }))
}

const LINE: &str = r#"{"timestamp":"2025-11-22T12:34:56.007123Z","request":"r-1","path":"/v1/chat/completions","status":200,"model":"m","stream":true,"tokens_prompt":4096,"tokens_out":20,"ttft_us":2100000,"total_us":5000000,"worker":"w3","tenant":"acme","cost_microusd":20000,"attempts":2,"refused":"late","resumed_by":"ids","trace_id":"4bf92f35","end":"--","target":"access"}"#;

#[track_caller]
fn takes(expression: &str, expected: bool) {
    let read = Expression::parse(expression);
    let read = read.unwrap_or_else(|fault| panic!("{}", fault.shown(expression)));
    for record in [of_view(), Record::of_line(LINE).unwrap()] {
        assert_eq!(read.takes(&record), expected, "`{expression}` of {record:?}");
    }
}

#[test]
fn an_expression_means_the_same_of_live_traffic_and_of_a_log() {
    takes("ttft > 2s and worker = w3", true);
    takes("ttft > 2s and worker = w4", false);
    takes("ttft >= 2100ms and ttft <= 2.1s", true);
    takes("worker = w4 or tenant = 'acme'", true);
    takes("worker = w4 and model = m or tenant = acme", true);
    takes("worker = w4 and (model = m or tenant = acme)", false);
    takes("not worker = w4", true);
    takes("! (prompt > 4k)", false);
    takes("prompt == 4096 and out < 0.1k", true);
    takes("cost >= 0.02 and cost < $0.03", true);
    takes("stream and not cache", true);
    takes("stream = false", false);
    takes("id ~ r- and route ~ \"chat\"", true);
    takes("status != 200", false);
    takes("attempts = 2 and refused = late", true);
    takes("resumed_by = ids and trace ~ 4bf9", true);
}

/// A request of which everything is known, as a gateway shows it and as its log has it.
fn whole() -> [Record; 2] {
    let text = || Some("x".to_owned());
    let (number, time) = (Some(7), Some(7.0));
    let row = RequestRow {
        id: "x".to_owned(),
        route: "x".to_owned(),
        end: "--".to_owned(),
        model: text(),
        tenant: text(),
        priority: text(),
        worker: text(),
        served_by: text(),
        cache: text(),
        refused: text(),
        resumed_by: text(),
        trace_id: text(),
        ttft_ms: time,
        queued_ms: time,
        prompt_tokens: number,
        cached_tokens: number,
        completion_tokens: number,
        cost_microusd: Some(7),
        ..RequestRow::default()
    };
    let (word, tokens, micros) = (Some("x"), Some(Tokens::new(7)), Some(Micros::new(7)));
    let line = AccessRecord {
        request: "x".to_owned(),
        path: "/x".to_owned(),
        model: text(),
        tenant: Some("x".into()),
        priority: word,
        worker: text(),
        served_by: word,
        cache: word,
        refused: word,
        resumed_by: word,
        trace: text(),
        first_token: micros,
        queued: micros,
        prompt: tokens,
        cached: tokens,
        completion: tokens,
        attempts: number,
        cost: Some(7),
        ..AccessRecord::default()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let settings = LogSettings { format: LogFormat::Json, ..LogSettings::default() };
    let log = logging::subscriber(&settings, file.reopen().unwrap()).unwrap();
    tracing::subscriber::with_default(log, || line.write());
    let line = std::fs::read_to_string(file.path()).unwrap();
    let row = serde_json::to_value(row).unwrap();
    [Record::of_view(&row), Record::of_line(line.trim_end()).unwrap()]
}

#[test]
fn every_field_is_there_of_live_traffic_and_of_a_log() {
    let [live, logged] = whole();
    for (name, _) in record::fields() {
        assert!(live.field(name).is_some(), "`{name}` is not in what a gateway shows");
        assert!(logged.field(name).is_some(), "`{name}` is not in an access line");
    }
}

#[test]
fn a_field_that_is_not_there_equals_nothing() {
    takes("queued > 1ms", false);
    takes("queued < 1h", false);
    takes("cache = hit", false);
    takes("cache != hit", true);
}

#[track_caller]
fn refuses(expression: &str, expected: &str) {
    let fault = Expression::parse(expression).unwrap_err();
    assert_eq!(fault.shown(expression), expected);
}

#[test]
fn a_fault_is_pointed_at() {
    refuses(
        "ttft > fast and worker = w3",
        "`fast` is not what `ttft` holds; expected a time with its unit, as in `200ms`, `2s` or `1m`\n  \
         ttft > fast and worker = w3\n         ^^^^",
    );
    refuses(
        "tfft > 2s",
        "`tfft` is no field (did you mean `ttft`?); expected one of id, route, model, tenant, priority, worker, end, \
         served_by, cache, refused, resumed_by, trace, ttft, total, queued, status, prompt, cached, out, attempts, cost, \
         stream\n  tfft > 2s\n  ^^^^",
    );
    refuses(
        "größe = 1",
        "`größe` is no field (did you mean `trace`?); expected one of id, route, model, tenant, priority, worker, end, \
         served_by, cache, refused, resumed_by, trace, ttft, total, queued, status, prompt, cached, out, attempts, cost, \
         stream\n  größe = 1\n  ^^^^^",
    );
    refuses(
        "worker > w3",
        "`worker` is text; expected `=`, `!=` or `~`\n  worker > w3\n         ^",
    );
    refuses("(stream", "this `(` is not closed\n  (stream\n  ^");
    refuses("stream cache", "expected `and`, `or` or the end here\n  stream cache\n         ^^^^^");
    refuses(
        "ttft >",
        "expected a time with its unit, as in `200ms`, `2s` or `1m` here\n  ttft >\n        ^",
    );
    refuses("model = \"a b", "the quote \" is not closed\n  model = \"a b\n          ^^^^");
    refuses("stream and", "expected a field here, as in `ttft > 2s`\n  stream and\n            ^");
    assert!(
        Expression::parse(&"(".repeat(1_000)).is_err()
            && Expression::parse(&"!".repeat(4_000)).is_err()
    );
}

proptest::proptest! {
    #[test]
    fn whatever_is_typed_is_read_or_pointed_at(text in "\\PC{0,60}") {
        if let Err(fault) = Expression::parse(&text) {
            assert!(fault.shown(&text).contains('^'));
        }
    }
}

#[test]
fn a_line_for_a_person_holds_no_control_characters() {
    let mut row = json!({"id": "r\u{1b}[2J", "ended_ms": 45_296_007_u64, "model": "<b>m</b>\n"});
    let line = Record::of_view(&row).line();
    assert!(
        line.starts_with("12:34:56.007 r\\u{1b}[2J") && !line.contains(char::is_control),
        "{line}"
    );
    row["worker"] = "w\u{202e}3".into();
    assert!(!Record::of_view(&row).fields().contains('\u{202e}'));
    assert_eq!(Record::of_line("plain text"), None);
    assert_eq!(Record::of_line(r#"{"target":"other"}"#), None);
}

#[tokio::test]
async fn a_log_that_is_cut_to_nothing_is_followed_from_its_new_beginning() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one\ntwo\n").unwrap();
    let mut seen = Vec::new();
    let lines = Lines::open(file.path(), true).unwrap();
    let reading = lines.each(|line| {
        seen.push(line.to_owned());
        match line {
            "two" => std::fs::write(file.path(), "new\n").map(|()| Reader::There),
            "new" => Ok(Reader::Gone),
            _ => Ok(Reader::There),
        }
    });
    tokio::time::timeout(Duration::from_mins(1), reading).await.expect("it goes on").unwrap();
    assert_eq!(seen, ["one", "two", "new"]);
}
