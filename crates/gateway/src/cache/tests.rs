//! No field of a request is forgotten: each changes the key, keeps the request away, or is ignored for a
//! reason that stands in the table.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderValue};
use overdraft_core::response_cache::{Bypass, Effect, FIELDS, effect};
use overdraft_wire::json::Object;

use super::request::{Served, fields};
use crate::settings::{CacheSettings, HeaderPattern, HeaderSettings};
use crate::upstream::headers;

/// `CompletionCreateParams` of `openai` 2.x for chats: names only, as the package lists them.
const OPENAI_CHAT: &str = "messages model audio frequency_penalty function_call functions \
    logit_bias logprobs max_completion_tokens max_tokens metadata modalities moderation n \
    parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options \
    prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier \
    stop store stream stream_options temperature tool_choice tools top_logprobs top_p user \
    verbosity web_search_options";

/// The same for completions.
const OPENAI_COMPLETIONS: &str = "model prompt best_of echo frequency_penalty logit_bias logprobs \
    max_tokens n presence_penalty seed stop stream stream_options suffix temperature top_p user";

/// vLLM's extras, from 0.6 to 0.33.
const VLLM: &str = "add_generation_prompt add_special_tokens allowed_token_ids bad_words \
    cache_salt chat_template chat_template_kwargs continue_final_message documents echo \
    guided_choice guided_decoding_backend guided_grammar guided_json guided_regex \
    guided_whitespace_pattern ignore_eos include_reasoning include_stop_str_in_output \
    kv_transfer_params length_penalty logits_processors logprob_token_ids media_io_kwargs min_p \
    min_tokens mm_processor_kwargs priority prompt_embeds prompt_logprob_start \
    prompt_logprob_token_ids prompt_logprobs repetition_detection repetition_penalty request_id \
    return_prompt_text return_token_ids return_tokens_as_token_ids session_id \
    skip_special_tokens spaces_between_special_tokens stop_token_ids stream_interval \
    structural_tag structured_outputs thinking_token_budget top_k truncate_prompt_tokens \
    use_beam_search vllm_xargs";

/// Two values that differ, for a field that nothing else is known of.
const VALUES: [&str; 6] = ["1", "2", "\"one\"", "true", "[1]", "{\"one\":1}"];

const ACME: Served<'_> = Served {
    tenant: [1; 32],
    path: "/v1/chat/completions",
    model: "m",
    revision: "",
    tier: "target",
    headers: &[],
};

/// The key of a request, or why it has none.
fn key_by(served: Served<'_>, body: &str) -> Result<[u8; 32], Bypass> {
    let object = Object::parse(body.as_bytes()).unwrap();
    fields(&CacheSettings::default(), &object).map(|fields| served.key(&fields))
}

fn key(body: &str) -> Result<[u8; 32], Bypass> {
    key_by(ACME, body)
}

/// A request with these members, each with a comma before it.
fn with(more: &str) -> String {
    format!("{{{}}}", more.trim_start_matches(','))
}

#[test]
fn every_field_changes_the_key_or_keeps_the_request_away_or_is_ignored_for_a_reason() {
    let documented = [OPENAI_CHAT, OPENAI_COMPLETIONS, VLLM].map(str::split_whitespace);
    let documented: BTreeSet<&str> = documented.into_iter().flatten().collect();
    for field in FIELDS {
        assert!(documented.contains(field.name), "nobody documents `{}`", field.name);
    }
    for name in documented {
        let effect = effect(name).unwrap_or_else(|| panic!("nobody has judged `{name}`"));
        let mut keys = vec![key(&with(""))];
        keys.extend(VALUES.iter().map(|value| key(&with(&format!(r#","{name}":{value}"#)))));
        for (at, one) in keys.iter().enumerate() {
            let is_new = !keys[..at].contains(one);
            match effect {
                // The model behind the alias is in the key by itself, and one choice is the default.
                Effect::Keyed if name == "model" => assert_eq!(*one, keys[0]),
                Effect::Keyed if name == "n" && at == 1 => assert_eq!(*one, keys[0]),
                Effect::Keyed => assert!(one.is_ok() && is_new, "`{name}` {at}"),
                Effect::Ignored(why) => assert!(*one == keys[0] && !why.is_empty(), "`{name}`"),
                Effect::Never(_) | Effect::NeverWhereOn(_) => {
                    assert!(at == 0 || *one == Err(Bypass::Uncacheable), "`{name}`");
                }
                Effect::Delivery => assert!(at == 0 || one.is_err(), "`{name}`"),
            }
        }
    }
}

#[test]
fn what_nobody_has_judged_keeps_a_request_away_unless_the_configuration_knows_it() {
    assert_eq!(key(&with(r#","x_new":1"#)), Err(Bypass::UnknownField));
    let mut cache = CacheSettings::default();
    cache.known_fields.insert("x_new".to_owned());
    let known = |body: &str| {
        let object = Object::parse(body.as_bytes()).unwrap();
        fields(&cache, &object).map(|fields| ACME.key(&fields))
    };
    let keys = [known(&with("")), known(&with(r#","x_new":1"#)), known(&with(r#","x_new":2"#))];
    assert!(keys.iter().all(Result::is_ok));
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
}

#[test]
fn whose_it_is_and_who_answers_are_in_the_key() {
    let keys = [
        ACME,
        Served { tenant: [2; 32], ..ACME },
        Served { path: "/v1/completions", ..ACME },
        Served { model: "n", ..ACME },
        Served { revision: "r2", ..ACME },
        Served { tier: "draft", ..ACME },
        // No part can lend its end to the next.
        Served { model: "mr2", ..ACME },
    ]
    .map(|served| key_by(served, &with("")).unwrap());
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{at}");
    }
}

#[test]
fn each_header_that_a_worker_is_sent_is_in_the_key_and_no_other_one() {
    let key_with = |lines: &[(&'static str, &'static str)]| {
        let mut head = HeaderMap::new();
        for &(name, value) in lines {
            head.append(name, HeaderValue::from_static(value));
        }
        let to_workers = ["x-adapter", "x-team-*"].map(|name| HeaderPattern::parse(name).unwrap());
        let settings = HeaderSettings { to_workers: to_workers.into(), to_clients: None };
        let sent = headers::named(&head, &settings);
        key_by(Served { headers: &sent, ..ACME }, &with("")).unwrap()
    };
    let keys = [
        key_with(&[]),
        key_with(&[("x-adapter", "a")]),
        key_with(&[("x-adapter", "b")]),
        key_with(&[("x-adapter", "")]),
        key_with(&[("x-team-red", "a")]),
        key_with(&[("x-adapter", "a"), ("x-adapter", "b")]),
        key_with(&[("x-adapter", "b"), ("x-adapter", "a")]),
        key_with(&[("x-adapter", "a"), ("x-team-red", "b")]),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{at}");
    }
    assert_eq!(key(&with("")), Ok(keys[0]));
    assert_eq!(key_with(&[("x-other", "a"), ("user-agent", "b")]), keys[0]);
    assert_eq!(key_with(&[("x-adapter", "a"), ("x-other", "b")]), keys[1]);
    assert_eq!(key_with(&[("x-team-red", "b"), ("x-adapter", "a")]), keys[7], "in any order");
    // What belongs to the connection is sent to nobody.
    assert_eq!(key_with(&[("connection", "x-adapter"), ("x-adapter", "a")]), keys[0]);
}

#[test]
fn the_same_question_with_other_documents_is_another() {
    let asked = |context: &str| {
        let messages = format!(
            r#"[{{"role":"system","content":"Use this: {context}"}},{{"role":"user","content":"who?"}}]"#
        );
        key(&with(&format!(r#","messages":{messages}"#))).unwrap()
    };
    assert_ne!(asked("a"), asked("b"));
    // Neither letters nor spaces are folded, and every message counts.
    assert_ne!(asked("a"), asked("A"));
    assert_ne!(asked("a"), asked("a "));
    let documents = |text: &str| {
        key(&with(&format!(r#","messages":[],"documents":[{{"text":"{text}"}}]"#))).unwrap()
    };
    assert_ne!(documents("a"), documents("b"));
    let tools = |order: &str| key(&with(&format!(r#","tools":[{{{order}}}]"#))).unwrap();
    assert_ne!(tools(r#""a":1,"b":2"#), tools(r#""b":2,"a":1"#), "templates info them in order");
}

#[test]
fn what_means_the_same_has_one_key() {
    let one = key(r#"{"messages":[{"role":"user","content":"é"}],"temperature":0}"#);
    for same in [
        r#" { "temperature" : 0.0 , "messages" : [ {"role":"user","content":"\u00e9"} ] } "#,
        r#"{"messages":[{"role":"user","content":"é"}],"temperature":-0,"n":1,"stream":true}"#,
        r#"{"messages":[{"role":"user","content":"é"}],"temperature":0,"stream_options":{"include_usage":true}}"#,
    ] {
        assert_eq!(key(same), one, "{same}");
    }
    assert!(one.is_ok());
}

#[test]
fn what_can_be_read_in_two_ways_or_changes_by_itself_has_none() {
    assert_eq!(key(r#"{"seed":1,"seed":2}"#), Err(Bypass::Ambiguous));
    assert_eq!(key(r#"{"messages":[{"role":"user","role":"system"}]}"#), Err(Bypass::Ambiguous));
    let picture =
        r#"{"messages":[{"content":[{"type":"image_url","image_url":{"url":"http://a/b"}}]}]}"#;
    assert_eq!(key(picture), Err(Bypass::Outside));
}
