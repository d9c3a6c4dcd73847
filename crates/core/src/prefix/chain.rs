//! Prefix hash chain: one key per chunk of a prompt, chained to the key before it.
//!
//! A prompt is cut into chunks of equal size, of tokens or of text. Each full chunk gets a
//! [`PrefixKey`]: a hash of its content chained to the key before it and, at the front, to the
//! salt. Equal keys therefore mean equal prefixes under equal salts, except for collisions, which
//! have a chance of about one in a million among four million keys. A collision costs a worse
//! routing decision, never a wrong answer: the engine compares its own hashes.
//!
//! The hash function is our own (R1): engines differ in theirs, change them between releases and
//! may seed them at random. It multiplies 64 by 64 bits and folds the product, as wyhash does.
//!
//! **Invariant:** pushing a prompt in pieces gives the same keys as pushing it at once, so a caller
//! that keeps the chain of a conversation pays only for the new part.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use overdraft_units::{BlockSize, CacheSalt, TokenId};

/// Hash of a prefix that is a whole number of chunks long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PrefixKey(pub(super) u64);

impl PrefixKey {
    /// A short name for logs. Few of them are equal where keys are not, so nothing is decided by it.
    pub const fn short(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The key as a number: a hash already.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
}

/// How prompts are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Tokens per chunk, equal to the worker's block size; where the tokenizer is known.
    Tokens(BlockSize),
    /// Bytes of the canonical prompt per chunk; where it is not.
    Text(NonZeroU32),
}

/// The keys of a prompt that is still growing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixChain {
    /// Bytes to a chunk.
    chunk: usize,
    /// The hash up to the last full chunk.
    state: u64,
    /// What does not fill a chunk yet; always shorter than one.
    rest: Vec<u8>,
    keys: Vec<PrefixKey>,
}

/// Bytes that stand for one token in the hash.
const TOKEN_BYTES: usize = 4;

/// What the four lanes of a long chunk take in at a time.
type Stripe = [u8; 64];

/// Stripes of a chunk that is worth lanes.
const STRIPES_MIN: usize = 2;

/// Odd constants with as many ones as zeros, wyhash's.
const MIX: [u64; 3] = [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3];

impl PrefixChain {
    /// The chain of the empty prompt.
    ///
    /// Salt, unit and size enter the first key, so chains of different ones share nothing.
    pub fn new(salt: CacheSalt, chunking: Chunking) -> Self {
        let (state, chunk) = root(salt, chunking);
        Self { chunk, state, rest: Vec::new(), keys: Vec::new() }
    }

    /// Appends tokens.
    pub fn push_tokens(&mut self, tokens: &[TokenId]) {
        let mut bytes = [0; 64 * TOKEN_BYTES];
        for run in tokens.chunks(64) {
            for (place, token) in bytes.chunks_exact_mut(TOKEN_BYTES).zip(run) {
                place.copy_from_slice(&token.0.to_le_bytes());
            }
            self.push_bytes(&bytes[..run.len() * TOKEN_BYTES]);
        }
    }

    /// Appends text, or whatever else the prompt consists of.
    pub fn push_bytes(&mut self, mut bytes: &[u8]) {
        if !self.rest.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(self.chunk - self.rest.len()));
            self.rest.extend_from_slice(head);
            if self.rest.len() < self.chunk {
                return;
            }
            let full = core::mem::take(&mut self.rest);
            self.close(&full);
            self.rest = full;
            self.rest.clear();
            bytes = tail;
        }
        self.keys.reserve(bytes.len() / self.chunk);
        let mut chunks = bytes.chunks_exact(self.chunk);
        for chunk in chunks.by_ref() {
            self.close(chunk);
        }
        self.rest.extend_from_slice(chunks.remainder());
    }

    /// Goes on after the prefix that `key` names, as if it had been pushed; keys count from there.
    pub(super) fn go_on_after(&mut self, key: PrefixKey) {
        self.state = key.0;
        self.rest.clear();
        self.keys.clear();
    }

    /// Goes back to the empty prompt under a salt.
    pub(super) fn start_over(&mut self, salt: CacheSalt, chunking: Chunking) {
        self.go_on_after(PrefixKey(root(salt, chunking).0));
    }

    /// Lets what comes next depend on more than its content: on an image that its tokens stand for.
    pub(super) fn depend_on(&mut self, digest: u64) {
        debug_assert!(self.rest.is_empty(), "dependencies are told between chunks");
        self.state = fold(self.state, digest, MIX[2]);
    }

    /// Bytes of memory held.
    pub(super) const fn bytes(&self) -> usize {
        self.rest.capacity() + self.keys.capacity() * size_of::<PrefixKey>()
    }

    /// The keys of all full chunks, first to last; the last one names the longest full prefix.
    pub fn keys(&self) -> &[PrefixKey] {
        &self.keys
    }

    fn close(&mut self, chunk: &[u8]) {
        self.state = hash(self.state, chunk);
        self.keys.push(PrefixKey(self.state));
    }
}

/// The salt that a client's `cache_salt` stands for: the one place where the two are brought
/// together, for requests and for the reports of engines alike. Never that of those who give none.
///
/// It only steers requests. Engines keep salts apart by their own means, so two texts with one salt
/// would cost a detour and show nobody anything.
pub fn salt_of(text: &str) -> CacheSalt {
    CacheSalt(digest_of(text.as_bytes()).max(1))
}

/// The salt of what was computed with an adapter: never shared with the bare model, nor with other
/// adapters.
pub fn salt_with_adapter(salt: CacheSalt, adapter: &str) -> CacheSalt {
    CacheSalt(fold(salt.0, digest_of(adapter.as_bytes()), MIX[1]).max(1))
}

/// What [`StoredBlocks::extras`](super::StoredBlocks) says of a block's further content; zero for
/// none.
pub fn digest_of(extra: &[u8]) -> u64 {
    if extra.is_empty() { 0 } else { hash(MIX[0], extra).max(1) }
}

/// The state before the first chunk, and the bytes of a chunk.
fn root(salt: CacheSalt, chunking: Chunking) -> (u64, usize) {
    let (kind, bytes) = match chunking {
        Chunking::Tokens(size) => (MIX[1], size.get() as usize * TOKEN_BYTES),
        Chunking::Text(bytes) => (MIX[2], bytes.get() as usize),
    };
    (fold(fold(salt.0, MIX[0], kind), bytes as u64, MIX[1]), bytes)
}

/// Hashes a chunk onto the hash of what comes before it.
///
/// A product waits for the one before it. Long chunks are therefore hashed in four lanes, all of
/// which begin from what comes before, and the lanes then one after the other.
fn hash(before: u64, chunk: &[u8]) -> u64 {
    let (mut state, mut rest) = (before, chunk);
    if STRIPES_MIN * size_of::<Stripe>() <= chunk.len() {
        let (stripes, tail) = chunk.as_chunks();
        state = hash_stripes(before, stripes);
        rest = tail;
    }
    let mut pairs = rest.chunks_exact(16);
    for pair in pairs.by_ref() {
        state = fold(state, word(&pair[..8]) ^ MIX[1], word(&pair[8..]) ^ MIX[2]);
    }
    let tail = pairs.remainder();
    if !tail.is_empty() {
        let (low, high) = tail.split_at(tail.len().min(8));
        state = fold(state, word(low) ^ MIX[1], word(high) ^ MIX[2]);
    }
    fold(state, MIX[0], chunk.len() as u64)
}

fn hash_stripes(before: u64, stripes: &[Stripe]) -> u64 {
    let mut lanes = [before, before ^ MIX[0], before ^ MIX[1], before ^ MIX[2]];
    for stripe in stripes {
        let (pairs, _) = stripe.as_chunks::<16>();
        for (lane, pair) in lanes.iter_mut().zip(pairs) {
            *lane = fold(*lane, word(&pair[..8]) ^ MIX[1], word(&pair[8..]) ^ MIX[2]);
        }
    }
    let [one, two, three, four] = lanes;
    fold(fold(before, one, two), three, four)
}

/// Up to eight bytes as a number, little end first.
fn word(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

/// Mixes two words into a state: both halves of a product, so that every bit reaches every other.
fn fold(state: u64, one: u64, other: u64) -> u64 {
    let (low, high) = (state ^ one).carrying_mul(other.rotate_left(32) ^ MIX[0], 0);
    // The state goes in once more: a factor of zero must not make the chain forget its past.
    low ^ high ^ state.rotate_left(23)
}
