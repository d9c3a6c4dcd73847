//! Log-softmax of a row of logits: the maximum, its probability, and the log-sum-exp.

use crate::pool::Pool;
use crate::simd::{Kernel, LANES, Simd, exponential};

/// Index of the greatest number, the first of equals; `None` of an empty row. A NaN is passed over
/// unless it comes first.
pub fn argmax(row: &[f32]) -> Option<usize> {
    let mut best = 0;
    for (index, value) in row.iter().enumerate() {
        if *value > row[best] {
            best = index;
        }
    }
    (!row.is_empty()).then_some(best)
}

/// The probability of the likeliest of a row, within 1e-5; zero where none is above minus infinity.
pub fn greatest_probability(row: &[f32], pool: &Pool) -> f32 {
    let Mass { greatest, sum } = pool.kernel(SumExp { row });
    #[expect(clippy::cast_possible_truncation, reason = "the result is wanted in `f32`")]
    let probability = sum.recip() as f32;
    if greatest == f32::NEG_INFINITY { 0.0 } else { probability }
}

/// The greatest of a row, and the sum of all exponentials relative to it.
struct Mass {
    greatest: f32,
    sum: f64,
}

struct SumExp<'a> {
    row: &'a [f32],
}

impl Kernel for SumExp<'_> {
    type Output = Mass;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Mass {
        let (vectors, rest) = self.row.as_chunks::<LANES>();
        let mut last = [f32::NEG_INFINITY; LANES];
        last[..rest.len()].copy_from_slice(rest);
        let mut greatest = simd.load(&last);
        for vector in vectors {
            greatest = simd.max(simd.load(vector), greatest);
        }
        let greatest = simd.greatest(greatest);
        if greatest == f32::NEG_INFINITY {
            return Mass { greatest, sum: 0.0 };
        }
        let base = simd.splat(greatest);
        let mut sum = 0.0;
        for vectors in vectors.chunks(VECTORS_PER_SUM) {
            let mut sums = simd.splat(0.0);
            for vector in vectors {
                let value = simd.sub(simd.load(vector), base);
                sums = simd.add(sums, exponential(simd, value));
            }
            sum += f64::from(simd.sum(sums));
        }
        let mut weights = [0.0; LANES];
        simd.store(exponential(simd, simd.sub(simd.load(&last), base)), &mut weights);
        sum += weights[..rest.len()].iter().copied().map(f64::from).sum::<f64>();
        Mass { greatest, sum }
    }
}

/// Vectors whose exponentials are summed in `f32` before `f64` takes over.
const VECTORS_PER_SUM: usize = 64;
