//! What the scanner accepts, what a peek reads, what a patch changes and a prelude adds.

use serde::de::IgnoredAny;

use super::{DEPTH_MAX, Object, Patch, Prelude, RequestPeek};
use crate::error::ErrorKind;
use crate::request::StreamUsage;

#[track_caller]
fn check_scan(text: &str, expected: &str) {
    let got = match Object::parse(text.as_bytes()) {
        Ok(object) => object
            .members()
            .iter()
            .map(|member| format!("{}={}", member.key(), member.value()))
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => error.to_string(),
    };
    let got = got.strip_prefix("the body is not a JSON object: ").unwrap_or(&got);
    assert_eq!(got, expected, "for {text}");
}

#[test]
fn members_are_located_and_faults_placed() {
    check_scan("{}", "");
    check_scan(r#" {"a" : 1 , "b":[1,{"c":2}] } "#, r#"a=1 b=[1,{"c":2}]"#);
    check_scan(r#"{"\u0061":"\u00e9\"","a":null}"#, r#"a="\u00e9\"" a=null"#);
    check_scan("", "unexpected end of the text at byte 0");
    check_scan("[1]", "expected `{` at byte 0");
    check_scan(r#"{"a":1"#, "unexpected end of the text at byte 6");
    check_scan(r#"{"a":1 "b":2}"#, "expected `,` or `}` at byte 7");
    check_scan(r#"{"a":01}"#, "expected `,` or `}` at byte 6");
    check_scan(r#"{"a":[1,]}"#, "expected a value at byte 8");
    check_scan(r#"{"a":1,}"#, "expected `\"` at byte 7");
    check_scan("{\"a\":\"\n\"}", "unescaped control character in a string at byte 6");
    check_scan(r#"{"a":"\x"}"#, "unknown escape in a string at byte 7");
    check_scan(r#"{"a":NaN}"#, "expected a value at byte 5");
    check_scan("{} {}", "unexpected text after the object at byte 3");
}

// Faults: 70
#[test]
fn depth_is_limited_where_the_tree_parser_limits_it() {
    for depth in [1, 2, DEPTH_MAX, DEPTH_MAX + 1, 100_000] {
        let inner = depth - 1;
        let text = format!("{{\"a\":{}1{}}}", "[".repeat(inner), "]".repeat(inner));
        let tree = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        assert_eq!(Object::parse(text.as_bytes()).is_ok(), tree, "at depth {depth}");
        assert_eq!(tree, depth <= DEPTH_MAX);
    }
}

#[test]
fn invalid_utf8_is_refused_with_its_place() {
    let error = Object::parse(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!(error.position, 6);
}

#[track_caller]
fn check_patch(source: &str, patch: &Patch, expected: &str) {
    let patched = patch.apply(&Object::parse(source.as_bytes()).unwrap());
    assert_eq!(String::from_utf8(patched).unwrap(), expected, "for {source}");
}

#[test]
fn a_prelude_comes_first_and_what_follows_is_not_copied() {
    let prelude = Prelude::new().with("priority", &-10).with("cache_salt", &"a\"b");
    let check = |source: &'static str, expected: Option<&str>| {
        let source = bytes::Bytes::from_static(source.as_bytes());
        let pieces = prelude.before(&source);
        let told = pieces.as_ref().map(|pieces| String::from_utf8(pieces.concat()).unwrap());
        assert_eq!(told.as_deref(), expected, "for {source:?}");
        if let Some([_, rest]) = pieces {
            assert_eq!(rest.as_ptr_range().end, source.as_ptr_range().end);
        }
    };
    check(r#"{"x":1}"#, Some(r#"{"priority":-10,"cache_salt":"a\"b","x":1}"#));
    check(
        " \t{ \"x\" : 1 } \n",
        Some("{\"priority\":-10,\"cache_salt\":\"a\\\"b\", \"x\" : 1 } \n"),
    );
    check("{}", Some(r#"{"priority":-10,"cache_salt":"a\"b"}"#));
    check(" { } ", Some(r#"{"priority":-10,"cache_salt":"a\"b" } "#));
    for other in ["", "  ", "[]", "7", "{"] {
        check(other, None);
    }
    assert!(Prelude::new().is_empty() && !prelude.is_empty());
}

#[test]
fn a_patch_changes_its_members_and_no_other_byte() {
    let model = Patch::new().set("model", &"b");
    check_patch("{}", &model, r#"{"model":"b"}"#);
    check_patch(" { } ", &model, r#" {"model":"b" } "#);
    check_patch(r#"{"x":1.0}"#, &model, r#"{"x":1.0,"model":"b"}"#);
    check_patch(r#"{ "model" : "a" , "x":1e2 }"#, &model, r#"{ "model" : "b" , "x":1e2 }"#);
    check_patch(r#"{"model":"a","model":"c"}"#, &model, r#"{"model":"b","model":"b"}"#);
    check_patch(r#"{"mod\u0065l":"a"}"#, &model, r#"{"mod\u0065l":"b"}"#);
    let gone = Patch::new().remove("a").remove("b");
    check_patch(r#"{"a":1}"#, &gone, "{}");
    check_patch(r#"{"a":1, "c":2}"#, &gone, r#"{"c":2}"#);
    check_patch(r#"{"c":2 , "a":1}"#, &gone, r#"{"c":2}"#);
    check_patch(r#"{"c":2 , "a":1, "d":3,"b":4 }"#, &gone, r#"{"c":2 , "d":3 }"#);
    let swapped = Patch::new().remove("a").set_raw("usage", r#"{"x": 1}"#);
    check_patch(r#"{"a":1}"#, &swapped, r#"{"usage":{"x": 1}}"#);
    check_patch(r#"{"a":1}"#, &Patch::new(), r#"{"a":1}"#);
}

#[test]
fn a_peek_reads_the_routing_fields() {
    let body = br#"{"model":"m\u00e9","messages":[{"role":"user","content":"x"}],"stream":true,
        "stream_options":{"include_usage":true},"n":2,"max_tokens":9,"max_completion_tokens":5,
        "user":null,"priority":-3,"cache_salt":"s","service_tier":"flex","foreign":{"a":[1]}}"#;
    let peek = RequestPeek::parse(body).unwrap();
    assert_eq!(peek.model.as_deref(), Some("mé"));
    assert_eq!(peek.messages, Some(r#"[{"role":"user","content":"x"}]"#));
    assert!(peek.stream);
    assert_eq!((peek.usage, peek.n, peek.max_tokens), (StreamUsage::Last, 2, Some(5)));
    assert_eq!((peek.user.as_deref(), peek.priority), (None, Some(-3)));
    assert_eq!((peek.cache_salt.as_deref(), peek.prompt), (Some("s"), None));
    assert_eq!(peek.service_tier.as_deref(), Some("flex"));
}

// Faults: 72
#[test]
fn a_peek_names_the_field_of_the_wrong_type() {
    for (body, param) in [
        (r#"{"model":5}"#, "model"),
        (r#"{"stream":"yes"}"#, "stream"),
        (r#"{"n":"1"}"#, "n"),
        (r#"{"max_tokens":"9"}"#, "max_tokens"),
        (r#"{"stream_options":true}"#, "stream_options"),
        (r#"{"user":{}}"#, "user"),
        (r#"{"priority":[1]}"#, "priority"),
        (r#"{"model":"\ud800"}"#, "model"),
    ] {
        let error = RequestPeek::parse(body.as_bytes()).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "for {body}: {error}");
        assert_eq!(error.status(), 400);
    }
    for body in [&b"{"[..], b"{\"model\":\"m\",\"x\":\"\xff\"}"] {
        let error = RequestPeek::parse(body).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidJson);
    }
}

// Faults: 71
#[test]
fn of_duplicates_the_last_counts() {
    let peek = RequestPeek::parse(br#"{"model":"a","model":"b"}"#).unwrap();
    assert_eq!(peek.model.as_deref(), Some("b"));
}

#[test]
fn numbers_in_any_spelling_are_read_and_ranges_are_the_workers_to_judge() {
    let peek = |body: &str| {
        let peek = RequestPeek::parse(body.as_bytes()).unwrap();
        (peek.max_tokens, peek.n, peek.priority)
    };
    assert_eq!(peek(r#"{"max_tokens":256.0,"n":2.0,"priority":-1.0}"#), (Some(256), 2, Some(-1)));
    assert_eq!(peek(r#"{"max_completion_tokens":1e3}"#), (Some(1_000), 1, None));
    // No number of tokens, and yet what some servers take for no limit.
    assert_eq!(peek(r#"{"max_tokens":-1,"n":1.5,"priority":1e99}"#), (None, 1, None));
    let error = RequestPeek::parse(br#"{"max_tokens":"256"}"#).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("max_tokens"));
}

#[test]
fn an_answer_has_a_choice_for_each_prompt_and_each_time_it_is_asked_for() {
    let choices = |body: &str| RequestPeek::parse(body.as_bytes()).unwrap().choices();
    assert_eq!(choices("{}"), 1);
    assert_eq!(choices(r#"{"n":3}"#), 3);
    assert_eq!(choices(r#"{"prompt":"a"}"#), 1);
    assert_eq!(choices(r#"{"prompt":["a", "b"]}"#), 2);
    assert_eq!(choices(r#"{"prompt":["a","b"],"n":3}"#), 6);
    assert_eq!(choices(r#"{"prompt":[1,2,3]}"#), 1);
    assert_eq!(choices(r#"{"prompt":[[1],[2,3]]}"#), 2);
    assert_eq!(choices(r#"{"prompt":[],"n":0}"#), 1);
}

#[test]
fn numbers_follow_the_grammar() {
    for number in [
        "0", "-0", "1", "-12.5", "1e9", "1E+9", "0.0e-1", "-", "1.", ".5", "+1", "1e", "0x1", "--1",
    ] {
        let text = format!("{{\"a\":{number}}}");
        let oracle = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        assert_eq!(Object::parse(text.as_bytes()).is_ok(), oracle, "for {number}");
    }
}
