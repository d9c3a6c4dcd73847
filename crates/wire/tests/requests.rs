//! No body makes the parsers panic, and whatever is accepted is within the named bounds.

use overdraft_wire::request::{CHOICES_MAX, LOGPROBS_MAX};
use overdraft_wire::{ChatRequest, CompletionRequest, TokenizeRequest};
use proptest::prelude::*;
use serde_json::{Value, json};

const NAMES: [&str; 30] = [
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
    "stop",
    "stop_token_ids",
    "n",
    "best_of",
    "stream",
    "stream_options",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "echo",
    "prompt",
    "suffix",
    "max_tokens",
    "min_tokens",
    "ignore_eos",
    "cache_salt",
    "priority",
    "tools",
    "messages",
    "user",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-3..200_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z0-9]{0,2}|role|content", inner), 0..4)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn accepted_requests_are_within_bounds(
        fields in prop::collection::vec((prop::sample::select(&NAMES[..]), any_value()), 0..4)
    ) {
        let mut body = json!({"messages": [{"role": "user", "content": "x"}], "prompt": "x"});
        for (name, value) in fields {
            body[name] = value;
        }
        let body = body.to_string();
        let options = [
            ChatRequest::parse(body.as_bytes()).map(|request| (request.options, request.logprobs)),
            CompletionRequest::parse(body.as_bytes()).map(|r| (r.options, r.logprobs)),
        ];
        for (options, logprobs) in options.into_iter().flatten() {
            let sampling = options.sampling;
            prop_assert!(sampling.temperature.is_finite() && sampling.temperature >= 0.0);
            prop_assert!(sampling.top_p > 0.0 && sampling.top_p <= 1.0);
            prop_assert!(sampling.top_k != Some(0));
            prop_assert!((1..=CHOICES_MAX).contains(&options.output.n));
            prop_assert!(logprobs.is_none_or(|top| top <= LOGPROBS_MAX));
            prop_assert!(options.ending.stop.iter().all(|stop| !stop.is_empty()));
        }
        let _ = TokenizeRequest::parse(body.as_bytes());
    }
}
