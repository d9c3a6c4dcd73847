//! Inputs of products, in the forms that their matrices read.

use super::Matrix;
use crate::activations::{Activations, Forms};
use crate::pool::Pool;

impl Activations {
    /// Replaces the contents with `rows` (row-major, of `columns` each) in the forms that
    /// `readers` read. Panics when `rows` is not whole rows or a reader has other columns.
    pub fn refill(&mut self, rows: &[f32], columns: usize, readers: &[&Matrix], pool: &Pool) {
        for reader in readers {
            assert_eq!(reader.columns(), columns, "a matrix reads rows of another length");
        }
        let forms = Forms {
            has_blocks: readers.iter().any(|reader| !reader.is_dense()),
            has_floats: readers.iter().any(|reader| reader.is_dense()),
        };
        self.fill(rows, columns, forms, pool);
    }
}
