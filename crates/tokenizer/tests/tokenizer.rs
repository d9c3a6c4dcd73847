//! Text survives any vocabulary, and what a detokenizer yields joined is the whole.

use overdraft_tokenizer::{ControlTokens, SpecialTokens, TextCodec, Tokenizer, TokenizerSource};
use overdraft_units::TokenId;
use proptest::prelude::*;

/// Bytes, some pairs of them, and control tokens.
fn small() -> Tokenizer {
    let mut source = TokenizerSource::bytes(&["<|a|>", "<|b|>"]);
    let pairs = [("a", "b"), ("Ġ", "a"), ("Ġ", "Ġ"), ("Ã", "©"), ("ab", "ab")];
    source.tokens.extend(pairs.map(|(left, right)| format!("{left}{right}")));
    source.merges = Some(pairs.map(|(left, right)| format!("{left} {right}")).to_vec());
    source.token_types.as_mut().expect("bytes have kinds").extend([1; 5]);
    Tokenizer::new(source).expect("a sound vocabulary")
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
