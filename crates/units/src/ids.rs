//! Ids: tokens, sequences, blocks and cache salts.
//!
//! An identifier is compared and carried, never added; that is what sets it apart from a quantity.

use core::fmt;

/// An entry of a model's vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TokenId(pub u32);

/// One sequence of tokens that an engine works on; never used twice within a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u64);

/// One page of a key-value cache: an index into its storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BlockId(pub u32);

/// Whose cached prefixes a sequence may share: equal salts share, different ones never do.
///
/// Derived from the tenant and the client's `cache_salt`; see `docs/design/batch.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheSalt(pub u64);

/// Scheduling priority as vLLM means it: the lower number goes first, zero is ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seq{}", self.0)
    }
}
