//! Matrix: packed weights of a model, and their product with rows of activations.
//!
//! A [`Matrix`] is packed from the bytes of a GGUF tensor into tiles of 16 rows, so that a vector
//! register holds the same column of 16 rows and no sum ever crosses lanes. Packing changes the
//! order of the numbers and nothing else; only the packed copy is kept.
//!
//! Invariant: an output value is one running `f32` sum over the columns, in order, whatever the
//! number of input rows.

mod build;
mod dense;
mod fifth_bits;
mod format;
mod inputs;
mod levels;
mod nibbles;
mod outputs;
mod quantized;
mod tiles;

pub use format::{PackError, WeightFormat};

use crate::activations::Activations;
use crate::pool::{Disjoint, Pool};
use crate::simd::LANES;
use dense::DensePanel;
use half::bf16;
use outputs::Outputs;
use quantized::QuantizedPanel;
use tiles::{Iq4Nl, Iq4Xs, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};

/// Maximum bytes of weights that a thread takes at a time when there are several input rows: half
/// of the smallest usual second-level cache.
const PANEL_BYTES_MAX: usize = 256 * 1024;
/// Panels per thread in a product, so that a delayed thread delays the product little.
const PANELS_PER_THREAD: usize = 8;
/// Multiplications in a panel at least, over all input rows: half a microsecond or more. Fewer take less time than the
/// threads need to tell each other who has which panel.
const PANEL_PRODUCTS_MIN: usize = 32 * 1024;

/// A weight matrix of `rows` outputs by `columns` inputs.
#[derive(Debug)]
pub struct Matrix {
    format: WeightFormat,
    rows: usize,
    columns: usize,
    storage: Storage,
}

/// Tiles of 16 rows, each tile's columns in order, the last tile padded with rows of zeros.
#[derive(Debug)]
enum Storage {
    F32(Vec<[f32; LANES]>),
    F16(Vec<[u16; LANES]>),
    Bf16(Vec<[bf16; LANES]>),
    Q4_0(Vec<Q4_0>),
    Q4_1(Vec<Q4_1>),
    Q5_0(Vec<Q5_0>),
    Q5_1(Vec<Q5_1>),
    Q8_0(Vec<Q8_0>),
    Q4K(Vec<Q4K>),
    Q5K(Vec<Q5K>),
    Q6K(Vec<Q6K>),
    Iq4Nl(Vec<Iq4Nl>),
    Iq4Xs(Vec<Iq4Xs>),
}

/// Calls a function with the storage's tiles, whatever their type: `dense` or `quantized`.
macro_rules! each_storage {
    ($storage:expr, $tiles:ident => $dense:expr, $quantized:expr) => {
        match $storage {
            Storage::F32($tiles) => $dense,
            Storage::F16($tiles) => $dense,
            Storage::Bf16($tiles) => $dense,
            Storage::Q4_0($tiles) => $quantized,
            Storage::Q4_1($tiles) => $quantized,
            Storage::Q5_0($tiles) => $quantized,
            Storage::Q5_1($tiles) => $quantized,
            Storage::Q8_0($tiles) => $quantized,
            Storage::Q4K($tiles) => $quantized,
            Storage::Q5K($tiles) => $quantized,
            Storage::Q6K($tiles) => $quantized,
            Storage::Iq4Nl($tiles) => $quantized,
            Storage::Iq4Xs($tiles) => $quantized,
        }
    };
}

/// One matrix of several that multiply the same input.
#[derive(Debug)]
pub struct Product<'a> {
    /// The weights.
    pub matrix: &'a Matrix,
    /// Receives one row of `matrix.rows()` values for each input row.
    pub output: &'a mut [f32],
}

impl Matrix {
    /// Packs a tensor's bytes: `rows` rows of `columns` weights, row after row, as a GGUF file
    /// holds them. Fails when `columns` are not whole blocks or `raw` has another length.
    pub fn pack(
        format: WeightFormat,
        rows: usize,
        columns: usize,
        raw: &[u8],
        pool: &Pool,
    ) -> Result<Self, PackError> {
        let row_bytes = format.row_bytes(columns)?;
        let expected = rows.checked_mul(row_bytes).filter(|bytes| *bytes > 0);
        if expected != Some(raw.len()) {
            let expected = expected.unwrap_or(0);
            return Err(PackError::Length { found: raw.len(), expected, rows, columns, format });
        }
        let source = build::Source { raw, rows, row_bytes, columns };
        let storage = match format {
            WeightFormat::F32 => Storage::F32(source.dense(f32::from_le_bytes, pool)),
            WeightFormat::F16 => Storage::F16(source.dense(u16::from_le_bytes, pool)),
            WeightFormat::Bf16 => Storage::Bf16(source.dense(bf16::from_le_bytes, pool)),
            WeightFormat::Q4_0 => Storage::Q4_0(source.quantized(pool)),
            WeightFormat::Q4_1 => Storage::Q4_1(source.quantized(pool)),
            WeightFormat::Q5_0 => Storage::Q5_0(source.quantized(pool)),
            WeightFormat::Q5_1 => Storage::Q5_1(source.quantized(pool)),
            WeightFormat::Q8_0 => Storage::Q8_0(source.quantized(pool)),
            WeightFormat::Q4K => Storage::Q4K(source.quantized(pool)),
            WeightFormat::Q5K => Storage::Q5K(source.quantized(pool)),
            WeightFormat::Q6K => Storage::Q6K(source.quantized(pool)),
            WeightFormat::Iq4Nl => Storage::Iq4Nl(source.quantized(pool)),
            WeightFormat::Iq4Xs => Storage::Iq4Xs(source.quantized(pool)),
        };
        Ok(Self { format, rows, columns, storage })
    }

    /// Outputs for each input row.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Length of an input row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The format of the weights.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// Memory that the weights take, all of which one product reads.
    pub fn bytes(&self) -> usize {
        each_storage!(&self.storage, tiles => size_of_val(&tiles[..]), size_of_val(&tiles[..]))
    }

    /// Whether products read the `f32` form of their input.
    pub(crate) fn is_dense(&self) -> bool {
        matches!(self.storage, Storage::F32(_) | Storage::F16(_) | Storage::Bf16(_))
    }

    /// Writes input times the matrix's transpose: for each input row, `rows()` outputs, row-major.
    ///
    /// Panics when the input has other columns or was not refilled for a matrix like this, or when
    /// the output has another length.
    pub fn multiply(&self, input: &Activations, output: &mut [f32], pool: &Pool) {
        Self::multiply_all(&mut [Product { matrix: self, output }], input, pool);
    }

    /// As [`Self::multiply`] for several matrices with the same input, in one go over the threads.
    pub fn multiply_all(products: &mut [Product<'_>], input: &Activations, pool: &Pool) {
        let plans: Vec<Plan<'_>> =
            products.iter_mut().map(|product| Plan::new(product, input, pool)).collect();
        let panels = plans.iter().map(|plan| plan.panels).sum();
        pool.run(panels, |mut part| {
            for plan in &plans {
                if part < plan.panels {
                    return plan.run(part, input, pool);
                }
                part -= plan.panels;
            }
        });
    }

    /// Writes one row's weights as `f32`, as the format defines them. Panics when `row` or the
    /// length of `out` does not fit.
    pub fn dequantize_row(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row `{row}` of a matrix of {} rows", self.rows);
        assert_eq!(out.len(), self.columns, "a row has {} columns", self.columns);
        each_storage!(&self.storage, tiles =>
            dense::dequantize_row(tiles, self.columns, row, out),
            quantized::dequantize_row(tiles, self.columns, row, out));
    }
}

/// How one product is cut into panels of whole tiles.
struct Plan<'a> {
    matrix: &'a Matrix,
    output: Disjoint<'a, f32>,
    tiles: usize,
    panel_tiles: usize,
    panels: usize,
}

impl<'a> Plan<'a> {
    fn new(product: &'a mut Product<'_>, input: &Activations, pool: &Pool) -> Self {
        let matrix = product.matrix;
        assert_eq!(input.columns(), matrix.columns, "the input's rows have another length");
        let outputs = input.rows() * matrix.rows;
        assert_eq!(product.output.len(), outputs, "the output is not input rows times matrix rows");
        let tiles = matrix.rows.div_ceil(LANES);
        let tile_bytes = (matrix.bytes() / tiles).max(1);
        let fair = tiles.div_ceil(pool.threads() * PANELS_PER_THREAD);
        let tile_products = (LANES * matrix.columns * input.rows()).max(1);
        let worth_a_panel = PANEL_PRODUCTS_MIN.div_ceil(tile_products).min(tiles);
        let panel_tiles = fair.min(PANEL_BYTES_MAX / tile_bytes).max(worth_a_panel);
        let panels = tiles.div_ceil(panel_tiles);
        Self { matrix, output: Disjoint::new(product.output), tiles, panel_tiles, panels }
    }

    /// Computes one panel's outputs for all input rows.
    fn run(&self, panel: usize, input: &Activations, pool: &Pool) {
        let first = panel * self.panel_tiles;
        let tiles = first..self.tiles.min(first + self.panel_tiles);
        let outputs = Outputs { output: &self.output, stride: self.matrix.rows };
        let columns = self.matrix.columns;
        each_storage!(&self.matrix.storage, all =>
            pool.kernel(DensePanel { all, columns, tiles, input, outputs }),
            pool.kernel(QuantizedPanel { all, columns, tiles, input, outputs }));
    }
}

#[cfg(test)]
mod tests {
    use super::{LANES, Matrix, PANEL_PRODUCTS_MIN, Plan, Product, WeightFormat};
    use crate::activations::Activations;
    use crate::pool::Pool;

    /// Panels of a square matrix for so many input rows on two threads.
    fn panels(columns: usize, input_rows: usize) -> usize {
        let pool = Pool::new(2);
        let raw = vec![0; columns * columns / 32 * 34];
        let matrix = Matrix::pack(WeightFormat::Q8_0, columns, columns, &raw, &pool);
        let matrix = matrix.expect("whole blocks");
        let mut input = Activations::new();
        input.refill(&vec![0.0; input_rows * columns], columns, &[&matrix], &pool);
        let mut output = vec![0.0; input_rows * columns];
        Plan::new(&mut Product { matrix: &matrix, output: &mut output }, &input, &pool).panels
    }

    #[test]
    fn a_panel_is_worth_handing_over() {
        for (columns, input_rows) in [(256, 1), (256, 3), (256, 64), (1_024, 1), (1_024, 8)] {
            let products = columns * columns * input_rows;
            let found = panels(columns, input_rows);
            // Whole tiles: the last panel may have fewer.
            let most = products.div_ceil(PANEL_PRODUCTS_MIN).min(columns / LANES);
            assert!((1..=most).contains(&found), "{found} panels of {columns} x {input_rows}");
        }
        assert_eq!(panels(32, 1), 1, "a thousand products are nobody else's business");
        assert_eq!(panels(1_024, 8), 16, "eight panels a thread where there is enough to do");
    }
}
