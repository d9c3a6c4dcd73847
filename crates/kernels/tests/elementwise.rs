//! Row-wise operations against `f64` arithmetic, and the same bits on every instruction set.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "test data is small"
)]

mod support;

use overdraft_kernels::{
    Pool, Rope, RopeStyle, add, add_bias, argmax, greatest_probability, read_through, rms_norm,
    silu_multiply,
};
use proptest::prelude::*;
use support::{Numbers, bits, pools};

/// Runs `operation` on every instruction set, checks that the bits agree, and yields the result.
#[track_caller]
fn everywhere(operation: impl Fn(&Pool) -> Vec<f32>) -> Vec<f32> {
    let results: Vec<Vec<f32>> = pools(3).iter().map(&operation).collect();
    for result in &results {
        assert_eq!(bits(result), bits(&results[0]));
    }
    results.into_iter().next().expect("the portable twin is always there")
}

#[track_caller]
fn close(found: &[f32], expected: impl IntoIterator<Item = f64>, tolerance: f64) {
    let expected: Vec<f64> = expected.into_iter().collect();
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (f64::from(*found) - expected).abs();
        assert!(off <= tolerance * (1.0 + expected.abs()), "{index}: {found} for {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn norms_divide_by_the_root_mean_square(
        columns in 1_usize..300, rows in 1_usize..60, seed in any::<u64>(),
    ) {
        let mut numbers = Numbers::new(seed);
        let input = numbers.floats(rows * columns);
        let weight = numbers.floats(columns);
        let found = everywhere(|pool| {
            let mut out = vec![0.0; input.len()];
            rms_norm(&input, &weight, 1e-5, &mut out, pool);
            out
        });
        for (found, row) in found.chunks(columns).zip(input.chunks(columns)) {
            let square: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
            let root = (square / columns as f64 + 1e-5).sqrt();
            close(found, row.iter().zip(&weight).map(|(x, w)| f64::from(*x) / root * f64::from(*w)), 1e-5);
        }
    }

    #[test]
    fn gates_are_multiplied_with_their_sigmoid(length in 0_usize..40_000, seed in any::<u64>()) {
        let mut numbers = Numbers::new(seed);
        let gate: Vec<f32> = numbers.floats(length).iter().map(|x| x * 20.0).collect();
        let up = numbers.floats(length);
        let found = everywhere(|pool| {
            let mut gate = gate.clone();
            silu_multiply(&mut gate, &up, pool);
            gate
        });
        let exact = gate.iter().zip(&up).map(|(g, u)| {
            let gate = f64::from(*g);
            gate / (1.0 + (-gate).exp()) * f64::from(*u)
        });
        close(&found, exact, 2e-6);
    }

    #[test]
    fn sums_of_exponentials_are_right_to_five_digits(length in 1_usize..5_000, seed in any::<u64>()) {
        let row: Vec<f32> = Numbers::new(seed).floats(length).iter().map(|x| x * 5.0).collect();
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        let likeliest = everywhere(|pool| vec![greatest_probability(&row, pool)]);
        let greatest = row.iter().fold(f32::NEG_INFINITY, |greatest, x| greatest.max(*x));
        close(&likeliest, [f64::from(greatest).exp() / sum], 1e-5);
    }

    #[test]
    fn rotations_turn_each_pair_by_its_angle(
        heads in 1_usize..5, pairs in 1_usize..40, stay in 0_usize..10, seed in any::<u64>(),
        magnitude in prop::sample::select(vec![1.0_f32, 1.139]),
    ) {
        let mut numbers = Numbers::new(seed);
        let head_dim = 2 * pairs + stay;
        let frequencies: Vec<f32> =
            (0..pairs).map(|pair| 10_000_f32.powf(-(pair as f32) / pairs as f32)).collect();
        let positions = [0, 1, 77, 1_000];
        let rows = numbers.floats(positions.len() * heads * head_dim);
        for style in [RopeStyle::Interleaved, RopeStyle::Halves] {
            let found = everywhere(|pool| {
                let mut rope = Rope::new(style, frequencies.clone(), magnitude);
                rope.prepare(&positions);
                let mut rows = rows.clone();
                rope.apply(&mut rows, head_dim, pool);
                rows
            });
            for (index, (found, before)) in found.chunks(head_dim).zip(rows.chunks(head_dim)).enumerate() {
                let position = positions[index / heads] as f32;
                for (pair, frequency) in frequencies.iter().enumerate() {
                    let (a, b) = match style {
                        RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
                        RopeStyle::Halves => (pair, pair + pairs),
                    };
                    let (sine, cosine) = f64::from(position * frequency).sin_cos();
                    let (sine, cosine) = (sine * f64::from(magnitude), cosine * f64::from(magnitude));
                    let (x, y) = (f64::from(before[a]), f64::from(before[b]));
                    close(&[found[a], found[b]], [x * cosine - y * sine, x * sine + y * cosine], 1e-5);
                }
                prop_assert_eq!(bits(&found[2 * pairs..]), bits(&before[2 * pairs..]));
            }
        }
    }
}

#[test]
fn sums_and_biases_are_added_everywhere() {
    let mut numbers = Numbers::new(4);
    let (rows, bias) = (numbers.floats(37 * 1_001), numbers.floats(1_001));
    let other = numbers.floats(37 * 1_001);
    let found = everywhere(|pool| {
        let mut rows = rows.clone();
        add(&mut rows, &other, pool);
        add_bias(&mut rows, &bias, pool);
        rows
    });
    for (index, found) in found.iter().enumerate() {
        let expected = rows[index] + other[index] + bias[index % 1_001];
        assert_eq!(found.to_bits(), expected.to_bits());
    }
}

#[test]
fn the_greatest_is_the_first_of_equals() {
    assert_eq!(argmax(&[]), None);
    assert_eq!(argmax(&[-3.0]), Some(0));
    assert_eq!(argmax(&[1.0, 5.0, 5.0, f32::NAN, 2.0]), Some(1));
    assert_eq!(argmax(&[f32::NEG_INFINITY; 3]), Some(0));
}

#[test]
fn an_empty_row_has_no_probability() {
    for row in [&[][..], &[f32::NEG_INFINITY; 20]] {
        let likeliest = greatest_probability(row, &Pool::new(1));
        assert!((0.0..=0.0).contains(&likeliest), "{likeliest}");
    }
}

#[test]
fn a_whole_buffer_is_read() {
    for pool in pools(2) {
        // One odd number: its part's sum, and so the result, differs wherever it lies.
        let mut numbers = vec![0.0; 3 * 16 * 8 * 1024 + 37];
        for place in [0, 17, 200_000, numbers.len() - 1] {
            numbers[place] = 5.0;
            assert_eq!(read_through(&numbers, &pool).to_bits(), 5.0_f32.to_bits(), "{place}");
            numbers[place] = 0.0;
        }
    }
}
