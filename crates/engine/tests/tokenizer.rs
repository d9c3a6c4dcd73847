//! The shipped model's tokenizer gives the recorded tokens, wherever it is read from.
//!
//! The vectors were recorded with Python's `tokenizers` from the tokenizer that the models were
//! trained with; see `models/`.

use std::path::Path;
use std::sync::Arc;

use overdraft_engine::gguf::Gguf;
use overdraft_engine::{ControlTokens, Framing, Tokenizer, TokenizerSource, tokenizer};
use overdraft_tokenizer::{Prompter, TokenizerDocument};
use overdraft_units::{CacheSalt, TokenId};
use overdraft_wire::Generation;
use serde_json::{Value, json};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");

fn file() -> Gguf {
    let path = Path::new(MODELS).join("overdraft-target.q8_0.gguf");
    Gguf::open(path.as_path()).expect("the target model is in the repository")
}

fn shipped() -> Tokenizer {
    tokenizer::from_metadata(file().metadata()).expect("it has a tokenizer")
}

fn vectors() -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(MODELS).join("tokenizer-vectors.json"))
        .expect("the vectors are in the repository");
    let vectors: Vec<Value> = serde_json::from_str(&text).expect("a list of vectors");
    assert!(vectors.len() >= 30);
    vectors
}

fn ids(tokens: &[TokenId]) -> Value {
    json!(tokens.iter().map(|token| token.0).collect::<Vec<_>>())
}

#[test]
fn the_shipped_tokenizer_gives_the_recorded_tokens() {
    let tokenizer = shipped();
    for vector in &vectors() {
        let text = vector["text"].as_str().expect("a text");
        for (controls, expected) in
            [(ControlTokens::Parsed, "ids"), (ControlTokens::AsText, "ids_special_as_text")]
        {
            let tokens = tokenizer.encode(text, controls);
            assert_eq!(ids(&tokens), vector[expected], "{controls:?} {text:?}");
        }
    }
}

/// The vocabulary as Hugging Face's library writes it.
fn tokenizer_json(source: &TokenizerSource) -> Value {
    let kinds = source.token_types.as_ref().expect("the file has kinds");
    let known = || (0_u32..).zip(source.tokens.iter().zip(kinds));
    let added = known().filter(|(_, (_, kind))| **kind != 1).map(|(id, (text, kind))| {
        json!({
            "id": id, "content": text, "special": *kind == 3, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false,
        })
    });
    let vocabulary = known().map(|(id, (text, _))| (text.clone(), json!(id))).collect();
    let pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false },
            { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false },
        ]},
        "post_processor": null,
        "model": { "type": "BPE", "vocab": Value::Object(vocabulary), "merges": source.merges },
    })
}

#[test]
fn a_folder_and_a_document_give_the_files_tokens() {
    let file = file();
    let source = tokenizer::source_from_metadata(file.metadata()).expect("it has a tokenizer");
    let template = tokenizer::template_text(file.metadata()).expect("it has a template");
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("the folder can be written to");
    };
    write("tokenizer.json", &tokenizer_json(&source).to_string());
    write("chat_template.jinja", template);
    let text_of = |id: Option<u32>| {
        id.map(|id| source.tokens[usize::try_from(id).expect("a small number")].clone())
    };
    let config = json!({ "bos_token": text_of(source.bos), "eos_token": text_of(source.eos) });
    write("tokenizer_config.json", &config.to_string());
    let document = TokenizerDocument::new(&source, Some(template));
    let twins = [
        Prompter::from_folder(folder.path(), Arc::default()).expect("a folder like any other"),
        Prompter::from_document(document.json(), Arc::default()).expect("our own document"),
    ];
    let own = Prompter::from_source(source, Some(template), Arc::default()).expect("it is sound");
    let mut all = String::new();
    for vector in &vectors() {
        let text = vector["text"].as_str().expect("a text");
        all.push_str(text);
        let messages =
            json!([{ "role": "user", "content": text }, { "role": "user", "content": all }]);
        let body = json!({ "messages": messages }).to_string();
        let prompt = |prompter: &Prompter| {
            prompter.prompt_of(body.as_bytes(), Generation::Chat, 0).expect("a chat")
        };
        for twin in &twins {
            let tokens = twin.text(text, Framing::Bare, CacheSalt(0));
            assert_eq!(ids(&tokens), vector["ids"], "{text:?}");
            assert_eq!(prompt(twin), prompt(&own), "{text:?}");
        }
    }
    let whole = own.tokenizer().encode(&all, ControlTokens::Parsed);
    assert_eq!(own.text(&all, Framing::Bare, CacheSalt(0)), whole);
}
