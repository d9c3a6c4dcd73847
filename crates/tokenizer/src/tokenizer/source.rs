//! Vocabulary description: tokens, merges and token types of a model, as in GGUF.
//!
//! [`TokenizerSource`] is the description as GGUF gives it; [`Vocabulary`] is the result: the bytes
//! and the kind of every token. **Invariant:** every id of a [`Vocabulary`] that its accessors
//! return lies within it.

use std::collections::BTreeMap;
use std::io;

use overdraft_units::TokenId;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::error::TokenizerError;
use super::piece_spelling::{PIECES, push_piece_bytes};
use super::{byte_level, pre};
use crate::codec::SpecialTokens;

/// Texts of tokens that end a turn in some family of models: a model that has one as control token
/// ends its answers with it, whatever its file calls its end token.
const END_TEXTS: [&str; 13] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
    "<EOT>",
    "_<EOT>",
];

/// A vocabulary as a GGUF file describes it (`tokenizer.ggml.*`).
///
/// With serde it is what workers tell of themselves; absent fields are as in GGUF.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenizerSource {
    /// `gpt2` (pairs of bytes) or `llama` (pieces with scores).
    pub model: String,
    /// How text is cut into words before pairs are merged; `gpt2` only.
    pub pre: Option<String>,
    /// Texts of the tokens, by id.
    pub tokens: Vec<String>,
    /// Scores of the tokens, by id: the higher is merged first; `llama` only.
    pub scores: Option<Vec<f32>>,
    /// Kinds of the tokens, by id, as GGUF counts them.
    pub token_types: Option<Vec<i32>>,
    /// Pairs to merge, the first ones first, halves apart by a space; `gpt2` only.
    pub merges: Option<Vec<String>>,
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn.
    pub eot: Option<u32>,
    /// Stands for what the vocabulary cannot spell.
    pub unk: Option<u32>,
    /// Fills up batches.
    pub pad: Option<u32>,
    /// Whether prompts begin with `bos`.
    pub add_bos: Option<bool>,
    /// Whether prompts end with `eos`.
    pub add_eos: Option<bool>,
    /// Whether a space is put before text; `llama` only.
    pub add_space_prefix: Option<bool>,
    /// How it is put there, if not as `SentencePiece` does. Not in GGUF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metaspace: Option<Metaspace>,
    /// Whether characters are composed first (NFC); `gpt2` only. Not in GGUF.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compose: Option<bool>,
}

/// How Hugging Face's `Metaspace` puts a space before text that does not begin with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metaspace {
    /// Wherever plain text begins.
    Always,
    /// Where the prompt begins.
    First,
}

impl TokenizerSource {
    /// A vocabulary of the 256 bytes, id by value, followed by `control` tokens: enough for tests and
    /// stand-ins, able to spell anything.
    pub fn bytes(control: &[&str]) -> Self {
        let bytes = (0..=u8::MAX).map(|byte| byte_level::character(byte).to_string());
        let kinds = std::iter::repeat_n(1, 256).chain(std::iter::repeat_n(3, control.len()));
        Self {
            model: "gpt2".to_owned(),
            pre: Some("gpt-2".to_owned()),
            tokens: bytes.chain(control.iter().map(|&text| text.to_owned())).collect(),
            token_types: Some(kinds.collect()),
            merges: Some(Vec::new()),
            ..Self::default()
        }
    }

    /// A number that other descriptions have only if they say the same.
    pub fn digest(&self) -> u128 {
        let mut hasher = Hashing(Xxh3::new());
        serde_json::to_writer(&mut hasher, self).expect("strings, numbers and lists are JSON");
        hasher.0.digest128()
    }

    /// The token that is spelled so. Looks at all of them.
    pub(crate) fn id(&self, text: &str) -> Option<u32> {
        (0..).zip(&self.tokens).find(|(_, token)| *token == text).map(|(id, _)| id)
    }

    /// What a token is. Files without kinds have ordinary tokens only.
    pub(super) fn kind(&self, id: usize) -> TokenKind {
        let declared = self.token_types.as_ref().and_then(|kinds| kinds.get(id));
        let kind = declared.map_or(TokenKind::Ordinary, |&kind| TokenKind::from_gguf(kind));
        // Some converters declare the ends of turns as words of the user's.
        let ends = || END_TEXTS.contains(&self.tokens[id].as_str());
        if kind == TokenKind::UserDefined && ends() { TokenKind::Control } else { kind }
    }
}

/// Hashes what is written to it.
struct Hashing(Xxh3);

impl io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A piece of text.
    Ordinary,
    /// Steers the model: begins and ends texts, turns, roles.
    Control,
    /// A piece of text that is never cut, such as a run of spaces or `<think>`. It is recognised
    /// in any text, and templates look for it in messages, so it does not count as control.
    UserDefined,
    /// One byte, for what the vocabulary cannot spell.
    Byte,
}

impl TokenKind {
    /// From GGUF's number: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    const fn from_gguf(kind: i32) -> Self {
        match kind {
            2 | 3 => Self::Control,
            4 => Self::UserDefined,
            6 => Self::Byte,
            _ => Self::Ordinary,
        }
    }
}

/// The bytes and kinds of all tokens.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The bytes of all tokens, one after the other.
    bytes: Vec<u8>,
    /// Where each token's bytes end.
    ends: Vec<usize>,
    kinds: Vec<TokenKind>,
    ids: BTreeMap<String, TokenId>,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    eot: Option<TokenId>,
    leading: Option<TokenId>,
    trailing: Option<TokenId>,
}

impl Vocabulary {
    pub(super) fn new(source: TokenizerSource) -> Result<Self, TokenizerError> {
        let count = source.tokens.len();
        let kinds: Vec<TokenKind> = (0..count).map(|id| source.kind(id)).collect();
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(count);
        for (text, &kind) in source.tokens.iter().zip(&kinds) {
            push_bytes(&source.model, text, kind, &mut bytes);
            ends.push(bytes.len());
        }
        let within = |id: Option<u32>| id.filter(|&id| (id as usize) < count).map(TokenId);
        let (bos, eos, eot) = (within(source.bos), within(source.eos), within(source.eot));
        let pieces = source.model == PIECES;
        let add_bos = source.add_bos.unwrap_or(pieces || pre::adds_bos(source.pre.as_deref()));
        if source.add_bos == Some(true) && bos.is_none() {
            let reason = "`tokenizer.ggml.add_bos_token` is true, but there is no such token";
            return Err(TokenizerError::damaged(reason));
        }
        Ok(Self {
            bytes,
            ends,
            kinds,
            bos,
            eos,
            eot,
            leading: bos.filter(|_| add_bos),
            trailing: eos.filter(|_| source.add_eos == Some(true)),
            ids: (0..).map(TokenId).zip(source.tokens).map(|(id, text)| (text, id)).collect(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self, token: TokenId) -> Option<&[u8]> {
        let index = token.0 as usize;
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// The bytes that a text shows of a token.
    pub(super) fn shown(&self, token: TokenId, special: SpecialTokens) -> &[u8] {
        if special == SpecialTokens::Skip && self.kind(token) == TokenKind::Control {
            return &[];
        }
        self.bytes(token).unwrap_or_default()
    }

    pub(super) fn kind(&self, token: TokenId) -> TokenKind {
        self.kinds.get(token.0 as usize).copied().unwrap_or(TokenKind::Ordinary)
    }

    pub(super) fn find(&self, text: &str) -> Option<TokenId> {
        self.ids.get(text).copied()
    }

    pub(super) const fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    pub(super) const fn eos(&self) -> Option<TokenId> {
        self.eos
    }

    /// The token that begins every prompt.
    pub(super) const fn leading(&self) -> Option<TokenId> {
        self.leading
    }

    /// The token that ends every prompt.
    pub(super) const fn trailing(&self) -> Option<TokenId> {
        self.trailing
    }

    /// The tokens that end a completion, in ascending order.
    pub(super) fn end_tokens(&self) -> Vec<TokenId> {
        let known = END_TEXTS.iter().filter_map(|text| self.find(text));
        let control = known.filter(|&token| self.kind(token) == TokenKind::Control);
        let mut ends: Vec<TokenId> = control.chain(self.eos).chain(self.eot).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// Tokens that are recognised in text before it is cut into words, with their texts.
    pub(super) fn marked(&self) -> impl Iterator<Item = (&str, TokenId, TokenKind)> {
        self.ids.iter().filter_map(|(text, &token)| {
            let kind = self.kind(token);
            let marked = matches!(kind, TokenKind::Control | TokenKind::UserDefined);
            (marked && !text.is_empty()).then_some((text.as_str(), token, kind))
        })
    }
}

fn push_bytes(model: &str, text: &str, kind: TokenKind, out: &mut Vec<u8>) {
    match kind {
        TokenKind::Control | TokenKind::UserDefined if model != PIECES => {
            out.extend_from_slice(text.as_bytes());
        }
        TokenKind::Control => out.extend_from_slice(text.as_bytes()),
        _ if model == PIECES => push_piece_bytes(text, out),
        _ => byte_level::push_bytes(text, out),
    }
}
