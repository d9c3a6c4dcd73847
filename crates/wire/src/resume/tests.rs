//! Tests of what resuming reads, takes out and writes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::endpoint::Generation;
use crate::json::Object;

fn judged(body: &str) -> Option<Judged> {
    judge(&Object::parse(body.as_bytes()).unwrap(), Generation::Chat)
}

#[test]
fn members_are_judged_by_their_values() {
    let asked = |body: &str| judged(body).unwrap().asked;
    let nothing = r#"{"model":"m","messages":[],"tools":[],"logprobs":false,"presence_penalty":0,"x":null,"tool_choice":"auto","response_format":{"type":"text"}}"#;
    assert_eq!(asked(nothing), []);
    let rows = [
        (r#"{"tools":[{}]}"#, Asked::Tools),
        (r#"{"tool_choice":"required"}"#, Asked::Grammar),
        (r#"{"response_format":{"type":"json_object"}}"#, Asked::Grammar),
        (r#"{"guided_regex":"a"}"#, Asked::Grammar),
        (r#"{"logprobs":0}"#, Asked::Logprobs),
        (r#"{"logprobs":true}"#, Asked::Logprobs),
        (r#"{"presence_penalty":-1}"#, Asked::Presence),
        (r#"{"frequency_penalty":0.5}"#, Asked::Frequency),
        (r#"{"messages":[{"content":[{"type":"image_url","image_url":{}}]}]}"#, Asked::Media),
        (r#"{"new_member":1}"#, Asked::Unknown),
        (r#"{"continue_final_message":true}"#, Asked::Continuation),
        (r#"{"temperature":0}"#, Asked::Greedy),
        (r#"{"return_token_ids":true}"#, Asked::Ids),
    ];
    for (body, expected) in rows {
        assert_eq!(asked(body), [expected], "{body}");
    }
    for never in [r#"{"echo":true}"#, r#"{"best_of":2}"#, r#"{"suffix":"x"}"#] {
        assert_eq!(judged(never), None, "{never}");
    }
    let limits =
        r#"{"stop":["a",""],"max_tokens":9,"max_completion_tokens":7,"min_tokens":2,"seed":-3}"#;
    let found = judged(limits).unwrap();
    assert_eq!((found.stops, found.limit), (vec!["a".to_owned()], Some(Some(7))));
    assert_eq!((found.least, found.seed), (2, Some(-3)));
    assert_eq!(judged(r#"{"max_tokens":null}"#).unwrap().limit, Some(None));
}

#[test]
fn a_text_goes_on_as_a_message_or_within_the_clients_own() {
    let object = |body: &'static str| Object::parse(body.as_bytes()).unwrap();
    let left = Left { most: Some(3), least: 1 };
    let text = |body, generation| {
        let body = by_text(&object(body), generation, "so \"far\"", left);
        body.map(|body| serde_json::from_slice::<Value>(&body).unwrap())
    };
    let chat =
        r#"{"messages":[{"role":"user","content":"hi"} ],"max_completion_tokens":9,"x":1e2}"#;
    let chat = text(chat, Generation::Chat).unwrap();
    assert_eq!(chat["messages"][1], json!({"role": "assistant", "content": "so \"far\""}));
    assert_eq!(chat["max_completion_tokens"], 3);
    assert_eq!(chat["continue_final_message"], true);
    assert_eq!(chat["add_generation_prompt"], false);
    let own = r#"{"messages":[{"role":"assistant","content":"I"}],"continue_final_message":true}"#;
    let own = text(own, Generation::Chat).unwrap();
    assert_eq!(own["messages"], json!([{"role": "assistant", "content": "Iso \"far\""}]));
    assert_eq!(own["max_tokens"], 3);
    let plain = text(r#"{"prompt":["one "],"min_tokens":5}"#, Generation::Completion).unwrap();
    assert_eq!((&plain["prompt"], &plain["min_tokens"]), (&json!("one so \"far\""), &json!(1)));
    assert_eq!(text(r#"{"prompt":[1,2]}"#, Generation::Completion), None);
}

#[test]
fn ids_go_on_with_what_samples_alike() {
    let body = r#"{"messages":[],"temperature":0.5,"tools":[],"frequency_penalty":0.5,"logit_bias":{"7":1},"stop":"x","stream":true}"#;
    let object = Object::parse(body.as_bytes()).unwrap();
    let left = Left { most: Some(4), least: 0 };
    let asked = Value::Object(by_ids(&object, &[1, 2, 7, 7], left, Some(5), &[(7, 2), (8, 1)]));
    let expected = json!({
        "temperature": 0.5, "frequency_penalty": 0.5, "logit_bias": {"7": 0.0, "8": -0.5},
        "prompt": [1, 2, 7, 7], "stream": true, "stream_options": {"include_usage": true},
        "max_tokens": 4, "seed": 5,
    });
    assert_eq!(asked, expected);
}

#[test]
fn a_piece_says_what_a_chunk_says() {
    let chunk = br#"{"id":"x","object":"o","created":1,"model":"m","prompt_token_ids":[1],"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#;
    let piece = Piece::parse(chunk).unwrap();
    assert!(piece.role == Role::Told && !piece.is_token());
    assert_eq!(piece.prompt_ids, Some(vec![1]));
    let chunk = br#"{"choices":[{"text":"a\n","token_ids":[5],"finish_reason":"stop","stop_reason":"b"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let piece = Piece::parse(chunk).unwrap();
    assert_eq!(
        (&*piece.text, piece.ids, piece.finish.as_deref()),
        ("a\n", Some(vec![5]), Some("stop"))
    );
    assert_eq!(piece.usage.map(|usage| usage.prompt), Some(3));
    for broken in [&b"{\"id\":\"x"[..], b"{\"unknown\":\"\xff\"}", b"\xff"] {
        assert_eq!(Piece::parse(broken).unwrap_err(), NotJson);
    }
    assert!(!Piece::parse(b"not json").unwrap().has_choice);
    assert!(Piece::parse(br#"{"choices":[{"delta":{"content":[1]}}]}"#).unwrap().is_strange);
}

#[test]
fn chunks_are_told_in_the_name_of_the_first() {
    let mut heading = Heading::default();
    let first = Piece::parse(
        br#"{"id":"a","created":1,"model":"m","choices":[{"delta":{"reasoning":"x"}}]}"#,
    );
    heading.note(&first.unwrap(), Generation::Chat);
    let second = Piece::parse(br#"{"id":"b","choices":[{"delta":{}}]}"#);
    heading.note(&second.unwrap(), Generation::Chat);
    let mut out = Vec::new();
    let choice = Choice { reasoning: "y", calls: vec![(1, None, None, "{}")], ..Choice::default() };
    heading.event(&choice, Some(Sums { prompt: 2, completion: 3 }), &mut out);
    heading.counts(Sums { prompt: 2, completion: 4 }, &mut out);
    let expected = concat!(
        r#"data: {"id":"a","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning":"y","tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":2,"total_tokens":5,"completion_tokens":3}}"#,
        "\n\n",
        r#"data: {"id":"a","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":2,"total_tokens":6,"completion_tokens":4}}"#,
        "\n\n",
    );
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn members_are_taken_out_where_they_are_members() {
    let check = |event: &str, expected: &str| {
        let out = without(event.as_bytes(), &["token_ids", "usage"]);
        assert_eq!(std::str::from_utf8(&out), Ok(expected));
    };
    check(r#"{"a":1,"token_ids":[1, 2],"b":2}"#, r#"{"a":1,"b":2}"#);
    check(r#"{ "token_ids" : [ ] , "b":2}"#, r#"{  "b":2}"#);
    check(r#"{"token_ids":null}"#, "{}");
    check(r#"{"c":[{"t":"x","token_ids":[1]}],"usage":{"a":{"b":"}"}}}"#, r#"{"c":[{"t":"x"}]}"#);
    let text = r#"{"t":",\"token_ids\":[1]","u":"token_ids"}"#;
    check(text, text);
    check(r#"{"token_ids":[1"#, r#"{"token_ids":[1"#);
}

/// An event as vLLM writes it.
fn event(text: &str, ids: Option<&[u32]>, is_chat: bool) -> String {
    let text = json!(text);
    let said = if is_chat {
        format!("\"delta\":{{\"content\":{text}}}")
    } else {
        format!("\"text\":{text}")
    };
    let ids = ids.map(|ids| format!(",\"token_ids\":{}", json!(ids))).unwrap_or_default();
    format!(
        "data: {{\"id\":\"x\",\"choices\":[{{\"index\":0,{said},\"logprobs\":null,\"finish_reason\":null{ids}}}]}}\n\n"
    )
}

fn data(event: &str) -> &[u8] {
    event.trim_end().strip_prefix("data: ").unwrap().as_bytes()
}

fn template(event: &str) -> Option<Template> {
    Template::of(event.as_bytes(), &Piece::parse(data(event)).unwrap())
}

#[test]
fn what_is_more_than_a_text_is_no_template_and_matches_none() {
    let plain = event("a", Some(&[1]), true);
    let read =
        |event: &str| template(&plain).unwrap().read(event.as_bytes(), &mut Vec::new()).is_some();
    assert!(read(&event("b", Some(&[2, 3]), true)));
    for (from, to) in [
        ("\"finish_reason\":null", "\"finish_reason\":\"stop\""),
        ("\"logprobs\":null", "\"logprobs\":{}"),
        ("\"content\":\"a\"", "\"content\":\"a\",\"role\":\"assistant\""),
        ("\"content\":\"a\"", "\"reasoning\":\"a\""),
        ("]}\n\n", "],\"usage\":{\"completion_tokens\":1}}\n\n"),
        ("[1]", "[01]"),
    ] {
        let other = plain.replace(from, to);
        assert!(!read(&other), "{other}");
        if to != "[01]" {
            assert_eq!(template(&other), None, "{other}");
        }
    }
}

proptest! {
    /// A template reads and writes what the parser and the removal of members do.
    #[test]
    fn a_template_reads_what_a_parser_reads(
        texts in prop::collection::vec("[a\"\\\\\n,:{}\\[\\]\u{e4}\u{1f642}]{0,8}", 2),
        ids in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..4), 2),
        has_ids in any::<bool>(),
        is_chat in any::<bool>(),
    ) {
        let of = |at: usize| event(&texts[at], has_ids.then_some(&ids[at][..]), is_chat);
        let (first, second) = (of(0), of(1));
        prop_assume!(has_ids || !texts[0].is_empty() || is_chat);
        let Some(template) = template(&first) else { return Ok(()) };
        prop_assert_eq!(template.has_ids(), has_ids);
        let mut found = Vec::new();
        let more = format!("{second}data: more");
        let matched = template.read(more.as_bytes(), &mut found).unwrap();
        prop_assert_eq!((matched.length, &*matched.text), (second.len(), texts[1].as_str()));
        let piece = Piece::parse(data(&second)).unwrap();
        prop_assert_eq!(&found, &piece.ids.unwrap_or_default());
        let mut out = Vec::new();
        template.write(&matched, &mut out);
        prop_assert_eq!(&out[..], &*without(second.as_bytes(), &["token_ids"]));
        for cut in 0..second.len() {
            prop_assert_eq!(template.read(&second.as_bytes()[..cut], &mut Vec::new()), None);
        }
    }

    /// Taking members out of the text is taking them out of the value.
    #[test]
    fn what_is_left_is_the_rest(text in "[a\"\\\\,:{}\\[\\]]{0,12}", ids in prop::collection::vec(0_u32..99, 0..4), at in 0_usize..3) {
        let mut members = vec![("t".to_owned(), json!(text)), (text.clone() + "k", json!([text, 1]))];
        members.insert(at.min(2), ("token_ids".to_owned(), json!(ids)));
        let whole = Value::Object(members.into_iter().collect());
        let mut expected = whole.clone();
        expected.as_object_mut().unwrap().remove("token_ids");
        let event = whole.to_string();
        let out: Value = serde_json::from_slice(&without(event.as_bytes(), &["token_ids"])).unwrap();
        prop_assert_eq!(out, expected);
    }

    /// Half a chunk is no chunk, wherever it is cut.
    #[test]
    fn a_chunk_cut_at_any_byte_is_no_json(text in "[a-z\"\\\\\u{e4}\u{1f642}]{0,8}") {
        let chunk = json!({"choices": [{"delta": {"content": text}}]}).to_string();
        for cut in 1..chunk.len() {
            prop_assert!(Piece::parse(&chunk.as_bytes()[..cut]).is_err(), "{}", cut);
        }
        prop_assert_eq!(&*Piece::parse(chunk.as_bytes()).unwrap().text, text.as_str());
    }
}
