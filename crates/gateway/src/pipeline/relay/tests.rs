//! What a watch lets through, whatever the chunks, and what it makes of them.

use bytes::Bytes;
use overdraft_units::Tokens;
use proptest::prelude::*;

use super::watch::{Seen, Watch};
use super::{Fault, Passed, Verdict, note_broken, readable, whole};
use crate::dispatch::Used;
use crate::pipeline::facts::RequestFacts;
use crate::pipeline::usage::Counts;

const EVENT_BYTES: usize = 4 * 1024;

fn token(text: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

fn finish(reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\": \"{reason}\"}}]}}\n\n")
}

const DONE: &str = "data: [DONE]\n\n";

/// Feeds chunks; what came out, and the fault that ended it.
fn feed(watch: &mut Watch, chunks: &[&[u8]]) -> (String, Option<Fault>) {
    let mut out = Vec::new();
    for chunk in chunks {
        let Seen { relay, fault, .. } = watch.take(Bytes::copy_from_slice(chunk));
        out.extend_from_slice(&relay);
        if fault.is_some() {
            return (String::from_utf8(out).unwrap(), fault);
        }
    }
    (String::from_utf8(out).unwrap(), None)
}

/// Feeds one text in one chunk; tells what came out and how the stream then stands.
#[track_caller]
fn check(text: &str, relayed: &str, standing: &str) {
    let mut watch = Watch::new(1, EVENT_BYTES, Counts::Relayed);
    let (out, fault) = feed(&mut watch, &[text.as_bytes()]);
    let seen = match fault {
        Some(Fault::Worker(why)) => format!("worker: {why}"),
        Some(Fault::Broken(_)) => "broken".to_owned(),
        Some(other) => format!("{other:?}"),
        None if watch.is_done() => "done".to_owned(),
        None if watch.is_whole() => "whole".to_owned(),
        None => "open".to_owned(),
    };
    assert_eq!((out.as_str(), seen.as_str()), (relayed, standing));
}

#[test]
fn it_tells_open_from_whole_from_done() {
    let (one, end) = (token("a"), finish("stop"));
    check(&one, &one, "open");
    check(&format!("{one}{end}"), &format!("{one}{end}"), "whole");
    check(&format!("{one}{end}{DONE}"), &format!("{one}{end}{DONE}"), "done");
    check(": keep-alive\n\n", ": keep-alive\n\n", "open");
    check("data: not json\n\n", "data: not json\n\n", "open");
    // Nothing has finished: who says that it is done has been cut, or is none that can be believed.
    check(&format!("{one}{DONE}"), &one, "broken");
    check(DONE, "", "broken");
    let unfinished = finish("");
    check(&format!("{one}{unfinished}"), &format!("{one}{unfinished}"), "open");
}

// Faults: 37
#[test]
fn nothing_leaves_after_done_and_no_part_of_an_event() {
    let whole = format!("{}{DONE}", finish("stop"));
    check(&format!("{whole}{}{DONE}", token("a")), &whole, "done");
    check(&format!("{}data: {{\"cho", token("a")), &token("a"), "open");
}

#[test]
fn a_failure_is_kept_back_and_what_came_before_it_is_not() {
    let one = token("a");
    check(&format!("{one}{}{DONE}", finish("abort")), &one, "worker: it aborted the request");
    let error = "data: {\"error\":{\"message\":\"the engine is dead\"}}\n\n";
    check(&format!("{one}{error}{DONE}"), &one, "worker: the engine is dead");
    let full = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n";
    check(&format!("{one}{full}{DONE}"), &one, "OutOfMemory");
    check("data: {\"error\": \"no\"}\n\n", "", "worker: no");
    check(&format!("{one}data: {}", "x".repeat(EVENT_BYTES)), &one, "broken");
}

#[test]
fn text_that_speaks_of_ends_is_no_end() {
    for text in
        ["[DONE]", "\\\"finish_reason\\\":\\\"abort\\\"", "\\\"error\\\":{}", "\\\"usage\\\":{}"]
    {
        let one = token(text);
        check(&one, &one, "open");
    }
    let null = "data: {\"choices\":[],\"error\" : null,\"usage\":null}\n\n";
    check(null, null, "open");
}

#[test]
fn a_stream_of_several_choices_is_whole_when_all_have_finished() {
    let mut watch = Watch::new(3, EVENT_BYTES, Counts::Relayed);
    for index in 0..3 {
        assert!(!watch.is_whole());
        let finish = format!(
            "data: {{\"choices\":[{{\"index\":{index},\"delta\":{{}},\"finish_reason\":\"length\"}}]}}\n\n"
        );
        // Said twice, it has finished once.
        feed(&mut watch, &[finish.as_bytes(), finish.as_bytes()]);
        assert_eq!(watch.is_whole(), index == 2);
    }
}

#[test]
fn a_stream_that_broke_off_has_no_fewer_tokens_than_events_were_relayed() {
    let told = |completion: u32| Used {
        prompt: Tokens::new(7),
        cached: None,
        completion: Tokens::new(completion),
    };
    for (told, events, noted) in [
        // A stream of Messages opens with one token.
        (Some(told(1)), 500, Some(500)),
        (Some(told(0)), 3, Some(3)),
        (Some(told(9)), 3, Some(9)),
        (None, 3, Some(3)),
        (Some(told(0)), 0, Some(0)),
        (None, 0, None),
    ] {
        let mut record = RequestFacts::default();
        note_broken(&mut record, told, events);
        assert_eq!(record.completion, noted.map(Tokens::new), "{told:?}, {events} events");
        assert_eq!(record.prompt, told.map(|told| told.prompt));
    }
}

#[test]
fn the_last_token_counts_are_remembered() {
    let mut watch = Watch::new(1, EVENT_BYTES, Counts::Relayed);
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n";
    let end = finish("stop");
    feed(&mut watch, &[token("a").as_bytes(), end.as_bytes(), usage.as_bytes(), DONE.as_bytes()]);
    let used = watch.used().unwrap();
    assert_eq!((used.prompt.get(), used.completion.get()), (7, 5));
}

#[test]
fn token_counts_that_only_we_asked_for_are_kept_back() {
    let usage =
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n";
    let whole = format!("{}{}{usage}{DONE}", token("a"), finish("stop"));
    let told = format!("{}{}{DONE}", token("a"), finish("stop"));
    for cut in [whole.len(), 1, 7, 50] {
        let mut watch = Watch::new(1, EVENT_BYTES, Counts::KeptBack);
        let pieces: Vec<&[u8]> = whole.as_bytes().chunks(cut).collect();
        assert_eq!(feed(&mut watch, &pieces), (told.clone(), None));
        assert_eq!(watch.used().unwrap().prompt.get(), 7);
    }
}

#[test]
fn the_fingerprint_of_counts_that_are_kept_back_goes_to_the_event_that_finishes() {
    let counts = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5},\"system_fingerprint\":\"fp\"}\n\n";
    let end = finish("stop");
    let stamped = end.replace("]}\n", "],\"system_fingerprint\":\"fp\"}\n");
    let whole = format!("{}{end}{counts}{DONE}", token("a"));
    let told = format!("{}{stamped}{DONE}", token("a"));
    for cut in [whole.len(), 1, 7, 50] {
        let mut watch = Watch::new(1, EVENT_BYTES, Counts::KeptBack);
        let pieces: Vec<&[u8]> = whole.as_bytes().chunks(cut).collect();
        assert_eq!(feed(&mut watch, &pieces), (told.clone(), None));
        let mut watch = Watch::new(1, EVENT_BYTES, Counts::Relayed);
        assert_eq!(feed(&mut watch, &pieces), (whole.clone(), None));
    }
    // Who has one is not held, and what is held waits for nothing but the next event.
    let mut watch = Watch::new(1, EVENT_BYTES, Counts::KeptBack);
    assert_eq!(feed(&mut watch, &[stamped.as_bytes()]), (stamped.clone(), None));
    for next in [DONE.to_owned(), ": keep-alive\n\n".to_owned(), token("b")] {
        let mut watch = Watch::new(1, EVENT_BYTES, Counts::KeptBack);
        assert_eq!(feed(&mut watch, &[end.as_bytes()]), (String::new(), None));
        assert!(watch.is_whole());
        assert_eq!(feed(&mut watch, &[next.as_bytes()]), (format!("{end}{next}"), None));
    }
    let mut watch = Watch::new(1, EVENT_BYTES, Counts::KeptBack);
    feed(&mut watch, &[end.as_bytes()]);
    let error = "data: {\"error\":\"no\"}\n\n";
    let failed = feed(&mut watch, &[error.as_bytes()]);
    assert_eq!(failed, (end.clone(), Some(Fault::Worker("no".to_owned()))));
    let mut watch = Watch::new(1, EVENT_BYTES, Counts::KeptBack);
    feed(&mut watch, &[end.as_bytes()]);
    assert_eq!(watch.rest().as_deref(), Some(end.as_bytes()));
    assert_eq!(watch.rest(), None);
}

#[test]
fn nothing_is_let_through_from_an_event_on_that_no_client_can_read() {
    #[track_caller]
    fn check(broken: &[u8], why: Option<&str>) {
        let one = format!("{}: keep-alive\n\ndata: not json\n\n", token("a"));
        let all = [one.as_bytes(), broken, DONE.as_bytes()].concat();
        let Passed { events, verdict } = readable::pass(Bytes::from(all.clone()));
        match verdict {
            Verdict::Failed(Fault::Broken(told)) => {
                assert_eq!((&events[..], Some(told.as_str())), (one.as_bytes(), why));
            }
            _ => assert_eq!((events.to_vec(), None), (all, why)),
        }
    }
    check(token("\u{e4}").as_bytes(), None);
    check(b"data: {\"choices\":\r\ndata: []}\r\n\r\n", None);
    let (no_text, no_json) =
        (Some("an event of it is not UTF-8"), Some("an event of it is not JSON"));
    check(b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\xfe\"}}]}\n\n", no_text);
    check(b"data: \xff\n\n", no_text);
    check(b"data: {\"choices\":[{\"delta\":{\"content\": \n\n", no_json);
    // One whose last line end may be half of another is as whole.
    let Passed { verdict, .. } = readable::pass(Bytes::from_static(b"data: {\r\r"));
    assert!(matches!(verdict, Verdict::Failed(_)));
}

#[test]
fn a_whole_answer_tells_its_tokens_unless_it_was_aborted() {
    let answer = br#"{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"x":[1],"completion_tokens":3},"z":0}"#;
    let Used { prompt, completion, .. } = whole::read(answer, true).unwrap().unwrap();
    assert_eq!((prompt.get(), completion.get()), (2, 3));
    assert_eq!(whole::read(br#"{"object":"list"}"#, false), Ok(None));
    assert_eq!(whole::read(br#"{"usage":null}"#, false), Ok(None));
    assert!(whole::read(br#"{"choices":[{"finish_reason" : "abort"}]}"#, true).is_err());
    for answer in
        [r#"{"choices":[{}]}"#, r#"{"id": "x", "choices" : [ {"text": "\"choices\": []"}]}"#]
    {
        assert_eq!(whole::read(answer.as_bytes(), true), Ok(None), "{answer}");
    }
    for answer in [
        "",
        "{}",
        r#"{"choices": [ ]}"#,
        r#"{"choices":[{"message":{"content":"half"#,
        r#"{"error": {"message": "\"choices\": [{}]"}}"#,
    ] {
        assert!(whole::read(answer.as_bytes(), true).is_err(), "{answer}");
    }
}

/// Pieces of streams, sound and not.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z \u{e4}]{0,12}".prop_map(|text| token(&text)),
        1 => Just(finish("stop")),
        1 => Just(DONE.to_owned()),
        1 => Just(": comment\r\n\r\n".to_owned()),
        1 => Just("data: one\ndata: two\n\n".to_owned()),
        1 => Just("data: cr\r\r".to_owned()),
        1 => Just("\n".to_owned()),
        1 => Just(finish("abort")),
        1 => Just("data: {\"error\":{\"message\":\"m\"}}\n\n".to_owned()),
        1 => Just("data: {\"half\":".to_owned()),
    ]
}

proptest! {
    // Faults: 34
    /// What comes out does not depend on how the bytes were cut, and is the beginning of them.
    #[test]
    fn however_a_stream_is_cut_the_same_comes_out(
        pieces in prop::collection::vec(piece(), 1..20),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let text = pieces.concat();
        let bytes = text.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let cut: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();

        let mut in_pieces = Watch::new(1, EVENT_BYTES, Counts::Relayed);
        let (out, fault) = feed(&mut in_pieces, &cut);
        prop_assert!(text.starts_with(&out));
        prop_assert!(out.is_empty() || out.ends_with('\n') || out.ends_with('\r'));

        let mut in_bytes = Watch::new(1, EVENT_BYTES, Counts::Relayed);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(feed(&mut in_bytes, &single), (out, fault));
        prop_assert_eq!(in_pieces.is_done(), in_bytes.is_done());
        prop_assert_eq!(in_pieces.is_whole(), in_bytes.is_whole());
    }
}
