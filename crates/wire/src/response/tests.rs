//! The JSON that clients see.

use insta::assert_snapshot;
use overdraft_units::Tokens;
use serde::Serialize;

use super::*;
use crate::ApiError;

const HEAD: Head<'_> = Head { id: "chatcmpl-1", created: 7, model: "m" };

fn text(answer: &impl Serialize) -> String {
    String::from_utf8(to_json(answer)).unwrap()
}

fn usage() -> Usage {
    Usage::new(Tokens::new(3), Some(Tokens::new(2)), Tokens::new(4))
}

#[test]
fn a_whole_chat() {
    let choice = ChatChoice {
        index: 0,
        message: AssistantMessage::new("hi"),
        logprobs: Some(ChatLogprobs {
            content: vec![ChatTokenLogprob {
                token: "hi".into(),
                logprob: Logprob(-0.5),
                bytes: Some(b"hi".to_vec()),
                top_logprobs: vec![ChatTopLogprob {
                    token: "\u{fffd}".into(),
                    logprob: Logprob(f32::NEG_INFINITY),
                    bytes: Some(vec![0xff]),
                }],
            }],
        }),
        finish_reason: Some(FinishReason::Stop),
        stop_reason: None,
        token_ids: None,
    };
    assert_snapshot!(text(&ChatCompletion::new(HEAD, vec![choice], usage())), @r#"{"id":"chatcmpl-1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},"logprobs":{"content":[{"token":"hi","logprob":-0.5,"bytes":[104,105],"top_logprobs":[{"token":"�","logprob":-9999.0,"bytes":[255]}]}]},"finish_reason":"stop","stop_reason":null}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}}"#);
}

#[test]
fn chat_chunks() {
    let opening =
        ChatChunkChoice { delta: Delta::opening(), token_ids: Some(vec![1]), ..Default::default() };
    let mut chunk = ChatChunk::new(HEAD, vec![opening]);
    chunk.prompt_token_ids = Some(vec![5]);
    assert_snapshot!(text(&chunk), @r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null,"token_ids":[1]}],"prompt_token_ids":[5]}"#);
    let last = ChatChunkChoice {
        finish_reason: Some(FinishReason::Length),
        stop_reason: Some(StopReason::Text("x".into())),
        ..Default::default()
    };
    assert_snapshot!(text(&ChatChunk::new(HEAD, vec![last])), @r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length","stop_reason":"x"}]}"#);
    assert_snapshot!(text(&ChatChunk::usage(HEAD, usage())), @r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}}"#);
}

#[test]
fn a_completion() {
    let position =
        PromptLogprob { id: 9, logprob: Logprob(-1.25), rank: 1, decoded_token: " a".into() };
    let choice = CompletionChoice {
        text: "ab".into(),
        logprobs: Some(CompletionLogprobs {
            text_offset: vec![0, 1],
            token_logprobs: vec![None, Some(Logprob(f32::NAN))],
            tokens: vec!["a".into(), "b".into()],
            top_logprobs: vec![
                None,
                Some(TopLogprobs(vec![("b".into(), Logprob(-0.25)), ("b".into(), Logprob(-3.0))])),
            ],
        }),
        finish_reason: Some(FinishReason::Stop),
        stop_reason: Some(StopReason::Token(9)),
        prompt_logprobs: Some(PromptLogprobs(vec![
            None,
            Some(PromptPosition(vec![position.clone(), position])),
        ])),
        ..Default::default()
    };
    assert_snapshot!(text(&CompletionResponse::new(HEAD, vec![choice], None)), @r#"{"id":"chatcmpl-1","object":"text_completion","created":7,"model":"m","choices":[{"index":0,"text":"ab","logprobs":{"text_offset":[0,1],"token_logprobs":[null,-9999.0],"tokens":["a","b"],"top_logprobs":[null,{"b":-0.25}]},"finish_reason":"stop","stop_reason":9,"prompt_logprobs":[null,{"9":{"logprob":-1.25,"rank":1,"decoded_token":" a"}}]}]}"#);
}

#[test]
fn small_answers() {
    let mut card = ModelCard::new("m", 7);
    card.max_model_len = Some(512);
    assert_snapshot!(text(&ModelList::new(vec![card])), @r#"{"object":"list","data":[{"id":"m","object":"model","created":7,"owned_by":"overdraft","max_model_len":512}]}"#);
    let tokens =
        TokenizeResponse { count: 1, max_model_len: 512, tokens: vec![4], token_strs: None };
    assert_snapshot!(text(&tokens), @r#"{"count":1,"max_model_len":512,"tokens":[4],"token_strs":null}"#);
}

#[test]
fn errors() {
    assert_snapshot!(text(&ApiError::model_not_found("x")), @r#"{"error":{"message":"the model `x` does not exist; GET /v1/models lists those that do","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#);
    assert_snapshot!(text(&ApiError::server_error("the engine stopped")), @r#"{"error":{"message":"the engine stopped","type":"server_error","param":null,"code":"server_error"}}"#);
    let tokens = Tokens::new;
    let error = ApiError::context_length_exceeded(tokens(500), tokens(20), tokens(512));
    assert_snapshot!(text(&error), @r#"{"error":{"message":"this model's maximum context length is 512 tokens, but 520 were requested (500 in the messages, 20 in the completion); shorten the messages or lower `max_tokens`","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#);
    let error = ApiError::prompt_too_long(tokens(600), tokens(512));
    assert_snapshot!(text(&error), @r#"{"error":{"message":"this model's maximum context length is 512 tokens, but at least 600 were requested in the messages; shorten the messages","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#);
}

#[test]
fn usage_survives_a_round_trip_and_reads_foreign_forms() {
    assert_eq!(serde_json::from_str::<Usage>(&text(&usage())).unwrap(), usage());
    let foreign = r#"{"prompt_tokens":1,"prompt_tokens_details":null,"queue_time":0.1}"#;
    assert_eq!(serde_json::from_str::<Usage>(foreign).unwrap().prompt_tokens, 1);
}
