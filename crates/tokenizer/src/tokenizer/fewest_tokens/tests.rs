//! No text has fewer tokens than are told, whatever the vocabulary.

use std::sync::LazyLock;

use proptest::prelude::*;

use crate::tokenizer::{ControlTokens, Tokenizer, TokenizerSource};

/// Words of bytes, of which some make longer tokens.
fn words() -> TokenizerSource {
    let mut source = TokenizerSource::bytes(&["<|x|>"]);
    for text in ["ab", "abab", "Ġa", "ĠĠ"] {
        source.tokens.push(text.to_owned());
        source.token_types.as_mut().unwrap().push(1);
    }
    let merges = ["a b", "ab ab", "Ġ a", "Ġ Ġ"];
    source.merges = Some(merges.map(str::to_owned).to_vec());
    source
}

/// Pieces; with a token for every byte, or one for all that is unknown.
fn pieces(bytes: bool) -> TokenizerSource {
    let mut tokens: Vec<String> =
        ["<unk>", "▁", "a", "b", "ab", "▁a", "▁▁"].map(str::to_owned).to_vec();
    let mut kinds = vec![2, 1, 1, 1, 1, 1, 1];
    if bytes {
        tokens.extend((0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")));
        kinds.extend([6; 256]);
    }
    TokenizerSource {
        model: "llama".to_owned(),
        scores: Some(vec![0.0; tokens.len()]),
        token_types: Some(kinds),
        unk: Some(0),
        tokens,
        ..TokenizerSource::default()
    }
}

/// Words of bytes without the byte of `a`.
fn lacking() -> TokenizerSource {
    let mut source = TokenizerSource::bytes(&[]);
    let id = source.id("a").unwrap();
    source.tokens[usize::try_from(id).unwrap()] = "unused".to_owned();
    source
}

static TOKENIZERS: LazyLock<Vec<Tokenizer>> = LazyLock::new(|| {
    let composing = TokenizerSource { compose: Some(true), ..words() };
    [words(), composing, lacking(), pieces(true), pieces(false)]
        .map(|source| Tokenizer::new(source).unwrap())
        .into()
});

fn told(tokenizer: &Tokenizer, text: &str) -> usize {
    usize::try_from(tokenizer.tokens_at_least(text).get()).unwrap()
}

proptest! {
    #[test]
    fn no_text_has_fewer_tokens_than_told(
        text in "([ab ▁0-9é\u{212a}]|\\PC|<\\|x\\|>|abab|e\u{301}|a\u{323}\u{302}){0,60}",
    ) {
        for (number, tokenizer) in TOKENIZERS.iter().enumerate() {
            let tokens = tokenizer.encode(&text, ControlTokens::Parsed);
            prop_assert!(told(tokenizer, &text) <= tokens.len(), "by vocabulary {number}");
        }
    }
}

#[test]
fn what_no_longer_token_holds_counts_in_full() {
    let [words, _, lacking, bytes, unknown] = TOKENIZERS.as_slice() else {
        panic!("five tokenizers")
    };
    assert_eq!(told(words, &"9".repeat(1000)), 1000);
    assert_eq!(told(words, &"你".repeat(1000)), 3000);
    assert_eq!(told(words, &"abab".repeat(1000)), 1000);
    // `<0x39>` is a token of six bytes.
    assert_eq!(told(bytes, &"9".repeat(1000)), 1000 / 6);
    // What becomes nothing, or one unknown token.
    assert_eq!(told(lacking, &"a".repeat(1000)), 0);
    assert_eq!(told(unknown, &"你".repeat(1000)), 0);
    // `▁a` has four bytes.
    assert_eq!(told(unknown, &"a".repeat(1000)), 1000 / 4);
}
