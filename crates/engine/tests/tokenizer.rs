//! The shipped model's tokenizer gives the recorded tokens.
//!
//! The vectors were recorded with Python's `tokenizers` from the tokenizer that the models were
//! trained with; see `models/`.

use std::path::Path;

use overdraft_engine::gguf::Gguf;
use overdraft_engine::{ControlTokens, Tokenizer, tokenizer};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");

fn shipped() -> Tokenizer {
    let path = Path::new(MODELS).join("overdraft-target.q8_0.gguf");
    let file = Gguf::open(path.as_path()).expect("the target model is in the repository");
    tokenizer::from_metadata(file.metadata()).expect("it has a tokenizer")
}

#[test]
fn the_shipped_tokenizer_gives_the_recorded_tokens() {
    let tokenizer = shipped();
    let text = std::fs::read_to_string(Path::new(MODELS).join("tokenizer-vectors.json"))
        .expect("the vectors are in the repository");
    let vectors: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list of vectors");
    assert!(vectors.len() >= 30);
    for vector in &vectors {
        let text = vector["text"].as_str().expect("a text");
        for (controls, expected) in
            [(ControlTokens::Parsed, "ids"), (ControlTokens::AsText, "ids_special_as_text")]
        {
            let tokens = tokenizer.encode(text, controls);
            let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
            assert_eq!(serde_json::json!(ids), vector[expected], "{controls:?} {text:?}");
        }
    }
}
