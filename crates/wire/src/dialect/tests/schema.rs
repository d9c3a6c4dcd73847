//! The published request schemas: each field is carried, a hint, or refused by name.

use serde_json::{Value, json};

use super::{message, response, to_chat, translated};

/// What becomes of a field.
enum Fate {
    /// The chat body says it under this name.
    Carried(&'static str),
    /// It is accepted; the answer does not depend on it.
    Hint,
    /// It is refused with its name.
    Refused,
}

use Fate::{Carried, Hint, Refused};

/// Fields of Anthropic's `MessageCreateParams`, its beta's too.
fn messages_fields() -> Vec<(&'static str, Value, Fate)> {
    let tools = json!([{"name": "f", "input_schema": {}}]);
    vec![
        ("model", json!("x"), Carried("model")),
        ("max_tokens", json!(5), Carried("max_tokens")),
        ("messages", json!([{"role": "user", "content": "x"}]), Carried("messages")),
        ("system", json!("s"), Carried("messages")),
        ("stop_sequences", json!(["x"]), Carried("stop")),
        ("stream", json!(true), Carried("stream")),
        ("temperature", json!(1), Carried("temperature")),
        ("top_k", json!(5), Carried("top_k")),
        ("top_p", json!(0.5), Carried("top_p")),
        ("tools", tools, Carried("tools")),
        ("tool_choice", json!({"type": "auto"}), Hint),
        ("thinking", json!({"type": "adaptive"}), Carried("chat_template_kwargs")),
        ("output_config", json!({"effort": "low"}), Carried("reasoning_effort")),
        ("output_format", json!({"type": "json_schema", "schema": {}}), Carried("response_format")),
        ("metadata", json!({"user_id": "u"}), Carried("user")),
        ("service_tier", json!("auto"), Hint),
        ("cache_control", json!({"type": "ephemeral"}), Hint),
        ("context_management", json!({"edits": []}), Hint),
        ("inference_geo", json!("us"), Hint),
        ("speed", json!("fast"), Hint),
        ("diagnostics", json!({"previous_message_id": "msg_1"}), Hint),
        ("user_profile_id", json!("u"), Hint),
        ("workspace_id", json!("w"), Hint),
        ("container", json!("c"), Refused),
        ("mcp_servers", json!([{"name": "x"}]), Refused),
        ("a_field_of_tomorrow", json!(1), Refused),
    ]
}

/// Fields of OpenAI's `ResponseCreateParams`.
fn responses_fields() -> Vec<(&'static str, Value, Fate)> {
    let tools = json!([{"type": "function", "name": "f"}]);
    vec![
        ("model", json!("x"), Carried("model")),
        ("input", json!("x"), Carried("messages")),
        ("instructions", json!("x"), Carried("messages")),
        ("max_output_tokens", json!(5), Carried("max_tokens")),
        ("temperature", json!(1), Carried("temperature")),
        ("top_p", json!(0.5), Carried("top_p")),
        ("user", json!("u"), Carried("user")),
        ("tools", tools, Carried("tools")),
        ("tool_choice", json!("auto"), Hint),
        ("parallel_tool_calls", json!(true), Hint),
        ("stream", json!(true), Carried("stream")),
        ("text", json!({"format": {"type": "json_object"}}), Carried("response_format")),
        ("reasoning", json!({"effort": "low"}), Carried("reasoning_effort")),
        ("include", json!(["message.output_text.logprobs"]), Carried("logprobs")),
        ("background", json!(true), Hint),
        ("store", json!(false), Hint),
        ("previous_response_id", json!("resp_1"), Hint),
        ("max_tool_calls", json!(1), Hint),
        ("metadata", json!({}), Hint),
        ("prompt_cache_key", json!("k"), Hint),
        ("prompt_cache_options", json!({"ttl": "30m"}), Hint),
        ("prompt_cache_retention", json!("24h"), Hint),
        ("safety_identifier", json!("s"), Hint),
        ("service_tier", json!("auto"), Hint),
        ("stream_options", json!({"include_obfuscation": false}), Hint),
        ("top_logprobs", json!(2), Hint),
        ("truncation", json!("auto"), Hint),
        ("context_management", json!([]), Hint),
        ("conversation", json!("c"), Refused),
        ("moderation", json!({"model": "m"}), Refused),
        ("access_programs", json!(["p"]), Refused),
        ("background_options", json!({"x": 1}), Refused),
        ("prompt", json!({"id": "p"}), Refused),
        ("a_field_of_tomorrow", json!(1), Refused),
    ]
}

/// Each field meets its fate in the translation that `translate` makes of a request with it.
#[track_caller]
fn check(
    fields: Vec<(&'static str, Value, Fate)>,
    translate: impl Fn(Value) -> Result<Vec<u8>, crate::ApiError>,
) {
    for (name, value, fate) in fields {
        let translated = translate(json!({ name: value }));
        match (fate, translated) {
            (Carried(in_chat), Ok(chat)) => {
                let chat: Value = serde_json::from_slice(&chat).unwrap();
                assert!(chat.get(in_chat).is_some(), "`{name}` is `{in_chat}` in {chat}");
            }
            (Hint, Ok(_)) => {}
            (Refused, Err(error)) => {
                assert!(error.message.contains(name), "`{name}` is named: {error}");
                assert_eq!(error.param.as_deref(), Some(name));
            }
            (_, translated) => panic!("`{name}`: {translated:?}"),
        }
    }
}

#[test]
fn every_field_of_messages_has_a_fate() {
    check(messages_fields(), |more| to_chat(&message(more)).map(|request| request.chat.body));
}

#[test]
fn every_field_of_responses_has_a_fate() {
    check(responses_fields(), |more| translated(&response(more)).map(|request| request.chat.body));
}
