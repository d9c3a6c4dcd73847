//! Hidden tokens: what a stream leaves out of its text and a look-up spells out (R4).
//!
//! Engines leave special tokens (`<|im_end|>`, `</s>`, `[INST]`) out of an answer's text, and a look-up of the same ids writes
//! them. The text that was told is found in the decoded one all the same: it is the decoded one without some stretches
//! that look like special tokens.

use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of the longest stretch that is taken for a special token.
const SPECIAL_BYTES_MAX: usize = 64;

/// Readings of a text that are followed at once; more would be a text made of brackets.
const READINGS_MAX: usize = 16;

/// What stands in the decoded text behind all that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// This, which the worker has not told yet.
    Text(String),
    /// Something that may be text or special tokens.
    Unsure,
    /// The told text is not how the decoded one begins.
    Differs,
}

/// What `decoded` has behind `told`. A worker that `holds_back` may have more to tell: one without stop strings tells each
/// token at once, so that whole special tokens at the end are nothing that it holds back.
pub fn withheld(told: &str, decoded: &str, holds_back: bool) -> Withheld {
    if first_special(decoded).is_none() {
        let rest = decoded.strip_prefix(told);
        return rest.map_or(Withheld::Differs, |rest| Withheld::Text(rest.into()));
    }
    let mut found: Option<Withheld> = None;
    for at in ends(told.as_bytes(), decoded.as_bytes()) {
        let rest = decoded.get(at..).unwrap_or_default();
        let reading = match first_special(rest) {
            None => Withheld::Text(rest.into()),
            Some(_) if !holds_back && is_special_alone(rest) => Withheld::Text(String::new()),
            Some(_) => Withheld::Unsure,
        };
        match &found {
            None => found = Some(reading),
            Some(other) if *other == reading => {}
            Some(_) => return Withheld::Unsure,
        }
    }
    found.unwrap_or(Withheld::Differs)
}

/// Where `told` may end in `decoded`: one reading for each way of leaving special tokens out.
fn ends(told: &[u8], decoded: &[u8]) -> Vec<usize> {
    // Readings as places in both texts. A longer one overtakes none: each step takes the one that is furthest behind.
    let mut readings: Vec<(usize, usize)> = Vec::new();
    let mut ends = Vec::new();
    readings.push((0, 0));
    while let Some(place) = (0..readings.len()).min_by_key(|&place| readings[place]) {
        let (at, said) = readings.swap_remove(place);
        if said == told.len() {
            ends.push(at);
            continue;
        }
        let mut next = Vec::new();
        if decoded.get(at) == Some(&told[said]) {
            // As far as both are the same and nothing special begins.
            let same = run(&decoded[at..], &told[said..]);
            next.push((at + same, said + same));
        }
        next.extend(special(&decoded[at.min(decoded.len())..]).map(|bytes| (at + bytes, said)));
        for reading in next {
            if !readings.contains(&reading) && readings.len() < READINGS_MAX {
                readings.push(reading);
            }
        }
    }
    ends
}

/// Bytes that two texts have in common, at least one, up to where a special token may begin in the first.
fn run(decoded: &[u8], told: &[u8]) -> usize {
    let pairs = decoded.iter().zip(told).enumerate();
    let mut same = pairs
        .skip(1)
        .take_while(|(at, (one, other))| one == other && special(&decoded[*at..]).is_none());
    1 + same.by_ref().count()
}

/// Bytes of the stretch at the beginning that looks like a special token.
fn special(text: &[u8]) -> Option<usize> {
    let close = match text.first()? {
        b'<' => b'>',
        b'[' => b']',
        _ => return None,
    };
    let within = text.iter().take(SPECIAL_BYTES_MAX);
    let end = within.clone().position(|byte| *byte == close)?;
    let is_plain = within.take(end).all(|byte| !byte.is_ascii_whitespace());
    (2 <= end && is_plain).then_some(end + 1)
}

fn first_special(text: &str) -> Option<usize> {
    (0..text.len()).find(|at| special(&text.as_bytes()[*at..]).is_some())
}

/// Whether it is whole special tokens and nothing else.
fn is_special_alone(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let Some(bytes) = special(rest) {
        rest = &rest[bytes..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(told: &str, decoded: &str, expected: &str) {
        assert_eq!(withheld(told, decoded, false), Withheld::Text(expected.into()), "{decoded}");
    }

    #[test]
    fn special_tokens_that_were_not_told_are_passed_over() {
        check("one", "one", "");
        check("one", "one two", " two");
        check("one two", "one<|im_start|> two th", " th");
        check("one two", "<s>one[INST] two</s>", "");
        // What was told has brackets of its own, also ones that begin alike.
        check("a <b> c", "a <b> c", "");
        check("<b>", "<|im_start|><b>", "");
        check("<b>x", "<b><|im_end|>x", "");
        check("a<b", "a<|x|><b", "");
        check("ä<b>ö", "ä<b>ö", "");
        check("1 < 2 and [x] > y", "1 < 2</s> and [x] > y, so", ", so");
    }

    #[test]
    fn what_may_be_text_or_special_is_not_told() {
        assert_eq!(withheld("one", "one</div>", true), Withheld::Unsure);
        assert_eq!(withheld("one", "one</s> and", false), Withheld::Unsure);
        // The bracket may be the token's first or the one behind it.
        assert_eq!(withheld("[", "[INST][", true), Withheld::Unsure);
        assert_eq!(withheld("one", "two", false), Withheld::Differs);
        assert_eq!(withheld("one", "on", false), Withheld::Differs);
        assert_eq!(withheld("one two", "one <not special> two", false), Withheld::Differs);
    }

    proptest! {
        /// However special tokens are strewn in, what was told is found and nothing of them is.
        #[test]
        fn strewn_tokens_are_found(
            pieces in prop::collection::vec(("[a-c<>\\[\\] ]{0,4}", 0..4_usize), 0..12),
            tail in "[a-c ]{0,3}",
        ) {
            let marks = ["", "<|im_start|>", "</s>", "[INST]"];
            let told: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
            let mut decoded: String =
                pieces.iter().flat_map(|(text, mark)| [text.as_str(), marks[*mark]]).collect();
            decoded.push_str(&tail);
            match withheld(&told, &decoded, true) {
                Withheld::Text(rest) => prop_assert_eq!(rest, tail.clone()),
                Withheld::Unsure => {}
                // Only a text of brackets alone has more readings than are followed.
                Withheld::Differs => prop_assert!(told.matches(['<', '[']).count() >= 4, "{told:?} {decoded:?}"),
            }
        }
    }
}
