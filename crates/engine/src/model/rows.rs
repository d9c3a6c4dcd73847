//! Row layout of a batch: sequence, position and KV page of each row of a step.
//!
//! All positions of all slots are consecutive rows of one matrix. **Invariant:** every index lies
//! within the model and its cache, so no later code needs to check again.

use overdraft_kernels::RowContext;
use overdraft_scheduler::batch::Logits;
use overdraft_units::{BlockSize, Tokens};

use crate::backend::{BackendError, BatchSlot, ModelShape};

/// Where the rows of a step belong; kept from step to step for its memory.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Vocabulary index of each row.
    pub(super) tokens: Vec<u32>,
    /// Position of each row in its sequence.
    pub(super) positions: Vec<usize>,
    /// The pages of all slots, one after the other.
    pages: Vec<u32>,
    /// Where each row's pages start and end in `pages`.
    tables: Vec<(usize, usize)>,
    /// Rows whose logits are wanted, ascending.
    pub(super) wanted: Vec<usize>,
}

impl Rows {
    /// Numbers the positions of all slots through.
    ///
    /// # Errors
    /// [`BackendError`] when a slot reaches beyond the model or its cache; nothing is laid out.
    pub(super) fn lay_out(
        &mut self,
        batch: &[BatchSlot<'_>],
        shape: &ModelShape,
    ) -> Result<(), BackendError> {
        for slot in batch {
            check(slot, shape)?;
        }
        let Self { tokens, positions, pages, tables, wanted } = self;
        tokens.clear();
        positions.clear();
        pages.clear();
        tables.clear();
        wanted.clear();
        for slot in batch {
            let first = tokens.len();
            let table = (pages.len(), pages.len() + slot.table.len());
            pages.extend(slot.table.iter().map(|page| page.0));
            for (offset, token) in slot.tokens.iter().enumerate() {
                tokens.push(token.0);
                positions.push(slot.start as usize + offset);
                tables.push(table);
            }
            match slot.logits {
                Logits::None => {}
                Logits::Last => wanted.extend((first..tokens.len()).last()),
                Logits::Every => wanted.extend(first..tokens.len()),
            }
        }
        Ok(())
    }

    /// What each row attends to.
    pub(super) fn contexts(&self) -> Vec<RowContext<'_>> {
        let rows = self.tables.iter().zip(&self.positions);
        rows.map(|(&(start, end), &position)| RowContext {
            table: &self.pages[start..end],
            position,
        })
        .collect()
    }
}

/// Refuses what would reach beyond the model or its cache.
fn check(slot: &BatchSlot<'_>, shape: &ModelShape) -> Result<(), BackendError> {
    let refuse = |reason: String| Err(BackendError { reason });
    let end = slot.start as usize + slot.tokens.len();
    if shape.context.get() as usize <= end.saturating_sub(1) {
        return refuse(format!("position `{}` is beyond the {}", end - 1, shape.context));
    }
    let vocabulary = shape.vocabulary;
    if let Some(token) = slot.tokens.iter().find(|token| vocabulary <= token.0 as usize) {
        return refuse(format!("token `{}` is none of the {vocabulary} known", token.0));
    }
    let Some(pages) = pages(slot, shape.block_size) else {
        return refuse(format!("position `{}` has no page", end - 1));
    };
    match slot.table[..pages].iter().find(|page| shape.blocks.get() <= page.0) {
        Some(page) => refuse(format!("page `{}` is none of the {}", page.0, shape.blocks)),
        None => Ok(()),
    }
}

/// Pages that a slot reads or writes; `None` when its table has fewer.
fn pages(slot: &BatchSlot<'_>, block_size: BlockSize) -> Option<usize> {
    let positions = Tokens::new(slot.start) + Tokens::new(u32::try_from(slot.tokens.len()).ok()?);
    let pages = block_size.pages_for(positions).get() as usize;
    (pages <= slot.table.len()).then_some(pages)
}
