//! Special tokens (added tokens): finds them in a text before it is split into words.
//!
//! Control tokens and user-defined ones are found before text is cut into words: leftmost first, and
//! of several at one place the longest. **Invariant:** a control token is found only where the caller
//! admits it.

use memchr::{memchr, memchr2, memchr3};
use overdraft_units::TokenId;

use super::source::{TokenKind, Vocabulary};

/// The texts to look for.
#[derive(Debug)]
pub(crate) struct Markup {
    /// Sorted by first byte, then longest first.
    marks: Vec<Mark>,
    /// Where the marks with each first byte lie.
    by_first: Vec<std::ops::Range<usize>>,
    /// The first bytes there are; in most vocabularies `<` and at most two others.
    firsts: Vec<u8>,
}

#[derive(Debug)]
struct Mark {
    text: String,
    token: TokenId,
    control: bool,
}

/// A token found in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) token: TokenId,
}

impl Markup {
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let mut marks: Vec<Mark> = vocabulary
            .marked()
            .map(|(text, token, kind)| Mark {
                text: text.to_owned(),
                token,
                control: kind == TokenKind::Control,
            })
            .collect();
        let first = |mark: &Mark| mark.text.as_bytes()[0];
        marks.sort_by_key(|mark| (first(mark), std::cmp::Reverse(mark.text.len())));
        let mut firsts: Vec<u8> = marks.iter().map(first).collect();
        firsts.dedup();
        let by_first = (0..=u8::MAX)
            .map(|byte| {
                let start = marks.partition_point(|mark| first(mark) < byte);
                start..marks.partition_point(|mark| first(mark) <= byte)
            })
            .collect();
        Self { marks, by_first, firsts }
    }

    /// The next token at or after `from`; control tokens only where `parsed` says so.
    pub(super) fn find(
        &self,
        text: &str,
        from: usize,
        parsed: impl Fn(usize) -> bool,
    ) -> Option<Found> {
        let bytes = text.as_bytes();
        self.candidates(bytes, from).find_map(|start| {
            let rest = &bytes[start..];
            let fits = |mark: &&Mark| {
                rest.starts_with(mark.text.as_bytes()) && (!mark.control || parsed(start))
            };
            let mark = self.starting_with(rest[0]).iter().find(fits)?;
            Some(Found { start, end: start + mark.text.len(), token: mark.token })
        })
    }

    /// Where the text of a control token begins, whole or cut off by the end of `text`: what must not
    /// become one if a client wrote it, alone or with what a template puts behind it.
    pub(crate) fn control_starts(&self, text: &str) -> Vec<usize> {
        let bytes = text.as_bytes();
        let begins = |&start: &usize| {
            let rest = &bytes[start..];
            self.starting_with(rest[0]).iter().any(|mark| {
                let mark_text = mark.text.as_bytes();
                mark.control && (rest.starts_with(mark_text) || mark_text.starts_with(rest))
            })
        };
        self.candidates(bytes, 0).filter(begins).collect()
    }

    /// The places from `from` on where some mark's first byte stands.
    fn candidates(&self, bytes: &[u8], from: usize) -> impl Iterator<Item = usize> {
        let mut next = from;
        std::iter::from_fn(move || {
            let place = next + self.first_in(&bytes[next..])?;
            next = place + 1;
            Some(place)
        })
    }

    fn first_in(&self, bytes: &[u8]) -> Option<usize> {
        match *self.firsts.as_slice() {
            [] => None,
            [one] => memchr(one, bytes),
            [one, two] => memchr2(one, two, bytes),
            [one, two, three] => memchr3(one, two, three, bytes),
            _ => bytes.iter().position(|&byte| !self.starting_with(byte).is_empty()),
        }
    }

    fn starting_with(&self, byte: u8) -> &[Mark] {
        &self.marks[self.by_first[usize::from(byte)].clone()]
    }
}
