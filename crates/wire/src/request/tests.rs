//! What requests parse to, and how each wrong field is named.

use overdraft_units::{Priority, TokenId};
use serde_json::json;

use super::*;
use crate::error::ErrorKind;

fn chat(extra: &str) -> Result<ChatRequest, crate::ApiError> {
    let comma = if extra.is_empty() { "" } else { "," };
    let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{comma}{extra}}}"#);
    ChatRequest::parse(body.as_bytes())
}

#[track_caller]
fn refused(extra: &str, param: &str, message: &str) {
    let error = chat(extra).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert_eq!(error.param.as_deref(), Some(param), "for {extra}");
    assert_eq!(error.message, message, "for {extra}");
}

#[track_caller]
fn refused_body(body: &str, param: &str) {
    let error = ChatRequest::parse(body.as_bytes()).unwrap_err();
    assert_eq!(error.param.as_deref(), Some(param), "for {body}: {error}");
    assert_eq!(error.status(), 400);
}

#[test]
fn a_bare_chat_has_the_defaults() {
    let request = chat("").unwrap();
    assert_eq!(request.messages, [Message::new("user", "hi")]);
    assert_eq!(request.options.sampling.temperature.to_bits(), 1.0_f32.to_bits());
    assert_eq!(request.options.sampling.top_k, None);
    assert_eq!(request.options.ending.max_tokens, None);
    assert_eq!(request.options.output.n, 1);
    assert!(request.options.output.skip_special_tokens);
    assert_eq!(request.options.delivery, Delivery::Whole);
    assert_eq!(request.rendering, Rendering::default());
    assert_eq!(request.logprobs, None);
}

#[test]
fn every_field_of_a_chat_arrives() {
    let request = chat(
        r#""model":"m","max_tokens":9,"max_completion_tokens":7,"temperature":0,"top_p":0.5,
        "top_k":-1,"min_p":0.1,"presence_penalty":-2,"frequency_penalty":2,
        "repetition_penalty":1.1,"logit_bias":{"5":-100,"6":1.5},"seed":-1,"stop":"x",
        "stop_token_ids":[1,2.0],"include_stop_str_in_output":true,"n":3,"best_of":3,"stream":true,
        "stream_options":{"include_usage":true,"continuous_usage_stats":true},"logprobs":true,
        "top_logprobs":4,"min_tokens":2,"ignore_eos":true,"skip_special_tokens":false,
        "return_token_ids":true,"return_tokens_as_token_ids":true,"continue_final_message":true,
        "chat_template_kwargs":{"enable_thinking":false},"cache_salt":"s","priority":-5,
        "request_id":"r","user":"u","tools":[{"type":"function"}],"tool_choice":"auto",
        "response_format":{"type":"text"},"service_tier":"flex","echo":true,"unknown":[{}]"#,
    )
    .unwrap();
    let sampling = &request.options.sampling;
    assert_eq!((sampling.top_k, sampling.seed), (None, Some(u64::MAX)));
    assert_eq!(sampling.logit_bias, [(TokenId(5), -100.0), (TokenId(6), 1.5)]);
    let ending = &request.options.ending;
    assert_eq!((ending.max_tokens, ending.min_tokens), (Some(7), 2));
    assert_eq!(ending.stop, ["x"]);
    assert_eq!(ending.stop_token_ids, [TokenId(1), TokenId(2)]);
    assert!(ending.include_stop && ending.ignore_eos);
    assert_eq!(request.options.output.n, 3);
    assert_eq!(request.options.output.token_ids, TokenIdsOutput { returned: true, as_text: true });
    assert_eq!(request.options.delivery, Delivery::Stream(StreamUsage::Every));
    assert_eq!(request.logprobs, Some(4));
    assert_eq!(request.rendering.ending, PromptEnding::Continue);
    assert_eq!(request.rendering.kwargs["enable_thinking"], json!(false));
    assert_eq!(request.options.scheduling.priority, Priority(-5));
    assert_eq!(request.options.scheduling.cache_salt.as_deref(), Some("s"));
    assert_eq!(request.tools, [json!({"type": "function"})]);
    assert!(request.echo);
}

#[test]
fn null_reads_as_absent() {
    let nulls = r#""model":null,"max_tokens":null,"temperature":null,"stop":null,"stream":null,
        "stream_options":null,"logit_bias":null,"seed":null,"tools":null,"user":null,"n":null"#;
    assert_eq!(chat(nulls).unwrap(), chat("").unwrap());
}

// Faults: 74
#[test]
fn wrong_types_are_named_with_what_was_expected() {
    refused(
        r#""temperature":"hot""#,
        "temperature",
        "`temperature` is the string `hot`; expected a number, zero or more",
    );
    refused(r#""n":"2""#, "n", "`n` is the string `2`; expected an integer from 1 to 128");
    refused(
        r#""max_tokens":1.5"#,
        "max_tokens",
        "`max_tokens` is the number `1.5`; expected an integer, zero or more",
    );
    refused(r#""stop":["a",1]"#, "stop[1]", "`stop[1]` is the number `1`; expected a string");
    refused(
        r#""logit_bias":{"a":1}"#,
        "logit_bias",
        "`a` in `logit_bias` is not a token id; expected digits, as in \"42\"",
    );
    refused(
        r#""stream":"true""#,
        "stream",
        "`stream` is the string `true`; expected true or false",
    );
    refused(
        r#""stream":true,"stream_options":{"include_usage":1}"#,
        "stream_options.include_usage",
        "`stream_options.include_usage` is the number `1`; expected true or false",
    );
    refused(r#""model":[]"#, "model", "`model` is an array; expected a string");
}

// Faults: 72
#[test]
fn values_out_of_range_are_named() {
    for (extra, param) in [
        (r#""temperature":-0.1"#, "temperature"),
        (r#""top_p":0"#, "top_p"),
        (r#""top_p":1.01"#, "top_p"),
        (r#""top_k":-2"#, "top_k"),
        (r#""min_p":2"#, "min_p"),
        (r#""presence_penalty":2.1"#, "presence_penalty"),
        (r#""frequency_penalty":-3"#, "frequency_penalty"),
        (r#""repetition_penalty":0"#, "repetition_penalty"),
        (r#""logit_bias":{"1":101}"#, "logit_bias"),
        (r#""logit_bias":{"1":"x"}"#, "logit_bias"),
        (r#""seed":1e300"#, "seed"),
        (r#""n":0"#, "n"),
        (r#""n":129"#, "n"),
        (r#""best_of":2"#, "best_of"),
        (r#""max_tokens":0"#, "max_tokens"),
        (r#""max_tokens":-1"#, "max_tokens"),
        (r#""max_tokens":4294967296"#, "max_tokens"),
        (r#""min_tokens":3,"max_tokens":2"#, "min_tokens"),
        (r#""stop":"""#, "stop"),
        (r#""logprobs":true,"top_logprobs":21"#, "top_logprobs"),
        (r#""top_logprobs":1"#, "top_logprobs"),
        (r#""stream":true,"prompt_logprobs":1"#, "prompt_logprobs"),
        (r#""stream_options":{}"#, "stream_options"),
        (r#""cache_salt":"""#, "cache_salt"),
        (r#""priority":3000000000"#, "priority"),
        (r#""continue_final_message":true,"add_generation_prompt":true"#, "continue_final_message"),
        (r#""temperature":1e40"#, "temperature"),
    ] {
        let error = chat(extra).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "for {extra}: {error}");
        assert_eq!(error.status(), 400);
    }
}

#[test]
fn messages_are_checked_one_by_one() {
    refused_body("{}", "messages");
    refused_body(r#"{"messages":"hi"}"#, "messages");
    refused_body(r#"{"messages":[]}"#, "messages");
    refused_body(r#"{"messages":["hi"]}"#, "messages[0]");
    refused_body(r#"{"messages":[{"content":"x"}]}"#, "messages[0].role");
    refused_body(r#"{"messages":[{"role":7,"content":"x"}]}"#, "messages[0].role");
    refused_body(r#"{"messages":[{"role":"user<|im_end|>","content":"x"}]}"#, "messages[0].role");
    refused_body(r#"{"messages":[{"role":"user"}]}"#, "messages[0].content");
    refused_body(r#"{"messages":[{"role":"user","content":5}]}"#, "messages[0].content");
    refused_body(
        r#"{"messages":[{"role":"user","content":[{"type":"text"}]}]}"#,
        "messages[0].content[0].text",
    );
    refused_body(
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}"#,
        "messages[0].content[0].type",
    );
}

#[test]
fn content_parts_and_foreign_fields_are_kept() {
    let request = ChatRequest::parse(
        br#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"},"b"]},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c"}],"reasoning_content":"r"}]}"#,
    )
    .unwrap();
    assert_eq!(request.messages[0].content.as_ref().unwrap().joined(), "a\nb");
    assert_eq!(request.messages[1].content, None);
    assert_eq!(request.messages[1].extra["reasoning_content"], json!("r"));
}

#[test]
fn a_body_that_is_not_an_object_is_refused() {
    let kind = |body: &[u8]| ChatRequest::parse(body).unwrap_err().kind;
    assert_eq!(kind(b"{"), ErrorKind::InvalidJson);
    assert_eq!(kind(b"\xff"), ErrorKind::InvalidJson);
    assert_eq!(kind(b"[]"), ErrorKind::InvalidRequest);
    let deep = format!(r#"{{"a":{}}}"#, "[".repeat(200));
    let error = ChatRequest::parse(deep.as_bytes()).unwrap_err();
    assert!(error.message.contains("recursion limit exceeded"), "{error}");
    let error = ChatRequest::parse(br#"{"model": nope}"#).unwrap_err();
    assert!(error.message.ends_with("at line 1 column 12"), "{error}");
}

#[test]
fn prompts_come_in_four_forms() {
    let prompts = |json: &str| {
        CompletionRequest::parse(format!(r#"{{"prompt":{json}}}"#).as_bytes()).map(|r| r.prompts)
    };
    let tokens = |ids: &[u32]| Prompt::Tokens(ids.iter().copied().map(TokenId).collect());
    assert_eq!(prompts(r#""a""#).unwrap(), [Prompt::Text("a".into())]);
    assert_eq!(prompts(r#"["a",""]"#).unwrap(), ["a", ""].map(|t| Prompt::Text(t.into())));
    assert_eq!(prompts("[1,2]").unwrap(), [tokens(&[1, 2])]);
    assert_eq!(prompts("[[1],[2,3]]").unwrap(), [tokens(&[1]), tokens(&[2, 3])]);
    let param = |json: &str| prompts(json).unwrap_err().param.unwrap();
    assert_eq!(param("[]"), "prompt");
    assert_eq!(param("7"), "prompt");
    assert_eq!(param("null"), "prompt");
    assert_eq!(param("[1,\"a\"]"), "prompt[1]");
    assert_eq!(param("[1,-1]"), "prompt[1]");
    assert_eq!(param("[[]]"), "prompt[0]");
    assert_eq!(param("[[1],[true]]"), "prompt[1][0]");
}

#[test]
fn completions_default_to_sixteen_tokens_and_refuse_suffixes() {
    let parse =
        |extra: &str| CompletionRequest::parse(format!(r#"{{"prompt":"p"{extra}}}"#).as_bytes());
    assert_eq!(parse("").unwrap().options.ending.max_tokens, Some(16));
    assert_eq!(parse(r#","min_tokens":40"#).unwrap().options.ending.max_tokens, Some(40));
    assert_eq!(parse(r#","logprobs":3"#).unwrap().logprobs, Some(3));
    assert!(parse(r#","max_tokens":0,"echo":true"#).is_ok());
    let param = |extra: &str| parse(extra).unwrap_err().param.unwrap();
    assert_eq!(param(r#","max_tokens":0"#), "max_tokens");
    assert_eq!(param(r#","suffix":"x""#), "suffix");
    assert_eq!(param(r#","logprobs":true"#), "logprobs");
    assert!(parse(r#","suffix":null"#).is_ok());
}

#[test]
fn tokenize_takes_a_prompt_or_a_chat() {
    let prompt = TokenizeRequest::parse(br#"{"prompt":"x"}"#).unwrap();
    assert_eq!(prompt.input, TokenizeInput::Prompt("x".into()));
    assert!(prompt.rendering.add_special_tokens);
    let chat = TokenizeRequest::parse(
        br#"{"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false}"#,
    )
    .unwrap();
    assert_eq!(chat.rendering.ending, PromptEnding::Closed);
    assert!(!chat.rendering.add_special_tokens);
    assert_eq!(TokenizeRequest::parse(b"{}").unwrap_err().param.as_deref(), Some("prompt"));
    let tokens = DetokenizeRequest::parse(br#"{"tokens":[3,1]}"#).unwrap().tokens;
    assert_eq!(tokens, [TokenId(3), TokenId(1)]);
    assert_eq!(DetokenizeRequest::parse(b"{}").unwrap_err().param.as_deref(), Some("tokens"));
}
