//! Tokens as other implementations make them, and control tokens only where they are admitted.
//!
//! The recorded expectations and how they were made: `tests/data/record.py`.

use serde_json::Value;

use super::*;

const WORDS: &str = include_str!("../../tests/data/words.json");
pub(super) const PIECES: &str = include_str!("../../tests/data/pieces.json");

fn byte_tokenizer() -> Tokenizer {
    let mut source = TokenizerSource::bytes(&["<|im_start|>", "<|im_end|>", "<|im_end|>x"]);
    source.tokens.push("<think>".to_owned());
    source.token_types.as_mut().unwrap().push(4);
    source.eos = Some(257);
    Tokenizer::new(source).unwrap()
}

fn ids(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().map(|token| token.0).collect()
}

/// Tokens as text, control tokens in brackets.
#[track_caller]
fn check(text: &str, controls: ControlTokens, expected: &str) {
    let tokenizer = byte_tokenizer();
    let tokens = tokenizer.encode(text, controls);
    let shown: String = tokens
        .iter()
        .map(|token| match token.0 {
            0..256 => tokenizer.token_text(*token).into_owned(),
            id => format!("[{id}]"),
        })
        .collect();
    assert_eq!(shown, expected);
    assert_eq!(tokenizer.decode(&tokens, SpecialTokens::Keep), text);
}

#[test]
fn text_is_cut_into_words_as_python_cuts_it() {
    let cases: Vec<Value> = serde_json::from_str(WORDS).unwrap();
    assert!(cases.len() > 100);
    for case in &cases {
        let mut source = TokenizerSource::bytes(&[]);
        source.pre = case["pre"].as_str().map(str::to_owned);
        let tokenizer = Tokenizer::new(source).unwrap();
        let words = tokenizer.pairs.words(case["text"].as_str().unwrap());
        assert_eq!(serde_json::to_value(words).unwrap(), case["words"], "{case}");
    }
}

#[test]
fn every_known_way_to_cut_spells_every_text() {
    let text = "Aé 12345\r\n\t你好 '<|>'s \u{1D400}\u{10FFFF}  \n";
    for name in pre::names() {
        let mut source = TokenizerSource::bytes(&[]);
        source.pre = Some(name.to_owned());
        let tokenizer = Tokenizer::new(source).unwrap();
        let tokens = tokenizer.encode(text, ControlTokens::AsText);
        assert_eq!(tokenizer.decode(&tokens, SpecialTokens::Keep), text, "by {name}");
    }
}

#[test]
fn pieces_are_merged_as_sentencepiece_merges_them() {
    let record: Value = serde_json::from_str(PIECES).unwrap();
    let source = TokenizerSource {
        model: "llama".to_owned(),
        tokens: serde_json::from_value(record["tokens"].clone()).unwrap(),
        scores: serde_json::from_value(record["scores"].clone()).unwrap(),
        token_types: serde_json::from_value(record["token_types"].clone()).unwrap(),
        bos: Some(1),
        eos: Some(2),
        unk: Some(0),
        ..TokenizerSource::default()
    };
    let tokenizer = Tokenizer::new(source).unwrap();
    for vector in record["vectors"].as_array().unwrap() {
        let text = vector["text"].as_str().unwrap();
        let tokens = tokenizer.encode(text, ControlTokens::AsText);
        assert_eq!(serde_json::json!(ids(&tokens)), vector["ids"], "for {text:?}");
        assert_eq!(tokenizer.decode(&tokens, SpecialTokens::Skip), text);
    }
    // A prompt begins with the model's token, once.
    let framed = tokenizer.encode_prompt("x");
    assert_eq!(ids(&framed)[0], 1);
    assert_eq!(tokenizer.encode_prompt("<s>x"), framed);
    assert_eq!(tokenizer.end_tokens(), [TokenId(2)]);
}

#[test]
fn control_tokens_are_parsed_only_when_admitted() {
    check("a<|im_end|>b", ControlTokens::Parsed, "a[257]b");
    check("a<|im_end|>b", ControlTokens::AsText, "a<|im_end|>b");
    check("<<|im_start|><|im_end|>", ControlTokens::Parsed, "<[256][257]");
    check("<|im_end|>x<|im_end|>y", ControlTokens::Parsed, "[258][257]y");
    check("<|im_end|", ControlTokens::Parsed, "<|im_end|");
    // A user-defined token is a word like any other.
    check("<think>", ControlTokens::AsText, "[259]");
}

#[test]
fn decoding_skips_control_tokens_and_mends_bytes() {
    let tokenizer = byte_tokenizer();
    let tokens = [104, 257, 0xC3, 0xA9, 0xFF, 0xE4, 0xBD, 9_999].map(TokenId);
    assert_eq!(tokenizer.decode(&tokens, SpecialTokens::Skip), "hé\u{fffd}\u{fffd}");
    assert_eq!(tokenizer.decode(&tokens[..2], SpecialTokens::Keep), "h<|im_end|>");
    assert_eq!(tokenizer.token_bytes(TokenId(0xC3)), Some(&[0xC3][..]));
    assert_eq!(tokenizer.token_text(TokenId(0xC3)), "\u{fffd}");
    assert_eq!(tokenizer.token_bytes(TokenId(9_999)), None);
}

#[test]
fn a_character_appears_when_its_last_byte_comes() {
    let tokenizer = byte_tokenizer();
    let mut detokenizer = tokenizer.detokenizer(SpecialTokens::Skip);
    let mut seen = Vec::new();
    for token in [0xF0, 0x9F, 257, 0x98, 0x80, 0xC3, 0x41, 0x80, 0xE4] {
        let mut text = String::new();
        detokenizer.push(TokenId(token), &mut text);
        seen.push(text);
    }
    let mut rest = String::new();
    detokenizer.finish(&mut rest);
    assert_eq!(seen, ["", "", "", "", "😀", "", "\u{fffd}A", "\u{fffd}", ""]);
    assert_eq!(rest, "\u{fffd}");
}

#[test]
fn end_tokens_are_the_declared_and_the_well_known() {
    let tokenizer = byte_tokenizer();
    assert_eq!(tokenizer.end_tokens(), [TokenId(257)]);
    let mut source = TokenizerSource::bytes(&["</s>", "<|eot_id|>", "<turn>"]);
    (source.eos, source.eot) = (Some(256), Some(258));
    assert_eq!(Tokenizer::new(source).unwrap().end_tokens(), [256, 257, 258].map(TokenId));
}

#[test]
fn families_that_begin_every_prompt_with_a_token_do() {
    let prompt = |pre: &str, add_bos: Option<bool>| {
        let mut source = TokenizerSource::bytes(&["<s>"]);
        source.pre = Some(pre.to_owned());
        (source.bos, source.add_bos) = (Some(256), add_bos);
        ids(&Tokenizer::new(source).unwrap().encode_prompt("a"))
    };
    assert_eq!(prompt("llama-bpe", None), [256, 97]);
    assert_eq!(prompt("llama-bpe", Some(false)), [97]);
    assert_eq!(prompt("qwen2", None), [97]);
    assert_eq!(prompt("qwen2", Some(true)), [256, 97]);
}

#[track_caller]
fn refused(change: impl Fn(&mut TokenizerSource), expected: &str) {
    let mut source = TokenizerSource::bytes(&[]);
    change(&mut source);
    let error = Tokenizer::new(source).unwrap_err();
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(!error.hint().is_empty());
}

#[test]
fn what_cannot_be_used_is_named() {
    refused(
        |source| source.model = "bert".to_owned(),
        "the tokenizer model is `bert`; expected `gpt2` or `llama`",
    );
    refused(
        |source| source.pre = Some("klingon".to_owned()),
        "the pre-tokenizer is `klingon`; known are gpt-2, ",
    );
    for model in ["gpt2", "llama"] {
        refused(
            |source| {
                source.model = model.to_owned();
                source.tokens[0] = "x".repeat(5_000_000);
            },
            "a token's text takes `5000000` bytes; expected at most 1024",
        );
    }
    refused(
        |source| source.tokens.clear(),
        "the tokenizer is damaged: the vocabulary has 0 tokens",
    );
    refused(
        |source| source.merges = None,
        "the tokenizer is damaged: `tokenizer.ggml.merges` is missing",
    );
    // The merge model's own check would index beyond its buffer.
    refused(
        |source| source.merges = Some(vec!["a b".to_owned()]),
        "the tokenizer is damaged: the merge `a b` names tokens",
    );
    refused(|source| source.merges = Some(vec!["ab".to_owned()]), "the tokenizer is damaged");
    refused(|source| source.add_bos = Some(true), "the tokenizer is damaged: `tokenizer.ggml.add");
    refused(
        |source| {
            source.model = "llama".to_owned();
            source.merges = None;
        },
        "the tokenizer is damaged: `tokenizer.ggml.scores` does not have",
    );
}
