//! Sequence state: tokens, block table and progress of one sequence.
//!
//! A sequence is its tokens, of which the first `computed` have keys and values in the pages of its
//! table. Prefill, decoding and the recomputation after a preemption are the same operation:
//! computing the rest. **Invariant:** at least one known token is always uncomputed, because the
//! next token is sampled from its logits.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use overdraft_units::{BlockId, BlockSize, CacheSalt, Instant, SequenceId, TokenId, Tokens};

use super::prefix::Parent;
use super::queue::Rank;
use super::types::{Arrival, Logits, PrefixReuse};

/// One accepted sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) id: SequenceId,
    pub(super) salt: CacheSalt,
    pub(super) arrived: Instant,
    pub(super) rank: Rank,
    pub(super) phase: Phase,
    /// Length of the prompt; what follows was generated.
    pub(super) prompt: Tokens,
    /// `tokens` never gets longer than this.
    pub(super) ceiling: Tokens,
    pub(super) reuse: PrefixReuse,
    pub(super) logits: Logits,
    /// Everything known: prompt and completion so far.
    pub(super) tokens: Vec<TokenId>,
    /// Drafted tokens: guessed to follow, and gone when the step is closed.
    pub(super) drafts: Vec<TokenId>,
    /// The pages that hold positions `0..`, in order; empty while waiting.
    pub(super) table: Vec<BlockId>,
    /// The first so many pages of the table are findable by others.
    pub(super) offered: usize,
    /// Positions whose keys and values are in the pages.
    pub(super) computed: Tokens,
    /// Positions that were computed at some time: their logits were handed out.
    pub(super) delivered: Tokens,
    /// Known tokens when it last joined: below it prefills, from it on it decodes.
    pub(super) goal: Tokens,
    /// Prompt tokens found in the cache when it first joined.
    pub(super) cached: Option<Tokens>,
    /// While waiting: whose prefill it had better wait for.
    pub(super) held: Option<Hold>,
}

/// Where a sequence is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It holds nothing.
    Waiting,
    /// It holds pages and has no slot in an open step.
    Running,
    /// Its slot is being computed.
    Stepping,
    /// Its slot is being computed, but it was cancelled: it goes when the step is closed.
    Leaving,
}

/// A waiting sequence's reason to be passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// The prefill that computes the prefix.
    pub(super) handle: Handle,
    /// Its name, for the handle may be given to another.
    pub(super) id: SequenceId,
    /// How many pages the two have in common.
    pub(super) pages: usize,
}

impl Sequence {
    /// A sequence that waits for its first turn.
    pub(super) fn new(arrival: Arrival, now: Instant, number: u64, ceiling: Tokens) -> Self {
        let Arrival { sequence, prompt, output_max: _, salt, priority, reuse, logits } = arrival;
        Self {
            id: sequence,
            salt,
            arrived: now,
            rank: Rank::new(now, priority, number),
            phase: Phase::Waiting,
            prompt: length(&prompt),
            ceiling,
            reuse,
            logits,
            tokens: prompt,
            drafts: Vec::new(),
            table: Vec::new(),
            offered: 0,
            computed: Tokens::ZERO,
            delivered: Tokens::ZERO,
            goal: Tokens::ZERO,
            cached: None,
            held: None,
        }
    }

    /// How many tokens are known.
    pub(super) fn known(&self) -> Tokens {
        length(&self.tokens)
    }

    /// Whether all that was known when it joined is computed.
    pub(super) fn decodes(&self) -> bool {
        self.goal <= self.computed
    }

    /// Known tokens from position `start` on.
    pub(super) fn remaining_from(&self, start: Tokens) -> Tokens {
        self.known().checked_sub(start).unwrap_or(Tokens::ZERO)
    }

    /// How many tokens may still follow.
    pub(super) fn remaining_to_ceiling(&self) -> usize {
        (self.ceiling.get() as usize).saturating_sub(self.tokens.len())
    }

    /// The content of the page with this number; all of it must be known.
    pub(super) fn page(&self, number: usize, size: BlockSize) -> &[TokenId] {
        let size = size.get() as usize;
        &self.tokens[number * size..(number + 1) * size]
    }

    /// What the page with this number follows.
    pub(super) fn parent(&self, number: usize) -> Parent {
        match number.checked_sub(1) {
            None => Parent::Root(self.salt),
            Some(previous) => Parent::Block(self.table[previous]),
        }
    }

    /// How many pages it may take from the cache instead of computing them.
    ///
    /// Never the one with the last known token, whose logits are needed; and where all logits of
    /// the prompt are, only what was computed before.
    pub(super) fn reusable_pages(&self, size: BlockSize) -> usize {
        let reusable = match self.reuse {
            PrefixReuse::Allowed => self.known().get(),
            PrefixReuse::Forbidden => self.delivered.get() + 1,
        };
        (reusable.min(self.known().get()) - 1) as usize / size.get() as usize
    }

    /// Which logits the positions `start..end` owe.
    pub(super) fn logits_of(&self, start: Tokens, end: Tokens) -> Logits {
        let owed = self.delivered.max(start) < self.prompt.min(end);
        match self.logits {
            Logits::Every if owed => Logits::Every,
            _ if end == self.known() => Logits::Last,
            _ => Logits::None,
        }
    }
}

/// A sequence's place in a [`SequenceTable`], for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle(usize);

/// All living sequences: by handle in constant time, by name in logarithmic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceTable {
    places: Vec<Option<Sequence>>,
    vacant: Vec<Handle>,
    names: BTreeMap<SequenceId, Handle>,
}

impl SequenceTable {
    /// Takes a sequence with a new name in.
    pub(super) fn insert(&mut self, sequence: Sequence) -> Handle {
        let handle = self.vacant.pop().unwrap_or_else(|| {
            self.places.push(None);
            Handle(self.places.len() - 1)
        });
        let previous = self.names.insert(sequence.id, handle);
        debug_assert_eq!(previous, None, "names are new");
        self.places[handle.0] = Some(sequence);
        handle
    }

    /// Lets a sequence go.
    pub(super) fn remove(&mut self, handle: Handle) -> Sequence {
        let sequence = self.places[handle.0].take().expect("handles live as long as sequences");
        self.names.remove(&sequence.id);
        self.vacant.push(handle);
        sequence
    }

    /// Where the sequence of this name is.
    pub(super) fn handle(&self, id: SequenceId) -> Option<Handle> {
        self.names.get(&id).copied()
    }

    /// The sequence of this name.
    pub(super) fn named(&self, id: SequenceId) -> Option<&Sequence> {
        self.handle(id).map(|handle| &self[handle])
    }

    /// The sequence there, if one still is.
    pub(super) fn get(&self, handle: Handle) -> Option<&Sequence> {
        self.places[handle.0].as_ref()
    }

    /// Whether nobody lives.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Everyone, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sequence> + '_ {
        self.names.values().map(|handle| &self[*handle])
    }
}

impl Index<Handle> for SequenceTable {
    type Output = Sequence;
    fn index(&self, handle: Handle) -> &Sequence {
        self.places[handle.0].as_ref().expect("handles live as long as sequences")
    }
}

impl IndexMut<Handle> for SequenceTable {
    fn index_mut(&mut self, handle: Handle) -> &mut Sequence {
        self.places[handle.0].as_mut().expect("handles live as long as sequences")
    }
}

/// A slice's length as a quantity. Contexts are far below 2^32 tokens, and longer prompts refused.
pub(super) fn length(tokens: &[TokenId]) -> Tokens {
    Tokens::new(u32::try_from(tokens.len()).unwrap_or(u32::MAX))
}
