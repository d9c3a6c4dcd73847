//! Streams: the events of a translated stream add up to the object of the whole answer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{response, seal, translated};
use crate::dialect::messages::Told;
use crate::dialect::{Dialect, EventWriter, Failure, StreamTranslator, messages, responses};
use crate::sse::Splitter;

/// Events of a stream at most, in bytes.
const EVENT_BYTES: usize = 1 << 20;

/// What a worker says.
#[derive(Clone, Debug)]
struct Turn {
    thought: String,
    text: String,
    /// Names and arguments.
    calls: Vec<(String, String)>,
    finish: &'static str,
    stop: Option<String>,
    cached: Option<u32>,
    /// How the stream is cut, and which call goes on next.
    cuts: Vec<(usize, usize)>,
}

impl Turn {
    fn usage(&self) -> Value {
        let mut usage = json!({"prompt_tokens": 20, "completion_tokens": 7});
        if let Some(cached) = self.cached {
            usage["prompt_tokens_details"] = json!({ "cached_tokens": cached });
        }
        usage
    }

    /// The whole answer.
    fn whole(&self) -> Vec<u8> {
        let call = |(at, (name, arguments)): (usize, &(String, String))| {
            json!({"id": format!("call_{at}"), "type": "function",
                "function": {"name": name, "arguments": arguments}})
        };
        let calls: Vec<Value> = self.calls.iter().enumerate().map(call).collect();
        let message = json!({"role": "assistant", "content": self.text, "reasoning": self.thought,
            "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": self.finish,
            "stop_reason": self.stop});
        json!({"model": "m", "choices": [choice], "usage": self.usage()}).to_string().into_bytes()
    }

    /// The same as chunks; calls are opened in order and then go on in turns.
    fn chunks(&self) -> Vec<Value> {
        let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
        let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}))];
        let mut cuts = self.cuts.iter().cycle();
        for (name, text) in [("reasoning_content", &self.thought), ("content", &self.text)] {
            let mut rest: Vec<char> = text.chars().collect();
            while !rest.is_empty() {
                let (length, _) = cuts.next().unwrap();
                let piece: String = rest.drain(..rest.len().min(*length)).collect();
                chunks.push(chunk(json!({ name: piece })));
            }
        }
        let mut rests: Vec<Vec<char>> = Vec::new();
        for (at, (name, arguments)) in self.calls.iter().enumerate() {
            rests.push(arguments.chars().collect());
            let function = json!({"name": name, "arguments": ""});
            chunks.push(chunk(json!({"tool_calls": [{"index": at, "id": format!("call_{at}"), "function": function}]})));
        }
        while rests.iter().any(|rest| !rest.is_empty()) {
            let (length, choice) = cuts.next().unwrap();
            let open: Vec<usize> = (0..rests.len()).filter(|at| !rests[*at].is_empty()).collect();
            let at = open[choice % open.len()];
            let end = rests[at].len().min(*length);
            let piece: String = rests[at].drain(..end).collect();
            chunks.push(chunk(
                json!({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}),
            ));
        }
        chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish,
            "stop_reason": self.stop}]}));
        chunks.push(json!({"choices": [], "usage": self.usage()}));
        chunks
    }
}

fn turn() -> impl Strategy<Value = Turn> {
    let arguments = prop_oneof![
        Just(String::new()),
        Just("{}".to_owned()),
        Just(r#"{"n": 12345678901234567890, "s": "a\"}{é", "l": [1.0, {"x": null}]}"#.to_owned()),
        "[a-z]{0,9}".prop_map(|text| json!({ "text": text }).to_string()),
    ];
    let call = ("[a-z]{1,5}", arguments);
    let finish =
        prop_oneof![Just("stop"), Just("length"), Just("tool_calls"), Just("content_filter")];
    let cuts = prop::collection::vec((1usize..6, 0usize..4), 1..20);
    let stop = prop::option::of("[A-Z]{1,3}");
    let cached = prop::option::of(0u32..30);
    let texts = ("[ -~\u{e4}\u{1f30d}]{0,20}", "[ -~\n\u{e4}]{0,20}");
    (texts, prop::collection::vec(call, 0..4), finish, stop, cached, cuts).prop_map(
        |((thought, text), calls, finish, stop, cached, cuts)| Turn {
            thought,
            text,
            calls,
            finish,
            stop,
            cached,
            cuts,
        },
    )
}

/// The events of a stream of these chunks.
fn events<W: EventWriter>(writer: W, chunks: &[Value]) -> Vec<Value> {
    let mut translator = StreamTranslator::new("seed", writer);
    let mut out = Vec::new();
    translator.begin(&mut out);
    for chunk in chunks {
        translator.handle_data(chunk.to_string().as_bytes(), &mut out);
    }
    translator.handle_done(&mut out);
    assert!(translator.is_over() && !translator.has_failed());
    read(&out)
}

/// The events in these bytes, each with the name that its data says.
fn read(bytes: &[u8]) -> Vec<Value> {
    let mut splitter = Splitter::new(EVENT_BYTES);
    splitter.push(bytes);
    let mut events = Vec::new();
    while let Some(event) = splitter.next_event().unwrap() {
        let data: Value = serde_json::from_slice(&event.data().unwrap()).unwrap();
        assert_eq!(event.name(), data["type"].as_str().map(str::as_bytes));
        events.push(data);
    }
    events
}

fn push(text: &mut Value, more: &Value) {
    *text = json!(format!("{}{}", text.as_str().unwrap_or_default(), more.as_str().unwrap()));
}

/// The message that events add up to, as Anthropic's SDK adds them up.
fn assemble(events: &[Value]) -> Value {
    let mut message = Value::Null;
    let (mut open, mut arguments) = (None, String::new());
    for event in events {
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                let content = message["content"].as_array_mut().unwrap();
                assert_eq!((open, event["index"].as_u64()), (None, Some(content.len() as u64)));
                open = event["index"].as_u64();
                content.push(event["content_block"].clone());
                arguments.clear();
            }
            "content_block_delta" => {
                assert_eq!(open, event["index"].as_u64());
                let block = message["content"].as_array_mut().unwrap().last_mut().unwrap();
                let delta = &event["delta"];
                match delta["type"].as_str().unwrap() {
                    "text_delta" => push(&mut block["text"], &delta["text"]),
                    "thinking_delta" => push(&mut block["thinking"], &delta["thinking"]),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    "input_json_delta" => {
                        arguments.push_str(delta["partial_json"].as_str().unwrap());
                    }
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                assert_eq!(open.take(), event["index"].as_u64());
                let block = message["content"].as_array_mut().unwrap().last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&arguments).unwrap_or(json!({}));
                }
            }
            "message_delta" => {
                super::merge(&mut message, event["delta"].clone());
                super::merge(&mut message["usage"], event["usage"].clone());
            }
            "message_stop" => assert_eq!(open, None),
            other => panic!("{other}"),
        }
    }
    assert_eq!(events.last().unwrap()["type"], "message_stop");
    message
}

/// The output items that events add up to, by their deltas alone.
fn output(events: &[Value]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    let mut text = Value::Null;
    let mut open = None;
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"].as_u64(), Some(at as u64));
        let kind = event["type"].as_str().unwrap();
        match kind {
            "response.output_item.added" => {
                assert_eq!(
                    (open, event["output_index"].as_u64()),
                    (None, Some(items.len() as u64))
                );
                open = event["output_index"].as_u64();
                text = json!("");
                assert_eq!(event["item"]["status"], "in_progress");
            }
            "response.output_item.done" => {
                assert_eq!(open.take(), event["output_index"].as_u64());
                let item = &event["item"];
                let said = [&item["content"][0]["text"], &item["arguments"], &item["input"]];
                assert!(said.contains(&&text), "{item} says {text}");
                items.push(item.clone());
            }
            _ if kind.rsplit('.').next() == Some("delta") => push(&mut text, &event["delta"]),
            _ => {}
        }
    }
    items
}

/// The contents of the items that events add up to, as OpenAI's SDK for Node adds them up: each delta goes on with a part
/// of its own kind, which was added before.
fn contents(events: &[Value]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for event in events {
        let place = |name: &str| event[name].as_u64().and_then(|at| usize::try_from(at).ok());
        let kind = event["type"].as_str().unwrap();
        if kind == "response.output_item.added" {
            items.push(event["item"].clone());
        }
        let (Some(at), Some(part)) = (place("output_index"), place("content_index")) else {
            continue;
        };
        let content = &mut items[at]["content"];
        match kind {
            "response.content_part.added" => {
                assert_eq!(content.as_array().unwrap().len(), part);
                content.as_array_mut().unwrap().push(event["part"].clone());
            }
            "response.content_part.done" => assert_eq!(content[part], event["part"]),
            _ => {
                let told = content[part]["type"].as_str().unwrap();
                assert!(kind.starts_with(&format!("response.{told}.")), "{kind} of {told}");
                let text = if told == "refusal" { "refusal" } else { "text" };
                if kind == format!("response.{told}.delta") {
                    push(&mut content[part][text], &event["delta"]);
                }
            }
        }
    }
    items.iter().map(|item| item["content"].clone()).collect()
}

fn response_writer() -> responses::Writer {
    let tools = json!([{"type": "function", "name": "f"}]);
    let body = response(json!({ "tools": tools }));
    let identity =
        responses::Identity { id: "resp_1".to_owned(), created_at: 1, model: Some("m".to_owned()) };
    responses::Writer::new(identity, translated(&body).unwrap(), seal())
}

proptest! {
    #[test]
    fn message_events_add_up_to_the_message(turn in turn()) {
        let identity = messages::Identity { id: "msg_1".to_owned(), model: Some("m".to_owned()) };
        let writer = messages::Writer::new(identity.clone(), "req_1".to_owned(), Told::All);
        let streamed = assemble(&events(writer, &turn.chunks()));
        let whole = messages::object(&turn.whole(), &identity, Told::All).unwrap();
        prop_assert_eq!(streamed, serde_json::from_slice::<Value>(&whole).unwrap());
    }

    #[test]
    fn thoughts_that_nobody_asked_for_are_in_neither(turn in turn()) {
        let identity = messages::Identity { id: "msg_1".to_owned(), model: Some("m".to_owned()) };
        let writer = messages::Writer::new(identity.clone(), "req_1".to_owned(), Told::ButThoughts);
        let streamed = assemble(&events(writer, &turn.chunks()));
        let whole = messages::object(&turn.whole(), &identity, Told::ButThoughts).unwrap();
        let whole: Value = serde_json::from_slice(&whole).unwrap();
        let told = messages::object(&turn.whole(), &identity, Told::All).unwrap();
        let mut told: Value = serde_json::from_slice(&told).unwrap();
        told["content"].as_array_mut().unwrap().retain(|block| block["type"] != "thinking");
        prop_assert_eq!(&streamed, &whole);
        prop_assert_eq!(&whole, &told);
    }

    #[test]
    fn response_events_add_up_to_the_response(turn in turn()) {
        let events = events(response_writer(), &turn.chunks());
        let last = &events.last().unwrap()["response"];
        prop_assert_eq!(&Value::from(output(&events)), &last["output"]);
        let items = last["output"].as_array().unwrap();
        let told: Vec<Value> = items.iter().map(|item| item["content"].clone()).collect();
        prop_assert_eq!(contents(&events), told);
        let whole = responses::object(&turn.whole(), response_writer()).unwrap();
        prop_assert_eq!(last, &serde_json::from_slice::<Value>(&whole).unwrap());
    }
}

/// The kinds of the blocks that these deltas become.
#[track_caller]
fn check_blocks(deltas: &[Value], expected: &Value) {
    let mut chunks: Vec<Value> =
        deltas.iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]})).collect();
    chunks.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    let identity = messages::Identity { id: "msg_1".to_owned(), model: None };
    let writer = messages::Writer::new(identity, "req_1".to_owned(), Told::All);
    let message = assemble(&events(writer, &chunks));
    let shown = |block: &Value| match block["type"].as_str().unwrap() {
        "tool_use" => json!([block["id"], block["name"], block["input"]]),
        "thinking" => json!({"thought": block["thinking"]}),
        _ => block["text"].clone(),
    };
    let blocks: Vec<Value> = message["content"].as_array().unwrap().iter().map(shown).collect();
    assert_eq!(Value::from(blocks), *expected);
}

fn calls(calls: Value) -> Value {
    json!({ "tool_calls": calls })
}

#[test]
fn calls_are_read_as_engines_send_them() {
    let whole = |id: &str, index: u32| json!({"index": index, "id": id, "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let two = json!([["a", "f", {"x": 1}], ["b", "f", {"x": 1}]]);
    check_blocks(&[calls(json!([whole("a", 0), whole("b", 1)]))], &two);
    // The same index under another id.
    check_blocks(&[calls(json!([whole("a", 0)])), calls(json!([whole("b", 0)]))], &two);
    // The same id under another index, which a model wrote itself.
    let id = |at: usize| format!("call_{}", crate::dialect::steps::word_of("seed", at));
    let second = json!([["a", "f", {"x": 1}], [id(1), "f", {"x": 1}]]);
    check_blocks(&[calls(json!([whole("a", 0), whole("a", 1)]))], &second);
    // Every chunk under an id of its own.
    check_blocks(
        &[
            calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}])),
            calls(json!([{"index": 0, "id": "b", "function": {"arguments": "{\"x\""}}])),
            calls(json!([{"index": 0, "id": "c", "function": {"name": "", "arguments": ":1}"}}])),
        ],
        &json!([["a", "f", {"x": 1}]]),
    );
    // Id, name and arguments one after the other, with nulls between.
    check_blocks(
        &[
            calls(json!([{"index": 0, "id": "a", "function": {"name": null, "arguments": null}}])),
            calls(json!([{"index": 0, "id": null, "function": {"name": "f"}}])),
            calls(json!([{"index": 0, "function": {"arguments": "{\"x\""}}])),
            calls(json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}])),
        ],
        &json!([["a", "f", {"x": 1}]]),
    );
    for none in [json!(null), json!(""), json!("null"), json!("{}")] {
        let call = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": none}}]);
        check_blocks(&[calls(call)], &json!([["a", "f", {}]]));
    }
    // Neither ids nor indexes: the calls are told apart by their names and whole arguments.
    let bare = json!([{"function": {"name": "f", "arguments": "{\"x\":1}"}}]);
    check_blocks(
        &[calls(bare.clone()), calls(bare)],
        &json!([[id(0), "f", {"x": 1}], [id(1), "f", {"x": 1}]]),
    );
}

#[test]
fn what_comes_within_a_call_waits_until_it_is_whole() {
    check_blocks(
        &[
            json!({"reasoning": "t", "content": "a"}),
            calls(
                json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}}]),
            ),
            json!({"content": "meanwhile"}),
            calls(json!([{"index": 0, "function": {"arguments": ":1}"}}])),
            json!({"reasoning_content": "u", "reasoning": "u"}),
        ],
        &json!([{"thought": "t"}, "a", ["a", "f", {"x": 1}], "meanwhile", {"thought": "u"}]),
    );
}

#[test]
fn a_call_streams_while_it_is_open_and_the_next_one_after_it() {
    let writer = messages::Writer::new(
        messages::Identity { id: "m".to_owned(), model: None },
        String::new(),
        Told::All,
    );
    let mut translator = StreamTranslator::new("seed", writer);
    let mut take = |call: Value| {
        let mut out = Vec::new();
        let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
        translator.handle_data(chunk.to_string().as_bytes(), &mut out);
        read(&out)
            .iter()
            .filter_map(|event| event["delta"]["partial_json"].as_str().map(str::to_owned))
            .collect::<String>()
    };
    let call = |index: u32, arguments: &str| json!({"index": index, "id": format!("c{index}"), "function": {"name": "f", "arguments": arguments}});
    assert_eq!(take(call(0, "{\"a\":\"")), "{\"a\":\"");
    assert_eq!(take(call(1, "{\"b\"")), "");
    assert_eq!(take(call(0, "x\"}")), "x\"}{\"b\"");
    assert_eq!(take(call(1, ":1}")), ":1}");
}

#[test]
fn a_broken_stream_never_looks_whole() {
    let text = json!({"choices": [{"index": 0, "delta": {"content": "a"}}]});
    let error = json!({"error": {"message": "boom", "type": "overloaded_error"}});
    let mut out = Vec::new();
    let writer = messages::Writer::new(
        messages::Identity { id: "m".to_owned(), model: None },
        "r".to_owned(),
        Told::All,
    );
    let mut translator = StreamTranslator::new("seed", writer);
    translator.begin(&mut out);
    for chunk in [&text, &error, &text] {
        translator.handle_data(chunk.to_string().as_bytes(), &mut out);
    }
    translator.handle_done(&mut out);
    let last = read(&out).pop().unwrap();
    assert_eq!(
        last,
        json!({"type": "error", "request_id": "r",
        "error": {"type": "overloaded_error", "message": "boom"}})
    );
    let mut out = Vec::new();
    let mut translator = StreamTranslator::new("seed", response_writer());
    translator.begin(&mut out);
    for chunk in [&text, &error] {
        translator.handle_data(chunk.to_string().as_bytes(), &mut out);
    }
    assert!(translator.has_failed());
    let last = read(&out).pop().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.failed"), &json!("failed"))
    );
    assert_eq!(last["response"]["error"]["message"], "boom");
}

#[test]
fn a_stream_that_has_begun_fails_in_the_words_of_an_answer_that_has_not() {
    let words = "This model's maximum context length is 9 tokens.";
    let body = json!({"error": {"message": words}}).to_string();
    let failure = Failure::read(400, body.as_bytes());
    let identity = messages::Identity { id: "m".to_owned(), model: None };
    let writer = messages::Writer::new(identity, "req_1".to_owned(), Told::All);
    let mut translator = StreamTranslator::new("seed", writer);
    let mut out = Vec::new();
    translator.ping(&mut out);
    translator.fail(&failure, &mut out);
    let (_, body) = Dialect::Messages.error(&failure, "req_1");
    let told = read(&out).pop().unwrap();
    assert_eq!(told, serde_json::from_slice::<Value>(&body).unwrap());
    assert_eq!(told["error"]["message"], format!("prompt is too long: {words}"));
    assert_eq!(
        out,
        [
            &b"event: ping\ndata: {\"type\":\"ping\"}\n\n"[..],
            &Dialect::Messages.error_event(&failure, "req_1", 0)
        ]
        .concat()
    );
}

#[test]
fn of_an_answer_that_nobody_wants_its_end_alone_is_told() {
    let identity = messages::Identity { id: "msg_1".to_owned(), model: Some("m".to_owned()) };
    let said = json!({"reasoning": "t", "content": "a"});
    let chunks = [
        json!({"choices": [{"index": 0, "delta": said}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    ];
    let writer = messages::Writer::new(identity.clone(), "req_1".to_owned(), Told::Nothing);
    let streamed = assemble(&events(writer, &chunks));
    assert_eq!(streamed["content"], json!([]));
    assert_eq!(streamed["stop_reason"], "max_tokens");
    let answer = json!({"choices": [{"message": said, "finish_reason": "stop"}]}).to_string();
    let whole = messages::object(answer.as_bytes(), &identity, Told::Nothing).unwrap();
    assert_eq!(streamed, serde_json::from_slice::<Value>(&whole).unwrap());
}

#[test]
fn a_refusal_is_told_as_one_and_not_as_an_answer() {
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let chunks = [
        chunk(json!({"role": "assistant", "content": null, "refusal": "I "})),
        chunk(json!({"refusal": "won't."})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    ];
    let events = events(response_writer(), &chunks);
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        names[2..],
        [
            "response.output_item.added",
            "response.content_part.added",
            "response.refusal.delta",
            "response.refusal.delta",
            "response.refusal.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let last = &events.last().unwrap()["response"];
    let content = json!([{"type": "refusal", "refusal": "I won't."}]);
    assert_eq!(
        (&last["output"][0]["type"], &last["output"][0]["content"]),
        (&json!("message"), &content)
    );
    assert_eq!(contents(&events), [content]);
    let message = json!({"content": null, "refusal": "I won't."});
    let answer = json!({"choices": [{"message": message, "finish_reason": "stop"}]}).to_string();
    let whole = responses::object(answer.as_bytes(), response_writer()).unwrap();
    assert_eq!(last, &serde_json::from_slice::<Value>(&whole).unwrap());
    // Messages have no word for it.
    check_blocks(&[json!({"refusal": "I "}), json!({"refusal": "won't."})], &json!(["I won't."]));
}

/// The arguments of a call of `f`, which has told none, as its events add up to them and as the object has them.
fn blank_arguments(told: Value, finish: &str) -> (Value, Value) {
    let call = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": told}});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]});
    let chunks = [json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}), end];
    let streamed = output(&events(response_writer(), &chunks))[0]["arguments"].clone();
    let choice =
        json!({"message": {"content": null, "tool_calls": [call]}, "finish_reason": finish});
    let answer = json!({"choices": [choice]}).to_string();
    let whole = responses::object(answer.as_bytes(), response_writer()).unwrap();
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    (streamed, whole["output"][0]["arguments"].clone())
}

#[test]
fn a_call_without_arguments_has_an_empty_object_of_them() {
    let both = |arguments: &str| (json!(arguments), json!(arguments));
    for told in [json!(null), json!(""), json!("null"), json!("{}")] {
        assert_eq!(blank_arguments(told, "tool_calls"), both("{}"));
    }
    assert_eq!(blank_arguments(json!(""), "length"), both(""), "it was cut off before them");
}

#[test]
fn a_text_before_and_behind_a_thought_that_is_left_out_stands_in_two_blocks() {
    let chunk = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let chunks = [
        chunk(json!({"reasoning": "t"})),
        chunk(json!({"content": "a"})),
        chunk(json!({"reasoning": "u"})),
        chunk(json!({"content": "b"})),
    ];
    let identity = messages::Identity { id: "msg_1".to_owned(), model: None };
    let writer = messages::Writer::new(identity, "req_1".to_owned(), Told::ButThoughts);
    let message = assemble(&events(writer, &chunks));
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(message["content"], json!([text("a"), text("b")]));
}
