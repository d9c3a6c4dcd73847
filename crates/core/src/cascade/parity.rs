//! Tokenizer parity: whether draft and target use the same token ids.
//!
//! The target scores and continues the draft's tokens, so token ids must mean the same to both. The
//! comparison covers what the shell could find out about each pool; a pool without information is
//! *not known*, which is not the same as equal. `docs/design/cascade.md#r9`.

use alloc::string::String;
use core::fmt;

use overdraft_units::{TokenId, Tokens};

/// What is known of a pool's tokenizer. Every property known of both pools must be equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokenizer {
    /// How many tokens it knows.
    pub vocabulary: Option<Tokens>,
    /// A digest of all tokens in order.
    pub tokens: Option<u64>,
    /// A digest of the special tokens and their ids.
    pub special: Option<u64>,
    /// A digest of the chat template.
    pub template: Option<u64>,
    /// A digest of the ids that fixed probes were made into.
    pub probes: Option<u64>,
}

/// The first thing in which two tokenizers differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// They know different numbers of tokens.
    Vocabulary {
        /// The draft's number.
        draft: Tokens,
        /// The target's number.
        target: Tokens,
    },
    /// A token means different text.
    Token {
        /// The first such, where it is known.
        first: Option<(TokenId, String, String)>,
    },
    /// Special tokens differ.
    Special,
    /// The chat templates differ: the same messages make different prompts.
    Template,
    /// The same text is made into different tokens.
    Probes,
}

/// What came of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parity {
    /// All that both tell is equal, and that includes the tokens or the probes.
    Same,
    /// One of them tells too little.
    NotKnown,
    /// They differ.
    Different(Difference),
}

impl Parity {
    /// Compares what is known of two pools.
    pub fn of(draft: &Tokenizer, target: &Tokenizer) -> Self {
        let differ = |one: Option<u64>, other: Option<u64>| {
            one.zip(other).is_some_and(|(one, other)| one != other)
        };
        if let (Some(one), Some(other)) = (draft.vocabulary, target.vocabulary)
            && one != other
        {
            return Self::Different(Difference::Vocabulary { draft: one, target: other });
        }
        if differ(draft.tokens, target.tokens) {
            return Self::Different(Difference::Token { first: None });
        }
        if differ(draft.special, target.special) {
            return Self::Different(Difference::Special);
        }
        if differ(draft.template, target.template) {
            return Self::Different(Difference::Template);
        }
        if differ(draft.probes, target.probes) {
            return Self::Different(Difference::Probes);
        }
        let both = |one: Option<u64>, other: Option<u64>| one.is_some() && other.is_some();
        if both(draft.tokens, target.tokens) || both(draft.probes, target.probes) {
            Self::Same
        } else {
            Self::NotKnown
        }
    }

    /// Compares two whole vocabularies, token by token, and names the first that differs.
    pub fn of_vocabularies<'text>(
        draft: impl ExactSizeIterator<Item = &'text str>,
        target: impl ExactSizeIterator<Item = &'text str>,
    ) -> Self {
        let count = |length: usize| Tokens::new(u32::try_from(length).unwrap_or(u32::MAX));
        if draft.len() != target.len() {
            let (draft, target) = (count(draft.len()), count(target.len()));
            return Self::Different(Difference::Vocabulary { draft, target });
        }
        for (id, (one, other)) in (0..).zip(draft.zip(target)) {
            if one != other {
                let first = Some((TokenId(id), String::from(one), String::from(other)));
                return Self::Different(Difference::Token { first });
            }
        }
        Self::Same
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vocabulary { draft, target } => write!(
                out,
                "the draft's vocabulary has `{}` tokens, expected the target's `{}`",
                draft.get(),
                target.get()
            ),
            Self::Token { first: Some((id, draft, target)) } => write!(
                out,
                "token `{}` is `{draft}` to the draft, expected the target's `{target}`",
                id.0
            ),
            Self::Token { first: None } => {
                write!(out, "the draft's tokens are not those of the target")
            }
            Self::Special => write!(out, "the draft's special tokens are not those of the target"),
            Self::Template => write!(out, "the draft's chat template is not that of the target"),
            Self::Probes => write!(out, "the same text makes other tokens for the draft"),
        }
    }
}

impl fmt::Display for Parity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => write!(out, "same tokenizer"),
            Self::NotKnown => write!(out, "not known: a pool does not tell its tokens"),
            Self::Different(difference) => {
                write!(out, "{difference}; serve both pools with one tokenizer and template")
            }
        }
    }
}
