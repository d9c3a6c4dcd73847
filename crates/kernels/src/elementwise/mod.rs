//! What happens to rows between the matrix products of a Llama-family model?
//!
//! Normalisation, rotary positions, the gated activation, residual sums; and at the end the
//! greatest logit, its probability, and the logarithm of the sum of their exponentials. Every function treats rows
//! independently and in a fixed order.

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
