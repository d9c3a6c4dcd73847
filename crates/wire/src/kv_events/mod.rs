//! KV events: the blocks that an engine stored in its cache and removed (vLLM, `SGLang`).
//!
//! vLLM and `SGLang` publish batches of events as `MessagePack` over `ZeroMQ`: `[ts, [event, ..], rank]`.
//! An event is an array that begins with its name (vLLM to 0.23) or a map with a `type` (from 0.24
//! on); [`decode`] takes both, whatever else they contain. [`encode`] writes the maps, for our own
//! worker. [`Sequence`] counts the batches of a publisher, so that a missing one is noticed.
//!
//! [`Source`] is the address where an engine publishes, from `GET /kv_event_sources`.
//!
//! An engine's hashes name blocks within that engine and mean nothing elsewhere: they are random
//! for some settings, and cut to 64 bits for most. An index must hash the tokens itself.
//!
//! **Invariant:** a batch is decoded whole or refused; what it holds is bounded by its bytes.

mod extra;
mod read;
mod sequence;
mod source;
#[cfg(test)]
mod tests;
mod write;

use overdraft_units::TokenId;

pub use self::extra::{ExtraKeys, SaltText};
pub use self::read::decode;
pub use self::sequence::{REPLAY_END, Sequence, read_sequence, write_sequence};
pub use self::source::{SOURCES_MAX, Source, SourcesError, read_sources, write_sources};
pub use self::write::encode;

/// Largest batch taken. An engine step stores at most what it computes, some thousand tokens.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Longest hash taken; SHA-256 has 32 bytes.
pub const HASH_BYTES_MAX: usize = 64;

/// A batch that cannot be understood. The one after it may still be: nothing is carried over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not even a try was made to read it.
    #[error(
        "a batch of KV events of {bytes} bytes is too large; expected at most {BATCH_BYTES_MAX}"
    )]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// No `MessagePack`, or not of the expected shape.
    #[error("not a batch of KV events: {0}; expected `[ts, [event, ..], rank]`")]
    Malformed(#[from] rmp_serde::decode::Error),
    /// More follows where the batch has ended.
    #[error("{bytes} bytes follow a batch of KV events; expected none")]
    Trailing {
        /// How many.
        bytes: usize,
    },
}

/// An engine's name for a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineHash {
    /// The low 64 bits, which is what engines send unless told otherwise.
    Number(u64),
    /// All of it.
    Bytes(Box<[u8]>),
}

impl EngineHash {
    /// The block's name: the low 64 bits, which is the number that an engine sends where it sends
    /// numbers.
    ///
    /// Names need only differ within one engine, and the low bits of a hash do.
    pub fn name(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(bytes) => {
                let low = &bytes[bytes.len().saturating_sub(8)..];
                low.iter().fold(0, |name, byte| name << 8 | u64::from(*byte))
            }
        }
    }
}

/// What an engine did between two points of its life.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// When, in seconds since 1970 by the engine's clock.
    pub at_seconds: f64,
    /// What, in order.
    pub events: Vec<KvEvent>,
    /// Which data-parallel rank, if it says so.
    pub rank: Option<u32>,
}

/// One change of an engine's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// It holds these blocks now.
    Stored(Stored),
    /// It does not hold these any more.
    Removed(Removed),
    /// It holds nothing any more.
    Cleared,
    /// Something that later releases tell and ours does not know.
    Unknown,
}

/// Blocks that were stored, each following the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The blocks.
    pub hashes: Vec<EngineHash>,
    /// What the first one follows; `None` at the front of a prompt.
    pub parent: Option<EngineHash>,
    /// The tokens of all of them.
    pub tokens: Vec<TokenId>,
    /// Tokens to a block; engines fill all blocks they tell of.
    pub block_size: u32,
    /// Where: `GPU` if it does not say.
    pub medium: Option<String>,
    /// The adapter they were computed with, which their content depends on.
    pub lora: Option<String>,
    /// What else entered the hashes, such as images or salts, block by block; blocks past the end
    /// are plain.
    pub extra: Vec<ExtraKeys>,
    /// Which group of layers, in engines that keep several kinds of cache.
    pub group: Option<u32>,
}

/// Blocks that were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The blocks.
    pub hashes: Vec<EngineHash>,
    /// Where from: `GPU` if it does not say.
    pub medium: Option<String>,
    /// Which group of layers.
    pub group: Option<u32>,
}
