//! KV block transfer: the wire format of blocks between workers.
//!
//! A block is named by what it was computed from ([`BlockKey`]), asked for by its prefix
//! ([`BlocksAsk`]), and travels in an envelope that says which it is and carries its checksum
//! ([`EnvelopeReader`]). **Invariant:** equal keys mean equal bytes, and what is not to the bit what
//! was asked for is refused by name (`docs/design/kv-share.md#r1`).

mod ask;
mod envelope;
mod key;
#[cfg(test)]
mod tests;

pub use self::ask::{AskError, BLOCKS_PER_ASK_MAX, BlocksAsk, BlocksOffer};
pub use self::envelope::{
    ENVELOPE_HEAD_BYTES, Envelope, EnvelopeError, EnvelopeReader, write_envelope,
};
pub use self::key::{BlockKey, KeyChain, KvModel, PrefixRoot};

/// The version of all that is here: keys, asks and envelopes. Another one is another model.
pub const FORMAT: u16 = 1;

/// Where a worker answers.
pub const BLOCKS_PATH: &str = "/kv/blocks";

/// How many blocks an answer means to carry.
pub const BLOCKS_HEADER: &str = "x-overdraft-kv-blocks";

/// Names a worker that holds the prefix of a request; only a gateway says it.
pub const SOURCE_HEADER: &str = "x-overdraft-kv-source";
