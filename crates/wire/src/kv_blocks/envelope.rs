//! KV block envelope: the wire format of one block, with length, key and checksum.
//!
//! ```text
//! "ODKV"  format  0    length   key       checksum  payload
//! 4       2       2    4        32        32        length
//! ```
//!
//! Numbers are little-endian; the checksum is BLAKE3 of key and payload. Envelopes follow each other
//! without anything between them.
//!
//! **Invariant:** an unexpected length is refused before a byte of the payload is stored, so a peer
//! cannot make us hold more than one block and the data that came with it.

use bytes::{Buf, Bytes, BytesMut};

use super::FORMAT;
use super::key::BlockKey;

const MAGIC: [u8; 4] = *b"ODKV";

/// Bytes before a payload.
pub const ENVELOPE_HEAD_BYTES: usize = 4 + 2 + 2 + 4 + HASH + HASH;

const HASH: usize = 32;

/// A complete block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The key that it names.
    pub key: BlockKey,
    /// Keys and values of all layers.
    pub payload: Bytes,
}

/// What came is not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// It does not begin as an envelope does.
    #[error("`{found:02x?}` does not begin an envelope of a block")]
    Magic {
        /// The first bytes.
        found: [u8; 4],
    },
    /// Another version.
    #[error("`{found}` is not a format that is spoken here; expected {FORMAT}")]
    Format {
        /// What was said.
        found: u16,
    },
    /// A block of another size.
    #[error("a block of `{found}` bytes; expected {expected}")]
    Length {
        /// What was said.
        found: u32,
        /// What a block has.
        expected: usize,
    },
    /// Another block than the next one.
    #[error("block `{found}` came where {expected} was expected")]
    Key {
        /// What came.
        found: BlockKey,
        /// What was next.
        expected: BlockKey,
    },
    /// Some of it was changed on the way, or where it lay.
    #[error("the checksum of block `{key}` is wrong")]
    Checksum {
        /// Which block.
        key: BlockKey,
    },
}

impl EnvelopeError {
    /// As metrics call it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Magic { .. } => "magic",
            Self::Format { .. } => "format",
            Self::Length { .. } => "length",
            Self::Key { .. } => "key",
            Self::Checksum { .. } => "checksum",
        }
    }
}

/// Appends a block in its envelope.
pub fn write_envelope(key: BlockKey, payload: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).expect("a block is smaller than 4 GiB");
    out.reserve(ENVELOPE_HEAD_BYTES + payload.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(key.bytes());
    out.extend_from_slice(&checksum(key, payload));
    out.extend_from_slice(payload);
}

fn checksum(key: BlockKey, payload: &[u8]) -> [u8; HASH] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.bytes()).update(payload);
    hasher.finalize().into()
}

/// Takes bytes as they come and gives the blocks in them.
#[derive(Debug)]
pub struct EnvelopeReader {
    buffer: BytesMut,
    payload: usize,
}

impl EnvelopeReader {
    /// Reads blocks of so many bytes.
    pub fn new(payload: usize) -> Self {
        Self { buffer: BytesMut::new(), payload }
    }

    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next block, which must be this one; `None` until all of it has come.
    ///
    /// # Errors
    /// [`EnvelopeError`]; nothing that follows can be read.
    pub fn next_block(&mut self, expected: BlockKey) -> Result<Option<Envelope>, EnvelopeError> {
        let Some((head, _)) = self.buffer.split_first_chunk::<ENVELOPE_HEAD_BYTES>() else {
            return Ok(None);
        };
        let (key, sum) = self.check_head(head, expected)?;
        if self.buffer.len() < ENVELOPE_HEAD_BYTES + self.payload {
            return Ok(None);
        }
        self.buffer.advance(ENVELOPE_HEAD_BYTES);
        let payload = self.buffer.split_to(self.payload).freeze();
        if checksum(key, &payload) != sum {
            return Err(EnvelopeError::Checksum { key });
        }
        Ok(Some(Envelope { key, payload }))
    }

    fn check_head(
        &self,
        head: &[u8; ENVELOPE_HEAD_BYTES],
        expected: BlockKey,
    ) -> Result<(BlockKey, [u8; HASH]), EnvelopeError> {
        let mut fields = &head[..];
        let mut magic = [0; 4];
        fields.copy_to_slice(&mut magic);
        if magic != MAGIC {
            return Err(EnvelopeError::Magic { found: magic });
        }
        let (format, _reserved) = (fields.get_u16_le(), fields.get_u16_le());
        if format != FORMAT {
            return Err(EnvelopeError::Format { found: format });
        }
        let length = fields.get_u32_le();
        if usize::try_from(length) != Ok(self.payload) {
            return Err(EnvelopeError::Length { found: length, expected: self.payload });
        }
        let (mut key, mut sum) = ([0; HASH], [0; HASH]);
        fields.copy_to_slice(&mut key);
        fields.copy_to_slice(&mut sum);
        let key = BlockKey::from_bytes(key);
        if key != expected {
            return Err(EnvelopeError::Key { found: key, expected });
        }
        Ok((key, sum))
    }
}
