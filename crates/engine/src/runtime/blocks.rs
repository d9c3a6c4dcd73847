//! KV block export and import: copies cached pages out of the engine and into it.
//!
//! Copies run between steps, a few pages at a time, so that decodes are hardly delayed: an order
//! larger than [`BYTES_AT_ONCE`] is done in part, and the caller asks again for the rest. The
//! backend knows the content of a page, the scheduler which page it is
//! (`docs/design/kv-share.md#r5`).

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use overdraft_scheduler::batch::Import;
use overdraft_units::{CacheSalt, TokenId};
use tokio::sync::oneshot;

use super::driver::Driver;
use super::handle::{EngineHandle, Letter};
use super::stats::Health;
use crate::backend::BlockLayout;

/// Maximum bytes of pages that one order moves between two steps; always at least one page.
pub const BYTES_AT_ONCE: usize = 4 << 20;

/// A prefix: its tokens and its salt.
#[derive(Clone, Debug)]
pub struct BlockPrefix {
    /// Its salt.
    pub salt: CacheSalt,
    /// Its tokens; only full pages of them count.
    pub tokens: Arc<[TokenId]>,
}

/// What became of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Leading pages of the prefix that are in the cache now.
    pub leading: usize,
    /// Pages that were written.
    pub written: usize,
}

/// Why pages are not moved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// They stay where they are, as with a simulated GPU, which has none.
    #[error(
        "this engine's backend cannot give its blocks away nor take others'; expected a model \
             on the processor"
    )]
    Fixed,
    /// A page of another size.
    #[error("a block has `{found}` bytes; expected {expected}")]
    Length {
        /// What came.
        found: usize,
        /// What a page has.
        expected: usize,
    },
    /// The device failed.
    #[error("the backend failed to move a block: {0}")]
    Backend(String),
    /// The engine has ended, is broken, or too much lies in its inbox.
    #[error("the engine moves no blocks now; compute them")]
    Busy,
}

/// What the loop is asked to do between two steps.
#[derive(Debug)]
pub(super) enum BlockOrder {
    Lead { prefix: BlockPrefix, answer: oneshot::Sender<usize> },
    Export { prefix: BlockPrefix, pages: Range<usize>, answer: Exported },
    Import { prefix: BlockPrefix, first: usize, blocks: Vec<Vec<u8>>, answer: Answer<Imported> },
}

type Answer<T> = oneshot::Sender<Result<T, BlockError>>;
type Exported = Answer<Vec<Vec<u8>>>;

impl EngineHandle {
    /// What an exported page is like; `None` where pages cannot be moved.
    pub fn block_layout(&self) -> Option<&BlockLayout> {
        self.layout.as_deref()
    }

    /// How many leading pages of a prefix are in the cache. Waits for at most one step.
    ///
    /// # Errors
    /// [`BlockError::Busy`].
    pub async fn leading_blocks(&self, prefix: BlockPrefix) -> Result<usize, BlockError> {
        let (answer, leading) = oneshot::channel();
        self.order(BlockOrder::Lead { prefix, answer })?;
        leading.await.map_err(|_| BlockError::Busy)
    }

    /// The content of cached pages of a prefix, from the first of `pages` on and as far as there are
    /// any: fewer than asked where they come to more than [`BYTES_AT_ONCE`] bytes. Waits for at most
    /// one step.
    ///
    /// # Errors
    /// [`BlockError`] when pages cannot be moved.
    pub async fn export_blocks(
        &self,
        prefix: BlockPrefix,
        pages: Range<usize>,
    ) -> Result<Vec<Vec<u8>>, BlockError> {
        let (answer, exported) = oneshot::channel();
        self.order(BlockOrder::Export { prefix, pages, answer })?;
        exported.await.map_err(|_| BlockError::Busy)?
    }

    /// Takes the content of pages of a prefix, of which `blocks` holds those from number `first` on,
    /// into the cache, as far as it lacks them and has room. They must be what this very engine would
    /// compute. Waits for at most one step.
    ///
    /// # Errors
    /// [`BlockError`] when pages cannot be moved; what was written before stays.
    pub async fn import_blocks(
        &self,
        prefix: BlockPrefix,
        first: usize,
        blocks: Vec<Vec<u8>>,
    ) -> Result<Imported, BlockError> {
        let expected = self.block_layout().ok_or(BlockError::Fixed)?.bytes;
        if let Some(other) = blocks.iter().find(|block| block.len() != expected) {
            return Err(BlockError::Length { found: other.len(), expected });
        }
        let (answer, imported) = oneshot::channel();
        self.order(BlockOrder::Import { prefix, first, blocks, answer })?;
        imported.await.map_err(|_| BlockError::Busy)?
    }

    fn order(&self, order: BlockOrder) -> Result<(), BlockError> {
        if self.layout.is_none() {
            return Err(BlockError::Fixed);
        }
        self.inbox.try_send(Letter::Blocks(order)).map_err(|_| BlockError::Busy)
    }
}

impl Driver {
    /// Carries out an order; a panic leaves the backend half done.
    pub(super) fn carry(&mut self, order: BlockOrder) {
        if self.stats.health == Health::Broken {
            return;
        }
        if catch_unwind(AssertUnwindSafe(|| self.carry_out(order))).is_err() {
            self.break_down();
        }
    }

    /// The request that asked may have gone in the meantime; that is no fault.
    fn carry_out(&mut self, order: BlockOrder) {
        match order {
            BlockOrder::Lead { prefix, answer } => {
                let leading = self.scheduler.leading_pages(prefix.salt, &prefix.tokens).len();
                let _ = answer.send(leading);
            }
            BlockOrder::Export { prefix, pages, answer } => {
                let _ = answer.send(self.export(&prefix, pages));
            }
            BlockOrder::Import { prefix, first, blocks, answer } => {
                let _ = answer.send(self.import(&prefix, first, &blocks));
            }
        }
    }

    fn export(
        &self,
        prefix: &BlockPrefix,
        pages: Range<usize>,
    ) -> Result<Vec<Vec<u8>>, BlockError> {
        let layout = self.backend.block_layout().ok_or(BlockError::Fixed)?;
        let most = (BYTES_AT_ONCE / layout.bytes.max(1)).max(1);
        let table = self.scheduler.leading_pages(prefix.salt, &prefix.tokens);
        let wanted = table.get(pages.start..pages.end.min(table.len())).unwrap_or_default();
        let mut exported = Vec::with_capacity(wanted.len().min(most));
        for block in wanted.iter().take(most) {
            let mut bytes = Vec::with_capacity(layout.bytes);
            self.backend
                .export_block(*block, &mut bytes)
                .map_err(|error| BlockError::Backend(error.to_string()))?;
            exported.push(bytes);
        }
        Ok(exported)
    }

    fn import(
        &mut self,
        prefix: &BlockPrefix,
        first: usize,
        blocks: &[Vec<u8>],
    ) -> Result<Imported, BlockError> {
        let pages = first..first + blocks.len();
        let import = Import { salt: prefix.salt, tokens: &prefix.tokens, pages };
        let planned = self.scheduler.plan_import(&import);
        let mut written = 0;
        let mut failure = None;
        for page in &planned {
            let bytes = &blocks[page.number - first];
            if let Err(error) = self.backend.import_block(page.block, bytes) {
                failure = Some(BlockError::Backend(error.to_string()));
                break;
            }
            written += 1;
        }
        if !planned.is_empty() {
            self.scheduler.handle_import(written);
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let leading = self.scheduler.leading_pages(prefix.salt, &prefix.tokens).len();
        Ok(Imported { leading, written })
    }
}
