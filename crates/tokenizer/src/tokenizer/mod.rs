//! How does text become a model's tokens, and tokens text again?
//!
//! The vocabulary comes from the model's own file; pair merging is the `tokenizers` crate's, the rest
//! is ours: which texts are control tokens is decided *before* merging, so that what a client wrote can
//! be kept from becoming one. **Invariant:** for tokens without control tokens, the pieces a
//! [`Detokenizer`] yields joined are what [`Tokenizer::decode`] yields.

mod byte_level;
mod detokenizer;
mod error;
mod markup;
mod model;
mod pre;
mod source;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use overdraft_units::TokenId;

pub use self::detokenizer::Detokenizer;
pub use self::error::TokenizerError;
pub use self::source::{TokenKind, TokenizerSource};

pub(crate) use self::markup::Markup;
use self::model::PairModel;
use self::source::Vocabulary;
use crate::codec::{Detokenize, SpecialTokens, TextCodec};
use crate::template::Rendered;

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

/// A model's vocabulary and how it is used. Cheap to share behind an [`Arc`].
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Arc<Vocabulary>,
    markup: Arc<Markup>,
    pairs: PairModel,
    end_tokens: Vec<TokenId>,
}

impl Tokenizer {
    /// The tokenizer that `source` describes.
    ///
    /// # Errors
    /// [`TokenizerError`] when the description is contradictory or of a kind unknown here.
    pub fn new(source: TokenizerSource) -> Result<Self, TokenizerError> {
        let pairs = PairModel::new(&source)?;
        let vocabulary = Vocabulary::new(source)?;
        let markup = Arc::new(Markup::new(&vocabulary));
        let end_tokens = vocabulary.end_tokens();
        Ok(Self { vocabulary: Arc::new(vocabulary), markup, pairs, end_tokens })
    }

    /// The tokens of `text`, none added.
    pub fn encode(&self, text: &str, controls: ControlTokens) -> Vec<TokenId> {
        self.encode_where(text, |_| controls == ControlTokens::Parsed)
    }

    /// The tokens of a raw prompt: control tokens are recognised, and those that the model wants
    /// around every prompt are added.
    pub fn encode_prompt(&self, text: &str) -> Vec<TokenId> {
        self.frame(self.encode(text, ControlTokens::Parsed))
    }

    /// The tokens of a chat: control tokens are those that the template wrote, never those that a
    /// message spells.
    pub fn encode_rendered(&self, rendered: &Rendered, framing: Framing) -> Vec<TokenId> {
        let tokens = self.encode_where(rendered.text(), |start| !rendered.is_inert(start));
        match framing {
            Framing::Added => self.frame(tokens),
            Framing::Bare => tokens,
        }
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

    /// Encodes with the control tokens at the offsets that `parsed` admits.
    fn encode_where(&self, text: &str, parsed: impl Fn(usize) -> bool) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(text.len() / 3);
        let mut position = 0;
        while let Some(found) = self.markup.find(text, position, &parsed) {
            self.pairs.encode(&text[position..found.start], &mut tokens);
            tokens.push(found.token);
            position = found.end;
        }
        self.pairs.encode(&text[position..], &mut tokens);
        tokens
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
