//! A cut is always told, a whole answer never; whatever engines write.

use proptest::prelude::*;

use super::{
    AnswerChunk, Document, DocumentFault, Finish, Heard, LongDocument, StreamFault, StreamState,
    TokenChunk, UsageTold, names_fingerprint, with_fingerprint,
};
use crate::dialect::Dialect;
use crate::sse::Splitter;

const EVENT_BYTES_MAX: usize = 64 * 1024;

fn finish_of(reason: &str) -> Finish {
    let data = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":{reason}}}]}}"#);
    AnswerChunk::parse(data.as_bytes()).unwrap().choices.unwrap()[0].finish
}

#[test]
fn a_fingerprint_is_added_as_the_last_member_and_only_where_it_fits() {
    let counts =
        br#"{"choices":[],"usage":{"prompt_tokens":1},"system_fingerprint":"vllm-\u0041"}"#;
    let stamped = |event: &str, data: &[u8]| {
        with_fingerprint(event.as_bytes(), data).map(|event| String::from_utf8(event).unwrap())
    };
    for end in ["\n\n", "\r\n\r\n"] {
        let expected =
            format!(r#"data: {{"choices":[{{}}],"system_fingerprint":"vllm-\u0041"}}{end}"#);
        let event = format!(r#"data: {{"choices":[{{}}]}}{end}"#);
        assert_eq!(stamped(&event, counts), Some(expected.clone()));
        assert!(names_fingerprint(expected.as_bytes()) && !names_fingerprint(event.as_bytes()));
    }
    let event = "data: {\"choices\":[{}]}\n\n";
    for data in [r#"{"usage":{}}"#, r#"{"system_fingerprint":null}"#, "[]", "half"] {
        assert_eq!(stamped(event, data.as_bytes()), None, "{data}");
    }
    for event in ["data: {\ndata: }\n\n", "data: {}\nid: 7\n\n", ": {}\n\n", "data: [DONE]\n\n"] {
        assert_eq!(stamped(event, counts), None, "{event}");
    }
    assert!(!names_fingerprint(br#"data: {"content":"\"system_fingerprint\""}"#));
}

#[test]
fn a_finish_reason_is_a_word_and_no_empty_one() {
    for reason in [r#""stop""#, r#""length""#, r#""tool_calls""#, r#""repetition""#, r#""eos""#] {
        assert_eq!(finish_of(reason), Finish::Ended, "{reason}");
    }
    for reason in ["null", r#""""#, r#"" ""#, "0", "{}", "[]", "true", r#""not a word""#] {
        assert_eq!(finish_of(reason), Finish::Running, "{reason}");
    }
    for reason in [r#""abort""#, r#""error""#] {
        assert_eq!(finish_of(reason), Finish::Aborted, "{reason}");
    }
}

#[test]
fn what_a_reader_waits_for_is_told_from_formalities() {
    let progress = |choice: &str| {
        let data = format!(r#"{{"choices":[{choice}]}}"#);
        AnswerChunk::parse(data.as_bytes()).unwrap().has_progress()
    };
    for choice in [
        r#"{"delta":{"content":"a"}}"#,
        r#"{"delta":{"reasoning":"a","reasoning_content":"a"}}"#,
        r#"{"delta":{"tool_calls":[{"index":0}]}}"#,
        r#"{"delta":{"refusal":"no"}}"#,
        r#"{"text":" "}"#,
        r#"{"message":{"content":"a","tool_calls":null}}"#,
        r#"{"delta":{},"finish_reason":"stop"}"#,
    ] {
        assert!(progress(choice), "{choice}");
    }
    for choice in [
        r#"{"delta":{"role":"assistant","content":""}}"#,
        r#"{"delta":{"role":"assistant","content":null,"tool_calls":[]},"finish_reason":""}"#,
        r#"{"text":"","finish_reason":null}"#,
        r#"{"delta":null}"#,
        "{}",
    ] {
        assert!(!progress(choice), "{choice}");
    }
}

#[test]
fn a_list_of_calls_calls_tools_only_where_a_call_is_in_it() {
    for (calls, has_calls) in [("null", false), ("[]", false), (r#"[{"index":0}]"#, true)] {
        for part in ["delta", "message"] {
            let told = format!(r#"{{"content":"a","tool_calls":{calls}}}"#);
            let data = format!(r#"{{"choices":[{{"{part}":{told}}}]}}"#);
            let chunk = TokenChunk::parse(data.as_bytes()).unwrap();
            assert_eq!(chunk.choices[0].has_calls, has_calls, "{data}");
        }
    }
}

#[test]
fn token_counts_are_read_in_any_spelling() {
    let usage = |usage: &str| {
        let data = format!(r#"{{"choices":[],"usage":{usage}}}"#);
        AnswerChunk::parse(data.as_bytes()).unwrap().usage
    };
    let told = |prompt, cached, completion| Some(UsageTold { prompt, cached, completion });
    assert_eq!(usage(r#"{"prompt_tokens":3,"completion_tokens":2}"#), told(3, None, 2));
    assert_eq!(usage(r#"{"prompt_tokens":3.0,"completion_tokens":2e0}"#), told(3, None, 2));
    let details = r#"{"prompt_tokens":3,"completion_tokens":null,"prompt_tokens_details":"#;
    assert_eq!(usage(&format!(r#"{details}{{"cached_tokens":1}}}}"#)), told(3, Some(1), 0));
    assert_eq!(usage(&format!("{details}null}}")), told(3, None, 0));
    assert_eq!(usage(&format!(r#"{details}{{"cached_tokens":null}}}}"#)), told(3, None, 0));
    assert_eq!(usage("{}"), None);
    assert_eq!(usage("null"), None);
}

/// Feeds events; how the stream stands.
#[track_caller]
fn check(asked: u32, events: &[&str], standing: &str) {
    let mut state = StreamState::new(asked);
    let mut fault = None;
    let mut splitter = Splitter::new(EVENT_BYTES_MAX);
    for event in events {
        splitter.push(format!("data: {event}\n\n").as_bytes());
        let event = splitter.next_event().unwrap().unwrap();
        if let Err(told) = state.handle_event(&event) {
            fault = Some(told);
            break;
        }
    }
    let seen = match fault {
        Some(StreamFault::Cut) => "cut",
        Some(StreamFault::Aborted) => "aborted",
        Some(StreamFault::Failed(_)) => "failed",
        None if state.is_done() => "done",
        None if state.is_whole() => "whole",
        None if state.has_begun() => "running",
        None => "open",
    };
    assert_eq!(seen, standing);
}

const DONE: &str = "[DONE]";

#[test]
fn a_stream_is_whole_once_every_choice_has_finished() {
    let role = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
    let text = |index| format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"a"}}}}]}}"#);
    let end = |index| {
        format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"stop"}}]}}"#)
    };
    let (a0, a1, e0, e1) = (text(0), text(1), end(0), end(1));
    check(1, &[role], "open");
    check(1, &[role, &a0], "running");
    check(1, &[role, &a0, &e0], "whole");
    check(1, &[role, &a0, &e0, DONE], "done");
    // One choice that says twice that it has finished is not two.
    check(2, &[&a0, &a1, &e0, &e0], "running");
    check(2, &[&a0, &a1, &e0, &e0, DONE], "cut");
    check(2, &[&a0, &a1, &e0, &e1, DONE], "done");
    // A server that knows one choice only.
    check(3, &[&a0, &e0, DONE], "done");
    check(3, &[&a0, &e0], "running");
    check(1, &[&a0, DONE], "cut");
    check(1, &[DONE], "cut");
    check(1, &[r#"{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}"#, DONE], "cut");
    check(1, &[&a0, r#"{"choices":[{"delta":{},"finish_reason":"abort"}]}"#], "aborted");
    check(1, &[&a0, r#"{"error":{"message":"m"}}"#], "failed");
    check(1, &[&a0, r#"{"object":"error","message":"m","code":500}"#], "failed");
    check(1, &["not json", r#"{"x":1}"#], "open");
}

#[test]
fn a_document_is_an_answer_or_says_why_not() {
    let read = |answer: &str| Document::read(answer.as_bytes(), true);
    assert!(read(r#"{"choices":[{}]}"#).is_ok());
    assert_eq!(read(r#"{"choices":[ ]}"#), Err(DocumentFault::Empty));
    assert_eq!(read("{}"), Err(DocumentFault::Empty));
    assert_eq!(
        read(r#"{"error":{"message":"no \"choices\": [{}]"}}"#),
        Err(DocumentFault::Failed(r#"no "choices": [{}]"#.to_owned()))
    );
    assert_eq!(read(r#"{"choices":[{"finish_reason" : "abort"}]}"#), Err(DocumentFault::Aborted));
    for cut in ["", " ", "<html>", r#"{"choices":[{"message":{"content":"half"#, "[]", "null"] {
        assert!(matches!(read(cut), Err(DocumentFault::Cut(_))), "{cut}");
    }
    assert!(Document::read(br#"{"data":[]}"#, false).is_ok());
    assert!(Document::read(br#"{"data":[],"error":null}"#, false).is_ok());
}

/// A stream of `choices` choices in the order of `steps`, and where its last choice finishes.
fn stream(choices: u32, steps: &[(u32, String)], ends_said: bool) -> (String, usize) {
    let mut text = String::from(": keep-alive\n\n");
    let chunk = |index: u32, delta: &str, reason: &str| {
        let delta = serde_json::json!({ "content": delta });
        format!(
            "data: {{\"choices\":[{{\"index\":{index},\"delta\":{delta},\"finish_reason\":{reason}}}]}}\n\n"
        )
    };
    for (index, word) in steps {
        text.push_str(&chunk(index % choices, word, "null"));
    }
    for index in 0..choices {
        text.push_str(&chunk(index, "", "\"stop\""));
    }
    let whole_at = text.len();
    text.push_str(
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n",
    );
    if ends_said {
        text.push_str("data: [DONE]\n\n");
    }
    (text, whole_at)
}

fn is_whole(bytes: &[u8], choices: u32) -> bool {
    let mut state = StreamState::new(choices);
    let mut splitter = Splitter::new(EVENT_BYTES_MAX);
    splitter.push(bytes);
    while let Ok(Some(event)) = splitter.next_event() {
        if !matches!(
            state.handle_event(&event),
            Ok(Heard::Idle | Heard::Progress | Heard::Usage | Heard::Done)
        ) {
            return false;
        }
    }
    state.is_whole()
}

proptest! {
    /// Cut at every byte: before its last choice has finished a stream is never whole, from there on always.
    #[test]
    fn a_cut_is_always_told_and_a_whole_answer_never(
        choices in 1_u32..4,
        steps in prop::collection::vec((0_u32..4, "[a-z\"\\\\\n\u{e4}\u{1f642}]{0,6}"), 0..8),
        ends_said in any::<bool>(),
    ) {
        let (text, whole_at) = stream(choices, &steps, ends_said);
        for cut in 0..=text.len() {
            prop_assert_eq!(is_whole(&text.as_bytes()[..cut], choices), whole_at <= cut, "{}", cut);
        }
    }

    /// The same of documents, read at once and in pieces.
    #[test]
    fn half_a_document_is_none(
        texts in prop::collection::vec("[a-z\"\\\\{}\\[\\]\n\u{e4}]{0,8}", 1..4),
        pieces in 1_usize..7,
    ) {
        let choice = |(index, text): (usize, &String)| {
            serde_json::json!({"index": index, "message": {"content": text}, "finish_reason": "stop"})
        };
        let choices: Vec<_> = texts.iter().enumerate().map(choice).collect();
        let text = serde_json::json!({ "choices": choices, "usage": {"prompt_tokens": 1} }).to_string();
        for cut in 0..=text.len() {
            let bytes = &text.as_bytes()[..cut];
            prop_assert_eq!(Document::read(bytes, true).is_ok(), cut == text.len());
            let mut long = LongDocument::new(None);
            bytes.chunks(pieces).for_each(|piece| long.handle(piece));
            prop_assert_eq!(long.is_complete(), cut == text.len());
        }
    }
}

/// What a stream of a dialect amounts to: each event, and whether it is whole after the last.
fn dialect(dialect: Dialect, events: &[&str]) -> (Vec<&'static str>, StreamState) {
    let mut state = StreamState::of_dialect(dialect);
    let sense = |heard| match heard {
        Ok(Heard::Idle) => "idle",
        Ok(Heard::Progress) => "progress",
        Ok(Heard::Usage) => "usage",
        Ok(Heard::Done) => "done",
        Err(StreamFault::Failed(_)) => "failed",
        Err(StreamFault::Aborted) => "aborted",
        Err(StreamFault::Cut) => "cut",
    };
    let heard = events.iter().map(|data| sense(state.handle_data(data.as_bytes()))).collect();
    (heard, state)
}

#[test]
fn a_stream_of_a_dialect_is_whole_at_its_last_event() {
    let events = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":1}}}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_start","index":0}"#,
        r#"{"type":"content_block_delta","index":0}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":7.0}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let (heard, state) = dialect(Dialect::Messages, &events);
    assert_eq!(heard, ["idle", "idle", "idle", "progress", "progress", "done"]);
    let begun = dialect(Dialect::Messages, &events[..4]).1;
    assert_eq!(begun.usage(), None, "its answer is not counted yet");
    let told = UsageTold { prompt: 7, cached: Some(2), completion: 7 };
    assert_eq!((state.is_done(), state.usage()), (true, Some(told)));
    let events = [
        r#"{"type":"response.created","response":{"usage":null}}"#,
        r#"{"type":"response.output_item.added","item":{}}"#,
        r#"{"type":"response.reasoning_text.delta","delta":"a"}"#,
        r#"{"type":"response.of_tomorrow.searching"}"#,
        r#"{"type":"response.incomplete","response":{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":4},"output_tokens":3}}}"#,
    ];
    let (heard, state) = dialect(Dialect::Responses, &events);
    assert_eq!(heard, ["idle", "idle", "progress", "progress", "done"]);
    let told = UsageTold { prompt: 5, cached: Some(4), completion: 3 };
    assert_eq!((state.is_whole(), state.usage()), (true, Some(told)));
}

#[test]
fn a_stream_of_a_dialect_that_was_cut_is_not_whole() {
    for which in [Dialect::Messages, Dialect::Responses] {
        let (heard, mut state) = dialect(which, &[r#"{"type":"x.delta"}"#, "half", "{}"]);
        assert_eq!((heard, state.is_whole()), (vec!["progress", "idle", "idle"], false));
        let mut done = Splitter::new(EVENT_BYTES_MAX);
        done.push(b"data: [DONE]\n\n");
        let event = done.next_event().unwrap().unwrap();
        assert_eq!(state.handle_event(&event), Err(StreamFault::Cut));
        let error = r#"{"type":"error","error":{"message":"no"}}"#;
        assert_eq!(dialect(which, &[error]).0, ["failed"]);
    }
    // It says itself that it failed: before anybody has seen anything of it, another may be asked.
    let failed = r#"{"type":"response.failed","response":{"error":{"message":"no"}}}"#;
    assert_eq!(dialect(Dialect::Responses, &[failed]).0, ["failed"]);
    let delta = r#"{"type":"response.output_text.delta"}"#;
    assert_eq!(dialect(Dialect::Responses, &[delta, failed]).0, ["progress", "done"]);
}

#[test]
fn what_follows_a_dialect_s_events_has_the_next_number() {
    let next = |events: &[&str]| dialect(Dialect::Responses, events).1.next_number();
    let begun = r#"{"type":"response.created","sequence_number":0}"#;
    let delta = r#"{"type":"response.output_text.delta","sequence_number":1}"#;
    assert_eq!(next(&[]), 0);
    assert_eq!(next(&[begun, delta]), 2);
    let odd = r#"{"type":"response.output_text.delta","sequence_number":"x"}"#;
    let failed = r#"{"type":"error","sequence_number":2,"message":"no"}"#;
    assert_eq!(next(&[begun, delta, odd, failed]), 2);
}

#[test]
fn a_document_of_a_dialect_has_its_members() {
    let read = |which, text: &str| Document::read_dialect(text.as_bytes(), which);
    let message = r#"{"type":"message","content":[],"usage":{"input_tokens":5,"output_tokens":3}}"#;
    let usage = Some(UsageTold { prompt: 5, cached: None, completion: 3 });
    assert_eq!(read(Dialect::Messages, message), Ok(Document { usage }));
    // No value can hold these, and a client may know what to do with them.
    let odd =
        r#"{"type":"message","content":[{"type":"tool_use","input":{"x":1e999,"y":"\ud800"}}]}"#;
    assert_eq!(read(Dialect::Messages, odd), Ok(Document { usage: None }));
    let failed = r#"{"object":"response","status":"failed","error":{"message":"no"},"output":[]}"#;
    assert_eq!(read(Dialect::Responses, failed), Ok(Document { usage: None }));
    for which in [Dialect::Messages, Dialect::Responses] {
        let error = r#"{"type":"error","error":{"message":"no"}}"#;
        assert_eq!(read(which, error), Err(DocumentFault::Failed("no".to_owned())));
        assert_eq!(read(which, "{}"), Err(DocumentFault::Empty));
        assert!(matches!(read(which, r#"{"type":"#), Err(DocumentFault::Cut(_))));
    }
}
