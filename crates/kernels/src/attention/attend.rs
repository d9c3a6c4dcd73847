//! Attention kernel: flash-style online softmax over a paged KV cache.
//!
//! The softmax takes one pass over chunks of 8 tiles of 16 slots: scores of a chunk, the new
//! maximum, weights relative to it, older sums rescaled to match, weighted values added in order of
//! position. Several queries (the heads of a group, the rows of a run) share every key and value
//! that is loaded, each with its own length.
//!
//! Invariant: the terms of a query's sums, and their order, depend on its own length alone.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators over arrays of vectors are calls that the compiler leaves in hot loops"
)]

use super::layout::Layout;
use super::number::Number;
use super::pages::Pages;
use super::{AttentionShape, QUERIES_MAX, RowContext};
use crate::pool::Disjoint;
use crate::simd::{Kernel, LANES, RowsKernel, Simd, exponential};

/// Tiles of a chunk.
const CHUNK_TILES: usize = 8;
/// Tiles of value dimensions in flight.
const VALUE_TILES: usize = 2;

/// Rows of one sequence over one key-value head.
pub(super) struct Run<'a> {
    /// All rows' queries.
    pub(super) queries: &'a [f32],
    /// The first row's.
    pub(super) context: RowContext<'a>,
    /// The first row of the run.
    pub(super) first: usize,
    /// Rows of the run.
    pub(super) count: usize,
    pub(super) kv_head: usize,
    pub(super) output: &'a Disjoint<'a, f32>,
}

/// A run and what it reads.
pub(super) struct Attend<'a, N> {
    pub(super) shape: AttentionShape,
    pub(super) pages: &'a Pages<N>,
    pub(super) run: Run<'a>,
}

/// One tile of slots: where its keys and values begin and which positions it holds.
#[derive(Clone, Copy, Default)]
struct SlotTile {
    keys: usize,
    values: usize,
    /// Position of the first slot.
    position: usize,
    /// Slots in use by the block size.
    slots: usize,
}

impl SlotTile {
    /// Slots that a query of this length sees.
    #[inline(always)]
    fn seen(&self, length: usize) -> usize {
        length.saturating_sub(self.position).min(self.slots)
    }
}

/// The softmax sums so far.
struct Running<const Q: usize> {
    greatest: [f32; Q],
    total: [f32; Q],
    /// Weighted values: for each query, its tiles of dimensions.
    sums: Vec<[[f32; LANES]; Q]>,
}

impl<N: Number> Kernel for Attend<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let queries = self.run.count * self.group();
        let mut done = 0;
        while done < queries {
            let rows = (queries - done).min(QUERIES_MAX);
            done += simd.run_rows(rows, &Queries { attend: &self, first: done });
        }
    }
}

/// Queries of a run from `first` on.
struct Queries<'a, N> {
    attend: &'a Attend<'a, N>,
    first: usize,
}

impl<N: Number> RowsKernel for Queries<'_, N> {
    #[inline(always)]
    fn run<S: Simd, const ROWS: usize>(&self, simd: S) {
        // More at once than share a reading are never asked for.
        if ROWS <= QUERIES_MAX {
            self.attend.queries_at_once::<S, ROWS>(simd, self.first);
        }
    }
}

impl<N: Number> Attend<'_, N> {
    /// Query heads of a key-value head.
    fn group(&self) -> usize {
        self.shape.heads / self.shape.kv_heads
    }

    /// Where a query begins among all rows' queries.
    fn place(&self, query: usize) -> usize {
        let shape = &self.shape;
        let row = self.run.first + query / self.group();
        let head = self.run.kv_head * self.group() + query % self.group();
        row * shape.query_columns() + head * shape.head_dim
    }

    /// The tile of slots with a number, counted through the table.
    fn tile(&self, number: usize) -> SlotTile {
        let layout: &Layout = &self.pages.layout;
        let (index, tile) = (number / layout.slot_tiles, number % layout.slot_tiles);
        let block = layout.block(self.run.context.table[index]);
        let slot = tile * LANES;
        SlotTile {
            keys: layout.key(block, self.run.kv_head, slot, 0).0,
            values: layout.value(block, self.run.kv_head, slot, 0).0,
            position: index * layout.block_size + slot,
            slots: LANES.min(layout.block_size - slot),
        }
    }

    /// `Q` queries from `first` on.
    #[inline(always)]
    fn queries_at_once<S: Simd, const Q: usize>(&self, simd: S, first: usize) {
        let layout = &self.pages.layout;
        let mut lengths = [0; Q];
        let mut queries = vec![[0.0; Q]; layout.head_dim];
        for query in 0..Q {
            lengths[query] = self.run.context.position + (first + query) / self.group() + 1;
            let row = &self.run.queries[self.place(first + query)..][..layout.head_dim];
            for (column, value) in queries.iter_mut().zip(row) {
                column[query] = *value;
            }
        }
        // Later queries are of the same or a later row.
        let longest = lengths[Q - 1];
        let (full, rest) = (longest / layout.block_size, longest % layout.block_size);
        let tiles = full * layout.slot_tiles + rest.div_ceil(LANES);
        let mut running = Running {
            greatest: [f32::NEG_INFINITY; Q],
            total: [0.0; Q],
            sums: vec![[[0.0; LANES]; Q]; layout.dim_tiles],
        };
        for start in (0..tiles).step_by(CHUNK_TILES) {
            let mut chunk = [SlotTile::default(); CHUNK_TILES];
            let count = CHUNK_TILES.min(tiles - start);
            for (index, tile) in chunk[..count].iter_mut().enumerate() {
                *tile = self.tile(start + index);
            }
            self.add_chunk(simd, &chunk[..count], &queries, &lengths, &mut running);
        }
        for query in 0..Q {
            let total = running.total[query];
            let start = self.place(first + query);
            // SAFETY: a part of `attend` owns its rows' outputs of its key-value head's queries,
            // and the pool runs each part once.
            let out = unsafe { self.run.output.slice(start..start + layout.head_dim) };
            for (out, sums) in out.chunks_mut(LANES).zip(&running.sums) {
                for (out, sum) in out.iter_mut().zip(&sums[query]) {
                    *out = sum / total;
                }
            }
        }
    }

    /// Adds a chunk of tiles to the running sums.
    #[inline(always)]
    fn add_chunk<S: Simd, const Q: usize>(
        &self,
        simd: S,
        tiles: &[SlotTile],
        queries: &[[f32; Q]],
        lengths: &[usize; Q],
        running: &mut Running<Q>,
    ) {
        let scale = simd.splat(self.scale());
        let mut chunk = Chunk { tiles, lengths, weights: [ZEROS; Q], shrink: [1.0; Q] };
        for index in 0..tiles.len() {
            let tile = &tiles[index];
            let keys = &self.pages.keys[tile.keys..][..queries.len()];
            let scores = score(simd, keys, queries);
            for query in 0..Q {
                simd.store(simd.mul(scores[query], scale), &mut chunk.weights[query][index]);
            }
        }
        for (query, length) in lengths.iter().enumerate() {
            // A query that ends before this chunk is left as it is, to the bit.
            if tiles[0].seen(*length) > 0 {
                chunk.weigh(simd, query, running);
            }
        }
        let dims = running.sums.len();
        let mut dim = 0;
        while dim + VALUE_TILES <= dims {
            let sums = &mut running.sums[dim..dim + VALUE_TILES];
            let sums = sums.try_into().expect("a slice of VALUE_TILES");
            chunk.add_values::<S, N, VALUE_TILES>(
                simd,
                &self.pages.values,
                Dimensions { from: dim, of: dims },
                sums,
            );
            dim += VALUE_TILES;
        }
        while dim < dims {
            let sums = (&mut running.sums[dim..=dim]).try_into().expect("a slice of one");
            chunk.add_values::<S, N, 1>(
                simd,
                &self.pages.values,
                Dimensions { from: dim, of: dims },
                sums,
            );
            dim += 1;
        }
    }

    /// What scores are multiplied with: one over the root of the head's length.
    #[expect(clippy::cast_precision_loss, reason = "a head has far fewer than 2^24 dimensions")]
    fn scale(&self) -> f32 {
        1.0 / (self.pages.layout.head_dim as f32).sqrt()
    }
}

/// Weights of a chunk before it is scored.
const ZEROS: [[f32; LANES]; CHUNK_TILES] = [[0.0; LANES]; CHUNK_TILES];

/// Tiles of a head's dimensions, of all that a value has.
#[derive(Clone, Copy)]
struct Dimensions {
    from: usize,
    of: usize,
}

/// A chunk under way.
struct Chunk<'a, const Q: usize> {
    tiles: &'a [SlotTile],
    lengths: &'a [usize; Q],
    /// First the scores, then the weights, of each query.
    weights: [[[f32; LANES]; CHUNK_TILES]; Q],
    /// What the older sums of each query are multiplied with.
    shrink: [f32; Q],
}

impl<const Q: usize> Chunk<'_, Q> {
    /// Turns a query's scores into weights relative to its greatest score so far.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, simd: S, query: usize, running: &mut Running<Q>) {
        let weights = &mut self.weights[query][..self.tiles.len()];
        let length = self.lengths[query];
        let mut greatest = simd.splat(running.greatest[query]);
        for index in 0..weights.len() {
            for lane in self.tiles[index].seen(length)..LANES {
                weights[index][lane] = f32::NEG_INFINITY;
            }
            greatest = simd.max(simd.load(&weights[index]), greatest);
        }
        let greatest = simd.greatest(greatest);
        let base = simd.splat(greatest);
        let mut total = simd.splat(0.0);
        for index in 0..weights.len() {
            let weight = exponential(simd, simd.sub(simd.load(&weights[index]), base));
            simd.store(weight, &mut weights[index]);
            for lane in self.tiles[index].seen(length)..LANES {
                weights[index][lane] = 0.0;
            }
            total = simd.add(total, simd.load(&weights[index]));
        }
        let older = simd.splat(running.greatest[query]);
        let mut shrink = [0.0; LANES];
        simd.store(exponential(simd, simd.sub(older, base)), &mut shrink);
        self.shrink[query] = shrink[0];
        running.total[query] = running.total[query].mul_add(shrink[0], simd.sum(total));
        running.greatest[query] = greatest;
    }

    /// Adds the weighted values of `TILES` tiles of dimensions.
    #[inline(always)]
    fn add_values<S: Simd, N: Number, const TILES: usize>(
        &self,
        simd: S,
        values: &[[N; LANES]],
        dimensions: Dimensions,
        running: &mut [[[f32; LANES]; Q]; TILES],
    ) {
        let mut sums = [[simd.splat(0.0); Q]; TILES];
        for index in 0..TILES {
            for query in 0..Q {
                let shrink = simd.splat(self.shrink[query]);
                sums[index][query] = simd.mul(simd.load(&running[index][query]), shrink);
            }
        }
        let Dimensions { from, of } = dimensions;
        for number in 0..self.tiles.len() {
            let tile = self.tiles[number];
            // Lengths never fall from one query to the next: what the first sees, all see.
            for slot in 0..tile.seen(self.lengths[0]).min(LANES) {
                let row = &values[tile.values + slot * of + from..][..TILES];
                self.add_slot(simd, row, number, slot, &mut sums);
            }
        }
        for index in 0..TILES {
            for query in 0..Q {
                simd.store(sums[index][query], &mut running[index][query]);
            }
        }
        for query in 1..Q {
            if self.lengths[query] > self.lengths[0] {
                self.add_rest(simd, values, dimensions, running, query);
            }
        }
    }

    /// Adds the values of a tile's slot to all queries' sums.
    #[inline(always)]
    fn add_slot<S: Simd, N: Number, const TILES: usize>(
        &self,
        simd: S,
        row: &[[N; LANES]],
        tile: usize,
        slot: usize,
        sums: &mut [[S::Floats; Q]; TILES],
    ) {
        for index in 0..TILES {
            let value = N::widen(simd, &row[index]);
            for query in 0..Q {
                let weight = simd.splat(self.weights[query][tile][slot]);
                sums[index][query] = simd.fma(weight, value, sums[index][query]);
            }
        }
    }

    /// Adds the values that a query sees and the first does not.
    #[inline(always)]
    fn add_rest<S: Simd, N: Number, const TILES: usize>(
        &self,
        simd: S,
        values: &[[N; LANES]],
        dimensions: Dimensions,
        running: &mut [[[f32; LANES]; Q]; TILES],
        query: usize,
    ) {
        let Dimensions { from, of } = dimensions;
        for number in 0..self.tiles.len() {
            let tile = self.tiles[number];
            for slot in tile.seen(self.lengths[0])..tile.seen(self.lengths[query]) {
                let row = &values[tile.values + slot * of + from..][..TILES];
                let weight = simd.splat(self.weights[query][number][slot]);
                for index in 0..TILES {
                    let sum = &mut running[index][query];
                    let value = N::widen(simd, &row[index]);
                    simd.store(simd.fma(weight, value, simd.load(sum)), sum);
                }
            }
        }
    }
}

/// Dot products of `Q` queries with 16 keys: even and odd dimensions apart, then together.
#[inline(always)]
fn score<S: Simd, N: Number, const Q: usize>(
    simd: S,
    keys: &[[N; LANES]],
    queries: &[[f32; Q]],
) -> [S::Floats; Q] {
    let mut even = [simd.splat(0.0); Q];
    let mut odd = [simd.splat(0.0); Q];
    let (key_pairs, last_key) = keys.as_chunks::<2>();
    let (query_pairs, last_query) = queries.as_chunks::<2>();
    for pair in 0..key_pairs.len().min(query_pairs.len()) {
        let (keys, values) = (&key_pairs[pair], &query_pairs[pair]);
        let first = N::widen(simd, &keys[0]);
        for query in 0..Q {
            even[query] = simd.fma(first, simd.splat(values[0][query]), even[query]);
        }
        let second = N::widen(simd, &keys[1]);
        for query in 0..Q {
            odd[query] = simd.fma(second, simd.splat(values[1][query]), odd[query]);
        }
    }
    if let ([key], [values]) = (last_key, last_query) {
        let key = N::widen(simd, key);
        for query in 0..Q {
            even[query] = simd.fma(key, simd.splat(values[query]), even[query]);
        }
    }
    for query in 0..Q {
        even[query] = simd.add(even[query], odd[query]);
    }
    even
}
