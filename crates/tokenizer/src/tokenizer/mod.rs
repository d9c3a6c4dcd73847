//! Tokenizer: encodes text into token ids and decodes them.
//!
//! The vocabulary comes from the model's own file; the `tokenizers` crate does the pair merging,
//! this crate the rest: control tokens are recognised *before* merging, so that a client's text can
//! be kept from becoming one. **Invariant:** for tokens without control tokens, the pieces a
//! [`Detokenizer`] yields joined are what [`Tokenizer::decode`] yields.

mod byte_level;
mod cut;
mod detokenizer;
mod error;
mod fewest_tokens;
mod markup;
mod model;
mod piece_spelling;
mod pre;
mod source;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use overdraft_units::{TokenId, Tokens};

pub use self::detokenizer::Detokenizer;
use self::error::TOKEN_BYTES_MAX;
pub use self::error::TokenizerError;
pub use self::source::{Metaspace, TokenKind, TokenizerSource};

use self::fewest_tokens::FewestTokens;
pub(crate) use self::markup::Markup;
use self::model::PairModel;
pub(crate) use self::pre::{GPT2 as BYTE_LEVEL_PATTERN, family_of};
use self::source::Vocabulary;
use crate::codec::{Detokenize, SpecialTokens, TextCodec};
use crate::rendered::Rendered;

/// Whether text that spells a control token becomes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlTokens {
    /// It does: the text is ours or the caller may steer the model.
    Parsed,
    /// It is text like any other.
    AsText,
}

/// Whether the tokens that the model wants around every prompt are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// They are, unless the prompt has them already.
    Added,
    /// The prompt is taken as it is.
    Bare,
}

impl Framing {
    /// As a request's `add_special_tokens` has it.
    pub const fn from_flag(add_special_tokens: bool) -> Self {
        if add_special_tokens { Self::Added } else { Self::Bare }
    }
}

/// A text, and what in it may be a control token.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Anything that spells one, or nothing.
    Text(&'a str, ControlTokens),
    /// What the chat template wrote.
    Rendered(&'a Rendered),
}

/// Text that stands between recognised tokens, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) text: &'a str,
    pub(crate) place: Place,
}

/// Where a part of a text stands: before some, vocabularies of pieces put a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the beginning of the whole text.
    Start,
    /// Behind a recognised token.
    BehindToken,
    /// Behind other text.
    Within,
}

impl Place {
    /// A number of its own, for hashing.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Start => 0,
            Self::BehindToken => 1,
            Self::Within => 2,
        }
    }
}

/// A model's vocabulary and how it is used. Cheap to share behind an [`Arc`].
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    markup: Arc<Markup>,
    pairs: PairModel,
    fewest: FewestTokens,
    end_tokens: Vec<TokenId>,
    digest: u128,
}

impl Tokenizer {
    /// The tokenizer that `source` describes.
    ///
    /// # Errors
    /// [`TokenizerError`] when the description is contradictory or of a kind unknown here.
    pub fn new(source: TokenizerSource) -> Result<Self, TokenizerError> {
        let longest = source.tokens.iter().map(String::len).max().unwrap_or(0);
        if TOKEN_BYTES_MAX < longest {
            return Err(TokenizerError::TokenTooLong { bytes: longest });
        }
        let digest = source.digest();
        let pairs = PairModel::new(&source)?;
        let fewest = FewestTokens::new(&source);
        let vocabulary = Vocabulary::new(source)?;
        let markup = Arc::new(Markup::new(&vocabulary));
        let end_tokens = vocabulary.end_tokens();
        Ok(Self { vocabulary: Arc::new(vocabulary), markup, pairs, fewest, end_tokens, digest })
    }

    /// The tokens of `text`, none added.
    pub fn encode(&self, text: &str, controls: ControlTokens) -> Vec<TokenId> {
        self.encode_whole(Input::Text(text, controls))
    }

    /// The tokens of a raw prompt: control tokens are recognised, and those that the model wants
    /// around every prompt are added.
    pub fn encode_prompt(&self, text: &str) -> Vec<TokenId> {
        self.frame(self.encode(text, ControlTokens::Parsed))
    }

    /// How many tokens `text` has at least, told without encoding it
    /// (docs/design/tokenizing.md#r7).
    pub fn tokens_at_least(&self, text: &str) -> Tokens {
        self.fewest.of(text)
    }

    /// Adds the tokens that the model wants around every prompt, where they are missing.
    pub fn frame(&self, mut tokens: Vec<TokenId>) -> Vec<TokenId> {
        if let Some(bos) = self.vocabulary.leading()
            && tokens.first() != Some(&bos)
        {
            tokens.insert(0, bos);
        }
        if let Some(eos) = self.vocabulary.trailing()
            && tokens.last() != Some(&eos)
        {
            tokens.push(eos);
        }
        tokens
    }

    /// The text of `tokens`. Bytes that are no UTF-8 become U+FFFD, as Python's
    /// `errors="replace"` has it; unknown ids are left out.
    pub fn decode(&self, tokens: &[TokenId], special: SpecialTokens) -> String {
        let mut bytes = Vec::with_capacity(tokens.len() * 4);
        for &token in tokens {
            bytes.extend_from_slice(self.vocabulary.shown(token, special));
        }
        // A space was put before the text when it was encoded.
        let added = self.pairs.adds_space() && bytes.first() == Some(&b' ');
        String::from_utf8_lossy(&bytes[usize::from(added)..]).into_owned()
    }

    /// The bytes a token stands for, which need not be whole characters; a control token stands for
    /// its own name. `None` for an id beyond the vocabulary.
    pub fn token_bytes(&self, token: TokenId) -> Option<&[u8]> {
        self.vocabulary.bytes(token)
    }

    /// The text a token stands for, for people; empty for an id beyond the vocabulary.
    pub fn token_text(&self, token: TokenId) -> Cow<'_, str> {
        String::from_utf8_lossy(self.token_bytes(token).unwrap_or_default())
    }

    /// The token that the vocabulary spells `text`, as in `<|im_end|>`.
    pub fn token_id(&self, text: &str) -> Option<TokenId> {
        self.vocabulary.find(text)
    }

    /// Entries of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary.len()
    }

    /// The token that begins a text, if the model has one.
    pub fn bos(&self) -> Option<TokenId> {
        self.vocabulary.bos()
    }

    /// The token that ends a text, if the model has one.
    pub fn eos(&self) -> Option<TokenId> {
        self.vocabulary.eos()
    }

    /// Whether a token steers the model and is no text.
    pub fn is_control(&self, token: TokenId) -> bool {
        self.vocabulary.kind(token) == TokenKind::Control
    }

    /// The texts that are recognised as tokens, for the template to guard against.
    pub(crate) fn markup(&self) -> Arc<Markup> {
        Arc::clone(&self.markup)
    }

    /// A number that other tokenizers have only if they were described in the same words.
    pub const fn digest(&self) -> u128 {
        self.digest
    }

    pub(crate) fn encode_whole(&self, input: Input<'_>) -> Vec<TokenId> {
        self.encode_segments(input, |segment, tokens| self.encode_plain(segment, tokens))
    }

    /// Finds the tokens that are recognised as a whole, and has `plain` append those of what stands
    /// between them.
    pub(crate) fn encode_segments(
        &self,
        input: Input<'_>,
        mut plain: impl FnMut(Segment<'_>, &mut Vec<TokenId>),
    ) -> Vec<TokenId> {
        let text = match input {
            Input::Text(text, _) => text,
            Input::Rendered(rendered) => rendered.text(),
        };
        let parsed = |start| match input {
            Input::Text(_, controls) => controls == ControlTokens::Parsed,
            Input::Rendered(rendered) => !rendered.is_inert(start),
        };
        let segment = |start, end| Segment {
            text: &text[start..end],
            place: if start == 0 { Place::Start } else { Place::BehindToken },
        };
        let mut tokens = Vec::with_capacity(text.len() / 3);
        let mut position = 0;
        while let Some(found) = self.markup.find(text, position, parsed) {
            plain(segment(position, found.start), &mut tokens);
            tokens.push(found.token);
            position = found.end;
        }
        plain(segment(position, text.len()), &mut tokens);
        tokens
    }

    /// Appends the tokens of text in which nothing is recognised.
    pub(crate) fn encode_plain(&self, segment: Segment<'_>, tokens: &mut Vec<TokenId>) {
        self.pairs.encode(segment, tokens);
    }

    /// The first place at or after `from` where plain text may be cut without changing its tokens.
    pub(crate) fn cut(&self, text: &str, from: usize) -> Option<usize> {
        self.pairs.cuts().find(text, from)
    }

    /// Bytes of the longest stretch of plain text that has no place to cut.
    pub(crate) fn longest_uncut(&self, text: &str) -> usize {
        let (mut longest, mut rest) = (0, text);
        while !rest.is_empty() {
            let end = self.cut(rest, 1).unwrap_or(rest.len());
            longest = longest.max(end);
            rest = &rest[end..];
        }
        longest
    }
}

impl TextCodec for Tokenizer {
    fn detokenizer(&self, special: SpecialTokens) -> Box<dyn Detokenize> {
        Box::new(Detokenizer::new(Arc::clone(&self.vocabulary), special))
    }

    fn end_tokens(&self) -> &[TokenId] {
        &self.end_tokens
    }
}
