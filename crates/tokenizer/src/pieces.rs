//! Token cache: reuses the tokens of a prompt's beginning.
//!
//! What stands between control tokens is cut at the first place after each [`PIECE_BYTES`] where a cut
//! changes no token (docs/design/tokenizing.md). Places are counted from the segment's start, so
//! equal beginnings make equal pieces, and a conversation that has grown costs what is new. A piece is
//! found by a hash and compared whole. **Invariants:** the tokens are those of the whole text; a piece
//! is found only under the salt it was kept under; at most the bytes asked for are kept; no lock is
//! held while text is encoded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_units::{CacheSalt, TokenId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::tokenizer::{Input, Place, Segment, Tokenizer};

/// After this many bytes a piece ends as soon as it can: some 250 tokens, a fraction of a
/// millisecond to encode.
pub const PIECE_BYTES: usize = 1024;
/// Bytes that a cache keeps unless told otherwise: some ten thousand pieces.
pub const PIECE_CACHE_BYTES: usize = 32 * 1024 * 1024;
/// Longer pieces, of text that has no place to cut, are not kept.
pub const PIECE_KEPT_BYTES_MAX: usize = 64 * 1024;
/// Parts of the cache that are locked apart.
const SHARDS: usize = 16;
/// What a kept piece takes besides its text and tokens: its fields, counters, place in the map.
const PIECE_OVERHEAD_BYTES: usize = 160;

/// Remembers the tokens of pieces of text, for any number of tokenizers. Threads share it.
#[derive(Debug)]
pub struct PieceCache {
    shards: [Mutex<Shard>; SHARDS],
    /// Bytes of one shard's generation at most.
    generation_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// What a cache has done, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PieceCounts {
    /// Pieces that were found.
    pub hits: u64,
    /// Pieces that were encoded.
    pub misses: u64,
    /// Bytes that are kept.
    pub bytes: u64,
}

/// Two generations: what was used since the younger began is in it; the older goes as a whole.
#[derive(Debug, Default)]
struct Shard {
    young: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    pieces: BTreeMap<u64, Arc<Piece>>,
    bytes: usize,
}

/// A piece of text and its tokens.
#[derive(Debug)]
struct Piece {
    name: Name,
    text: Box<str>,
    tokens: Box<[TokenId]>,
}

/// What decides a piece's tokens besides its text, and who may find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    /// The tokenizer's digest.
    tokenizer: u128,
    salt: CacheSalt,
    place: Place,
}

impl Default for PieceCache {
    fn default() -> Self {
        Self::new(PIECE_CACHE_BYTES)
    }
}

impl PieceCache {
    /// A cache that keeps at most so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            generation_bytes: bytes / SHARDS / 2,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The tokens of `input`, none added: what the tokenizer alone makes of it. Pieces are shared
    /// under equal salts.
    pub fn encode(&self, tokenizer: &Tokenizer, input: Input<'_>, salt: CacheSalt) -> Vec<TokenId> {
        tokenizer.encode_segments(input, |segment, tokens| {
            self.encode_segment(tokenizer, segment, salt, tokens);
        })
    }

    /// What it has done so far.
    pub fn counts(&self) -> PieceCounts {
        let bytes: usize = self.shards.iter().map(|shard| locked(shard).bytes()).sum();
        PieceCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
        }
    }

    fn encode_segment(
        &self,
        tokenizer: &Tokenizer,
        mut rest: Segment<'_>,
        salt: CacheSalt,
        tokens: &mut Vec<TokenId>,
    ) {
        while !rest.text.is_empty() {
            let end = tokenizer.cut(rest.text, PIECE_BYTES).unwrap_or(rest.text.len());
            let (piece, later) = rest.text.split_at(end);
            let name = Name { tokenizer: tokenizer.digest(), salt, place: rest.place };
            self.encode_piece(tokenizer, piece, name, tokens);
            rest = Segment { text: later, place: Place::Within };
        }
    }

    fn encode_piece(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        name: Name,
        tokens: &mut Vec<TokenId>,
    ) {
        let hash = name.hash(text);
        if let Some(piece) = self.find(hash, name, text) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            tokens.extend_from_slice(&piece.tokens);
            return;
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let before = tokens.len();
        tokenizer.encode_plain(Segment { text, place: name.place }, tokens);
        if text.len() <= PIECE_KEPT_BYTES_MAX {
            let (text, tokens) = (text.into(), tokens[before..].into());
            let piece = Arc::new(Piece { name, text, tokens });
            self.shard(hash).keep(hash, piece, self.generation_bytes);
        }
    }

    fn find(&self, hash: u64, name: Name, text: &str) -> Option<Arc<Piece>> {
        let found = self.shard(hash).find(hash, self.generation_bytes)?;
        // Compared outside the lock. An equal hash does not make it the same text.
        (found.name == name && *found.text == *text).then_some(found)
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let count = u64::try_from(SHARDS).expect("a small number");
        let place = usize::try_from(hash % count).expect("less than the number of shards");
        locked(&self.shards[place])
    }
}

/// No shard is left half changed: a panic between two changes is a failed allocation.
fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Name {
    fn hash(self, text: &str) -> u64 {
        let mut bytes = [0; 16 + 8 + 1];
        bytes[..16].copy_from_slice(&self.tokenizer.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.salt.0.to_le_bytes());
        bytes[24] = self.place.number();
        xxh3_64_with_seed(text.as_bytes(), xxh3_64_with_seed(&bytes, 0))
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        self.text.len() + size_of_val::<[TokenId]>(&self.tokens) + PIECE_OVERHEAD_BYTES
    }
}

impl Shard {
    /// Whatever has this hash; it is young again.
    fn find(&mut self, hash: u64, generation_bytes: usize) -> Option<Arc<Piece>> {
        if let Some(piece) = self.young.pieces.get(&hash) {
            return Some(Arc::clone(piece));
        }
        let piece = self.old.remove(hash)?;
        self.keep(hash, Arc::clone(&piece), generation_bytes);
        Some(piece)
    }

    /// Keeps a piece in the place of another with its hash.
    fn keep(&mut self, hash: u64, piece: Arc<Piece>, generation_bytes: usize) {
        let bytes = piece.bytes();
        if bytes > generation_bytes {
            return;
        }
        self.old.remove(hash);
        self.young.remove(hash);
        if self.young.bytes + bytes > generation_bytes {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += bytes;
        self.young.pieces.insert(hash, piece);
    }

    const fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }
}

impl Generation {
    fn remove(&mut self, hash: u64) -> Option<Arc<Piece>> {
        let piece = self.pieces.remove(&hash)?;
        self.bytes -= piece.bytes();
        Some(piece)
    }
}
