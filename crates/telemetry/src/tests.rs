//! Names of requests, and what an access line shows.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use overdraft_units::{Micros, Tokens};

use super::logging::{LogError, LogFormat, LogSettings, subscriber};
use super::{
    AccessRecord, AccessWriter, Audience, Delivery, EndCode, Ender, PassedLimit, Phase, RequestId,
    RequestIds,
};

#[test]
fn names_have_a_fixed_shape_and_never_repeat() {
    let ids = RequestIds::seeded(7);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..10_000 {
        let id = ids.next();
        let digits = id.as_str().strip_prefix("req_").unwrap().to_owned();
        assert_eq!(digits.len(), 24);
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(seen.insert(digits));
    }
    assert_eq!(RequestIds::seeded(7).next(), RequestIds::seeded(7).next());
    assert_ne!(RequestIds::seeded(7).next(), RequestIds::seeded(8).next());
}

#[test]
fn a_client_may_bring_a_harmless_name_only() {
    for (raw, taken) in [
        ("a", true),
        ("trace-1.2_X", true),
        ("", false),
        ("two words", false),
        ("line\nbreak", false),
        ("ünicode", false),
    ] {
        assert_eq!(RequestId::from_client(raw).is_some(), taken, "{raw:?}");
    }
    assert!(RequestId::from_client(&"x".repeat(128)).is_some());
    assert!(RequestId::from_client(&"x".repeat(129)).is_none());
}

#[test]
fn end_codes_are_two_letters() {
    let code = |ender, phase| EndCode { ender, phase }.to_string();
    assert_eq!(EndCode::WHOLE.to_string(), "--");
    assert_eq!(code(Ender::Client, Phase::Data), "CD");
    assert_eq!(code(Ender::ClientStalled, Phase::Data), "cD");
    assert_eq!(code(Ender::Policy, Phase::Request), "PR");
    assert_eq!(code(Ender::Server, Phase::FirstToken), "SH");
}

/// Where a test's log goes.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn logged(format: LogFormat, record: &AccessRecord) -> String {
    let sink = Sink::default();
    let writer = sink.clone();
    let settings = LogSettings { format, ..LogSettings::default() };
    let subscriber = subscriber(&settings, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || record.write());
    sink.text()
}

#[test]
fn plain_fields_look_as_the_library_has_them() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[from] std::num::ParseIntError);
    let outer = Outer("x".parse::<u8>().unwrap_err());
    let error: &(dyn std::error::Error + 'static) = &outer;
    let events = || {
        tracing::info!(
            count = 7_u64,
            less = -7_i64,
            share = 0.5,
            is_so = true,
            "it {}",
            "happened"
        );
        tracing::info!("only \u{1b}[31mwords");
        tracing::info!(
            text = "pl'ain",
            quoted = "a\"b",
            line = "a\nb",
            path = "a\\b",
            accent = "\u{e9}"
        );
        tracing::info!(shown = %"as it is", seen = ?Some("x"), none = Option::<u64>::None);
        tracing::info!(error, r#type = "t", "failed");
        tracing::info!(message = "as a field", after = 1_u64);
    };
    // The time of an event is its own.
    let fields = |text: String| -> Vec<String> {
        let after = |line: &str| line.split_once("tests: ").unwrap().1.to_owned();
        text.lines().map(after).collect()
    };
    let (ours, theirs) = (Sink::default(), Sink::default());
    let writer = ours.clone();
    let plain = subscriber(&LogSettings::default(), move || writer.clone()).unwrap();
    tracing::subscriber::with_default(plain, events);
    let writer = theirs.clone();
    let library = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    tracing::subscriber::with_default(library.finish(), events);
    let (ours, theirs) = (fields(ours.text()), fields(theirs.text()));
    assert_eq!(ours.len(), 6);
    assert_eq!(ours, theirs);
}

#[test]
fn a_word_that_is_no_level_and_no_target_of_ours_is_no_filter() {
    let refusal = |filter: &str| -> Option<LogError> {
        let settings = LogSettings { filter: filter.to_owned(), ..LogSettings::default() };
        subscriber(&settings, std::io::sink).err()
    };
    for filter in ["ingo", "info,warning", "access=info, wran"] {
        let error = refusal(filter).map(|error| error.to_string()).unwrap_or_default();
        let word = filter.rsplit([',', ' ']).next().unwrap_or_default();
        assert!(error.starts_with(&format!("`{word}` is no level")), "{filter}: {error}");
        assert!(error.contains("`warn`, `info`"), "{error}");
    }
    for filter in ["info", "OFF", "3", "warn, access=info", "warn,audit", "h2=trace", "info,[a]"] {
        assert!(refusal(filter).is_none(), "{filter}");
    }
}

fn record() -> AccessRecord {
    AccessRecord {
        request: "req_1".to_owned(),
        method: "POST".to_owned(),
        path: "/v1/chat/completions".to_owned(),
        status: 200,
        model: Some("ta\nrget".to_owned()),
        named: None,
        delivery: Delivery::Streamed,
        prompt: Some(Tokens::new(12)),
        completion: Some(Tokens::new(3)),
        cached: None,
        reused: None,
        prompt_bytes: None,
        prefix: None,
        first_token: Some(Micros::new(1_500)),
        total: Micros::new(9_000),
        queued: None,
        worker: None,
        attempts: None,
        refused: None,
        tenant: None,
        priority: None,
        served_by: None,
        stand_in: None,
        scored_by: None,
        cost: None,
        cost_alone: None,
        cache: None,
        end: EndCode::WHOLE,
        audience: Audience::Operator,
        writer: AccessWriter::Front,
        resumed: None,
        resumed_by: None,
        hedged: None,
        limit: None,
        trace: None,
    }
}

#[test]
fn probes_are_not_logged_unless_they_fail_badly() {
    let mut probe = AccessRecord { audience: Audience::Debugger, ..record() };
    assert_eq!(logged(LogFormat::Text, &probe), "");
    probe.end = EndCode { ender: Ender::Defect, phase: Phase::Request };
    assert!(logged(LogFormat::Text, &probe).contains("WARN"));
}

#[test]
fn the_line_of_a_worker_behind_a_gateway_in_its_process_has_another_target() {
    for (writer, target) in
        [(AccessWriter::Front, "access"), (AccessWriter::Inner, "access_worker")]
    {
        let text = logged(LogFormat::Json, &AccessRecord { writer, ..record() });
        assert!(text.contains(&format!("\"target\":\"{target}\"")), "{text}");
    }
}

#[test]
fn the_access_line_is_one_line_whatever_the_client_sends() {
    let text = logged(LogFormat::Text, &record());
    assert_eq!(text.lines().count(), 1, "{text}");
    let fields = text.split_once("access: ").unwrap().1.trim_end();
    assert_eq!(
        fields,
        "request=req_1 method=POST path=\"/v1/chat/completions\" status=200 model=\"ta\\nrget\" \
         stream=true tokens_prompt=12 tokens_out=3 ttft_us=1500 total_us=9000 end=--"
    );
}

#[test]
fn the_access_line_tells_whose_request_it_was_and_how_long_it_waited() {
    let waited = AccessRecord {
        attempts: Some(2),
        refused: Some("late"),
        queued: Some(Micros::new(700)),
        worker: Some("gpu-a".to_owned()),
        tenant: Some("ac me".into()),
        priority: Some("flex"),
        served_by: Some("fallback"),
        stand_in: Some("small".to_owned()),
        scored_by: Some("generate"),
        cost: Some(7),
        cost_alone: Some(70),
        limit: Some(PassedLimit {
            name: "first_token",
            after: Micros::new(60_000_000),
            basis: "least",
        }),
        ..record()
    };
    let text = logged(LogFormat::Text, &waited);
    let told = "queued_us=700 worker=\"gpu-a\" attempts=2 refused=\"late\" tenant=\"ac me\" priority=\"flex\" \
                served_by=\"fallback\" stand_in=\"small\" scored_by=\"generate\" cost_microusd=7 cost_target_only_microusd=70 \
                limit=\"first_token\" limit_us=60000000 limit_by=\"least\" end=--";
    assert!(text.trim_end().ends_with(told), "{text}");
}

#[test]
fn the_access_line_tells_what_was_found_and_what_prompts_share() {
    let found = AccessRecord {
        cached: Some(Tokens::new(8)),
        cache: Some("hit"),
        reused: Some((Tokens::new(12), Tokens::new(3))),
        prompt_bytes: Some(700),
        prefix: Some("512:00c0ffee".to_owned()),
        named: Some("fast".to_owned()),
        ..record()
    };
    let text = logged(LogFormat::Text, &found);
    assert!(text.contains("rget\" model_named=\"fast\" stream=true"), "{text}");
    let told = "tokens_cached=8 tokens_prompt_reused=12 tokens_out_reused=3 ttft_us=1500 \
                total_us=9000 cache=\"hit\" prompt_bytes=700 prefix=\"512:00c0ffee\" end=--";
    assert!(text.trim_end().ends_with(told), "{text}");
}

#[test]
fn the_access_line_is_one_json_object() {
    let json = logged(LogFormat::Json, &record());
    assert_eq!(json.lines().count(), 1, "{json}");
    for field in ["\"status\":200", "\"model\":\"ta\\nrget\"", "\"end\":\"--\"", "\"ttft_us\":1500"]
    {
        assert!(json.contains(field), "{field} in {json}");
    }
    assert!(!json.contains("worker"), "{json}");
}

#[test]
fn an_unreadable_filter_is_refused_with_what_would_do() {
    let settings = LogSettings { filter: "a=b=c".to_owned(), ..LogSettings::default() };
    let error = subscriber(&settings, std::io::stderr).err().unwrap().to_string();
    assert_eq!(
        error,
        "`a=b=c` is not a log filter; expected directives as in `info` or `warn,access=info`"
    );
}
