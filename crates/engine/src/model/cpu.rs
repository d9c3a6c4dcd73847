//! CPU backend: the transformer forward pass of one step, batch-invariant to the bit.
//!
//! All positions of all slots are rows of one matrix, so the weights are read once a step. Every
//! kernel computes a row independently, in an order that depends on nothing but the row: the logits
//! of a position are bit-identical alone, in a batch, and under any chunking of the prompt.

use std::sync::Arc;

use overdraft_kernels::{AttentionShape, Instructions, KvCache, KvFormat, Pool, Rope, RopeStyle};
use overdraft_units::BlockId;

use super::layer::{Buffers, Step};
use super::rope;
use super::rows::Rows;
use super::settings::ModelSettings;
use super::shape::Dimensions;
use super::weights::Weights;
use crate::backend::{Backend, BackendError, BatchSlot, BlockLayout, ModelShape};
use crate::gguf::{Gguf, GgufSource, OpenError};

/// A model on the processor.
#[derive(Debug)]
pub struct CpuBackend {
    shape: ModelShape,
    dimensions: Dimensions,
    weights: Weights,
    caches: Vec<KvCache>,
    pool: Arc<Pool>,
    rope: Rope,
    rows: Rows,
    buffers: Buffers,
}

impl CpuBackend {
    /// Opens a model for the processor.
    ///
    /// # Errors
    /// [`OpenError`] when the file cannot be read or the model cannot be run.
    pub fn open(
        source: impl Into<GgufSource>,
        settings: &ModelSettings,
    ) -> Result<Self, OpenError> {
        let gguf = Gguf::open(source)?;
        let dimensions = Dimensions::read(&gguf)?;
        Self::load(&gguf, dimensions, settings)
    }

    pub(super) fn load(
        gguf: &Gguf,
        dimensions: Dimensions,
        settings: &ModelSettings,
    ) -> Result<Self, OpenError> {
        let pool = settings.threads()?;
        let weights = Weights::load(gguf, &dimensions, &pool)?;
        let blocks = settings.blocks(&dimensions)?;
        let attention = dimensions.attention(settings.block_size);
        let shape = ModelShape {
            vocabulary: dimensions.vocabulary,
            context: settings.context(&dimensions),
            blocks,
            block_size: settings.block_size,
        };
        let caches = (0..dimensions.layers)
            .map(|_| KvCache::with_format(blocks.get() as usize, attention, settings.kv_format))
            .collect();
        let style = match dimensions.rope.style {
            rope::RopeStyle::Interleaved => RopeStyle::Interleaved,
            rope::RopeStyle::Halves => RopeStyle::Halves,
        };
        let frequencies = dimensions.rope.frequencies.clone();
        let rope = Rope::new(style, frequencies, dimensions.rope.magnitude);
        let (rows, buffers) = (Rows::default(), Buffers::default());
        Ok(Self { shape, dimensions, weights, caches, pool, rope, rows, buffers })
    }

    /// Bytes of weights that every step reads.
    pub fn step_bytes(&self) -> u64 {
        self.weights.step_bytes()
    }

    /// Threads it computes with.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// Instructions it computes with.
    pub fn instructions(&self) -> Instructions {
        self.pool.instructions()
    }
}

impl Backend for CpuBackend {
    fn shape(&self) -> ModelShape {
        self.shape
    }

    fn forward(
        &mut self,
        batch: &[BatchSlot<'_>],
        logits: &mut Vec<f32>,
    ) -> Result<(), BackendError> {
        logits.clear();
        self.rows.lay_out(batch, &self.shape)?;
        if self.rows.tokens.is_empty() {
            return Ok(());
        }
        self.embed();
        self.rope.prepare(&self.rows.positions);
        let mut step = Step {
            dimensions: &self.dimensions,
            pool: &self.pool,
            rope: &self.rope,
            buffers: &mut self.buffers,
            contexts: self.rows.contexts(),
            block_size: self.shape.block_size.get() as usize,
        };
        let last = self.weights.layers.len() - 1;
        for (index, (layer, cache)) in self.weights.layers.iter().zip(&mut self.caches).enumerate()
        {
            step.project(layer);
            step.store(cache);
            if index == last {
                // Keys and values are stored; from here on only the wanted rows matter.
                step.keep(&self.rows.wanted);
            }
            if step.contexts.is_empty() {
                return Ok(());
            }
            step.attend(layer, cache);
            step.feed_forward(layer);
        }
        step.logits(&self.weights, logits);
        Ok(())
    }

    fn block_layout(&self) -> Option<BlockLayout> {
        let cache = self.caches.first()?;
        let (shape, layers) = (cache.shape(), self.caches.len());
        let format = match cache.format() {
            KvFormat::F16 => "f16",
            KvFormat::F32 => "f32",
        };
        let AttentionShape { heads: _, kv_heads, head_dim, block_size } = shape;
        // The processor's results do not depend on its instructions.
        let name = format!("cpu {format} {layers}x{kv_heads}x{head_dim} by {block_size}");
        Some(BlockLayout { bytes: layers * shape.block_bytes(cache.format()), name })
    }

    fn export_block(&self, block: BlockId, out: &mut Vec<u8>) -> Result<(), BackendError> {
        for cache in &self.caches {
            cache.export_block(block.0, out);
        }
        Ok(())
    }

    fn import_block(&mut self, block: BlockId, bytes: &[u8]) -> Result<(), BackendError> {
        let layer = bytes.len() / self.caches.len().max(1);
        for (cache, bytes) in self.caches.iter_mut().zip(bytes.chunks_exact(layer.max(1))) {
            cache.import_block(block.0, bytes);
        }
        Ok(())
    }
}

impl CpuBackend {
    /// Decodes the embeddings of the tokens into the rows' first states.
    fn embed(&mut self) {
        let (tokens, embedding) = (&self.rows.tokens, &self.weights.embedding);
        let hidden = self.dimensions.hidden;
        let states = &mut self.buffers.states;
        states.clear();
        states.resize(tokens.len() * hidden, 0.0);
        self.pool.run_chunks(states, hidden, |row, state| {
            embedding.dequantize_row(tokens[row] as usize, state);
        });
    }
}
