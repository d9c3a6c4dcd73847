//! Paged attention: a KV cache of fixed-size blocks, and queries over block tables.
//!
//! A [`KvCache`] holds one layer's keys and values, as binary16 or `f32`, in blocks of a fixed
//! number of token slots. The scheduler assigns blocks to sequences: a query comes with the block
//! table of its sequence, and position `p` is in block `table[p / block_size]`, slot `p %
//! block_size`.
//!
//! A block stores each key-value head separately. Keys are transposed: one vector holds one
//! dimension of 16 slots, so that scores need no sum over lanes. Values are not: a vector holds 16
//! dimensions of one slot.
//!
//! Invariant: a query's result is a function of the query, its position and the slots up to it.

mod attend;
mod layout;
mod number;
mod pages;

pub use number::KvFormat;

use crate::pool::{Disjoint, Pool};
use crate::simd::LANES;
use attend::{Attend, Run};
use layout::Layout;
use pages::Pages;

/// Query vectors that share one reading of keys and values.
const QUERIES_MAX: usize = 8;

/// The shape of one layer's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key-value heads.
    pub kv_heads: usize,
    /// Length of a head's query, key or value.
    pub head_dim: usize,
    /// Token slots of a block.
    pub block_size: usize,
}

impl AttentionShape {
    /// Length of a token's query row: all heads.
    pub fn query_columns(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Length of a token's key row, and of its value row: all key-value heads.
    pub fn key_columns(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Bytes of an exported block of one layer.
    pub fn block_bytes(&self, format: KvFormat) -> usize {
        2 * self.block_size * self.key_columns() * format.bytes()
    }

    /// Memory that a block of one layer takes in a cache: more than [`block_bytes`](Self::block_bytes)
    /// where slots or dimensions do not fill their last tile.
    pub fn block_memory(&self, format: KvFormat) -> usize {
        let vector = LANES * format.bytes();
        Layout::new(1, *self).block_vectors().saturating_mul(vector)
    }
}

/// Where a query row looks: its sequence's blocks, and its own position, which it sees too.
#[derive(Clone, Copy, Debug)]
pub struct RowContext<'a> {
    /// The blocks of the row's sequence, from position 0 on. Rows of one sequence that follow each
    /// other and have the very same slice share their reading of the cache.
    pub table: &'a [u32],
    /// Position in the sequence; positions `0..=position` are attended to.
    pub position: usize,
}

/// One layer's keys and values.
#[derive(Debug)]
pub struct KvCache {
    shape: AttentionShape,
    storage: Storage,
}

#[derive(Debug)]
enum Storage {
    F16(Pages<u16>),
    F32(Pages<f32>),
}

/// Calls a function with the storage's pages, whatever their format.
macro_rules! each_storage {
    ($storage:expr, $pages:ident => $call:expr) => {
        match $storage {
            Storage::F16($pages) => $call,
            Storage::F32($pages) => $call,
        }
    };
}

impl KvCache {
    /// `blocks` blocks of zeros in binary16. Panics when a field of the shape is 0 or the heads do
    /// not divide.
    pub fn new(blocks: usize, shape: AttentionShape) -> Self {
        Self::with_format(blocks, shape, KvFormat::F16)
    }

    /// As [`Self::new`], in a chosen number format.
    pub fn with_format(blocks: usize, shape: AttentionShape, format: KvFormat) -> Self {
        let AttentionShape { heads, kv_heads, head_dim, block_size } = shape;
        assert!(heads * kv_heads * head_dim * block_size > 0, "an empty shape: {shape:?}");
        assert_eq!(heads % kv_heads, 0, "{heads} heads cannot share {kv_heads} key-value heads");
        let layout = Layout::new(blocks, shape);
        let storage = match format {
            KvFormat::F16 => Storage::F16(Pages::new(layout)),
            KvFormat::F32 => Storage::F32(Pages::new(layout)),
        };
        Self { shape, storage }
    }

    /// The shape.
    pub fn shape(&self) -> AttentionShape {
        self.shape
    }

    /// The number format.
    pub fn format(&self) -> KvFormat {
        match self.storage {
            Storage::F16(_) => KvFormat::F16,
            Storage::F32(_) => KvFormat::F32,
        }
    }

    /// Blocks held.
    pub fn blocks(&self) -> usize {
        self.layout().blocks
    }

    /// Memory taken.
    pub fn bytes(&self) -> usize {
        each_storage!(&self.storage, pages => pages.bytes())
    }

    fn layout(&self) -> Layout {
        each_storage!(&self.storage, pages => pages.layout)
    }

    /// Stores one token's key row and value row, rounded to the cache's format. Panics when the
    /// place does not exist or a row has another length than [`AttentionShape::key_columns`].
    pub fn write(&mut self, block: u32, slot: usize, key: &[f32], value: &[f32], pool: &Pool) {
        let columns = self.shape.key_columns();
        assert_eq!(key.len(), columns, "a key row has {columns} values");
        assert_eq!(value.len(), columns, "a value row has {columns} values");
        let block = self.layout().block(block);
        assert!(slot < self.shape.block_size, "slot `{slot}` of {} slots", self.shape.block_size);
        each_storage!(&mut self.storage, pages => pages.write(block, slot, key, value, pool));
    }

    /// Copies a block's contents. Panics when a block does not exist.
    pub fn copy_block(&mut self, from: u32, to: u32) {
        let (from, to) = (self.layout().block(from), self.layout().block(to));
        each_storage!(&mut self.storage, pages => pages.copy_block(from, to));
    }

    /// Appends a block's contents to `out`, [`AttentionShape::block_bytes`] in all: the key rows of all
    /// slots, then the value rows, little-endian. The same on every machine.
    pub fn export_block(&self, block: u32, out: &mut Vec<u8>) {
        let block = self.layout().block(block);
        out.reserve(self.shape.block_bytes(self.format()));
        each_storage!(&self.storage, pages => pages.export_block(block, out));
    }

    /// Replaces a block's contents by what [`Self::export_block`] wrote. Panics when the block does
    /// not exist or `bytes` has another length.
    pub fn import_block(&mut self, block: u32, bytes: &[u8]) {
        let expected = self.shape.block_bytes(self.format());
        assert_eq!(bytes.len(), expected, "an exported block has {expected} bytes");
        let block = self.layout().block(block);
        each_storage!(&mut self.storage, pages => pages.import_block(block, bytes));
    }

    /// Attention of each query row over its context, scaled by `1 / sqrt(head_dim)`; each query
    /// head reads the key-value head of its group. `queries` and `output` hold one row of
    /// [`AttentionShape::query_columns`] for each of `rows`.
    ///
    /// Panics when a length is another or a table is too short or names a block that is not here.
    pub fn attend(
        &self,
        queries: &[f32],
        rows: &[RowContext<'_>],
        output: &mut [f32],
        pool: &Pool,
    ) {
        let expected = rows.len() * self.shape.query_columns();
        assert_eq!(queries.len(), expected, "the queries are not one row for each context");
        assert_eq!(output.len(), expected, "the output is not one row for each context");
        for row in rows {
            let blocks = row.position / self.shape.block_size + 1;
            assert!(blocks <= row.table.len(), "position `{}` is beyond its table", row.position);
        }
        let runs = self.runs(rows);
        let output = Disjoint::new(output);
        pool.run(runs.len() * self.shape.kv_heads, |part| {
            let (first, count) = runs[part / self.shape.kv_heads];
            let kv_head = part % self.shape.kv_heads;
            let run = Run { queries, context: rows[first], first, count, kv_head, output: &output };
            each_storage!(&self.storage, pages => {
                pool.kernel(Attend { shape: self.shape, pages, run });
            });
        });
    }

    /// Cuts rows into runs `(first, count)` that read the same blocks at consecutive positions.
    fn runs(&self, rows: &[RowContext<'_>]) -> Vec<(usize, usize)> {
        let rows_max = (QUERIES_MAX / (self.shape.heads / self.shape.kv_heads)).max(1);
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if let Some((first, count)) = runs.last_mut() {
                let start = &rows[*first];
                let follows = std::ptr::eq(start.table, row.table)
                    && row.position == start.position + *count
                    && *count < rows_max;
                if follows {
                    *count += 1;
                    continue;
                }
            }
            runs.push((index, 1));
        }
        runs
    }
}
