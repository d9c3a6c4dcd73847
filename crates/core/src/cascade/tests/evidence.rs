//! What evidence says of a draft.

use alloc::vec::Vec;

use overdraft_units::{Ratio, Tokens};

use super::super::{Bound, Evidence, FEATURES, Finish, LogProb, Nats, Observation, Script, Traits};
use super::{Dice, draft, token, traits};

#[test]
fn quantiles_are_within_an_eighth_of_the_sorted_ones() {
    let mut dice = Dice::new(1);
    for length in [1, 2, 7, 40, 300] {
        let mut evidence = Evidence::new(traits(), Tokens::new(8));
        let mut sorted = Vec::new();
        for _ in 0..length {
            // Evenly over the octaves, so that every step of the histogram is met.
            let octave = 1 + dice.below(25);
            let surprise = dice.below(1 << octave);
            sorted.push(surprise);
            let logprob = LogProb::micronats(-i64::from(surprise));
            evidence.observe(Observation { logprob, margin: None, entropy: None, digit: false });
        }
        sorted.sort_unstable_by(|one, other| other.cmp(one));
        for percent in [0, 5, 10, 50, 95] {
            let place = sorted.len() * usize::try_from(percent).unwrap() / 100;
            let exact = sorted[place];
            let found = evidence.surprise_exceeded_by(percent).get();
            assert!(exact <= found, "{percent} % of {length}: {found} is below {exact}");
            let most = exact + exact / 8 + 512;
            assert!(found <= most, "{percent} % of {length}: {found} is above {exact} by too much");
        }
    }
}

#[test]
fn evidence_does_not_depend_on_how_long_an_answer_of_the_same_kind_is() {
    let features = |repeats: usize| {
        let mut evidence = Evidence::new(traits(), Tokens::new(8));
        for _ in 0..repeats {
            for surprise in [10, 10, 10, 10, 10, 10, 10, 10, 10, 200] {
                evidence.observe(token(-surprise));
            }
        }
        *evidence.features().get()
    };
    let (short, long) = (features(10), features(100));
    let differ: Vec<usize> = (0..FEATURES).filter(|&at| short[at] != long[at]).collect();
    assert_eq!(differ, [10], "only the length itself may tell them apart");
}

#[test]
fn a_surprising_draft_has_other_features_than_a_certain_one() {
    let mut dice = Dice::new(3);
    let (sure, unsure) = (draft(5, 40, &mut dice), draft(1_500, 40, &mut dice));
    for at in 1..=6 {
        assert!(sure.features().get()[at] < unsure.features().get()[at], "feature {at}");
    }
    assert!(unsure.mean() < sure.mean());
}

#[test]
fn margins_entropy_and_the_end_are_told() {
    let mut thin = Evidence::new(traits(), Tokens::new(8));
    let mut wide = thin.clone();
    for (evidence, margin, entropy) in [(&mut thin, 0.1, 2.0), (&mut wide, 4.0, 0.01)] {
        for _ in 0..10 {
            evidence.observe(Observation {
                logprob: LogProb::from_nats(-0.2),
                margin: Some(Nats::from_nats(margin)),
                entropy: Some(Nats::from_nats(entropy)),
                digit: false,
            });
        }
    }
    let (low, high) = (*wide.features().get(), *thin.features().get());
    assert_eq!((low[7], high[7]), (-4_096, 4_096), "no margin is thin, or all are");
    assert!(low[9] < high[9], "entropy");
    thin.finish(Finish::Length);
    assert_eq!(thin.features().get()[11], 4_096);
}

#[test]
fn digits_the_thinnest_margin_and_the_fourth_worst_are_told() {
    let said = |said: &[(i64, bool, Option<f64>)]| {
        let mut evidence = Evidence::new(traits(), Tokens::new(8));
        for &(thousandths, digit, margin) in said {
            let margin = margin.map(Nats::from_nats);
            evidence.observe(Observation { margin, digit, ..token(-thousandths) });
        }
        let [.., worst_digit, digits, margin, fourth] = *evidence.features().get();
        (worst_digit, digits, margin, fourth)
    };
    let least = said(&[]).0;
    let words = said(&[(900, false, None), (800, false, None), (700, false, None)]);
    assert_eq!(words, (least, -4_096, 0, least), "no digit, no margin, no fourth token");
    let mixed =
        [(5, true, Some(3.0)), (900, false, Some(0.1)), (300, true, None), (1, false, None)];
    let (worst_digit, digits, margin, fourth) = said(&mixed);
    let alone = |thousandths| said(&[(thousandths, true, None)]).0;
    assert_eq!(worst_digit, alone(300), "and not that of the word");
    assert_eq!(digits, 0, "half of them");
    assert_eq!(margin, alone(100), "surprises and margins are measured alike");
    assert_eq!(fourth, alone(1));
    let mut later = mixed.to_vec();
    later.extend([(700, false, None), (600, false, None)]);
    assert_eq!(said(&later).3, alone(300), "the order in which they came does not matter");
}

#[test]
fn the_first_window_is_kept_as_it_was() {
    let mut dice = Dice::new(4);
    let short = draft(100, 7, &mut Dice::new(9));
    assert_eq!(short.first_window(), None);
    let window = draft(100, 8, &mut Dice::new(9));
    let long = draft(100, 50, &mut Dice::new(9));
    assert_eq!(long.first_window(), Some(window.features()));
    assert_ne!(long.first_window(), Some(long.features()));
    assert_eq!(dice.below(1), 0);
}

#[test]
fn what_is_no_number_is_the_least_and_nothing_overflows() {
    assert_eq!(LogProb::from_nats(f64::NAN), LogProb::LEAST);
    assert_eq!(LogProb::from_nats(f64::NEG_INFINITY), LogProb::LEAST);
    assert_eq!(LogProb::from_nats(0.1), LogProb::micronats(0));
    assert_eq!(LogProb::from_nats(-1.5).get(), -1_500_000);
    assert_eq!(Nats::from_nats(f64::NAN), Nats::default());
    let mut evidence =
        Evidence::new(Traits { prompt: Tokens::new(u32::MAX), ..traits() }, Tokens::new(8));
    for _ in 0..5_000 {
        evidence.observe(Observation {
            logprob: LogProb::LEAST,
            margin: Some(Nats::micronats(u32::MAX)),
            entropy: Some(Nats::micronats(u32::MAX)),
            digit: true,
        });
    }
    assert!(evidence.features().get().iter().all(|one| one.unsigned_abs() < 1 << 15));
}

#[test]
fn classes_are_of_what_is_known_before_the_draft_speaks() {
    let class = |traits: Traits| traits.class();
    let base = traits();
    assert_eq!(class(base), class(Traits { prompt: Tokens::new(120), ..base }));
    for other in [
        Traits { tenant: 9, ..base },
        Traits { route: 9, ..base },
        Traits { prompt: Tokens::new(3_000), ..base },
        Traits { script: Script::Code, ..base },
        Traits { bound: Bound::Schema, ..base },
    ] {
        assert_ne!(class(base), class(other), "{other:?}");
    }
    assert_eq!(Script::of("What is the capital of France?"), Script::Latin);
    assert_eq!(Script::of("法国的首都是哪里?"), Script::Other);
    assert_eq!(Script::of("fn f(x: &[u8]) { x[0] = (1 + 2) * 3; }"), Script::Code);
    assert_eq!(Script::of(""), Script::Latin);
}

#[test]
fn a_chance_happens_as_often_as_it_says() {
    let mut dice = Dice::new(8);
    for percent in [0, 1, 30, 99, 100] {
        let chance = Ratio::percent(percent);
        let hits = (0..20_000).filter(|_| dice.happens(chance)).count();
        let expected = usize::try_from(percent).unwrap() * 200;
        assert!(hits.abs_diff(expected) < 300, "{percent} %: {hits} of 20,000");
    }
    assert!(!Ratio::NONE.happens(0) && Ratio::WHOLE.happens(u64::MAX));
}
