//! Log probabilities are of the raw row, whatever is done to choose.

use overdraft_engine::Sampling;
use overdraft_engine::sample::{Sampler, position_logprobs};
use overdraft_units::TokenId;
use proptest::prelude::*;

use crate::oracle::{END, row};

fn naive(row: &[f32]) -> Vec<f64> {
    let best = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let mass: f64 = row.iter().map(|&logit| (f64::from(logit) - best).exp()).sum();
    row.iter().map(|&logit| f64::from(logit) - best - mass.ln()).collect()
}

fn close(found: f32, expected: f64) -> bool {
    let impossible = found == f32::NEG_INFINITY && expected == f64::NEG_INFINITY;
    impossible || (f64::from(found) - expected).abs() < 1e-5 * (1.0 + expected.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn they_are_the_obvious_ones(row in row(), place in any::<prop::sample::Index>()) {
        let expected = naive(&row);
        let chosen = place.index(row.len());
        let token = TokenId(u32::try_from(chosen).expect("few tokens"));
        let found = position_logprobs(&row, token, 20);
        prop_assert!(close(found.chosen.logprob, expected[chosen]));

        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
        let rank = order.iter().position(|&index| index == chosen).expect("it is there") + 1;
        prop_assert_eq!(usize::try_from(found.chosen.rank).expect("64 bits"), rank);
        let finite = row.iter().filter(|logit| logit.is_finite()).count();
        prop_assert_eq!(found.top.len(), finite.min(20));
        for (entry, &index) in found.top.iter().zip(&order) {
            prop_assert_eq!(usize::try_from(entry.id.0).expect("64 bits"), index);
            prop_assert!(close(entry.logprob, expected[index]));
        }
        for (entry, rank) in found.top.iter().zip(1..) {
            prop_assert_eq!(entry.rank, rank);
        }
    }

    #[test]
    fn they_ignore_temperature_bias_and_filters(mut row in row(), seed in any::<u64>()) {
        let sampling = Sampling {
            temperature: 0.3,
            top_k: Some(5),
            logit_bias: vec![(TokenId(1), 50.0), (TokenId(2), -50.0)],
            repetition_penalty: 1.5,
            logprobs: Some(4),
            ..Sampling::default()
        };
        let mut sampler = Sampler::new(&sampling, &[TokenId(0)], &[END], seed);
        let choice = sampler.choose(&mut row).expect("usable");
        prop_assert_eq!(choice.logprobs, Some(position_logprobs(&row, choice.token, 4)));
    }
}

#[test]
fn a_large_vocabulary_costs_no_digits() {
    let vocabulary = 151_936_u32;
    let row: Vec<f32> = (0..vocabulary)
        .map(|token| f32::from(u16::try_from(token % 977).unwrap()) * 0.01 - 5.0)
        .collect();
    let expected = naive(&row);
    let found = position_logprobs(&row, TokenId(976), 1);
    assert!(close(found.chosen.logprob, expected[976]), "{found:?} not {}", expected[976]);
    let again = position_logprobs(&row, TokenId(977 + 976), 2);
    assert_eq!((found.chosen.rank, again.chosen.rank), (1, 2), "equals rank by their number");
}
