//! `/v1/completions` as its clients see it, whole and streamed.

use serde_json::{Value, json};

use crate::support::{Running, user};

fn texts(answer: &Value) -> Vec<&str> {
    answer["choices"].as_array().unwrap().iter().map(|one| one["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_prompt_is_completed_to_sixteen_tokens_unless_told() {
    let worker = Running::echo().await;
    let mut answer = worker.complete(&json!({ "model": "echo", "prompt": "abc" })).await.json();
    let fields = answer.as_object_mut().unwrap();
    assert!(fields.shift_remove("id").unwrap().as_str().unwrap().starts_with("cmpl-"));
    assert!(fields.shift_remove("created").unwrap().is_u64());
    assert_eq!(
        answer,
        json!({
            "object": "text_completion",
            "model": "echo",
            "choices": [{
                "index": 0,
                "text": "abcabcabcabcabca",
                "logprobs": null,
                "finish_reason": "length",
                "stop_reason": null,
            }],
            "usage": {
                "prompt_tokens": 3,
                "completion_tokens": 16,
                "total_tokens": 19,
                "prompt_tokens_details": { "cached_tokens": 0 },
            },
        })
    );
}

#[tokio::test]
async fn prompts_may_be_texts_or_tokens_or_lists_of_either() {
    let worker = Running::echo().await;
    for (prompt, expected) in [
        (json!("ab"), vec!["aba"]),
        (json!([97, 98]), vec!["aba"]),
        (json!(["ab", "xy"]), vec!["aba", "xyx"]),
        (json!([[97, 98], [120, 121]]), vec!["aba", "xyx"]),
    ] {
        let answer = worker.complete(&json!({ "prompt": prompt, "max_tokens": 3 })).await.json();
        assert_eq!(texts(&answer), expected, "{prompt}");
    }
    let request = json!({ "prompt": ["ab", "xy"], "n": 2, "max_tokens": 3 });
    let answer = worker.complete(&request).await.json();
    assert_eq!(texts(&answer), ["aba", "aba", "xyx", "xyx"]);
    assert_eq!(answer["usage"]["prompt_tokens"], 4, "a prompt counts once");
    assert_eq!(answer["usage"]["completion_tokens"], 12);
}

#[tokio::test]
async fn a_stream_says_what_the_whole_says() {
    let worker = Running::echo().await;
    let mut request = json!({
        "prompt": ["ab", "xy"], "max_tokens": 4, "logprobs": 1, "echo": true, "temperature": 0,
        "n": 2, "return_token_ids": true,
    });
    let whole = worker.complete(&request).await.json();
    request["stream"] = json!(true);
    request["stream_options"] = json!({ "include_usage": true });
    let events = worker.complete(&request).await.events();
    assert_eq!(events.last(), Some(&json!("[DONE]")));
    assert_eq!(events[events.len() - 2]["usage"], whole["usage"]);
    for (index, choice) in whole["choices"].as_array().unwrap().iter().enumerate() {
        let parts: Vec<&Value> = events
            .iter()
            .map(|event| &event["choices"][0])
            .filter(|part| part["index"] == index)
            .collect();
        let joined = |path: &str| {
            let lists = parts.iter().filter_map(|part| part.pointer(path)?.as_array());
            Value::Array(lists.flatten().cloned().collect())
        };
        let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        assert_eq!(json!(text), choice["text"]);
        for list in ["tokens", "token_logprobs", "text_offset", "top_logprobs"] {
            assert_eq!(joined(&format!("/logprobs/{list}")), choice["logprobs"][list], "{list}");
        }
        assert_eq!(joined("/token_ids"), choice["token_ids"]);
        assert_eq!(joined("/prompt_token_ids"), choice["prompt_token_ids"]);
        assert_eq!(parts.last().unwrap()["finish_reason"], choice["finish_reason"]);
    }
}

#[tokio::test]
async fn an_echo_puts_the_prompt_and_its_log_probabilities_first() {
    let worker = Running::echo().await;
    let request = json!({
        "prompt": "aé", "max_tokens": 1, "echo": true, "logprobs": 2, "temperature": 0,
    });
    let choice = worker.complete(&request).await.json()["choices"][0].clone();
    assert_eq!(choice["text"], "aéa");
    let logprobs = &choice["logprobs"];
    assert_eq!(logprobs["token_logprobs"].as_array().unwrap().len(), 4);
    assert!(logprobs["token_logprobs"][0].is_null() && logprobs["top_logprobs"][0].is_null());
    assert!(logprobs["token_logprobs"][3].as_f64().unwrap() > -0.1);
    assert_eq!(logprobs["text_offset"][0], 0);
    let rivals = logprobs["top_logprobs"][3].as_object().unwrap();
    assert!(rivals.len() >= 2 && rivals.contains_key("a"), "{rivals:?}");
}

#[tokio::test]
async fn an_echo_of_no_tokens_scores_the_prompt_alone() {
    let worker = Running::echo().await;
    let request = json!({ "prompt": "abab", "max_tokens": 0, "echo": true, "logprobs": 0 });
    let answer = worker.complete(&request).await.json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "abab");
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["logprobs"]["tokens"], json!(["a", "b", "a", "b"]));
    assert_eq!(choice["logprobs"]["text_offset"], json!([0, 1, 2, 3]));
    assert_eq!(answer["usage"]["completion_tokens"], 0);
    let request = json!({ "prompt": "abab", "max_tokens": 0 });
    assert_eq!(worker.complete(&request).await.fault().1, "max_tokens");
}

#[tokio::test]
async fn a_prompts_log_probabilities_are_computed_once_and_told_by_every_choice() {
    let worker = Running::echo().await;
    let prompt = "0123456789abcdef".repeat(6);
    let before = worker.stats().batch.positions_computed;
    let request = json!({ "prompt": prompt, "max_tokens": 1, "n": 4, "prompt_logprobs": 1 });
    let answer = worker.complete(&request).await.json();
    let choices = answer["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    let told = &choices[0]["prompt_logprobs"];
    assert_eq!(told.as_array().unwrap().len(), prompt.len());
    assert!(choices.iter().all(|choice| choice["prompt_logprobs"] == *told), "{answer}");
    worker.until(|stats| stats.batch.running == 0).await;
    let computed = worker.stats().batch.positions_computed - before;
    assert!(computed < 2 * 96, "`{computed}` positions for a prompt of 96");
}

#[tokio::test]
async fn more_log_probabilities_than_an_answer_may_tell_are_refused() {
    let worker = Running::echo().await;
    let request = json!({ "prompt": "abc", "n": 128, "max_tokens": 500, "logprobs": 20 });
    let refused = worker.complete(&request).await;
    assert_eq!(refused.fault(), (400, "n".to_owned(), "-".to_owned()));
    assert!(refused.body.contains("lower `n`, `max_tokens`"), "{}", refused.body);
    assert!(refused.body.contains("`1344000` log probabilities"), "{}", refused.body);
}

#[tokio::test]
async fn a_cached_prefix_is_found_again_under_the_same_salt_only() {
    let worker = Running::echo().await;
    let prompt = "0123456789".repeat(10);
    let ask = async |salt: Option<&str>| {
        let mut request = json!({ "prompt": prompt, "max_tokens": 1 });
        if let Some(salt) = salt {
            request["cache_salt"] = json!(salt);
        }
        let answer = worker.complete(&request).await.json();
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    assert_eq!(ask(None).await, 0);
    assert_eq!(ask(None).await, 96);
    assert_eq!(ask(Some("a")).await, 0);
    assert_eq!(ask(Some("a")).await, 96);
    assert_eq!(ask(Some("b")).await, 0);
}

#[tokio::test]
async fn an_extreme_repetition_penalty_is_no_fault_of_the_workers() {
    let worker = Running::echo().await;
    for penalty in [1e-38, 1e38] {
        let request = json!({ "prompt": "abc", "max_tokens": 2, "repetition_penalty": penalty });
        let reply = worker.complete(&request).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

#[tokio::test]
async fn a_prompt_that_cannot_fit_is_refused_untokenized() {
    let worker = Running::echo().await;
    let digits = "9".repeat(200_000);
    let refused = worker.complete(&json!({ "prompt": ["few", digits] })).await;
    let expected = (400, "prompt".to_owned(), "context_length_exceeded".to_owned());
    assert_eq!(refused.fault(), expected);
    assert!(refused.body.contains("at least 200000 were requested"), "{}", refused.body);
    let refused = worker.chat(&json!({ "messages": user(&digits) })).await;
    let expected = (400, "messages".to_owned(), "context_length_exceeded".to_owned());
    assert_eq!(refused.fault(), expected);
    assert!(refused.body.contains("at least "), "{}", refused.body);
}

#[tokio::test]
async fn what_cannot_be_served_is_refused_by_name() {
    let worker = Running::echo().await;
    for (request, status, param) in [
        (json!({}), 400, "prompt"),
        (json!({ "prompt": "" }), 400, "prompt"),
        (json!({ "prompt": [1, "a"] }), 400, "prompt[1]"),
        (json!({ "prompt": [300] }), 400, "prompt"),
        (json!({ "prompt": "a", "max_tokens": 512 }), 400, "prompt"),
        (json!({ "prompt": "a", "logprobs": 21 }), 400, "logprobs"),
        (json!({ "prompt": "a", "suffix": "b" }), 400, "suffix"),
        (json!({ "prompt": vec!["a"; 100], "n": 100 }), 400, "n"),
        (json!({ "prompt": "a", "model": "other" }), 404, "model"),
    ] {
        let fault = worker.complete(&request).await.fault();
        assert_eq!((fault.0, fault.1.as_str()), (status, param), "{request}");
    }
}
