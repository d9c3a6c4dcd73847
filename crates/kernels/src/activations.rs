//! Activation layout: the packed and quantized inputs of a matrix product.
//!
//! Rows come in groups of up to sixteen, interleaved within the group, so that a kernel finds the
//! same columns of all rows of a group side by side. Quantized matrices read eight-bit integers
//! with one scale for each 32 columns; dense ones read the `f32` themselves. Both forms are made
//! once and shared by all matrices that read the same input.
//!
//! Invariant: a row's numbers do not depend on the rows beside it.

use crate::pool::{Disjoint, Pool};
use crate::simd::{Kernel, LANES, Simd};

/// Rows of a group.
pub(crate) const GROUP_ROWS: usize = 16;
/// Columns that share a scale.
pub(crate) const BLOCK_COLUMNS: usize = 32;

/// Thirty-two columns of a row as integers, with the sums that the kernels want; a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Block {
    /// Four signed bytes each, lowest column in the lowest byte, all within -127..=127.
    pub(crate) values: [i32; 8],
    /// What one step of a value is worth.
    pub(crate) scale: f32,
    /// `scale` times the sum of the values.
    pub(crate) scaled_sum: f32,
    /// -8 times the sum of the values: undoes an offset of 8 in the weights.
    pub(crate) minus_8_sum: i32,
    /// -128 times the sum of the values.
    pub(crate) minus_128_sum: i32,
    /// -32 times the sum of the first and of the last sixteen values.
    pub(crate) minus_32_sums: [i32; 2],
}

/// The inputs of matrix products: some rows of `f32`, in the forms that the matrices read.
///
/// Kept by the caller from step to step, so that its memory is reused.
#[derive(Debug, Default)]
pub struct Activations {
    rows: usize,
    columns: usize,
    blocks: Vec<Block>,
    has_blocks: bool,
    floats: Vec<f32>,
    has_floats: bool,
}

/// The forms that some matrices read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forms {
    /// Blocks of integers, for quantized matrices.
    pub(crate) has_blocks: bool,
    /// The `f32` themselves, for dense ones.
    pub(crate) has_floats: bool,
}

impl Activations {
    /// Of no rows yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the contents with `rows` (row-major, of `columns` each) in these forms. Panics when
    /// `rows` is not whole rows.
    pub(crate) fn fill(&mut self, rows: &[f32], columns: usize, forms: Forms, pool: &Pool) {
        assert!(columns > 0, "activations of 0 columns; expected at least 1");
        assert_eq!(rows.len() % columns, 0, "`{}` values are not whole rows", rows.len());
        self.rows = rows.len() / columns;
        self.columns = columns;
        self.has_floats = forms.has_floats;
        self.has_blocks = forms.has_blocks;
        if self.has_blocks {
            let steps = columns / BLOCK_COLUMNS;
            self.blocks.resize(self.rows * steps, Block::default());
            scatter(rows, columns, &mut self.blocks, pool, |row, out| {
                pool.kernel(QuantizeRow { row, out });
            });
        }
        if self.has_floats {
            self.floats.resize(rows.len(), 0.0);
            scatter(rows, columns, &mut self.floats, pool, |row, mut out| {
                for (column, value) in row.iter().enumerate() {
                    *out.at(column) = *value;
                }
            });
        }
    }

    /// Rows held.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Length of a row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.rows.div_ceil(GROUP_ROWS)
    }

    /// Rows of a group: sixteen but for the last.
    pub(crate) fn group_rows(&self, group: usize) -> usize {
        GROUP_ROWS.min(self.rows - group * GROUP_ROWS)
    }

    /// A group's quantized form: for each 32 columns, one block of each row.
    pub(crate) fn group_blocks(&self, group: usize) -> &[Block] {
        assert!(self.has_blocks, "the activations were not refilled for a quantized matrix");
        let steps = self.columns / BLOCK_COLUMNS;
        let start = group * GROUP_ROWS * steps;
        &self.blocks[start..start + self.group_rows(group) * steps]
    }

    /// A group's `f32` form: for each column, one value of each row.
    pub(crate) fn group_floats(&self, group: usize) -> &[f32] {
        assert!(self.has_floats, "the activations were not refilled for a dense matrix");
        let start = group * GROUP_ROWS * self.columns;
        &self.floats[start..start + self.group_rows(group) * self.columns]
    }
}

/// One row's places in its group's interleaved memory.
struct Strided<'a, T> {
    group: &'a Disjoint<'a, T>,
    first: usize,
    stride: usize,
}

impl<T> Strided<'_, T> {
    #[inline(always)]
    fn at(&mut self, index: usize) -> &mut T {
        let place = self.first + index * self.stride;
        // SAFETY: `scatter` makes one `Strided` for each row, and rows of a group differ in
        // `first` modulo `stride`; `&mut self` keeps this row's places from being taken twice.
        let place = unsafe { self.group.slice(place..place + 1) };
        &mut place[0]
    }
}

/// Writes each row to its places, in parallel. `out` holds `out.len() / rows` items of each row.
fn scatter<T: Send>(
    rows: &[f32],
    columns: usize,
    out: &mut [T],
    pool: &Pool,
    write: impl Fn(&[f32], Strided<'_, T>) + Sync,
) {
    let count = rows.len() / columns;
    let items = out.len() / count.max(1);
    let group = Disjoint::new(out);
    pool.run(count.div_ceil(ROWS_PER_PART), |part| {
        let start = part * ROWS_PER_PART;
        for row in start..count.min(start + ROWS_PER_PART) {
            let first = row / GROUP_ROWS * GROUP_ROWS;
            let stride = GROUP_ROWS.min(count - first);
            let first = first * items + row % GROUP_ROWS;
            write(&rows[row * columns..][..columns], Strided { group: &group, first, stride });
        }
    });
}

/// Rows that a thread takes at a time.
const ROWS_PER_PART: usize = 4;

/// Quantizes one row.
struct QuantizeRow<'a> {
    row: &'a [f32],
    out: Strided<'a, Block>,
}

impl Kernel for QuantizeRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for (step, columns) in self.row.chunks_exact(BLOCK_COLUMNS).enumerate() {
            let columns = columns.try_into().expect("chunks of that length");
            *self.out.at(step) = quantize(simd, columns);
        }
    }
}

/// Rounds 32 values to integers of -127..=127 times a scale.
#[inline(always)]
fn quantize<S: Simd>(simd: S, columns: &[f32; BLOCK_COLUMNS]) -> Block {
    /// Adding this rounds an `f32` to an integer (nearest even) held in its lowest bits.
    const ROUNDING: f32 = 12_582_912.0;
    /// Its bits.
    const ROUNDING_BITS: i32 = ROUNDING.to_bits().cast_signed();
    let halves: [&[f32; LANES]; 2] = [
        columns[..LANES].try_into().expect("half of 32"),
        columns[LANES..].try_into().expect("half of 32"),
    ];
    let mut greatest = simd.splat(0.0);
    for half in halves {
        let value = simd.load(half);
        greatest = simd.max(value, greatest);
        greatest = simd.max(simd.sub(simd.splat(0.0), value), greatest);
    }
    let greatest = simd.greatest(greatest);
    let scale = greatest / 127.0;
    // A block of subnormals has no finite inverse: it counts as zeros.
    let inverse = if scale >= f32::MIN_POSITIVE { 127.0 / greatest } else { 0.0 };
    let mut block = Block { scale, ..Block::default() };
    let mut sums = [0_i32; 2];
    for index in 0..2 {
        let value = simd.load(halves[index]);
        let rounded = simd.fma(value, simd.splat(inverse), simd.splat(ROUNDING));
        let integers = simd.add_int(simd.bits(rounded), simd.splat_int(-ROUNDING_BITS));
        sums[index] = simd.sum_int(integers);
        let bytes = simd.narrow_bytes(integers);
        for four in 0..4 {
            let bytes = bytes[four * 4..][..4].try_into().expect("four bytes");
            block.values[index * 4 + four] = i32::from_le_bytes(bytes);
        }
    }
    let sum = sums[0] + sums[1];
    #[expect(clippy::cast_precision_loss, reason = "at most 32 * 127, exact")]
    let float = sum as f32;
    block.scaled_sum = scale * float;
    block.minus_8_sum = -8 * sum;
    block.minus_128_sum = -128 * sum;
    block.minus_32_sums = sums.map(|sum| -32 * sum);
    block
}
