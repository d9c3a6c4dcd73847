//! A cache gives the tokens of the whole, for the price of what is new, within its bytes.

use std::sync::{Arc, LazyLock};

use overdraft_tokenizer::{
    ControlTokens, Input, PIECE_BYTES, PIECE_CACHE_BYTES, PieceCache, PieceCounts, Tokenizer,
};
use overdraft_units::CacheSalt;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{TEXTS, pairs, pieces, prompter};

/// Words of bytes, pieces behind a space, and pieces that put it only where a prompt begins.
static TOKENIZERS: LazyLock<Vec<Arc<Tokenizer>>> = LazyLock::new(|| {
    let mut first = pieces();
    first["normalizer"] = json!(null);
    first["pre_tokenizer"] = json!({
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false,
    });
    let mut composing = pairs();
    composing["normalizer"] = json!({ "type": "NFC" });
    let files = [pairs(), pieces(), first, composing];
    files.iter().map(|file| Arc::clone(prompter(file, &json!(null)).unwrap().tokenizer())).collect()
});

const SALT: CacheSalt = CacheSalt(7);

fn encode(cache: &PieceCache, tokenizer: &Tokenizer, text: &str) -> usize {
    let input = Input::Text(text, ControlTokens::Parsed);
    let tokens = cache.encode(tokenizer, input, SALT);
    assert_eq!(tokens, tokenizer.encode(text, ControlTokens::Parsed), "{text:?}");
    tokens.len()
}

/// What a cache did since.
fn since(cache: &PieceCache, before: PieceCounts) -> (u64, u64) {
    let now = cache.counts();
    (now.hits - before.hits, now.misses - before.misses)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Texts of several pieces of all kinds of material, and what grows out of them.
    #[test]
    fn the_tokens_are_those_of_the_whole(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(TEXTS.to_vec()).prop_map(str::to_owned),
                "[ -~]{1,60}",
                "([a-z]{1,8} ){20,80}",
                "\\PC{1,20}",
                "[0-9]{1,40}",
                "[ \n\r\t]{1,12}",
                "你好世界，{20,60}",
                "<(\\|im_end\\|>|tool>|s>)",
            ],
            1..24,
        ),
    ) {
        let cache = PieceCache::new(PIECE_CACHE_BYTES);
        for tokenizer in TOKENIZERS.iter() {
            let mut text = String::new();
            for part in &parts {
                text.push_str(part);
                encode(&cache, tokenizer, &text);
            }
        }
    }
}

#[test]
fn what_was_encoded_is_found_again() {
    let cache = PieceCache::default();
    let tokenizer = &TOKENIZERS[0];
    let sentence = |number: u32| format!("one two {number}, and so on. ");
    let text = (0..500).map(sentence).collect::<Vec<_>>().concat();
    let pieces = u64::try_from(text.len() / PIECE_BYTES).unwrap();
    encode(&cache, tokenizer, &text);
    let cold = cache.counts();
    assert_eq!(cold.hits, 0);
    assert!(cold.misses <= pieces + 1 && cold.misses >= pieces - 1, "{cold:?}");
    encode(&cache, tokenizer, &text);
    assert_eq!(since(&cache, cold), (cold.misses, 0));
    // What grew is encoded, and the piece it grew out of.
    let before = cache.counts();
    encode(&cache, tokenizer, &format!("{text}and more"));
    assert_eq!(since(&cache, before), (cold.misses - 1, 1));
    // The same text behind a control token is cut at the same places.
    let before = cache.counts();
    encode(&cache, tokenizer, &format!("<|im_start|>{text}<|im_end|>"));
    let behind = (cold.misses - 1, 1);
    assert_eq!(since(&cache, before), behind, "only the first piece stands elsewhere");
}

#[test]
fn tokenizers_salts_and_places_do_not_mix() {
    let cache = PieceCache::default();
    let text = "the same words everywhere";
    for (already, tokenizer) in TOKENIZERS.iter().enumerate() {
        encode(&cache, tokenizer, text);
        assert_eq!(cache.counts().misses, u64::try_from(already + 1).unwrap());
    }
    let before = cache.counts();
    for salt in [CacheSalt(1), CacheSalt(2)] {
        cache.encode(&TOKENIZERS[0], Input::Text(text, ControlTokens::AsText), salt);
    }
    assert_eq!(since(&cache, before), (0, 2));
    // A tokenizer that is described in the same words is the same.
    let twin = prompter(&pairs(), &json!(null)).unwrap();
    let before = cache.counts();
    encode(&cache, twin.tokenizer(), text);
    assert_eq!(since(&cache, before), (1, 0));
}

#[test]
fn no_more_is_kept_than_was_asked_for() {
    const BYTES: usize = 256 * 1024;
    let cache = PieceCache::new(BYTES);
    let tokenizer = &TOKENIZERS[0];
    let often = "what everybody begins with ".repeat(20);
    let mut misses_of_often = 0;
    for number in 0..1_500 {
        let before = cache.counts();
        encode(&cache, tokenizer, &often);
        misses_of_often += since(&cache, before).1;
        encode(&cache, tokenizer, &format!("{number} {}", "something of its own ".repeat(20)));
        assert!(cache.counts().bytes <= u64::try_from(BYTES).unwrap(), "{:?}", cache.counts());
    }
    assert!(cache.counts().bytes > 0);
    assert_eq!(misses_of_often, 1, "what is used stays");
    // Nothing fits into nothing, and a giant is encoded without being kept.
    let none = PieceCache::new(0);
    encode(&none, tokenizer, "a b c");
    let uncut = "9".repeat(100_000);
    encode(&cache, tokenizer, &uncut);
    let before = cache.counts();
    encode(&cache, tokenizer, &uncut);
    assert_eq!((none.counts().bytes, since(&cache, before)), (0, (0, 1)));
}

#[test]
fn threads_share_it() {
    let cache = PieceCache::new(4 * 1024 * 1024);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (cache, tokenizer) = (&cache, &TOKENIZERS[thread % 2]);
            scope.spawn(move || {
                for number in 0..100 {
                    encode(cache, tokenizer, &format!("{} ", number % 10).repeat(600));
                }
            });
        }
    });
    let counts = cache.counts();
    assert!(counts.hits > counts.misses, "{counts:?}");
}
