//! KV cache layout: the vector and lane of each number in a block.

use super::AttentionShape;
use crate::simd::LANES;
use std::ops::Range;

/// The arithmetic of places. Keys: block, head, tile of 16 slots, dimension; lanes are slots.
/// Values: block, head, slot, tile of 16 dimensions; lanes are dimensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) blocks: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) block_size: usize,
    /// Tiles of 16 slots in a block, the last perhaps partly used.
    pub(super) slot_tiles: usize,
    /// Tiles of 16 dimensions in a head, the last perhaps padded with zeros.
    pub(super) dim_tiles: usize,
}

impl Layout {
    pub(super) fn new(blocks: usize, shape: AttentionShape) -> Self {
        let AttentionShape { heads: _, kv_heads, head_dim, block_size } = shape;
        let slot_tiles = block_size.div_ceil(LANES);
        let dim_tiles = head_dim.div_ceil(LANES);
        Self { blocks, kv_heads, head_dim, block_size, slot_tiles, dim_tiles }
    }

    /// Checks a block's number.
    pub(super) fn block(&self, block: u32) -> usize {
        let index = usize::try_from(block).expect("a block number fits the address space");
        assert!(index < self.blocks, "block `{block}` of a cache of {} blocks", self.blocks);
        index
    }

    pub(super) fn key_vectors(&self) -> usize {
        self.blocks * self.block_keys(0).len()
    }

    pub(super) fn value_vectors(&self) -> usize {
        self.blocks * self.block_values(0).len()
    }

    /// Vectors of a block; what is beyond all memory counts as that.
    pub(super) fn block_vectors(&self) -> usize {
        let keys = self.kv_heads.saturating_mul(self.slot_tiles).saturating_mul(self.head_dim);
        let values = self.kv_heads.saturating_mul(self.block_size).saturating_mul(self.dim_tiles);
        keys.saturating_add(values)
    }

    pub(super) fn block_keys(&self, block: usize) -> Range<usize> {
        let vectors = self.kv_heads * self.slot_tiles * self.head_dim;
        block * vectors..(block + 1) * vectors
    }

    pub(super) fn block_values(&self, block: usize) -> Range<usize> {
        let vectors = self.kv_heads * self.block_size * self.dim_tiles;
        block * vectors..(block + 1) * vectors
    }

    /// Vector and lane of a key's number.
    pub(super) fn key(&self, block: usize, head: usize, slot: usize, dim: usize) -> (usize, usize) {
        let tile = (block * self.kv_heads + head) * self.slot_tiles + slot / LANES;
        (tile * self.head_dim + dim, slot % LANES)
    }

    /// Vector and lane of a value's number.
    pub(super) fn value(
        &self,
        block: usize,
        head: usize,
        slot: usize,
        dim: usize,
    ) -> (usize, usize) {
        let row = (block * self.kv_heads + head) * self.block_size + slot;
        (row * self.dim_tiles + dim / LANES, dim % LANES)
    }

    /// Head and dimension of each number of a key row, in order.
    pub(super) fn columns(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (kv_heads, head_dim) = (self.kv_heads, self.head_dim);
        (0..kv_heads).flat_map(move |head| (0..head_dim).map(move |dim| (head, dim)))
    }
}
