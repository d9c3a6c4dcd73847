//! The shipped model's tokenizer gives the recorded tokens; text survives any vocabulary.
//!
//! The vectors were recorded with Python's `tokenizers` from the tokenizer that the models were
//! trained with; see `models/`.

use std::path::Path;

use overdraft_engine::gguf::Gguf;
use overdraft_engine::{ControlTokens, SpecialTokens, TextCodec, Tokenizer, TokenizerSource};
use overdraft_units::TokenId;
use proptest::prelude::*;

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");

fn shipped() -> Tokenizer {
    let path = Path::new(MODELS).join("overdraft-target.q8_0.gguf");
    let file = Gguf::open(path.as_path()).expect("the target model is in the repository");
    Tokenizer::from_metadata(file.metadata()).expect("it has a tokenizer")
}

/// Bytes, some pairs of them, and control tokens.
fn small() -> Tokenizer {
    let mut source = TokenizerSource::bytes(&["<|a|>", "<|b|>"]);
    let pairs = [("a", "b"), ("Ġ", "a"), ("Ġ", "Ġ"), ("Ã", "©"), ("ab", "ab")];
    source.tokens.extend(pairs.map(|(left, right)| format!("{left}{right}")));
    source.merges = Some(pairs.map(|(left, right)| format!("{left} {right}")).to_vec());
    source.token_types.as_mut().expect("bytes have kinds").extend([1; 5]);
    Tokenizer::new(source).expect("a sound vocabulary")
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

proptest! {
    #[test]
    fn text_survives_and_control_tokens_come_only_from_parsing(
        text in "(\\PC|<\\|a\\|>|<\\|b|[ab \né\t]){0,40}",
    ) {
        let tokenizer = small();
        for controls in [ControlTokens::Parsed, ControlTokens::AsText] {
            let tokens = tokenizer.encode(&text, controls);
            prop_assert_eq!(&tokenizer.decode(&tokens, SpecialTokens::Keep), &text);
            if controls == ControlTokens::AsText {
                prop_assert!(tokens.iter().all(|&token| !tokenizer.is_control(token)));
            }
        }
    }

    #[test]
    fn pieces_joined_are_the_whole(ids in prop::collection::vec(0..264_u32, 0..40)) {
        let tokenizer = small();
        let tokens: Vec<TokenId> = ids.into_iter().map(TokenId).collect();
        for special in [SpecialTokens::Keep, SpecialTokens::Skip] {
            let mut detokenizer = tokenizer.detokenizer(special);
            let mut text = String::new();
            for &token in &tokens {
                detokenizer.push(token, &mut text);
            }
            detokenizer.finish(&mut text);
            prop_assert_eq!(&text, &tokenizer.decode(&tokens, special));
        }
    }
}
