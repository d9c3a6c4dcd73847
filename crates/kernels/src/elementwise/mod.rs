//! Elementwise kernels: RMS norm, rotation (`RoPE`), `SwiGLU`, residual sums and log-sum-exp.
//!
//! At the end of a model they give the greatest logit, its probability, and the logarithm of the
//! sum of exponentials. Every function treats rows independently and in a fixed order.

mod logits;
mod norm;
mod rope;
mod stream;
mod sums;

pub use logits::{argmax, greatest_probability};
pub use norm::rms_norm;
pub use rope::{Rope, RopeStyle};
pub use stream::read_through;
pub use sums::{add, add_bias, silu_multiply};

/// Numbers that a thread takes at a time; below, waking another thread costs more than it saves.
const CHUNK_NUMBERS: usize = 16 * 1024;

/// Whole rows that make about [`CHUNK_NUMBERS`].
fn chunk_of_rows(columns: usize) -> usize {
    (CHUNK_NUMBERS / columns).max(1) * columns
}
