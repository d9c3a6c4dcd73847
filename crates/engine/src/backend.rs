//! What can compute a step: a model on some device, or a stand-in for one.
//!
//! A backend is told which positions of which sequences to compute and where their key-value pages
//! lie; it keeps no opinion of its own about sequences. **Invariant:** the logits of a position
//! depend only on the tokens up to it, never on what else is in the batch.

use overdraft_core::batch::Logits;
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
}

/// The device could not compute a step.
#[derive(Debug, thiserror::Error)]
#[error("the backend failed in a step: {reason}")]
pub struct BackendError {
    /// What the device said.
    pub reason: String,
}
