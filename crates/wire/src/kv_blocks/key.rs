//! KV block key: a BLAKE3 hash of all that a block's bytes depend on.
//!
//! The key hashes weights, number format and dimensions, tokens per block, this format's version,
//! the tenant's salt, and every token from the beginning of the prefix to the end of the block. The
//! hash has 256 bits, so collisions cannot be constructed.

use core::fmt;
use std::io::{self, Read};

use overdraft_units::{BlockSize, TokenId};

use super::FORMAT;

/// Bytes of a hash.
const HASH: usize = 32;
/// Bytes read at once of a file of weights.
const READ_BYTES: usize = 1 << 20;

/// A model whose blocks have equal bytes wherever it is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KvModel([u8; HASH]);

/// A hash of a model and a tenant's salt: the root of a prefix. It cannot be computed without the
/// salt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixRoot([u8; HASH]);

/// Names a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockKey([u8; HASH]);

/// The keys of a prefix's full blocks, one after the other.
#[derive(Clone, Debug)]
pub struct KeyChain<'a> {
    before: [u8; HASH],
    blocks: core::slice::ChunksExact<'a, TokenId>,
}

impl KvModel {
    /// Reads the weights to their end; `layout` names all else that decides a block's bytes.
    ///
    /// # Errors
    /// When the weights cannot be read.
    pub fn read(mut weights: impl Read, layout: &str) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match weights.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let weights = hasher.finalize();
        let mut hasher = blake3::Hasher::new_derive_key("overdraft 2026 kv model");
        hasher.update(&FORMAT.to_le_bytes()).update(weights.as_bytes()).update(layout.as_bytes());
        Ok(Self(hasher.finalize().into()))
    }

    /// The root of prefixes under this salt; no salt is not the empty salt.
    pub fn root(self, salt: Option<&str>) -> PrefixRoot {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&[u8::from(salt.is_some())]).update(salt.unwrap_or_default().as_bytes());
        PrefixRoot(hasher.finalize().into())
    }

    /// What [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text).map(Self)
    }
}

impl PrefixRoot {
    /// The keys of the full blocks of these tokens.
    pub fn keys(self, tokens: &[TokenId], size: BlockSize) -> KeyChain<'_> {
        let size = usize::try_from(size.get()).expect("usize holds 32 bits");
        KeyChain { before: self.0, blocks: tokens.chunks_exact(size) }
    }

    /// What [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text).map(Self)
    }
}

impl BlockKey {
    /// The key as it travels.
    pub const fn bytes(&self) -> &[u8; HASH] {
        &self.0
    }

    /// From what travelled.
    pub const fn from_bytes(bytes: [u8; HASH]) -> Self {
        Self(bytes)
    }
}

impl Iterator for KeyChain<'_> {
    type Item = BlockKey;

    fn next(&mut self) -> Option<BlockKey> {
        let block = self.blocks.next()?;
        let mut hasher = blake3::Hasher::new_keyed(&self.before);
        for token in block {
            hasher.update(&token.0.to_le_bytes());
        }
        self.before = hasher.finalize().into();
        Some(BlockKey(self.before))
    }
}

fn parse(text: &str) -> Option<[u8; HASH]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != HASH || !rest.is_empty() {
        return None;
    }
    let mut hash = [0; HASH];
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(hash)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

fn write(hash: &[u8; HASH], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// In hexadecimal, as do the others.
impl fmt::Display for KvModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

impl fmt::Display for PrefixRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

impl fmt::Display for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

impl fmt::Debug for KvModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KvModel({self})")
    }
}

/// A root opens a tenant's prefixes: it is not to stand in a log.
impl fmt::Debug for PrefixRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrefixRoot(..)")
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockKey({self})")
    }
}
