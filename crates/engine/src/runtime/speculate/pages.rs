//! Draft KV cache validity: which pages of the draft model match the target's pages.
//!
//! The draft model keeps its keys and values under the target's block tables, so prefixes are
//! shared, sequences preempted and drafts rolled back for both at once. But it does not compute
//! every step: while it is off, the target's pages change and its own do not. So a hash, chained
//! over the pages before it, records the tokens of each full page of its own. The target may also
//! exchange a page for an equal one that the draft model never wrote, so a page that is not recorded
//! yet counts only where it was written. A collision would cost rejected drafts and nothing else.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use overdraft_units::{BlockId, SequenceId, TokenId};

/// The records of all pages and of the sequences that were drafted for.
#[derive(Debug)]
pub(super) struct DraftPages {
    page: usize,
    /// By page: what it holds, when it is full.
    held: Vec<Option<u64>>,
    readers: BTreeMap<SequenceId, Reader>,
}

/// How far the draft model has read a sequence.
#[derive(Debug, Default)]
struct Reader {
    /// Positions whose keys and values it has.
    computed: usize,
    /// Of those, full pages, and what they hold.
    full: Vec<(BlockId, u64)>,
    /// Where the pages behind those were written, one after the other.
    written: Vec<BlockId>,
}

impl DraftPages {
    pub(super) fn new(blocks: usize, page: usize) -> Self {
        Self { page, held: vec![None; blocks], readers: BTreeMap::new() }
    }

    /// Positions of a sequence that are computed, as of the last look.
    pub(super) fn computed(&self, sequence: SequenceId) -> usize {
        self.readers.get(&sequence).map_or(0, |reader| reader.computed)
    }

    /// Looks at a sequence afresh: its table may have changed, and others may have computed pages of
    /// it. Returns how many positions are computed, at most all but the last known token.
    pub(super) fn look(
        &mut self,
        sequence: SequenceId,
        tokens: &[TokenId],
        table: &[BlockId],
    ) -> usize {
        let most = tokens.len().saturating_sub(1);
        let Self { page, held, readers } = self;
        let reader = readers.entry(sequence).or_default();
        reader.computed = reader.computed.min(most);
        for number in 0..reader.full.len() {
            let (block, content) = reader.full[number];
            let now = table.get(number).copied();
            if now == Some(block) {
                continue;
            }
            let Some(other) = now.filter(|now| held[index(*now)] == Some(content)) else {
                reader.full.truncate(number);
                reader.written.clear();
                reader.computed = reader.computed.min(number * *page);
                break;
            };
            reader.full[number].0 = other;
        }
        let known = reader.full.len();
        for (number, block) in table.iter().enumerate().skip(known) {
            let (start, end) = (number * *page, (number + 1) * *page);
            let is_own = reader.written.get(number - known) == Some(block);
            let is_read = is_own && end <= reader.computed;
            let content = (end <= most).then(|| {
                let before = reader.full.last().map_or(0, |full| full.1);
                chain(before, &tokens[start..end])
            });
            let there = content.filter(|_| is_read || held[index(*block)] == content);
            let Some(content) = there else {
                if !is_own {
                    // What was read of the page lies in another one.
                    reader.computed = reader.computed.min(start);
                }
                break;
            };
            held[index(*block)] = Some(content);
            reader.computed = reader.computed.max(end);
            reader.full.push((*block, content));
        }
        let recorded = reader.full.len() - known;
        reader.written.drain(..recorded.min(reader.written.len()));
        reader.computed
    }

    /// The positions `start..end` of a sequence are about to be written; the pages under them hold
    /// nothing that others may count on until they are full again. `start` is the first position
    /// that is not computed, or follows what was written last.
    pub(super) fn write(
        &mut self,
        sequence: SequenceId,
        table: &[BlockId],
        start: usize,
        end: usize,
    ) {
        let first = start / self.page;
        let pages = table.get(first..end.div_ceil(self.page)).unwrap_or_default();
        for block in pages {
            self.held[index(*block)] = None;
        }
        if let Some(reader) = self.readers.get_mut(&sequence) {
            reader.written.truncate(first.saturating_sub(reader.full.len()));
            reader.written.extend(pages);
        }
    }

    /// Positions before this one are computed from known tokens.
    pub(super) fn note_computed(&mut self, sequence: SequenceId, computed: usize) {
        if let Some(reader) = self.readers.get_mut(&sequence) {
            reader.computed = computed;
        }
    }

    pub(super) fn forget(&mut self, sequence: SequenceId) {
        self.readers.remove(&sequence);
    }
}

fn chain(before: u64, tokens: &[TokenId]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (before, tokens).hash(&mut hasher);
    hasher.finish()
}

fn index(block: BlockId) -> usize {
    usize::try_from(block.0).expect("usize holds 32 bits")
}
