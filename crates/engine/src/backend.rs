//! Backend: the trait of what computes a step, a model on a device or a stand-in.
//!
//! A backend is told which positions of which sequences to compute and where their key-value pages
//! lie; it keeps no opinion of its own about sequences. **Invariant:** the logits of a position
//! depend only on the tokens up to it, never on what else is in the batch.

use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockId, BlockSize, Blocks, TokenId, Tokens};

/// What the scheduler and the sampler must know about a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// Entries of the vocabulary: the width of a row of logits.
    pub vocabulary: usize,
    /// Positions the model can attend over.
    pub context: Tokens,
    /// Pages of key-value cache the backend holds.
    pub blocks: Blocks,
    /// Tokens per page.
    pub block_size: BlockSize,
}

/// Consecutive positions of one sequence, with its pages.
#[derive(Clone, Copy, Debug)]
pub struct BatchSlot<'a> {
    /// The tokens at `start..start + tokens.len()`.
    pub tokens: &'a [TokenId],
    /// Position of the first of them.
    pub start: u32,
    /// Pages of the sequence: position `p` lies in `table[p / block_size]`.
    pub table: &'a [BlockId],
    /// Which positions yield a row of logits.
    pub logits: Logits,
}

/// What a page of the cache is like outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// Bytes of a page.
    pub bytes: usize,
    /// All that decides what they mean, apart from the weights: number format, dimensions, order. Equal
    /// names and equal weights make equal bytes of equal prefixes.
    pub name: String,
}

/// Computes steps. One engine thread owns it.
pub trait Backend: Send {
    /// The model's dimensions; constant.
    fn shape(&self) -> ModelShape;

    /// Computes all slots in one pass, writes their keys and values into the pages, and fills
    /// `logits` with one row of `vocabulary` numbers per wanted position, in slot order.
    ///
    /// Two slots may name the same page only if both hold the same tokens in it; all writes of a
    /// layer happen before any read of it.
    ///
    /// # Errors
    /// [`BackendError`] when the device fails; the step is lost and its sequences with it.
    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), BackendError>;

    /// What an exported page is like; constant. `None` where pages cannot be taken out or put in.
    fn block_layout(&self) -> Option<BlockLayout> {
        None
    }

    /// Appends the content of a page to `out`: keys and values of all layers.
    ///
    /// # Errors
    /// [`BackendError`] when the device fails, or has no layout for pages.
    fn export_block(&self, block: BlockId, out: &mut Vec<u8>) -> Result<(), BackendError> {
        let _ = out;
        Err(fixed(block))
    }

    /// Replaces the content of a page by what [`export_block`](Self::export_block) gave, perhaps
    /// elsewhere. `bytes` has the layout's length.
    ///
    /// # Errors
    /// [`BackendError`] when the device fails, or has no layout for pages.
    fn import_block(&mut self, block: BlockId, bytes: &[u8]) -> Result<(), BackendError> {
        let _ = bytes;
        Err(fixed(block))
    }
}

fn fixed(block: BlockId) -> BackendError {
    BackendError { reason: format!("page `{}` cannot be moved on this backend", block.0) }
}

/// The device could not compute a step.
#[derive(Debug, thiserror::Error)]
#[error("the backend failed in a step: {reason}")]
pub struct BackendError {
    /// What the device said.
    pub reason: String,
}
