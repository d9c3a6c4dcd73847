//! What temperature, `min_p`, `top_k` and `top_p` leave.

use overdraft_engine::Sampling;
use overdraft_engine::sample::Sampler;
use overdraft_units::TokenId;
use proptest::prelude::*;

use crate::oracle::{edited, filtered, row};

fn filters() -> impl Strategy<Value = Sampling> {
    let temperature = prop_oneof![Just(1.0_f32), 0.05_f32..3.0];
    let top_k = prop_oneof![Just(None), (1_u32..40).prop_map(Some), Just(Some(100_000))];
    let top_p = prop_oneof![Just(1.0_f32), 0.01_f32..1.0];
    let min_p = prop_oneof![Just(0.0_f32), 0.001_f32..1.0];
    (temperature, top_k, top_p, min_p).prop_map(|(temperature, top_k, top_p, min_p)| Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
        ..Sampling::default()
    })
}

fn distribution(row: &[f32], sampling: &Sampling) -> Vec<f32> {
    let mut row = row.to_vec();
    let before = row.clone();
    let distribution = Sampler::new(sampling, &[], &[], 0).distribution(&mut row).expect("usable");
    assert_eq!(row, before, "the row was left changed");
    let mut probabilities = vec![0.0; row.len()];
    for &(TokenId(token), probability) in distribution.entries() {
        probabilities[usize::try_from(token).expect("64 bits")] = probability;
    }
    probabilities
}

fn count(probabilities: &[f64]) -> usize {
    probabilities.iter().filter(|share| **share > 0.0).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_distribution_is_the_obvious_one(row in row(), sampling in filters()) {
        let found = distribution(&row, &sampling);
        let sum: f64 = found.iter().copied().map(f64::from).sum();
        prop_assert!((sum - 1.0).abs() < 1e-5, "probabilities sum to {sum}");

        // At the very edge of `top_p` and `min_p` rounding may decide either way.
        let logits = edited(&row, &sampling, &[], &[]);
        let with = |top_p: f32, min_p: f32| filtered(&logits, &Sampling {
            top_p: (sampling.top_p * top_p).min(1.0),
            min_p: (sampling.min_p * min_p).min(1.0),
            ..sampling.clone()
        });
        let near = [with(1.0, 1.0), with(0.9999, 1.0001), with(1.0001, 0.9999),
            with(1.0001, 1.0001), with(0.9999, 0.9999)];
        let agrees = |expected: &Vec<f64>| {
            expected.iter().zip(&found).all(|(expected, &found)| {
                (expected - f64::from(found)).abs() < 1e-4
            })
        };
        prop_assert!(near.iter().any(agrees), "{found:?} instead of {:?}", near[0]);
    }

    #[test]
    fn the_nucleus_is_the_smallest_that_reaches_its_share(row in row(), top_p in 0.05_f32..0.99) {
        let all = filtered(&edited(&row, &Sampling::default(), &[], &[]), &Sampling::default());
        let found = distribution(&row, &Sampling { top_p, ..Sampling::default() });
        let kept: Vec<f64> = all
            .iter()
            .zip(&found)
            .filter(|(_, found)| **found > 0.0)
            .map(|(share, _)| *share)
            .collect();
        let mass: f64 = kept.iter().sum();
        let least = kept.iter().copied().fold(f64::INFINITY, f64::min);
        prop_assert!(mass >= f64::from(top_p) - 1e-4, "only {mass} kept for {top_p}");
        prop_assert!(mass - least < f64::from(top_p) + 1e-4, "{mass} kept for {top_p}, one too many");
    }

    #[test]
    fn greedy_is_the_first_of_the_largest(row in row()) {
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        let choice = Sampler::new(&sampling, &[], &[], 0).choose(&mut row.clone()).expect("usable");
        let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let first = row.iter().position(|&logit| logit >= best).expect("the maximum is there");
        prop_assert_eq!(usize::try_from(choice.token.0).expect("64 bits"), first);
    }
}

#[test]
fn every_filter_keeps_the_likeliest_token() {
    let row = [0.0, 5.0, 1.0];
    for sampling in [
        Sampling { top_k: Some(1), ..Sampling::default() },
        Sampling { top_p: 1e-6, ..Sampling::default() },
        Sampling { min_p: 1.0, ..Sampling::default() },
        Sampling { temperature: 1e-4, ..Sampling::default() },
    ] {
        assert_eq!(distribution(&row, &sampling), [0.0, 1.0, 0.0], "{sampling:?}");
    }
}

#[test]
fn min_p_counts_before_top_p() {
    // 0.5, 0.3, 0.1, 0.1: `min_p` 0.3 leaves the first two, of which the first alone has 0.625.
    let row = [0.5_f32.ln(), 0.3_f32.ln(), 0.1_f32.ln(), 0.1_f32.ln()];
    let sampling = Sampling { min_p: 0.3, top_p: 0.6, ..Sampling::default() };
    assert_eq!(count(&filtered(&row.map(f64::from), &sampling)), 1);
    assert_eq!(distribution(&row, &sampling), [1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn entries_that_are_no_number_are_never_chosen() {
    let row = [f32::NAN, 1.0, f32::NEG_INFINITY, f32::NAN, 1.0];
    for temperature in [0.0, 1.0] {
        let sampling = Sampling { temperature, ..Sampling::default() };
        for seed in 0..32 {
            let choice = Sampler::new(&sampling, &[], &[], seed).choose(&mut row.clone()).unwrap();
            assert!([TokenId(1), TokenId(4)].contains(&choice.token), "{choice:?}");
        }
    }
}

#[test]
fn a_row_without_a_number_is_an_error() {
    for temperature in [0.0, 1.0] {
        for top_p in [1.0, 0.5] {
            let sampling = Sampling { temperature, top_p, ..Sampling::default() };
            let mut sampler = Sampler::new(&sampling, &[TokenId(0)], &[], 0);
            let error = sampler.choose(&mut [f32::NAN, f32::NEG_INFINITY]).unwrap_err();
            assert_eq!(error.position, 1);
        }
    }
}
