//! Memory read bandwidth of this machine: the bound of single-row products.

use crate::pool::Pool;
use crate::simd::{Kernel, LANES, Simd};
use std::ptr::from_ref;
use std::sync::atomic::{AtomicU32, Ordering};

/// Vectors that a thread reads at a time.
const PART_VECTORS: usize = 8 * 1024;
/// How far ahead of its use a number is asked for, in bytes.
const PREFETCH_BYTES: usize = 4096;

/// Reads all of `numbers` with the pool's threads and instructions, at the machine's speed, and
/// yields some sum of them, which keeps the reading from being optimised away. For measurements.
pub fn read_through(numbers: &[f32], pool: &Pool) -> f32 {
    let (vectors, rest) = numbers.as_chunks::<LANES>();
    let total = AtomicU32::new(0);
    pool.run(vectors.len().div_ceil(PART_VECTORS), |part| {
        let start = part * PART_VECTORS;
        let vectors = &vectors[start..vectors.len().min(start + PART_VECTORS)];
        let sum = pool.kernel(Sum { vectors });
        total.fetch_xor(sum.to_bits(), Ordering::Relaxed);
    });
    f32::from_bits(total.into_inner()) + rest.iter().sum::<f32>()
}

struct Sum<'a> {
    vectors: &'a [[f32; LANES]],
}

impl Kernel for Sum<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        let mut even = simd.splat(0.0);
        let mut odd = simd.splat(0.0);
        let (pairs, _) = self.vectors.as_chunks::<2>();
        for pair in pairs {
            let ahead = from_ref(pair).cast::<u8>().wrapping_add(PREFETCH_BYTES);
            simd.prefetch(ahead);
            simd.prefetch(ahead.wrapping_add(size_of::<[f32; LANES]>()));
            even = simd.add(even, simd.load(&pair[0]));
            odd = simd.add(odd, simd.load(&pair[1]));
        }
        simd.sum(simd.add(even, odd))
    }
}
