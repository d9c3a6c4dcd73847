//! Prefix cache index: a trie of pages that finds the cached prefix of a prompt.
//!
//! Registered pages form a trie. A page's position is its parent (the page before it, or the salt
//! at the root) and its own tokens, so equal positions mean equal prefixes and equal salts, by
//! induction. A chained hash of both picks the bucket to search; it never decides. Along most
//! prompts a page has one child, so each page stores its newest child and their number: then no
//! hash is needed to find the next page, or that there is none. A page without siblings is found
//! through its parent alone and is in no bucket until it gets a sibling.
//!
//! **Invariant:** a lookup compares parent and tokens in full, so that no collision, accidental or
//! contrived, can hand one prompt's pages to another (`docs/design/batch.md#r6`). A page's newest
//! child is registered and follows it. A page in no bucket is its parent's only child.

use alloc::vec;
use alloc::vec::Vec;

use overdraft_units::{BlockId, BlockSize, Blocks, CacheSalt, TokenId};

use super::link::Link;

/// Distance, in pages, of a page's skip pointer.
pub(super) const STRIDE: usize = 16;

/// Number of such skips that are followed in parallel.
const LANES: usize = 4;

/// What a page's content follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// Nothing: it is the first page of a prompt with this salt.
    Root(CacheSalt),
    /// The content of this registered page.
    Block(BlockId),
}

/// The trie of registered pages: a hash table whose chains run through the pages themselves, so it
/// never allocates after construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrefixIndex {
    /// Tokens per page.
    page: usize,
    /// First page of each chain; a power of two of them.
    buckets: Vec<Link>,
    /// Per page: where it stands, if it is registered.
    entries: Vec<Option<Entry>>,
    /// Per page: who stands behind it. By itself, because it is what is walked along: it stays in a processor's
    /// caches where everything else does not.
    behind: Vec<Behind>,
    /// Per page: its tokens, meaningful while it is registered.
    tokens: Vec<TokenId>,
}

/// Registered pages that follow a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Behind {
    /// The newest, unless that one has gone since.
    newest: Link,
    /// How many there are.
    count: u32,
    /// The page that came [`STRIDE`] pages behind it some time ago: only a guess.
    far: Link,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    parent: Parent,
    /// Hash of the whole prefix, this page included.
    key: u64,
    /// Next page in the same bucket.
    next: Link,
    /// Whether it stands in one.
    in_bucket: bool,
}

impl PrefixIndex {
    /// An index over `blocks` pages, none registered.
    pub(super) fn new(blocks: Blocks, size: BlockSize) -> Self {
        Self::with_buckets(blocks, size, (blocks.get() as usize).next_power_of_two())
    }

    /// An index with so many buckets; one bucket makes every key collide, for tests.
    pub(super) fn with_buckets(blocks: Blocks, size: BlockSize, buckets: usize) -> Self {
        assert!(buckets.is_power_of_two(), "buckets are picked by masking the key");
        let (blocks, page) = (blocks.get() as usize, size.get() as usize);
        Self {
            page,
            buckets: vec![Link::NONE; buckets],
            entries: vec![None; blocks],
            behind: vec![Behind::default(); blocks],
            tokens: vec![TokenId::default(); blocks * page],
        }
    }

    /// The page that holds `tokens` after `parent`, which is registered if it is a page.
    pub(super) fn find(&self, parent: Parent, tokens: &[TokenId]) -> Option<BlockId> {
        debug_assert_eq!(tokens.len(), self.page, "only full pages are addressed by content");
        if let Parent::Block(above) = parent {
            let Behind { newest, count, .. } = self.behind[above.0 as usize];
            if count == 0 {
                return None;
            }
            if let Some(newest) = newest.page() {
                if self.holds(newest, tokens) {
                    return Some(newest);
                }
                if count == 1 {
                    return None;
                }
            }
        }
        let mut at = self.buckets[self.bucket(self.key(parent, tokens))];
        while let Some(block) = at.page() {
            let entry = self.entry(block);
            if entry.parent == parent && self.holds(block, tokens) {
                return Some(block);
            }
            at = entry.next;
        }
        None
    }

    /// Adds the pages that hold these tokens after `parent` to `found`, as far as there is no gap.
    ///
    /// Pages lie scattered in memory. So the newest page behind the newest is followed some way ahead, and
    /// what they hold is compared afterwards: no comparison waits for the one before it.
    pub(super) fn find_run(&self, parent: Parent, tokens: &[TokenId], found: &mut Vec<BlockId>) {
        let mut tokens = tokens;
        let mut parent = parent;
        while self.page <= tokens.len() {
            let first = found.len();
            if let Parent::Block(above) = parent {
                self.follow(above, tokens.len() / self.page, found);
            }
            let ahead = found.len() - first;
            let candidates = found[first..].iter().zip(tokens.chunks_exact(self.page));
            let held = candidates.take_while(|(block, page)| self.holds(**block, page)).count();
            found.truncate(first + held);
            tokens = &tokens[held * self.page..];
            parent = found[first..].last().map_or(parent, |last| Parent::Block(*last));
            if held < ahead || ahead == 0 {
                let Some(block) = self.find(parent, &tokens[..self.page]) else { return };
                found.push(block);
                tokens = &tokens[self.page..];
                parent = Parent::Block(block);
            }
        }
    }

    /// Adds pages behind `above`, each the newest behind the one before it: `most` at most, and some
    /// at least where there are any.
    ///
    /// Each link is known only when the page before it was read. So several stretches are followed at
    /// once, from pages that were that far behind some time ago; one that does not begin where the one
    /// before it ends is given up.
    fn follow(&self, above: BlockId, most: usize, found: &mut Vec<BlockId>) {
        let mut heads = [Some(above); LANES];
        let mut lanes = 1;
        while lanes < LANES && lanes * STRIDE < most {
            let far = heads[lanes - 1].and_then(|head| self.behind[head.0 as usize].far.page());
            heads[lanes] = far;
            lanes += usize::from(far.is_some());
            if far.is_none() {
                break;
            }
        }
        let first = found.len();
        found.resize(first + lanes * STRIDE, above);
        let mut at = heads;
        let mut followed = [0; LANES];
        for step in 0..STRIDE.min(most) {
            for (lane, place) in at.iter_mut().take(lanes).enumerate() {
                *place = place.and_then(|above| self.behind[above.0 as usize].newest.page());
                if let Some(next) = *place {
                    found[first + lane * STRIDE + step] = next;
                    followed[lane] += 1;
                }
            }
        }
        let meets = |lane: &usize| *lane == 0 || at[*lane - 1] == heads[*lane];
        let whole: usize = (0..lanes).take_while(meets).map(|lane| followed[lane]).sum();
        found.truncate(first + whole.min(most));
    }

    /// Notes that `block` is, as of now, [`STRIDE`] pages behind `above`.
    pub(super) fn note_far(&mut self, above: BlockId, block: BlockId) {
        self.behind[above.0 as usize].far = Link::to(block);
    }

    /// Registers a page that holds `tokens` after `parent`; the place must be vacant.
    pub(super) fn insert(&mut self, block: BlockId, parent: Parent, tokens: &[TokenId]) {
        debug_assert!(!self.contains(block), "a page has one place");
        debug_assert_eq!(self.find(parent, tokens), None, "a place has one page");
        let key = self.key(parent, tokens);
        let (next, in_bucket) = (Link::NONE, false);
        self.entries[block.0 as usize] = Some(Entry { parent, key, next, in_bucket });
        let first = block.0 as usize * self.page;
        self.tokens[first..first + self.page].copy_from_slice(tokens);
        let Parent::Block(above) = parent else { return self.enter_bucket(block) };
        let behind = &mut self.behind[above.0 as usize];
        let before = core::mem::replace(&mut behind.newest, Link::to(block));
        behind.count += 1;
        if behind.count == 1 {
            return;
        }
        self.enter_bucket(block);
        if let Some(before) = before.page()
            && !self.entry(before).in_bucket
        {
            self.enter_bucket(before);
        }
    }

    fn enter_bucket(&mut self, block: BlockId) {
        let bucket = self.bucket(self.entry(block).key);
        let next = core::mem::replace(&mut self.buckets[bucket], Link::to(block));
        let entry = self.entry_mut(block);
        (entry.next, entry.in_bucket) = (next, true);
    }

    /// Forgets a registered page. Those that follow it must be forgotten already.
    pub(super) fn remove(&mut self, block: BlockId) {
        let entry = self.entries[block.0 as usize].take().expect("only registered pages go");
        debug_assert_eq!(self.behind[block.0 as usize].count, 0, "who follows a page goes first");
        if let Parent::Block(above) = entry.parent {
            let behind = &mut self.behind[above.0 as usize];
            behind.count -= 1;
            if behind.newest == Link::to(block) {
                behind.newest = Link::NONE;
            }
        }
        if entry.in_bucket {
            self.leave_bucket(block, &entry);
        }
    }

    fn leave_bucket(&mut self, block: BlockId, entry: &Entry) {
        let bucket = self.bucket(entry.key);
        let mut at = self.buckets[bucket].page().expect("a page in a bucket is in its own");
        if at == block {
            self.buckets[bucket] = entry.next;
            return;
        }
        loop {
            let link = &mut self.entry_mut(at).next;
            if *link == Link::to(block) {
                *link = entry.next;
                return;
            }
            at = link.page().expect("a page in a bucket is in its own");
        }
    }

    /// Registered pages behind a registered page, and the newest of them unless it has gone since.
    pub(super) fn behind(&self, block: BlockId) -> (u32, Option<BlockId>) {
        let Behind { newest, count, .. } = self.behind[block.0 as usize];
        (count, newest.page())
    }

    /// Whether the page is registered.
    pub(super) fn contains(&self, block: BlockId) -> bool {
        self.entries[block.0 as usize].is_some()
    }

    /// What a registered page follows, and its tokens.
    pub(super) fn place(&self, block: BlockId) -> Option<(Parent, &[TokenId])> {
        let entry = self.entries[block.0 as usize].as_ref()?;
        Some((entry.parent, self.tokens(block)))
    }

    /// The hash of a registered page and all before it.
    pub(super) fn key_of(&self, block: BlockId) -> u64 {
        self.entry(block).key
    }

    fn entry(&self, block: BlockId) -> &Entry {
        self.entries[block.0 as usize].as_ref().expect("chains hold registered pages only")
    }

    fn entry_mut(&mut self, block: BlockId) -> &mut Entry {
        self.entries[block.0 as usize].as_mut().expect("chains hold registered pages only")
    }

    /// Whether these are a registered page's own tokens: all are compared at once, for nearly always
    /// they are.
    fn holds(&self, block: BlockId, tokens: &[TokenId]) -> bool {
        let own = self.tokens(block);
        let differing = own.iter().zip(tokens).fold(0, |all, (one, other)| all | (one.0 ^ other.0));
        own.len() == tokens.len() && differing == 0
    }

    fn tokens(&self, block: BlockId) -> &[TokenId] {
        let first = block.0 as usize * self.page;
        &self.tokens[first..first + self.page]
    }

    #[expect(clippy::cast_possible_truncation, reason = "the mask wants the low bits only")]
    fn bucket(&self, key: u64) -> usize {
        key as usize & (self.buckets.len() - 1)
    }

    /// The parent's key chained with the page's tokens. The root's key is the salt's, which the
    /// tenant cannot see: contriving long chains in someone's buckets takes guessing it.
    fn key(&self, parent: Parent, tokens: &[TokenId]) -> u64 {
        let seed = match parent {
            Parent::Root(salt) => mix(salt.0, ROOT),
            Parent::Block(block) => self.entry(block).key,
        };
        tokens.chunks(2).fold(seed, |key, pair| {
            let high = pair.get(1).map_or(0, |token| u64::from(token.0));
            mix(key ^ (u64::from(pair[0].0) | high << 32), STEP)
        })
    }
}

/// Odd constants with about as many ones as zeroes: fractional digits of the golden ratio and of pi.
const ROOT: u64 = 0x9e37_79b9_7f4a_7c15;
const STEP: u64 = 0x243f_6a88_85a3_08d3;

/// Multiplies into 128 bits and folds the halves: every input bit reaches every output bit.
#[expect(clippy::cast_possible_truncation, reason = "the two halves are what is wanted")]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ ROOT.rotate_left(31)) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}
