//! What sequences in one batch owe each other: nothing. And what they may share: a prefix.

use serde_json::{Value, json};

use crate::harness::{Server, root};

fn worker(more: &[&str]) -> Server {
    let model = root().join("models/overdraft-target.q8_0.gguf");
    let mut arguments = vec!["--model", model.to_str().expect("a path in UTF-8")];
    arguments.extend(["--served-model-name", "target"]);
    arguments.extend(more);
    Server::worker(&arguments)
}

fn ask(prompt: &str, salt: &str) -> Value {
    json!({
        "model": "target", "temperature": 0, "max_tokens": 40, "return_token_ids": true,
        "cache_salt": salt, "messages": [{"role": "user", "content": prompt}],
    })
}

fn tokens(answer: &Value) -> Value {
    answer["choices"][0]["token_ids"].clone()
}

#[test]
fn greedy_tokens_are_the_same_alone_in_a_batch_and_cached() {
    let server = worker(&[]);
    let watched = "Explain what a KV cache is. Then count from 1 to 20.";
    let alone = tokens(&server.chat(&ask(watched, "alone")));
    assert!(alone.as_array().is_some_and(|tokens| tokens.len() > 5), "{alone}");
    let others: Vec<String> =
        (0..15).map(|n| format!("Sort these numbers: {} 7 {} 3", n * 3, 40 - n)).collect();
    let batched = std::thread::scope(|scope| {
        let other: Vec<_> = others
            .iter()
            .map(|prompt| scope.spawn(|| server.chat(&ask(prompt, "others"))))
            .collect();
        let batched = tokens(&server.chat(&ask(watched, "batched")));
        for thread in other {
            thread.join().expect("it is answered");
        }
        batched
    });
    assert_eq!(alone, batched, "a batch changed the tokens");
    let before = server.metric("vllm:prefix_cache_hits_total");
    let cached = tokens(&server.chat(&ask(watched, "alone")));
    assert!(server.metric("vllm:prefix_cache_hits_total") > before, "the prefix was cached");
    assert_eq!(alone, cached, "a cached prefix changed the tokens");
}

#[test]
fn a_shared_prefix_is_computed_once_by_sixteen() {
    let server = worker(&[]);
    let mut shared = String::new();
    while server.post("/tokenize", &json!({"model": "target", "prompt": shared}))["count"]
        .as_u64()
        .is_some_and(|count| count < 1_000)
    {
        shared.push_str("The worker keeps the keys and values of every token it has seen. ");
    }
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..16)
            .map(|n| {
                let body = ask(&format!("{shared}\nQuestion {n}: what is {n} + {n}?"), "shared");
                let server = &server;
                scope.spawn(move || server.chat(&body)["usage"]["prompt_tokens"].as_u64())
            })
            .collect();
        asked.into_iter().map(|t| t.join().expect("it is answered").expect("a count")).collect()
    });
    let asked: u64 = counts.iter().sum();
    let hits = server.metric("vllm:prefix_cache_hits_total");
    assert!(hits >= 15.0 * 960.0, "15 of 16 found the prefix: {hits} of {asked} tokens were hits");
}

#[test]
fn different_salts_share_nothing() {
    let server = worker(&[]);
    let prompt = "A long enough prompt to fill some blocks of the cache. ".repeat(8);
    server.chat(&ask(&prompt, "one"));
    let before = server.metric("vllm:prefix_cache_hits_total");
    server.chat(&ask(&prompt, "two"));
    let hits = server.metric("vllm:prefix_cache_hits_total") - before;
    assert!(hits == 0.0, "{hits} tokens crossed from one tenant to another");
}
