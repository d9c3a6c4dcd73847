//! A cut changes no word and no token, in any family; what could is not cut.

use std::sync::LazyLock;

use overdraft_units::TokenId;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::tokenizer::{ControlTokens, Place, Segment, Tokenizer, TokenizerSource, pre};

/// One tokenizer of each family, with the family's name.
static FAMILIES: LazyLock<Vec<(&str, Tokenizer)>> = LazyLock::new(|| {
    let tokenizer = |name: &str| {
        let mut source = TokenizerSource::bytes(&[]);
        source.pre = Some(name.to_owned());
        Tokenizer::new(source).unwrap()
    };
    pre::families().map(|name| (name, tokenizer(name))).collect()
});

/// Ends and insides of the scripts that are cut behind.
const LETTERS: &str = "AZazkstdmrvlАЯаяжぁゖのァヺア一龥好가힣글";
/// What patterns treat apart: what is no plain letter, or belongs to words in some way.
const OTHERS: &str = "'’éÉßſǅªʰ\u{301}\u{3099}\u{1D400}٣½Ⅷ²_～‘“—…「」゠ーヿ々〇ㇰᄀᆨا अ\u{200b}\u{a0}\u{3000}\u{85}\u{2028}😀👍🏽<>|€$^`~+=\u{0}\u{7f}\u{fffd}ˆ¨，。！？：；、";

fn places(text: &str) -> Vec<usize> {
    (0..text.len()).filter(|&from| Cuts::BehindWords.find(text, from) == Some(from)).collect()
}

#[track_caller]
fn check(text: &str) {
    for place in places(text) {
        let (left, right) = text.split_at(place);
        for (name, tokenizer) in FAMILIES.iter() {
            let mut parts = tokenizer.pairs.words(left);
            parts.extend(tokenizer.pairs.words(right));
            let whole = tokenizer.pairs.words(text);
            assert_eq!(whole, parts, "{name} cuts {text:?} at {place}");
        }
    }
}

#[test]
fn every_letter_may_be_cut_from_every_end_of_its_word() {
    let ends: Vec<char> = (0..=0x7F_u8).map(char::from).chain("，。！？：；、".chars()).collect();
    let mut cuts = 0;
    for letter in LETTERS.chars() {
        for &end in &ends {
            for (before, after) in [("", "s b"), (" 'l", "l\n\n x"), ("12", "\u{301}9")] {
                let text = format!("{before}{letter}{end}{after}");
                cuts += places(&text).len();
                check(&text);
            }
        }
    }
    assert!(cuts > 5_000, "{cuts}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_cut_changes_no_word(
        characters in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(LETTERS.chars().collect::<Vec<_>>()),
                2 => prop::sample::select(OTHERS.chars().collect::<Vec<_>>()),
                3 => prop::sample::select(" \n\r\t'.,-/1290!".chars().collect::<Vec<_>>()),
                1 => any::<char>(),
            ],
            0..30,
        ),
    ) {
        check(&characters.into_iter().collect::<String>());
    }
}

#[test]
fn a_place_is_found_behind_words_only() {
    let find = |text: &str, from: usize| Cuts::BehindWords.find(text, from);
    assert_eq!(find("one two", 0), Some(3));
    assert_eq!(find("one two", 3), Some(3));
    assert_eq!(find("one two", 4), None);
    assert_eq!(find("it's", 0), None);
    assert_eq!(find("x\u{301} é ü ", 0), None);
    assert_eq!(find("你好，世界", 0), Some(6));
    // From within a character the next one counts.
    assert_eq!(find("你好，世界", 1), Some(6));
    assert_eq!(find("a b", 99), None);
    assert_eq!(Cuts::BeforeSpaces.find("a  b", 0), Some(1));
    assert_eq!(Cuts::BeforeSpaces.find("▁ b", 0), None);
    assert_eq!(Cuts::Nowhere.find("a b", 0), None);
}

fn pieces() -> TokenizerSource {
    let record: Value = serde_json::from_str(crate::tokenizer::tests::PIECES).unwrap();
    TokenizerSource {
        model: "llama".to_owned(),
        tokens: serde_json::from_value(record["tokens"].clone()).unwrap(),
        scores: serde_json::from_value(record["scores"].clone()).unwrap(),
        token_types: serde_json::from_value(record["token_types"].clone()).unwrap(),
        unk: Some(0),
        ..TokenizerSource::default()
    }
}

static PIECES: LazyLock<Tokenizer> = LazyLock::new(|| Tokenizer::new(pieces()).unwrap());

proptest! {
    #[test]
    fn a_cut_before_a_space_changes_no_piece(text in "([a-zé▁ \n]|\\PC| the| of ){0,40}") {
        let whole = PIECES.encode(&text, ControlTokens::AsText);
        let mut from = 0;
        while let Some(place) = PIECES.cut(&text, from) {
            let mut tokens: Vec<TokenId> = Vec::new();
            let (left, right) = text.split_at(place);
            PIECES.encode_plain(Segment { text: left, place: Place::Start }, &mut tokens);
            PIECES.encode_plain(Segment { text: right, place: Place::Within }, &mut tokens);
            prop_assert_eq!(&tokens, &whole, "cut at {}", place);
            from = place + 1;
        }
    }
}

#[test]
fn pieces_with_a_space_inside_are_not_cut() {
    assert_eq!(PIECES.cut("one two", 0), Some(3));
    let mut source = pieces();
    // Its halves are pieces, so they would be merged over the cut.
    assert!(["a", "▁", "a▁"].iter().filter(|text| source.id(text).is_some()).count() == 2);
    source.tokens.push("a▁".to_owned());
    source.scores.as_mut().unwrap().push(-1.0);
    source.token_types.as_mut().unwrap().push(1);
    assert_eq!(Tokenizer::new(source).unwrap().cut("one two", 0), None);
}
