//! Scheduler interface: requests, plans, slots and step results.

use alloc::vec::Vec;

use core::fmt;

use overdraft_units::{
    BlockSize, Blocks, CacheSalt, Micros, Priority, SequenceId, TokenId, Tokens,
};

/// The bounds a scheduler works within; none of them may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Tokens computed in one step at most, over all sequences: bounds the step's time.
    pub step_tokens: Tokens,
    /// Sequences that may run at once. More than `step_tokens` is taken as `step_tokens`, so that
    /// each gets a token of every step.
    pub running_max: u32,
    /// Sequences that may wait at once; one more is refused.
    pub waiting_max: u32,
    /// Pages of the key-value cache.
    pub blocks: Blocks,
    /// Tokens per page.
    pub block_size: BlockSize,
    /// Prompt plus completion of one sequence at most.
    pub context: Tokens,
    /// What a step may compute together.
    pub batching: Batching,
}

/// What a step may compute together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batching {
    /// Decodes, and prompts with the tokens that are left, as vLLM does.
    #[default]
    Mixed,
    /// Prompts alone while there are any that can be computed, else decodes, as `SGLang` does unless it
    /// is started with `--enable-mixed-chunk` (`docs/design/batch.md#r11`).
    PrefillFirst,
}

/// A sequence that asks to be run.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its name; must be new.
    pub sequence: SequenceId,
    /// The prompt, not empty.
    pub prompt: Vec<TokenId>,
    /// Completion tokens at most.
    pub output_max: Tokens,
    /// Whose cached prefixes it may share.
    pub salt: CacheSalt,
    /// Lower goes first.
    pub priority: Priority,
    /// Whether cached blocks may stand in for computing the prompt.
    pub reuse: PrefixReuse,
    /// Of which prompt positions the logits are wanted; the last one's always are, so `None` is as
    /// good as `Last`.
    pub logits: Logits,
}

/// Whether a sequence may start from cached blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixReuse {
    /// Cached blocks count as computed.
    Allowed,
    /// Every prompt position is computed anew, as `prompt_logprobs` needs; the blocks are still
    /// offered to others afterwards.
    Forbidden,
}

/// Which positions of a slot yield logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logits {
    /// None: a prefill chunk that does not reach the end of the prompt.
    None,
    /// The last position: a token is sampled from it.
    Last,
    /// Every position of the slot: prompt log probabilities, verification of drafts.
    Every,
}

/// The answer to an [`Arrival`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits for its first step.
    Queued,
    /// It will never run; nothing was changed.
    Refused(Refusal),
}

/// Why a sequence is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is nothing to compute.
    EmptyPrompt,
    /// The prompt plus one token is longer than the context.
    LongerThanContext {
        /// Prompt length.
        asked: Tokens,
        /// Context length.
        context: Tokens,
    },
    /// Prompt and completion would not fit even into an empty cache.
    LargerThanCache {
        /// Pages needed at the end.
        asked: Blocks,
        /// Pages that exist.
        blocks: Blocks,
    },
    /// Too many wait already.
    QueueFull {
        /// The bound on waiting sequences.
        waiting_max: u32,
    },
    /// The name is in use.
    DuplicateSequence,
}

/// What to compute in the next step, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One slot per sequence, at most once each.
    pub slots: Vec<Slot>,
    /// Sequences that lost their blocks in this plan and wait again.
    pub preempted: Vec<SequenceId>,
    /// Sequences that joined in this plan, for the first time or again after a preemption.
    pub admitted: Vec<SequenceId>,
}

/// Running sequences asked for more pages than there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdraft {
    /// Sequences that lost their pages for it.
    pub preempted: u32,
    /// The first of them.
    pub first: SequenceId,
}

impl Plan {
    /// Whether a running sequence needed a page when none was idle. The scheduler goes on by
    /// preempting; a shell that stands for an engine which cannot ends here instead, before the step
    /// is computed (`docs/design/batch.md#r2`).
    pub fn overdraft(&self) -> Option<Overdraft> {
        let first = *self.preempted.first()?;
        let preempted = u32::try_from(self.preempted.len()).unwrap_or(u32::MAX);
        Some(Overdraft { preempted, first })
    }
}

/// A run of consecutive positions of one sequence.
///
/// The tokens are `scheduler.tokens(sequence)` from `start` on, then `drafts` tokens of
/// `scheduler.drafts(sequence)`; the pages are `scheduler.block_table(sequence)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whose.
    pub sequence: SequenceId,
    /// First position to compute.
    pub start: Tokens,
    /// How many positions, at least one; drafted ones included.
    pub length: Tokens,
    /// How many of the last positions hold drafted tokens. Where there are any, the slot starts at
    /// the last known token and every position yields logits.
    pub drafts: Tokens,
    /// Which of them yield logits.
    pub logits: Logits,
}

/// What a step did for one slot that yielded a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whose.
    pub sequence: SequenceId,
    /// Tokens that now follow the sequence, in order. Empty for a prefill chunk without sampling;
    /// a slot that reached the end of the sequence and yields none is computed again. Of a slot
    /// with drafts: those that were found right, and the one that was sampled after them.
    pub appended: Vec<TokenId>,
    /// Whether it goes on.
    pub progress: Progress,
}

/// Whether a sequence goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It wants the next step.
    Continues,
    /// It has said all it will say; its blocks are released (and stay cached while room lasts).
    Finished,
}

/// A count of everything, for metrics and for the admission that stands before the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchStats {
    /// Sequences that hold blocks.
    pub running: u32,
    /// Sequences that wait.
    pub waiting: u32,
    /// Pages that exist.
    pub blocks: Blocks,
    /// Pages held by running sequences; a page shared by several counts once.
    pub blocks_held: Blocks,
    /// Pages that nobody holds but whose content can still be found.
    pub blocks_cached: Blocks,
    /// Pages so far that were given out while their content could still be found.
    pub blocks_evicted: u64,
    /// Prompt tokens looked up in the prefix cache so far.
    pub prefix_queried: u64,
    /// Prompt tokens found there so far.
    pub prefix_hit: u64,
    /// Times a running sequence lost its blocks so far.
    pub preemptions: u64,
    /// Times a waiting sequence was passed over because a running one was about to compute its
    /// prefix, counted once per plan.
    pub held_back: u64,
    /// Positions computed so far, those computed again included.
    pub positions_computed: u64,
    /// How long the sequence whose turn is next has waited, as of the last call that told the time.
    pub waiting_longest: Micros,
}

impl fmt::Display for Logits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Last => "last",
            Self::Every => "every",
        })
    }
}

/// As in `seq3[16..32] last`, or `seq3[16..20] every of 3 drafts`.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.start + self.length;
        write!(f, "{}[{}..{}] {}", self.sequence, self.start.get(), end.get(), self.logits)?;
        match self.drafts {
            Tokens::ZERO => Ok(()),
            drafts => write!(f, " of {} drafts", drafts.get()),
        }
    }
}

/// The slots, then who was preempted and who joined: `seq1[16..17] last, -seq2, +seq3`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for slot in &self.slots {
            write!(f, "{separator}{slot}")?;
            separator = ", ";
        }
        for (sign, sequences) in [('-', &self.preempted), ('+', &self.admitted)] {
            for sequence in sequences {
                write!(f, "{separator}{sign}{sequence}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}
