//! A folder's tokens are those of Hugging Face's library; what cannot be is refused by name.

use overdraft_tokenizer::{Framing, Prompter, SourceError, SpecialTokens};
use overdraft_units::CacheSalt;
use overdraft_wire::Generation;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use crate::support::{LLAMA3, TEXTS, added, beginning, byte_level, pairs, pieces, prompter};

/// The library and we make the same of every text.
#[track_caller]
fn check(file: &Value, config: &Value) {
    let library = Tokenizer::from_bytes(file.to_string()).unwrap();
    let ours = prompter(file, config).unwrap();
    let long = TEXTS.join("\n").repeat(20);
    for text in TEXTS.iter().copied().chain([long.as_str()]) {
        for (framing, special) in [(Framing::Bare, false), (Framing::Added, true)] {
            let tokens = ours.text(text, framing, CacheSalt(0));
            let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
            let expected = library.encode(text, special).unwrap();
            assert_eq!(ids, expected.get_ids(), "{framing:?} {text:?} {:?}", expected.get_tokens());
        }
    }
}

#[test]
fn words_of_bytes_are_the_librarys() {
    let mut file = pairs();
    check(&file, &Value::Null);
    file["model"]["ignore_merges"] = json!(true);
    check(&file, &Value::Null);
    // The newer form of lists of pairs, and the older.
    let merges = file["model"]["merges"].as_array().unwrap().clone();
    let text =
        |pair: &Value| format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
    file["model"]["merges"] = merges.iter().map(text).collect();
    check(&file, &Value::Null);
}

#[test]
fn other_ways_to_cut_are_the_librarys() {
    let mut file = pairs();
    file["pre_tokenizer"] = byte_level(true);
    check(&file, &Value::Null);
    let digits = json!({ "type": "Digits", "individual_digits": true });
    file["pre_tokenizer"] =
        json!({ "type": "Sequence", "pretokenizers": [digits, byte_level(true)] });
    check(&file, &Value::Null);
    let removing = json!({
        "type": "Split", "pattern": { "Regex": LLAMA3 }, "behavior": "Removed", "invert": true,
    });
    file["pre_tokenizer"] =
        json!({ "type": "Sequence", "pretokenizers": [removing, byte_level(false)] });
    check(&file, &Value::Null);
}

#[test]
fn composed_characters_are_the_librarys() {
    let mut file = pairs();
    file["normalizer"] = json!({ "type": "NFC" });
    check(&file, &Value::Null);
    let ours = prompter(&file, &Value::Null).unwrap();
    let tokens = |text: &str| ours.text(text, Framing::Bare, CacheSalt(0));
    assert_eq!(tokens("caf\u{65}\u{301} au lait"), tokens("café au lait"));
}

#[test]
fn a_prompt_begins_as_the_library_begins_it() {
    let mut file = pairs();
    let id = file["added_tokens"][2]["id"].as_u64().unwrap();
    file["post_processor"] = json!({
        "type": "Sequence",
        "processors": [byte_level(true), beginning("<|endoftext|>", id)],
    });
    check(&file, &Value::Null);
    check(&file, &json!({ "bos_token": { "content": "<|endoftext|>" }, "eos_token": null }));
}

#[test]
fn pieces_are_the_librarys() {
    let mut file = pieces();
    check(&file, &Value::Null);
    file["normalizer"] = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" });
    check(&file, &Value::Null);
    file["pre_tokenizer"] = json!({
        "type": "Split", "pattern": { "String": " " }, "behavior": "MergedWithPrevious",
        "invert": false,
    });
    check(&file, &Value::Null);
    file["normalizer"] = Value::Null;
    let count = file["model"]["vocab"].as_object().unwrap().len();
    file["added_tokens"].as_array_mut().unwrap().push(added(count, "<tool>", true));
    for scheme in ["first", "always", "never"] {
        file["pre_tokenizer"] = json!({
            "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false,
        });
        check(&file, &Value::Null);
    }
    file["post_processor"] = beginning("<s>", 1);
    check(&file, &json!({ "bos_token": "<s>", "eos_token": "</s>" }));
}

#[test]
fn some_classes_are_framed_by_their_configuration() {
    let framed = |config: Value| {
        let tokens = prompter(&pieces(), &config).unwrap().text("x", Framing::Added, CacheSalt(0));
        (tokens[0].0 == 1, tokens.last().unwrap().0 == 2)
    };
    let config =
        |class: &str| json!({ "tokenizer_class": class, "bos_token": "<s>", "eos_token": "</s>" });
    assert_eq!(framed(config("LlamaTokenizerFast")), (true, false));
    assert_eq!(framed(config("PreTrainedTokenizerFast")), (false, false));
    let mut both = config("LlamaTokenizer");
    (both["add_bos_token"], both["add_eos_token"]) = (json!(false), json!(true));
    assert_eq!(framed(both), (false, true));
}

#[test]
fn a_template_for_tools_is_read_wherever_it_stands() {
    let list = json!([
        { "name": "default", "template": "plain" },
        { "name": "tool_use", "template": "tools" },
    ]);
    let config = json!({ "chat_template": list });
    let prompt = |prompter: &Prompter, tools: Value| {
        let body = json!({ "messages": [{ "role": "user", "content": "x" }], "tools": tools });
        let tokens = prompter.prompt_of(body.to_string().as_bytes(), Generation::Chat, 0).unwrap();
        prompter.tokenizer().decode(&tokens, SpecialTokens::Keep)
    };
    let tools = json!([{ "type": "function" }]);
    let listed = prompter(&pairs(), &config).unwrap();
    assert_eq!(prompt(&listed, Value::Null), "plain");
    assert_eq!(prompt(&listed, tools.clone()), "tools");
    // Files win over the list.
    let folder = tempfile::tempdir().unwrap();
    let more = folder.path().join("additional_chat_templates");
    std::fs::create_dir(&more).unwrap();
    std::fs::write(folder.path().join("tokenizer.json"), pairs().to_string()).unwrap();
    std::fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), "own plain").unwrap();
    let of_folder = || Prompter::from_folder(folder.path(), std::sync::Arc::default()).unwrap();
    assert_eq!(prompt(&of_folder(), tools.clone()), "own plain");
    std::fs::write(more.join("tool_use.jinja"), "own tools").unwrap();
    assert_eq!(prompt(&of_folder(), Value::Null), "own plain");
    assert_eq!(prompt(&of_folder(), tools), "own tools");
}

#[track_caller]
fn refused(change: impl Fn(&mut Value), expected: &str) {
    let mut file = pairs();
    change(&mut file);
    let error = prompter(&file, &Value::Null).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn what_cannot_be_expressed_is_refused_by_name() {
    refused(
        |file| file["added_tokens"][0]["content"] = json!("a"),
        "`added_tokens` of tokenizer.json is `a`",
    );
    let starts = "`model.type` of tokenizer.json is `Unigram`; expected `BPE`";
    refused(|file| file["model"] = json!({ "type": "Unigram", "vocab": [["a", 0.0]] }), starts);
    let split = |pattern: &str| {
        json!({ "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated" },
            byte_level(false),
        ]})
    };
    refused(
        |file| file["pre_tokenizer"] = split(r"\w+"),
        r"`pre_tokenizer` of tokenizer.json is `\w+`; expected patterns",
    );
    refused(
        |file| file["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = json!(true),
        "`pre_tokenizer` of tokenizer.json is `{",
    );
    refused(
        |file| file["normalizer"] = json!({ "type": "Lowercase" }),
        "`normalizer` of tokenizer.json is `{\"type\":\"Lowercase\"}`; expected `NFC` or none",
    );
    refused(
        |file| file["added_tokens"][0]["rstrip"] = json!(true),
        "`added_tokens` of tokenizer.json is `<|im_start|>`; expected one without",
    );
    refused(
        |file| file["post_processor"] = json!({ "type": "BertProcessing" }),
        "`post_processor` of tokenizer.json is `{",
    );
    refused(
        |file| file["model"]["end_of_word_suffix"] = json!("</w>"),
        "`model.end_of_word_suffix` of tokenizer.json is `</w>`; expected none",
    );
    refused(|file| file["model"]["dropout"] = json!(0.1), "`model.dropout` of tokenizer.json");
    refused(|file| file["added_tokens"][0]["id"] = json!(5_000_000), "`model.vocab` of");
    refused(
        |file| file["added_tokens"][0]["content"] = json!("<".repeat(2_000)),
        "a token's text takes `2000` bytes; expected at most 1024",
    );
    refused(|file| *file = json!([1]), "tokenizer.json cannot be understood: ");
    let missing =
        Prompter::from_folder(tempfile::tempdir().unwrap().path(), std::sync::Arc::default());
    assert!(matches!(missing, Err(SourceError::Unreadable { .. })), "{missing:?}");
    let template = prompter(&pairs(), &json!({ "chat_template": "{% if %}" }));
    assert!(matches!(template, Err(SourceError::Template(_))), "{template:?}");
}
