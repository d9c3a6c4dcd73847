//! Draws follow their distribution, and depend on nothing but seed and position.

use overdraft_engine::Sampling;
use overdraft_engine::sample::Sampler;
use overdraft_units::TokenId;
use proptest::prelude::*;

use crate::oracle::{edited, filtered, row};

/// Draws at the positions `0..count` of one sequence.
fn draws(row: &[f32], sampling: &Sampling, seed: u64, count: usize) -> Vec<usize> {
    let mut row = row.to_vec();
    let mut sampler = Sampler::new(sampling, &[], &[], seed);
    let mut draw = || {
        let token = sampler.choose(&mut row).expect("usable").token;
        sampler.accept(token);
        usize::try_from(token.0).expect("64 bits")
    };
    (0..count).map(|_| draw()).collect()
}

/// Pearson's statistic over cells with enough expected draws, and their number less one.
fn chi_square(expected: &[f64], draws: &[usize]) -> (f64, f64) {
    let total = f64::from(u32::try_from(draws.len()).expect("few draws"));
    let mut seen = vec![0.0; expected.len()];
    for &draw in draws {
        seen[draw] += 1.0;
    }
    let (mut rare_expected, mut rare_seen) = (0.0, 0.0);
    let (mut statistic, mut cells) = (0.0, 0.0);
    for (share, seen) in expected.iter().zip(seen) {
        if share * total < 5.0 {
            rare_expected += share * total;
            rare_seen += seen;
        } else {
            statistic += (seen - share * total).powi(2) / (share * total);
            cells += 1.0;
        }
    }
    if rare_expected >= 5.0 {
        statistic += (rare_seen - rare_expected).powi(2) / rare_expected;
        cells += 1.0;
    }
    (statistic, cells - 1.0)
}

/// Fails when the draws are less likely than about one in ten thousand (Wilson and Hilferty).
#[track_caller]
fn check(row: &[f32], sampling: &Sampling) {
    let expected = filtered(&edited(row, sampling, &[], &[]), sampling);
    let draws = draws(row, sampling, 42, 20_000);
    assert!(draws.iter().all(|&draw| expected[draw] > 0.0), "drew what was filtered out");
    let (statistic, freedom) = chi_square(&expected, &draws);
    let spread = 2.0 / (9.0 * freedom);
    let bound = freedom * (1.0 - spread + 3.7 * spread.sqrt()).powi(3);
    assert!(statistic < bound, "chi square {statistic} with {freedom} degrees, bound {bound}");
}

/// A bumpy row, its likeliest tokens spread over the vocabulary.
fn bumpy(vocabulary: u16) -> Vec<f32> {
    (0..vocabulary).map(|token| 3.0 * (f32::from(token) * 0.7).sin()).collect()
}

#[test]
fn unfiltered_draws_follow_the_softmax() {
    check(&bumpy(50), &Sampling::default());
    check(&bumpy(50), &Sampling { temperature: 0.4, ..Sampling::default() });
    // Several stretches, the last one not full.
    check(&bumpy(3000), &Sampling { temperature: 0.5, ..Sampling::default() });
}

#[test]
fn filtered_draws_follow_what_is_left() {
    check(&bumpy(300), &Sampling { top_k: Some(20), ..Sampling::default() });
    check(&bumpy(300), &Sampling { top_p: 0.6, ..Sampling::default() });
    check(&bumpy(300), &Sampling { min_p: 0.2, ..Sampling::default() });
    let all = Sampling { top_k: Some(40), top_p: 0.8, min_p: 0.1, ..Sampling::default() };
    check(&bumpy(300), &all);
}

#[test]
fn masked_stretches_are_never_drawn_from() {
    let mut row = vec![f32::NEG_INFINITY; 5000];
    (row[2100], row[4999]) = (1.0, 1.0);
    let drawn = draws(&row, &Sampling::default(), 1, 200);
    assert!(drawn.contains(&2100) && drawn.contains(&4999));
    assert!(drawn.iter().all(|&token| token == 2100 || token == 4999));
}

#[test]
fn neighbouring_seeds_and_positions_are_unrelated() {
    let fair = [0.0, 0.0];
    let heads = |seed| draws(&fair, &Sampling::default(), seed, 64);
    let agreements =
        |a: Vec<usize>, b: Vec<usize>| a.iter().zip(&b).filter(|(a, b)| a == b).count();
    let same: usize = (0..64).map(|seed| agreements(heads(seed), heads(seed + 1))).sum();
    let shifted: usize = (0..64)
        .map(|seed| {
            let drawn = heads(seed);
            agreements(drawn[1..].to_vec(), drawn)
        })
        .sum();
    // 4096 fair coins: within five standard deviations of a half.
    assert!((1888..2208).contains(&same), "{same}");
    assert!((1856..2176).contains(&shifted), "{shifted}");
}

proptest! {
    #[test]
    fn a_draw_depends_on_seed_and_position_alone(
        row in row(),
        seed in any::<u64>(),
        top_p in prop_oneof![Just(1.0_f32), 0.1_f32..1.0],
        start in 0_usize..6,
    ) {
        let sampling = Sampling { top_p, ..Sampling::default() };
        let whole = draws(&row, &sampling, seed, 8);
        prop_assert_eq!(&whole, &draws(&row, &sampling, seed, 8));
        // Begun later, as after a change of hands: what was said is prompt now.
        let said: Vec<TokenId> = whole[..start]
            .iter()
            .map(|&token| TokenId(u32::try_from(token).expect("few tokens")))
            .collect();
        let next = Sampler::new(&sampling, &said, &[], seed).choose(&mut row.clone());
        let next = usize::try_from(next.expect("usable").token.0).expect("64 bits");
        prop_assert_eq!(next, whole[start]);
    }
}
