//! Errors in each dialect's shape, whatever shape they came in.

use overdraft_units::Tokens;
use serde_json::{Value, json};

use crate::dialect::{Dialect, Failure};
use crate::error::{ApiError, ErrorKind};

/// Status, class or code, and message of an error in a dialect.
#[track_caller]
fn check(dialect: Dialect, failure: &Failure, expected: (u16, &str, &str)) {
    let (status, body) = dialect.error(failure, "req_1");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let name = match dialect {
        Dialect::Messages => {
            assert_eq!((&body["type"], &body["request_id"]), (&json!("error"), &json!("req_1")));
            &body["error"]["type"]
        }
        Dialect::Responses => {
            let error = body["error"].as_object().unwrap();
            assert!(
                ["message", "type", "param", "code"].iter().all(|key| error.contains_key(*key))
            );
            &body["error"]["code"]
        }
    };
    let message = body["error"]["message"].as_str().unwrap();
    assert_eq!((status, name.as_str().unwrap_or("null"), message), expected);
}

#[test]
fn every_status_has_its_class() {
    for (status, messages, responses) in [
        (400, (400, "invalid_request_error"), (400, "null")),
        (422, (400, "invalid_request_error"), (400, "null")),
        (401, (401, "authentication_error"), (401, "invalid_api_key")),
        (403, (403, "permission_error"), (403, "null")),
        (404, (404, "not_found_error"), (404, "model_not_found")),
        (413, (413, "request_too_large"), (413, "null")),
        (429, (429, "rate_limit_error"), (429, "rate_limit_exceeded")),
        (500, (500, "api_error"), (500, "server_error")),
        (502, (502, "api_error"), (502, "server_error")),
        (503, (529, "overloaded_error"), (503, "server_is_overloaded")),
        (504, (504, "timeout_error"), (504, "server_error")),
    ] {
        let failure = Failure::read(status, br#"{"error":{"message":"w","type":"X","code":400}}"#);
        check(Dialect::Messages, &failure, (messages.0, messages.1, "w"));
        check(Dialect::Responses, &failure, (responses.0, responses.1, "w"));
    }
}

#[test]
fn words_are_found_in_whatever_shape_they_came() {
    for (body, words) in [
        (r#"{"error":{"message":"w"}}"#, "w"),
        (r#"{"object":"error","message":"w"}"#, "w"),
        (r#"{"error":"w"}"#, "w"),
        (r#"{"detail":"w"}"#, "w"),
        (r#"{"detail":[{"msg":"w"}]}"#, r#"[{"msg":"w"}]"#),
        ("<html>w</html>", "<html>w</html>"),
        ("", "the worker failed with status 400"),
        ("{}", "the worker failed with status 400"),
    ] {
        assert_eq!(Failure::read(400, body.as_bytes()).message, words);
    }
    let long = "x".repeat(100_000);
    assert!(Failure::read(400, long.as_bytes()).message.len() < 5_000);
}

#[test]
fn a_prompt_that_does_not_fit_is_told_in_the_words_that_agents_look_for() {
    for words in [
        "This model's maximum context length is 32768 tokens.",
        "The input (345516 tokens) is longer than the model's context length (262144 tokens).",
        "the request exceeds the available context size.",
    ] {
        let body = json!({"error": {"message": words}}).to_string();
        let failure = Failure::read(400, body.as_bytes());
        let told = format!("prompt is too long: {words}");
        check(Dialect::Messages, &failure, (400, "invalid_request_error", &told));
        check(Dialect::Responses, &failure, (400, "context_length_exceeded", words));
    }
    let failure = Failure::read(500, br#"{"error":{"message":"context length"}}"#);
    check(Dialect::Messages, &failure, (500, "api_error", "context length"));
}

/// A refusal with these words, as a client of Messages and one of Responses read it.
#[track_caller]
fn check_refusal(words: &str, told: &str) {
    let body = json!({"error": {"message": words}}).to_string();
    let failure = Failure::read(400, body.as_bytes());
    check(Dialect::Messages, &failure, (400, "invalid_request_error", told));
    check(Dialect::Responses, &failure, (400, "context_length_exceeded", words));
}

#[test]
fn a_prompt_that_fits_without_its_answer_is_told_in_the_words_that_agents_ask_again_for() {
    let ours = ApiError::context_length_exceeded(
        Tokens::new(8_000),
        Tokens::new(32_000),
        Tokens::new(32_768),
    );
    for words in [
        ours.message.as_str(),
        "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 \
         tokens and your request has 8000 input tokens (32000 > 32768 - 8000).",
        "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens (8000 in the \
         messages, 32000 in the completion). Please reduce the length of the messages or completion.",
        "This model's maximum context length is 32768 tokens. However, you requested 32000 output tokens and your \
         prompt contains 8000 input tokens, for a total of 40000 tokens.",
        "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a total of \
         40000 tokens: 8000 tokens from the input messages and 32000 tokens for the completion.",
    ] {
        let told = "input length and `max_tokens` exceed context limit: 8000 + 32000 > 32768, decrease input length or \
                    `max_tokens` and try again";
        check_refusal(words, told);
    }
}

#[test]
fn a_prompt_that_may_not_fit_alone_is_too_long_whatever_its_answer() {
    let ours =
        ApiError::context_length_exceeded(Tokens::new(32_768), Tokens::new(9), Tokens::new(32_768));
    for words in [
        ours.message.as_str(),
        "This model's maximum context length is 32768 tokens. However, your request has 40000 input tokens.",
        "This model's maximum context length is 32768 tokens. However, you requested 1024 output tokens and your \
         prompt contains at least 31745 input tokens, for a total of at least 32769 tokens.",
        "This model's maximum context length is 9 tokens and your request has 99999999999999999999 input tokens.",
    ] {
        check_refusal(words, &format!("prompt is too long: {words}"));
    }
}

#[test]
fn a_thread_is_refused_by_the_code_that_the_sdk_goes_on_by() {
    // What goes on a thread may have no messages at all.
    for body in [
        &br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"thread":{"type":"create"}}"#[..],
        br#"{"max_tokens":9,"messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}"#,
    ] {
        let refused = super::to_chat(body).unwrap_err();
        let (status, body) = Dialect::Messages.error(&Failure::of(&refused), "req_1");
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, &body["error"]["type"]), (400, &json!("invalid_request_error")));
        assert_eq!(body["error"]["details"], json!({"error_code": "thread_unsupported_request"}));
    }
    let other = Failure::read(400, br#"{"error":{"message":"w","code":"other"}}"#);
    let body: Value = serde_json::from_slice(&Dialect::Messages.error(&other, "req_1").1).unwrap();
    assert_eq!(body["error"], json!({"type": "invalid_request_error", "message": "w"}));
}

#[test]
fn an_error_event_of_responses_has_its_members_where_either_sdk_reads_them() {
    let failure = Failure::of(&ApiError::upstream("w"));
    let event = Dialect::Responses.error_event(&failure, "req_1", 7);
    let data = event.strip_prefix(b"event: error\ndata: ").unwrap();
    let data: Value = serde_json::from_slice(data).unwrap();
    assert_eq!((&data["type"], &data["sequence_number"]), (&json!("error"), &json!(7)));
    let told =
        json!({"type": "server_error", "code": "server_error", "message": "w", "param": null});
    assert_eq!(data["error"], told);
    for name in ["code", "message", "param"] {
        assert_eq!(data[name], told[name]);
    }
}

#[test]
fn errors_of_the_gateway_keep_their_codes() {
    let missing = ApiError::new(ErrorKind::PreviousResponseNotFound, "gone")
        .with_param("previous_response_id");
    check(Dialect::Responses, &Failure::of(&missing), (404, "previous_response_not_found", "gone"));
    let upstream = ApiError::upstream("w");
    check(Dialect::Responses, &Failure::of(&upstream), (502, "server_error", "w"));
    let unknown = ApiError::new(ErrorKind::ModelNotFound, "w");
    check(Dialect::Responses, &Failure::of(&unknown), (404, "model_not_found", "w"));
    check(Dialect::Messages, &Failure::of(&unknown), (404, "not_found_error", "w"));
}
