//! What masks, biases and penalties do, and that they leave no trace.

use overdraft_engine::Sampling;
use overdraft_engine::sample::Sampler;
use overdraft_units::{TokenId, Tokens};
use proptest::prelude::*;

use crate::oracle::{END, edited, filtered, row, tokens};

fn wishes() -> impl Strategy<Value = Sampling> {
    let bias = proptest::collection::vec(((0_u32..500).prop_map(TokenId), -100.0_f32..100.0), 0..4);
    let stop_tokens = tokens(3);
    // The extremes, too: they make logits as large as numbers get.
    let extremes = prop::sample::select(vec![1e-38, f32::MIN_POSITIVE, 1e38, f32::MAX]);
    let repetition = prop_oneof![4 => 0.5_f32..2.0, 1 => extremes];
    (-2.0_f32..2.0, -2.0_f32..2.0, repetition, bias, stop_tokens, 0_u32..8).prop_map(
        |(presence, frequency, repetition, logit_bias, stop_tokens, min_tokens)| Sampling {
            presence_penalty: presence,
            frequency_penalty: frequency,
            repetition_penalty: repetition,
            logit_bias,
            stop_tokens,
            min_tokens: Tokens::new(min_tokens),
            ..Sampling::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn edits_are_the_obvious_ones_and_are_undone(
        mut row in row(),
        sampling in wishes(),
        prompt in tokens(8),
        completion in tokens(12),
    ) {
        let expected = edited(&row, &sampling, &prompt, &completion);
        prop_assume!(expected.iter().any(|logit| logit.is_finite()));
        let expected = filtered(&expected, &sampling);
        let mut sampler = Sampler::new(&sampling, &prompt, &[END], 0);
        for &token in &completion {
            sampler.accept(token);
        }
        let before = row.clone();
        let found = sampler.distribution(&mut row).expect("usable");
        prop_assert_eq!(&row, &before);
        sampler.choose(&mut row).expect("usable");
        prop_assert_eq!(&row, &before);
        for (token, expected) in (0..).map(TokenId).zip(expected) {
            let found = f64::from(found.probability(token));
            prop_assert!((found - expected).abs() < 1e-4, "{token:?}: {found} not {expected}");
        }
    }
}

#[test]
fn an_extreme_repetition_penalty_leaves_something_to_choose() {
    for repetition_penalty in [f32::MIN_POSITIVE, 1e-38, 1e38, f32::MAX] {
        for temperature in [0.0, 1.0] {
            for top_p in [1.0, 0.9] {
                let sampling =
                    Sampling { temperature, top_p, repetition_penalty, ..Sampling::default() };
                let prompt = [TokenId(0), TokenId(1), TokenId(2)];
                let mut sampler = Sampler::new(&sampling, &prompt, &[], 7);
                let choice = sampler.choose(&mut [40.0, 3.0, f32::NEG_INFINITY, -5.0]).unwrap();
                assert_ne!(choice.token, TokenId(2), "what is out stays out");
                // All that there is was punished as much as can be.
                sampler.choose(&mut [-40.0, -50.0, f32::NEG_INFINITY]).unwrap();
            }
        }
    }
}

#[test]
fn end_tokens_are_masked_until_the_minimum() {
    let sampling = Sampling {
        temperature: 0.0,
        min_tokens: Tokens::new(2),
        stop_tokens: vec![TokenId(1)],
        ..Sampling::default()
    };
    let mut sampler = Sampler::new(&sampling, &[], &[END], 0);
    let mut chosen = Vec::new();
    for _ in 0..3 {
        let choice = sampler.choose(&mut [0.0, 2.0, 1.0, 3.0]).unwrap();
        sampler.accept(choice.token);
        chosen.push(choice.token);
    }
    assert_eq!(chosen, [TokenId(2), TokenId(2), END]);
}

#[test]
fn presence_and_frequency_ignore_the_prompt_and_repetition_does_not() {
    let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
    let choose = |sampling: &Sampling| {
        Sampler::new(sampling, &[TokenId(0)], &[], 0).choose(&mut [1.0, 0.9]).unwrap().token
    };
    assert_eq!(choose(&Sampling { presence_penalty: 2.0, ..greedy.clone() }), TokenId(0));
    assert_eq!(choose(&Sampling { frequency_penalty: 2.0, ..greedy.clone() }), TokenId(0));
    assert_eq!(choose(&Sampling { repetition_penalty: 2.0, ..greedy }), TokenId(1));
}
