//! Who is never asked, whose tokens are whose, and which side is better.

use alloc::string::ToString;

use overdraft_units::{Micros, Ratio, Tokens};

use super::super::{
    Change, Comparison, Difference, Exclusion, Exclusions, Label, Parity, Propensity, Spread,
    Tokenizer,
};
use super::Dice;
use crate::cost::Money;
use crate::route::Arm;

#[test]
fn the_weightiest_reason_is_told_and_short_answers_go_to_the_target() {
    assert_eq!(Exclusions::NONE.first(), None);
    let all = Exclusion::ALL.into_iter().rev().fold(Exclusions::NONE, Exclusions::with);
    assert_eq!(all.first(), Some(Exclusion::TenantOptedOut));
    for one in Exclusion::ALL {
        assert_eq!(Exclusions::NONE.with(one).first(), Some(one));
    }
    let longest = |tokens| Exclusions::NONE.with_longest(tokens).first();
    assert_eq!(longest(None), None);
    assert_eq!(longest(Some(Tokens::new(31))), Some(Exclusion::ShortAnswer));
    assert_eq!(longest(Some(Tokens::new(32))), None);
}

#[test]
fn the_first_difference_of_two_tokenizers_is_named() {
    let known = Tokenizer {
        vocabulary: Some(Tokens::new(2_048)),
        tokens: Some(1),
        special: Some(2),
        template: Some(3),
        probes: Some(4),
    };
    assert_eq!(Parity::of(&known, &known), Parity::Same);
    let check = |other: Tokenizer, difference: Difference| {
        assert_eq!(Parity::of(&known, &other), Parity::Different(difference));
    };
    let (draft, target) = (Tokens::new(2_048), Tokens::new(32_000));
    let other = Tokenizer { vocabulary: Some(target), ..known.clone() };
    check(other, Difference::Vocabulary { draft, target });
    check(Tokenizer { tokens: Some(9), ..known.clone() }, Difference::Token { first: None });
    check(Tokenizer { special: Some(9), ..known.clone() }, Difference::Special);
    check(Tokenizer { template: Some(9), ..known.clone() }, Difference::Template);
    check(Tokenizer { probes: Some(9), ..known.clone() }, Difference::Probes);
    let silent = Tokenizer { vocabulary: known.vocabulary, ..Tokenizer::default() };
    assert_eq!(Parity::of(&known, &silent), Parity::NotKnown);

    let parity = Parity::of_vocabularies(["a", "b"].into_iter(), ["a", "c"].into_iter());
    let said = parity.to_string();
    assert!(said.contains("token `1` is `b` to the draft, expected the target's `c`"), "{said}");
    let parity = Parity::of_vocabularies(["a"].into_iter(), ["a", "c"].into_iter());
    assert!(parity.to_string().contains("`1` tokens, expected the target's `2`"));
}

#[test]
fn an_interval_covers_the_difference_and_says_nothing_too_early() {
    let (seeds, mut held) = (300, 0);
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let (mut before, mut after) = (Spread::default(), Spread::default());
        for turn in 0..200 {
            assert_eq!(Change::between(&before, &after).is_some(), 30 <= turn);
            before.note(u64::from(10_000 + dice.below(4_000)));
            after.note(u64::from(10_500 + dice.below(8_000)));
        }
        let change = Change::between(&before, &after).unwrap();
        // 12,000 beside 14,500 on average.
        held += u32::from((change.low..=change.high).contains(&2_500));
        assert!(0 < change.low, "no doubt about the sign");
    }
    assert!(
        275 <= held && u64::from(held) < seeds,
        "{held} of {seeds} hold the truth; 95 % should"
    );
}

#[test]
fn the_sides_of_a_comparison_do_not_mix() {
    let mut comparison = Comparison::default();
    for turn in 0..100 {
        for (arm, latency, cost) in [(Arm::Baseline, 1_000, 50), (Arm::Canary, 400, 80)] {
            comparison.took(arm, Micros::new(latency + turn % 7));
            comparison.cost(arm, Money::picodollars(cost));
            if turn < 10 {
                comparison.judged(arm, None);
            }
        }
    }
    let findings = comparison.findings();
    assert_eq!(findings.latency.unwrap().difference, -600);
    let cost = findings.cost.unwrap();
    assert_eq!((cost.baseline, cost.difference), (50, 30));
    assert!(0 < cost.low, "no doubt about the sign");
    assert_eq!(findings.loss, None, "ten judged answers a side say nothing");
}

#[test]
fn a_loss_that_is_looked_for_in_a_part_is_that_of_all() {
    let (seeds, mut held) = (200, 0);
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let mut comparison = Comparison::default();
        for _ in 0..3_000 {
            comparison.judged(Arm::Baseline, None);
            // One in twenty is worse; those are looked at more often.
            let worse = dice.below(20) == 0;
            let chance = Ratio::percent(if worse { 40 } else { 10 });
            let label = if worse { Label::Worse } else { Label::AsGood };
            let looked = dice.happens(chance).then(|| (label, Propensity::new(chance)));
            comparison.judged(Arm::Canary, looked);
        }
        let loss = comparison.findings().loss.unwrap();
        assert_eq!(loss.baseline, 0);
        held += u32::from((loss.low..=loss.high).contains(&50_000));
    }
    assert!(
        180 <= held && u64::from(held) < seeds,
        "{held} of {seeds} hold the truth; 95 % should"
    );
}
