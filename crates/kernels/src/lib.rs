//! SIMD kernels: the arithmetic of the engine, and the only `unsafe` code of the project.
//!
//! - [`Pool`]: threads for one kernel at a time, and the instructions that they use;
//! - [`Matrix`]: weights in the formats of GGUF files, packed into tiles of 16 rows, times
//!   [`Activations`] of one to hundreds of rows;
//! - [`KvCache`]: one layer's keys and values in blocks, and attention over them;
//! - [`rms_norm`], [`Rope`] and the other row-wise operations of a Llama-family model.
//!
//! Invariant: a row's result is the same to the bit whatever rows it is computed with, on however
//! many threads, and on any of the [`Instructions`].

#![expect(clippy::inline_always, reason = "a kernel gets its instructions only by being inlined")]

mod activations;
mod attention;
mod elementwise;
mod matrix;
mod pool;
mod simd;

pub use activations::Activations;
pub use attention::{AttentionShape, KvCache, KvFormat, RowContext};
pub use elementwise::{
    Rope, RopeStyle, add, add_bias, argmax, greatest_probability, read_through, rms_norm,
    silu_multiply,
};
pub use matrix::{Matrix, PackError, Product, WeightFormat};
pub use pool::{POOL_THREADS_MAX, Pool};
pub use simd::Instructions;
