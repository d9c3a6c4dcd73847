//! KV cache storage of one layer, generic over its number format.

use super::layout::Layout;
use super::number::Number;
use crate::pool::Pool;
use crate::simd::{Kernel, LANES, Simd};

/// Keys and values in one number format. See [`Layout`] for the order.
#[derive(Debug)]
pub(super) struct Pages<N> {
    pub(super) layout: Layout,
    pub(super) keys: Vec<[N; LANES]>,
    pub(super) values: Vec<[N; LANES]>,
}

impl<N: Number> Pages<N> {
    pub(super) fn new(layout: Layout) -> Self {
        let keys = vec![[N::default(); LANES]; layout.key_vectors()];
        let values = vec![[N::default(); LANES]; layout.value_vectors()];
        Self { layout, keys, values }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.keys[..]) + size_of_val(&self.values[..])
    }

    pub(super) fn write(
        &mut self,
        block: usize,
        slot: usize,
        key: &[f32],
        value: &[f32],
        pool: &Pool,
    ) {
        pool.kernel(Write { pages: self, block, slot, key, value });
    }

    pub(super) fn copy_block(&mut self, from: usize, to: usize) {
        let keys = self.layout.block_keys(from);
        self.keys.copy_within(keys, self.layout.block_keys(to).start);
        let values = self.layout.block_values(from);
        self.values.copy_within(values, self.layout.block_values(to).start);
    }

    pub(super) fn export_block(&self, block: usize, out: &mut Vec<u8>) {
        for slot in 0..self.layout.block_size {
            for (head, dim) in self.layout.columns() {
                let (vector, lane) = self.layout.key(block, head, slot, dim);
                self.keys[vector][lane].export(out);
            }
        }
        for slot in 0..self.layout.block_size {
            for (head, dim) in self.layout.columns() {
                let (vector, lane) = self.layout.value(block, head, slot, dim);
                self.values[vector][lane].export(out);
            }
        }
    }

    pub(super) fn import_block(&mut self, block: usize, bytes: &[u8]) {
        let mut numbers = bytes.chunks_exact(size_of::<N>()).map(N::import);
        for slot in 0..self.layout.block_size {
            for (head, dim) in self.layout.columns() {
                let (vector, lane) = self.layout.key(block, head, slot, dim);
                self.keys[vector][lane] = numbers.next().expect("the length was checked");
            }
        }
        for slot in 0..self.layout.block_size {
            for (head, dim) in self.layout.columns() {
                let (vector, lane) = self.layout.value(block, head, slot, dim);
                self.values[vector][lane] = numbers.next().expect("the length was checked");
            }
        }
    }
}

/// Stores one token's rows.
struct Write<'a, N> {
    pages: &'a mut Pages<N>,
    block: usize,
    slot: usize,
    key: &'a [f32],
    value: &'a [f32],
}

impl<N: Number> Kernel for Write<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let layout = self.pages.layout;
        let keys = self.key.chunks_exact(layout.head_dim);
        for (head, (key, value)) in keys.zip(self.value.chunks_exact(layout.head_dim)).enumerate() {
            for first in (0..layout.head_dim).step_by(LANES) {
                let end = layout.head_dim.min(first + LANES);
                let numbers: [N; LANES] = narrow(simd, &key[first..end]);
                let (vector, lane) = layout.key(self.block, head, self.slot, first);
                let vectors = &mut self.pages.keys[vector..][..end - first];
                for (number, vector) in numbers.iter().zip(vectors) {
                    vector[lane] = *number;
                }
                let (vector, _) = layout.value(self.block, head, self.slot, first);
                self.pages.values[vector] = narrow(simd, &value[first..end]);
            }
        }
    }
}

/// Up to 16 numbers in the format of a cache, the rest zeros.
#[inline(always)]
fn narrow<S: Simd, N: Number>(simd: S, numbers: &[f32]) -> [N; LANES] {
    let mut lanes = [0.0; LANES];
    lanes[..numbers.len()].copy_from_slice(numbers);
    N::narrow(simd, simd.load(&lanes))
}
