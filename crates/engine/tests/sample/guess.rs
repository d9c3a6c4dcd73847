//! What is emitted after a guess is distributed as if nothing had been guessed.

use overdraft_engine::Sampling;
use overdraft_engine::sample::{Guess, Sampler};
use overdraft_units::TokenId;

const DRAWS: u32 = 50_000;

/// The target's row and the draft's, which are alike.
fn rows() -> (Vec<f32>, Vec<f32>) {
    let target = vec![2.0, 1.5, 1.0, 0.5, 0.0, -0.5, 3.0, 2.5, -1.0, 1.2, 0.3, 2.2];
    let draft = vec![1.0, 2.5, 1.0, 1.5, 0.2, -2.0, 2.0, 2.9, 0.5, 1.2, -0.3, 0.2];
    (target, draft)
}

/// Draws through a draft, many times, and compares with the exact distribution.
#[track_caller]
fn check(sampling: &Sampling) {
    let prompt = [TokenId(6), TokenId(1)];
    let (mut target, mut draft) = rows();
    let mut counts = vec![0_u32; target.len()];
    let (mut expected, mut kept) = (None, 0);
    for seed in 0..DRAWS {
        let mut sampler = Sampler::new(sampling, &prompt, &[], u64::from(seed));
        sampler.accept(TokenId(7));
        let guess = sampler.guess(&mut draft, 0).expect("a draw");
        let choice = sampler.verify(&mut target, Some(&guess)).expect("a choice");
        counts[usize::try_from(choice.token.0).expect("a small number")] += 1;
        kept += u32::from(choice.token == guess.token);
        if expected.is_none() {
            expected = Some(sampler.distribution(&mut target).expect("a distribution"));
        }
    }
    let expected = expected.expect("it was drawn");
    let (mut square, mut freedom) = (0.0, -1.0);
    for (token, count) in (0..).map(TokenId).zip(counts) {
        let wanted = f64::from(expected.probability(token)) * f64::from(DRAWS);
        if wanted == 0.0 {
            assert_eq!(count, 0, "{token:?} has no chance");
            continue;
        }
        square += (f64::from(count) - wanted).powi(2) / wanted;
        freedom += 1.0;
    }
    // Four standard deviations above the mean of chi-square: one in some ten thousand, and the seeds
    // are always the same.
    let bound = freedom + 4.0 * f64::sqrt(2.0 * freedom) + 4.0;
    assert!(square < bound, "chi-square {square:.1} of {freedom} degrees of freedom");
    assert!(DRAWS / 3 < kept && kept < DRAWS, "{kept} guesses were kept");
}

#[test]
fn rejection_leaves_the_distribution_as_it_is() {
    check(&Sampling::default());
    check(&Sampling { temperature: 0.7, ..Sampling::default() });
    check(&Sampling { temperature: 1.3, top_p: 0.8, ..Sampling::default() });
    check(&Sampling { top_k: Some(5), ..Sampling::default() });
    check(&Sampling { min_p: 0.15, ..Sampling::default() });
}

#[test]
fn rejection_heeds_penalties_and_biases() {
    let penalties = Sampling {
        presence_penalty: 0.8,
        frequency_penalty: 0.5,
        repetition_penalty: 1.4,
        top_p: 0.9,
        ..Sampling::default()
    };
    check(&penalties);
    check(&Sampling {
        logit_bias: vec![(TokenId(2), 1.5), (TokenId(6), -100.0)],
        ..Sampling::default()
    });
}

/// With a seed the completion is the seed's, whatever was guessed.
#[test]
fn a_seed_draws_the_same_with_and_without_guesses() {
    let sampling = Sampling { seed: Some(1), temperature: 0.9, ..Sampling::default() };
    let (mut target, mut draft) = rows();
    let mut kept = 0;
    for seed in 0..2_000 {
        let mut sampler = Sampler::new(&sampling, &[TokenId(0)], &[], seed);
        let alone = sampler.choose(&mut target).unwrap();
        let guess = sampler.guess(&mut draft, 0).expect("a draw");
        assert_eq!(guess.from, None);
        assert_eq!(sampler.verify(&mut target, Some(&guess)).expect("a choice"), alone);
        let other = Guess::certain(TokenId(3));
        assert_eq!(sampler.verify(&mut target, Some(&other)).unwrap(), alone);
        kept += u32::from(alone.token == guess.token);
    }
    assert!(600 < kept, "drawn with the same numbers they agree often, not {kept} times");
}

#[test]
fn a_greedy_guess_is_the_drafts_best_and_the_answer_the_targets() {
    let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
    let (mut target, mut draft) = rows();
    let mut sampler = Sampler::new(&sampling, &[TokenId(0)], &[], 1);
    let guess = sampler.guess(&mut draft, 3).unwrap();
    assert_eq!((guess.token, &guess.from), (TokenId(7), &None));
    assert_eq!(sampler.verify(&mut target, Some(&guess)).expect("a choice").token, TokenId(6));
}

/// The guess has its own numbers: those of the place it stands at.
#[test]
fn guesses_further_ahead_are_other_draws() {
    let (_, mut draft) = rows();
    let mut sampler = Sampler::new(&Sampling::default(), &[TokenId(0)], &[], 5);
    let tokens: Vec<_> =
        (0..24).map(|ahead| sampler.guess(&mut draft, ahead).unwrap().token).collect();
    assert!(tokens.iter().any(|token| *token != tokens[0]));
}
