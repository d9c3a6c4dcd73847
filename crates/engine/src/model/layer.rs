//! Transformer layer: attention and feed-forward over the rows of a step.
//!
//! `state += output(attend(rope(query(norm(state)))))`, then
//! `state += down(silu(gate(norm(state))) * up(norm(state)))`. The buffers grow to the largest step
//! seen and are then reused: a step allocates nothing that grows with the model.

use overdraft_kernels::{
    Activations, KvCache, Matrix, Pool, Product, Rope, RowContext, add, add_bias, rms_norm,
    silu_multiply,
};

use super::shape::Dimensions;
use super::weights::{Layer, Linear, Weights};

/// Intermediate results of a step, row-major.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// The residual stream.
    pub(super) states: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    mixed: Vec<f32>,
    gates: Vec<f32>,
    ups: Vec<f32>,
    changes: Vec<f32>,
    inputs: Activations,
}

/// A step on its way through the layers.
pub(super) struct Step<'a> {
    pub(super) dimensions: &'a Dimensions,
    pub(super) pool: &'a Pool,
    pub(super) rope: &'a Rope,
    pub(super) buffers: &'a mut Buffers,
    /// What each remaining row attends to.
    pub(super) contexts: Vec<RowContext<'a>>,
    pub(super) block_size: usize,
}

impl Step<'_> {
    /// Queries, keys and values of all rows, turned to their positions.
    pub(super) fn project(&mut self, layer: &Layer) {
        let (rows, pool) = (self.contexts.len(), self.pool);
        let Dimensions { head, norm_epsilon, .. } = *self.dimensions;
        let buffers = &mut *self.buffers;
        let Buffers { states, normed, queries, keys, values, inputs, .. } = buffers;
        normalize(states, &layer.attention_norm, norm_epsilon, normed, pool);
        let linears = [&layer.query, &layer.key, &layer.value];
        multiply(linears, normed, inputs, [&mut *queries, &mut *keys, values], pool);
        debug_assert_eq!(queries.len(), rows * self.dimensions.query_width());
        if let Some((query_norm, key_norm)) = &layer.head_norms {
            normalize(queries, query_norm, norm_epsilon, normed, pool);
            std::mem::swap(queries, normed);
            normalize(keys, key_norm, norm_epsilon, normed, pool);
            std::mem::swap(keys, normed);
        }
        self.rope.apply(queries, head, pool);
        self.rope.apply(keys, head, pool);
    }

    /// Writes keys and values of all rows into their pages.
    pub(super) fn store(&mut self, cache: &mut KvCache) {
        let width = self.dimensions.kv_width();
        let keys = self.buffers.keys.chunks_exact(width);
        let rows = keys.zip(self.buffers.values.chunks_exact(width)).zip(&self.contexts);
        for ((key, value), row) in rows {
            let block = row.table[row.position / self.block_size];
            cache.write(block, row.position % self.block_size, key, value, self.pool);
        }
    }

    /// Drops the rows that are not in `wanted`.
    pub(super) fn keep(&mut self, wanted: &[usize]) {
        let Buffers { states, queries, .. } = &mut *self.buffers;
        keep_rows(states, self.dimensions.hidden, wanted);
        keep_rows(queries, self.dimensions.query_width(), wanted);
        self.contexts = wanted.iter().map(|&row| self.contexts[row]).collect();
    }

    /// Adds to each state what its queries find.
    pub(super) fn attend(&mut self, layer: &Layer, cache: &KvCache) {
        let Buffers { states, queries, mixed, inputs, changes, .. } = &mut *self.buffers;
        mixed.resize(queries.len(), 0.0);
        cache.attend(queries, &self.contexts, mixed, self.pool);
        multiply([&layer.output], mixed, inputs, [&mut *changes], self.pool);
        add(states, changes, self.pool);
    }

    /// Adds to each state what the feed-forward network makes of it.
    pub(super) fn feed_forward(&mut self, layer: &Layer) {
        let pool = self.pool;
        let Buffers { states, normed, gates, ups, changes, inputs, .. } = &mut *self.buffers;
        let epsilon = self.dimensions.norm_epsilon;
        normalize(states, &layer.feed_forward_norm, epsilon, normed, pool);
        multiply([&layer.gate, &layer.up], normed, inputs, [&mut *gates, &mut *ups], pool);
        silu_multiply(gates, ups, pool);
        multiply([&layer.down], gates, inputs, [&mut *changes], pool);
        add(states, changes, pool);
    }

    /// One row of logits for each remaining row.
    pub(super) fn logits(&mut self, weights: &Weights, logits: &mut Vec<f32>) {
        let Buffers { states, normed, inputs, .. } = &mut *self.buffers;
        normalize(states, &weights.output_norm, self.dimensions.norm_epsilon, normed, self.pool);
        let output = weights.output();
        inputs.refill(normed, output.columns(), &[output], self.pool);
        logits.resize(self.contexts.len() * output.rows(), 0.0);
        output.multiply(inputs, logits, self.pool);
    }
}

/// Norms of rows of `weight.len()` numbers.
fn normalize(input: &[f32], weight: &[f32], epsilon: f32, output: &mut Vec<f32>, pool: &Pool) {
    output.resize(input.len(), 0.0);
    rms_norm(input, weight, epsilon, output, pool);
}

/// Products of several matrices with the same rows, read once.
fn multiply<const COUNT: usize>(
    linears: [&Linear; COUNT],
    rows: &[f32],
    inputs: &mut Activations,
    outputs: [&mut Vec<f32>; COUNT],
    pool: &Pool,
) {
    let matrices = linears.map(|linear| &linear.matrix);
    let columns = matrices.first().map_or(1, |matrix| matrix.columns());
    inputs.refill(rows, columns, &matrices, pool);
    let count = inputs.rows();
    let mut outputs = outputs;
    let mut targets = outputs.iter_mut().zip(matrices).map(|(output, matrix)| {
        output.resize(count * matrix.rows(), 0.0);
        Product { matrix, output: output.as_mut_slice() }
    });
    let mut products: [Product<'_>; COUNT] =
        std::array::from_fn(|_| targets.next().expect("one target for each matrix"));
    drop(targets);
    Matrix::multiply_all(&mut products, inputs, pool);
    for (linear, product) in linears.iter().zip(products) {
        if let Some(bias) = &linear.bias {
            add_bias(product.output, bias, pool);
        }
    }
}

/// Moves the named rows, which ascend, to the front and drops the others.
fn keep_rows(numbers: &mut Vec<f32>, columns: usize, wanted: &[usize]) {
    for (to, &from) in wanted.iter().enumerate() {
        numbers.copy_within(from * columns..(from + 1) * columns, to * columns);
    }
    numbers.truncate(wanted.len() * columns);
}
