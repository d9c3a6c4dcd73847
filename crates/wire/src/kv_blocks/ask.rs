//! KV block request: which blocks of a prefix a worker asks a peer for, and the peer's offer.
//!
//! A request carries the tokens of the prefix, not only keys: the holder looks them up as it would
//! a prompt's, compared one by one, so no hash collision can hand out another prefix's keys and
//! values.

use core::ops::Range;

use overdraft_units::TokenId;
use serde::{Deserialize, Serialize};

use super::FORMAT;
use super::key::{KvModel, PrefixRoot};

/// Maximum blocks of one request; a longer prefix takes several.
pub const BLOCKS_PER_ASK_MAX: usize = 4_096;

/// Maximum tokens of a request.
const TOKENS_MAX: usize = 1 << 20;

/// Blocks wanted of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlocksAsk {
    /// Whose blocks they are to be.
    pub model: KvModel,
    /// The tenant's root.
    pub root: PrefixRoot,
    /// The prefix up to the end of the last block wanted.
    pub tokens: Vec<TokenId>,
    /// Which blocks of it; none only asks how many there are from the first on.
    pub blocks: Range<usize>,
}

/// What a worker says about itself: `GET` of the same path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlocksOffer {
    /// The version of asks, keys and envelopes.
    pub format: u16,
    /// Its [`KvModel`].
    pub model: String,
    /// Tokens in a block.
    pub block_size: u32,
    /// Bytes of a block.
    pub block_bytes: u64,
}

/// An ask that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// It is no JSON object of the fields there are.
    #[error("not an ask for blocks: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version.
    #[error("`{found}` is not a format that is spoken here; expected {FORMAT}: run one release")]
    Format {
        /// What was said.
        found: u16,
    },
    /// A hash that is none.
    #[error("`{field}` is not a hash; expected 64 hexadecimal digits")]
    Hash {
        /// Which field.
        field: &'static str,
    },
    /// More than is answered at once.
    #[error("`{asked}` {what} are too many for one ask; expected at most {most}")]
    TooMany {
        /// Blocks or tokens.
        what: &'static str,
        /// How many.
        asked: usize,
        /// The bound.
        most: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Fields {
    format: u16,
    model: String,
    root: String,
    first: usize,
    count: usize,
    tokens: Vec<u32>,
}

impl BlocksAsk {
    /// As JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let fields = Fields {
            format: FORMAT,
            model: self.model.to_string(),
            root: self.root.to_string(),
            first: self.blocks.start,
            count: self.blocks.len(),
            tokens: self.tokens.iter().map(|token| token.0).collect(),
        };
        serde_json::to_vec(&fields).expect("numbers and texts can be written")
    }

    /// From JSON.
    ///
    /// # Errors
    /// [`AskError`] that names what is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, AskError> {
        let fields: Fields = serde_json::from_slice(body)?;
        if fields.format != FORMAT {
            return Err(AskError::Format { found: fields.format });
        }
        let (asked, most) = (fields.count, BLOCKS_PER_ASK_MAX);
        if most < asked {
            return Err(AskError::TooMany { what: "blocks", asked, most });
        }
        let (asked, most) = (fields.tokens.len(), TOKENS_MAX);
        if most < asked {
            return Err(AskError::TooMany { what: "tokens", asked, most });
        }
        let end = fields.first.saturating_add(fields.count);
        Ok(Self {
            model: KvModel::parse(&fields.model).ok_or(AskError::Hash { field: "model" })?,
            root: PrefixRoot::parse(&fields.root).ok_or(AskError::Hash { field: "root" })?,
            tokens: fields.tokens.into_iter().map(TokenId).collect(),
            blocks: fields.first.min(end)..end,
        })
    }
}
