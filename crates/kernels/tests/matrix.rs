//! Matrix products against naive `f64` arithmetic, across instruction sets, shapes and batches.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "test data is small"
)]

mod support;

use overdraft_kernels::{Activations, Matrix, PackError, Pool, Product, WeightFormat};
use proptest::prelude::*;
use support::{Numbers, bits, dequantize, pools, quantize_q8_0, tensor};

/// A packed matrix and its weights by the oracle.
struct Case {
    format: WeightFormat,
    rows: usize,
    columns: usize,
    raw: Vec<u8>,
    weights: Vec<f64>,
}

impl Case {
    fn new(format: WeightFormat, rows: usize, blocks: usize, numbers: &mut Numbers) -> Self {
        let columns = match format.block_columns() {
            1 => blocks * 37,
            block => blocks * block,
        };
        let raw = tensor(format, rows, columns, numbers);
        let weights = dequantize(format, &raw);
        Self { format, rows, columns, raw, weights }
    }

    fn pack(&self, pool: &Pool) -> Matrix {
        Matrix::pack(self.format, self.rows, self.columns, &self.raw, pool)
            .expect("the raw bytes fit the shape")
    }

    fn multiply(&self, input: &[f32], pool: &Pool) -> Vec<f32> {
        multiply(&self.pack(pool), input, pool)
    }
}

fn multiply(matrix: &Matrix, input: &[f32], pool: &Pool) -> Vec<f32> {
    let mut activations = Activations::new();
    activations.refill(input, matrix.columns(), &[matrix], pool);
    let mut output = vec![f32::NAN; activations.rows() * matrix.rows()];
    matrix.multiply(&activations, &mut output, pool);
    output
}

/// The input as a kernel sees it: integers times a scale for each 32 columns, or as it is.
fn seen(input: &[f32], format: WeightFormat) -> Vec<f64> {
    if format.block_columns() == 1 {
        return input.iter().copied().map(f64::from).collect();
    }
    let mut seen = Vec::new();
    for block in input.chunks_exact(32) {
        let scale = block.iter().fold(0.0_f32, |a, b| a.max(b.abs())) / 127.0;
        seen.extend(block.iter().map(|value| match scale {
            0.0 => 0.0,
            _ => f64::from(value / scale).round() * f64::from(scale),
        }));
    }
    seen
}

/// Checks each output against `f64`: closely with the input as the kernel sees it, and within half
/// a step of the activation's integers with the input as it was.
#[track_caller]
fn check(case: &Case, input: &[f32], output: &[f32]) {
    let seen = seen(input, case.format);
    for (row, (seen, input)) in
        seen.chunks(case.columns).zip(input.chunks(case.columns)).enumerate()
    {
        for index in 0..case.rows {
            let weights = &case.weights[index * case.columns..][..case.columns];
            let found = f64::from(output[row * case.rows + index]);
            let close: f64 = weights.iter().zip(seen).map(|(w, x)| w * x).sum();
            let size: f64 = weights.iter().zip(seen).map(|(w, x)| (w * x).abs()).sum();
            // Where a value lies between two integers, the oracle may round to the other.
            let slip = weights.iter().fold(0.0_f64, |a, w| a.max(w.abs()))
                * input.iter().fold(0.0_f64, |a, x| a.max(f64::from(x.abs())))
                / 127.0;
            let slip = if case.format.block_columns() == 1 { 0.0 } else { slip };
            // Minimums are subtracted from sums of quants: both may be larger than what remains.
            let bound = size * 1e-5 + slip + 1e-4;
            assert!(
                (found - close).abs() <= bound,
                "{} row {row} output {index}: {found} for {close}, bound {bound:e}",
                case.format
            );
        }
    }
}

#[test]
fn every_format_agrees_with_naive_arithmetic_on_every_instruction_set() {
    for format in WeightFormat::ALL {
        let mut numbers = Numbers::new(7);
        let case = Case::new(format, 40, 3, &mut numbers);
        let input = numbers.floats(19 * case.columns);
        for pool in pools(2) {
            check(&case, &input, &case.multiply(&input, &pool));
        }
    }
}

#[test]
fn eight_bit_activations_cost_less_than_one_part_in_two_hundred() {
    let mut numbers = Numbers::new(3);
    let case = Case::new(WeightFormat::Q8_0, 64, 64, &mut numbers);
    let input: Vec<f32> = (0..4 * case.columns).map(|_| numbers.float()).collect();
    let output = case.multiply(&input, &Pool::new(1));
    let (mut error, mut size) = (0.0, 0.0);
    for (row, input) in input.chunks(case.columns).enumerate() {
        for (index, weights) in case.weights.chunks(case.columns).enumerate() {
            let exact: f64 = weights.iter().zip(input).map(|(w, x)| w * f64::from(*x)).sum();
            error += (f64::from(output[row * case.rows + index]) - exact).powi(2);
            size += exact.powi(2);
        }
    }
    let relative = (error / size).sqrt();
    assert!(relative < 0.005, "{relative}");
}

#[test]
fn a_dequantized_row_is_the_formats_definition() {
    for format in WeightFormat::ALL {
        let case = Case::new(format, 21, 2, &mut Numbers::new(11));
        let matrix = case.pack(&Pool::new(2));
        let mut row = vec![0.0; case.columns];
        for index in 0..case.rows {
            matrix.dequantize_row(index, &mut row);
            let expected = &case.weights[index * case.columns..][..case.columns];
            for (found, expected) in row.iter().zip(expected) {
                let off = (f64::from(*found) - expected).abs();
                assert!(
                    off <= expected.abs() * 1e-5 + 1e-6,
                    "{format} row {index}: {found} {expected}"
                );
            }
        }
    }
}

#[test]
fn several_products_at_once_are_the_same_as_one_by_one() {
    let mut numbers = Numbers::new(5);
    let cases = [
        Case::new(WeightFormat::Q4K, 64, 1, &mut numbers),
        Case::new(WeightFormat::Q6K, 17, 1, &mut numbers),
        Case::new(WeightFormat::Q8_0, 33, 8, &mut numbers),
    ];
    let pool = Pool::new(2);
    let input = numbers.floats(3 * 256);
    let matrices: Vec<Matrix> = cases.iter().map(|case| case.pack(&pool)).collect();
    let mut outputs: Vec<Vec<f32>> = cases.iter().map(|case| vec![0.0; 3 * case.rows]).collect();
    let mut activations = Activations::new();
    activations.refill(&input, 256, &matrices.iter().collect::<Vec<_>>(), &pool);
    let mut products: Vec<Product<'_>> = matrices
        .iter()
        .zip(&mut outputs)
        .map(|(matrix, output)| Product { matrix, output })
        .collect();
    Matrix::multiply_all(&mut products, &activations, &pool);
    for (case, output) in cases.iter().zip(&outputs) {
        assert_eq!(bits(output), bits(&case.multiply(&input, &pool)), "{}", case.format);
    }
}

#[test]
fn a_prefill_of_hundreds_of_rows_gives_each_row_what_it_gets_alone() {
    for format in WeightFormat::ALL {
        let mut numbers = Numbers::new(13);
        let case = Case::new(format, 50, 2, &mut numbers);
        let pool = Pool::new(2);
        let matrix = case.pack(&pool);
        let input = numbers.floats(203 * case.columns);
        let together = multiply(&matrix, &input, &pool);
        for (row, input) in input.chunks(case.columns).enumerate() {
            let alone = multiply(&matrix, input, &pool);
            assert_eq!(
                bits(&together[row * case.rows..][..case.rows]),
                bits(&alone),
                "{format} {row}"
            );
        }
    }
}

#[test]
fn refilled_activations_forget_what_they_held() {
    let mut numbers = Numbers::new(17);
    let case = Case::new(WeightFormat::Q4K, 16, 1, &mut numbers);
    let pool = Pool::new(1);
    let matrix = case.pack(&pool);
    let mut activations = Activations::new();
    activations.refill(&numbers.floats(20 * 256), 256, &[&matrix], &pool);
    let input = numbers.floats(2 * 256);
    activations.refill(&input, 256, &[&matrix], &pool);
    let mut output = vec![0.0; 2 * 16];
    matrix.multiply(&activations, &mut output, &pool);
    assert_eq!(bits(&output), bits(&case.multiply(&input, &pool)));
}

#[test]
fn wrong_bytes_and_shapes_are_refused_with_a_reason() {
    let pool = Pool::new(1);
    let refusal = Matrix::pack(WeightFormat::Q4K, 2, 100, &[], &pool).unwrap_err();
    assert_eq!(refusal, PackError::Columns { columns: 100, format: WeightFormat::Q4K });
    assert!(refusal.to_string().contains("multiple of 256"), "{refusal}");
    let refusal = Matrix::pack(WeightFormat::Q8_0, 2, 32, &[0; 67], &pool).unwrap_err();
    assert!(refusal.to_string().contains("expected 68"), "{refusal}");
    assert!(Matrix::pack(WeightFormat::F32, 0, 4, &[], &pool).is_err());
    assert!(Matrix::pack(WeightFormat::F32, usize::MAX, 4, &[], &pool).is_err());
    for format in WeightFormat::ALL {
        assert_eq!(WeightFormat::from_ggml(format.ggml()), Some(format));
    }
    assert_eq!(WeightFormat::from_ggml(9), None);
}

#[test]
fn zeros_and_tiny_numbers_do_not_upset_the_quantizer() {
    let pool = Pool::new(1);
    let raw = quantize_q8_0(&[1.0; 32 * 16]);
    let matrix = Matrix::pack(WeightFormat::Q8_0, 16, 32, &raw, &pool).unwrap();
    for value in [0.0, 1e-45, -1e-40, 1e-30, 1e30] {
        let output = multiply(&matrix, &[value; 32], &pool);
        let expected = 32.0 * f64::from(value);
        let off = (f64::from(output[0]) - expected).abs();
        assert!(off <= expected.abs() * 1e-3 + 1e-36, "{value:e}: {}", output[0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Any shape: right by the oracle, the same bits on each instruction set and number of threads,
    /// and each row the same bits alone.
    #[test]
    fn products_are_right_and_independent_of_batch_threads_and_instructions(
        format in prop::sample::select(WeightFormat::ALL.to_vec()),
        rows in 1_usize..70,
        blocks in 1_usize..4,
        batch in 1_usize..21,
        seed in any::<u64>(),
    ) {
        let mut numbers = Numbers::new(seed);
        let case = Case::new(format, rows, blocks, &mut numbers);
        let input = numbers.floats(batch * case.columns);
        let one_thread = Pool::new(1);
        let expected = case.multiply(&input, &one_thread);
        check(&case, &input, &expected);
        for pool in pools(3) {
            prop_assert_eq!(bits(&case.multiply(&input, &pool)), bits(&expected), "{:?}", pool.instructions());
        }
        let row = batch / 2;
        let alone = case.multiply(&input[row * case.columns..][..case.columns], &one_thread);
        prop_assert_eq!(bits(&alone), bits(&expected[row * rows..][..rows]));
    }
}
