//! Root-mean-square normalisation: `x * weight / sqrt(mean(x^2) + epsilon)`.

use super::chunk_of_rows;
use crate::pool::Pool;
use crate::simd::{Kernel, LANES, Simd};

/// Normalises rows of `weight.len()` numbers from `input` into `output`. For a norm of each head,
/// pass the head's weights: rows are then heads. Panics when lengths differ or rows are not whole.
pub fn rms_norm(input: &[f32], weight: &[f32], epsilon: f32, output: &mut [f32], pool: &Pool) {
    let columns = weight.len();
    assert!(columns > 0, "a norm over rows of 0 numbers");
    assert_eq!(input.len(), output.len(), "input and output differ in length");
    assert_eq!(input.len() % columns, 0, "`{}` numbers are not whole rows", input.len());
    let chunk = chunk_of_rows(columns);
    pool.run_chunks(output, chunk, |index, output| {
        let input = &input[index * chunk..][..output.len()];
        pool.kernel(Norm { input, weight, epsilon, output });
    });
}

struct Norm<'a> {
    input: &'a [f32],
    weight: &'a [f32],
    epsilon: f32,
    output: &'a mut [f32],
}

impl Kernel for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let columns = self.weight.len();
        for (input, output) in self.input.chunks(columns).zip(self.output.chunks_mut(columns)) {
            let factor = inverse_root(mean_square(simd, input) + self.epsilon);
            for ((output, input), weight) in output.iter_mut().zip(input).zip(self.weight) {
                *output = input * factor * weight;
            }
        }
    }
}

fn inverse_root(value: f32) -> f32 {
    1.0 / value.sqrt()
}

/// The mean of squares: sixteen running sums, then a tree; the rest of the row in order.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "rows have far fewer than 2^24 numbers")]
fn mean_square<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let (vectors, rest) = row.as_chunks::<LANES>();
    let mut sums = simd.splat(0.0);
    for vector in vectors {
        let value = simd.load(vector);
        sums = simd.fma(value, value, sums);
    }
    let mut sum = simd.sum(sums);
    for value in rest {
        sum = value.mul_add(*value, sum);
    }
    sum / row.len() as f32
}
