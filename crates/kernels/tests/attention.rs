//! Attention over the paged cache against naive `f64` arithmetic, across shapes and batches.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "test data is small"
)]

mod support;

use half::f16;
use overdraft_kernels::{AttentionShape, KvCache, KvFormat, Pool, RowContext};
use proptest::prelude::*;
use support::{Numbers, bits, pools};

/// One sequence's keys and values, in a cache at scattered blocks.
struct Sequence {
    shape: AttentionShape,
    keys: Vec<f32>,
    values: Vec<f32>,
    table: Vec<u32>,
}

impl Sequence {
    fn new(shape: AttentionShape, length: usize, numbers: &mut Numbers) -> Self {
        let count = length * shape.key_columns();
        let blocks = length.div_ceil(shape.block_size) as u32;
        // Every third block, last first: order and holes must not matter.
        let table = (0..blocks).map(|index| (blocks - 1 - index) * 3 + 1).collect();
        let keys = (0..count).map(|_| numbers.float() * 2.0).collect();
        Self { shape, keys, values: numbers.floats(count), table }
    }

    fn blocks(&self) -> usize {
        self.table.len() * 3
    }

    fn length(&self) -> usize {
        self.keys.len() / self.shape.key_columns()
    }

    fn fill(&self, cache: &mut KvCache, pool: &Pool) {
        let columns = self.shape.key_columns();
        let rows = self.keys.chunks(columns).zip(self.values.chunks(columns));
        for (position, (key, value)) in rows.enumerate() {
            let block = self.table[position / self.shape.block_size];
            cache.write(block, position % self.shape.block_size, key, value, pool);
        }
    }

    fn cache(&self, pool: &Pool) -> KvCache {
        let mut cache = KvCache::new(self.blocks(), self.shape);
        self.fill(&mut cache, pool);
        cache
    }

    /// Queries for the last `count` positions.
    fn rows(&self, count: usize) -> Vec<RowContext<'_>> {
        let positions = self.length() - count..self.length();
        positions.map(|position| RowContext { table: &self.table, position }).collect()
    }

    /// Naive attention of one query row.
    fn expected(&self, query: &[f32], position: usize) -> Vec<f64> {
        let AttentionShape { heads, kv_heads, head_dim, .. } = self.shape;
        let number = |values: &[f32], position: usize, head: usize, dim: usize| {
            let at = position * kv_heads * head_dim + head / (heads / kv_heads) * head_dim + dim;
            f64::from(f16::from_f32(values[at]).to_f32())
        };
        let mut out = Vec::new();
        for head in 0..heads {
            let query = &query[head * head_dim..][..head_dim];
            let score = |position| {
                let dot: f64 = (0..head_dim)
                    .map(|dim| f64::from(query[dim]) * number(&self.keys, position, head, dim))
                    .sum();
                (dot / (head_dim as f64).sqrt()).exp()
            };
            let weights: Vec<f64> = (0..=position).map(score).collect();
            let total: f64 = weights.iter().sum();
            out.extend((0..head_dim).map(|dim| {
                let sum: f64 = weights
                    .iter()
                    .enumerate()
                    .map(|(position, weight)| weight * number(&self.values, position, head, dim))
                    .sum();
                sum / total
            }));
        }
        out
    }
}

fn attend(cache: &KvCache, queries: &[f32], rows: &[RowContext<'_>], pool: &Pool) -> Vec<f32> {
    let mut output = vec![f32::NAN; queries.len()];
    cache.attend(queries, rows, &mut output, pool);
    output
}

#[track_caller]
fn check(sequence: &Sequence, queries: &[f32], rows: &[RowContext<'_>], output: &[f32]) {
    let columns = sequence.shape.query_columns();
    for (index, row) in rows.iter().enumerate() {
        let expected = sequence.expected(&queries[index * columns..][..columns], row.position);
        for (found, expected) in output[index * columns..].iter().zip(expected) {
            let off = (f64::from(*found) - expected).abs();
            assert!(off < 2e-5, "row {index}: {found} for {expected}, {:?}", sequence.shape);
        }
    }
}

#[test]
fn usual_shapes_agree_with_naive_arithmetic_on_every_instruction_set() {
    for (heads, kv_heads, head_dim, block_size) in
        [(32, 8, 64, 16), (8, 8, 128, 16), (14, 2, 64, 32), (6, 2, 80, 16), (4, 1, 96, 64)]
    {
        let shape = AttentionShape { heads, kv_heads, head_dim, block_size };
        let mut numbers = Numbers::new(1);
        let sequence = Sequence::new(shape, 300, &mut numbers);
        let queries: Vec<f32> = (0..5 * shape.query_columns()).map(|_| numbers.float()).collect();
        let rows = sequence.rows(5);
        let mut seen = Vec::new();
        for pool in pools(2) {
            let output = attend(&sequence.cache(&pool), &queries, &rows, &pool);
            check(&sequence, &queries, &rows, &output);
            seen.push(bits(&output));
        }
        assert!(
            seen.windows(2).all(|pair| pair[0] == pair[1]),
            "instruction sets differ: {shape:?}"
        );
    }
}

#[test]
fn what_lies_beyond_a_position_is_never_read() {
    let shape = AttentionShape { heads: 4, kv_heads: 2, head_dim: 32, block_size: 16 };
    let mut numbers = Numbers::new(2);
    let sequence = Sequence::new(shape, 20, &mut numbers);
    let pool = Pool::new(1);
    let mut cache = sequence.cache(&pool);
    let queries: Vec<f32> = (0..2 * shape.query_columns()).map(|_| numbers.float()).collect();
    let rows = sequence.rows(2);
    let before = attend(&cache, &queries, &rows, &pool);
    let poison = vec![f32::NAN; shape.key_columns()];
    for slot in 4..16 {
        cache.write(sequence.table[1], slot, &poison, &poison, &pool);
    }
    assert_eq!(bits(&attend(&cache, &queries, &rows, &pool)), bits(&before));
}

#[test]
fn exported_and_copied_blocks_are_the_same_to_the_bit() {
    let shape = AttentionShape { heads: 6, kv_heads: 3, head_dim: 40, block_size: 12 };
    let mut numbers = Numbers::new(3);
    let sequence = Sequence::new(shape, 50, &mut numbers);
    let pool = Pool::new(2);
    let cache = sequence.cache(&pool);
    let queries: Vec<f32> = (0..shape.query_columns()).map(|_| numbers.float()).collect();
    let expected = attend(&cache, &queries, &sequence.rows(1), &pool);
    let mut other = KvCache::new(40, shape);
    let mut table = Vec::new();
    for (index, block) in sequence.table.iter().enumerate() {
        let mut bytes = Vec::new();
        cache.export_block(*block, &mut bytes);
        assert_eq!(bytes.len(), shape.block_bytes(KvFormat::F16));
        other.import_block(index as u32, &bytes);
        other.copy_block(index as u32, index as u32 + 20);
        table.push(index as u32 + 20);
    }
    let rows = [RowContext { table: &table, position: 49 }];
    assert_eq!(bits(&attend(&other, &queries, &rows, &pool)), bits(&expected));
    let first_key = f16::from_f32(sequence.keys[0]).to_le_bytes();
    let mut bytes = Vec::new();
    cache.export_block(sequence.table[0], &mut bytes);
    assert_eq!(bytes[..2], first_key, "slot 0, head 0, dimension 0 comes first");
}

#[test]
fn single_precision_keys_and_values_are_kept_as_they_are() {
    let shape = AttentionShape { heads: 6, kv_heads: 2, head_dim: 20, block_size: 12 };
    let mut numbers = Numbers::new(4);
    let mut sequence = Sequence::new(shape, 40, &mut numbers);
    let queries: Vec<f32> = (0..3 * shape.query_columns()).map(|_| numbers.float()).collect();
    let round = |number: &mut f32| *number = f16::from_f32(*number).to_f32();
    for exact in [true, false] {
        if !exact {
            // What binary16 holds exactly, the naive arithmetic does not round again.
            sequence.keys.iter_mut().chain(&mut sequence.values).for_each(round);
        }
        let mut seen = Vec::new();
        for pool in pools(2) {
            let mut cache = KvCache::with_format(sequence.blocks(), shape, KvFormat::F32);
            sequence.fill(&mut cache, &pool);
            let mut bytes = Vec::new();
            cache.export_block(sequence.table[0], &mut bytes);
            assert_eq!(bytes[..4], sequence.keys[0].to_le_bytes());
            assert_eq!(bytes.len(), shape.block_bytes(KvFormat::F32));
            cache.import_block(sequence.table[0], &bytes);
            let output = attend(&cache, &queries, &sequence.rows(3), &pool);
            seen.push(bits(&output));
            if !exact {
                check(&sequence, &queries, &sequence.rows(3), &output);
                assert_eq!(
                    seen[0],
                    bits(&attend(&sequence.cache(&pool), &queries, &sequence.rows(3), &pool))
                );
            }
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "instruction sets differ");
    }
}

#[test]
fn a_table_too_short_is_refused() {
    let shape = AttentionShape { heads: 2, kv_heads: 2, head_dim: 16, block_size: 16 };
    let cache = KvCache::new(2, shape);
    let rows = [RowContext { table: &[0], position: 16 }];
    let refused = std::panic::catch_unwind(|| {
        cache.attend(&[0.0; 32], &rows, &mut [0.0; 32], &Pool::new(1));
    });
    assert!(refused.is_err());
}

#[test]
fn a_block_takes_the_memory_that_is_told() {
    for block_size in [1, 8, 12, 16, 24] {
        for (kv_heads, head_dim) in [(1, 16), (3, 64), (2, 18)] {
            let shape = AttentionShape { heads: 6, kv_heads, head_dim, block_size };
            for format in [KvFormat::F16, KvFormat::F32] {
                let cache = KvCache::with_format(5, shape, format);
                assert_eq!(cache.bytes(), 5 * shape.block_memory(format), "{shape:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any shape, length and batch: right by the oracle, the same bits alone and on each
    /// instruction set.
    #[test]
    fn attention_is_right_and_independent_of_batch_and_instructions(
        group in 1_usize..10,
        kv_heads in 1_usize..4,
        head_dim in 1_usize..70,
        block_size in 1_usize..40,
        length in 1_usize..400,
        count in 1_usize..20,
        seed in any::<u64>(),
    ) {
        let shape = AttentionShape { heads: group * kv_heads, kv_heads, head_dim, block_size };
        let mut numbers = Numbers::new(seed);
        let sequence = Sequence::new(shape, length, &mut numbers);
        let rows = sequence.rows(count.min(length));
        let columns = shape.query_columns();
        let queries: Vec<f32> = (0..rows.len() * columns).map(|_| numbers.float() * 2.0).collect();
        let mut seen = Vec::new();
        for pool in pools(2) {
            let cache = sequence.cache(&pool);
            let output = attend(&cache, &queries, &rows, &pool);
            for (index, row) in rows.iter().enumerate() {
                let query = &queries[index * columns..][..columns];
                let alone = attend(&cache, query, &[*row], &pool);
                prop_assert_eq!(bits(&alone), bits(&output[index * columns..][..columns]));
            }
            seen.push(output);
        }
        check(&sequence, &queries, &rows, &seen[0]);
        for output in &seen {
            prop_assert_eq!(bits(output), bits(&seen[0]));
        }
    }
}
