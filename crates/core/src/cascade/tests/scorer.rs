//! What a score comes to.

use alloc::vec::Vec;
use overdraft_units::Ratio;

use proptest::prelude::*;

use super::super::fixed_point::{ONE, decay, log_odds, logistic};
use super::super::isotonic::{Pool, pool};
use super::super::snapshot::Reader;
use super::super::{Class, EXAMPLES_MAX, Evidence, Label, PARTS_VERSION, Scorer};
use super::{Dice, draft, traits};

/// What it costs to say `curve` where the labels are `labels`: squares, in parts of the grid.
fn cost(labels: &[u64], curve: &[u64], grid: u64) -> u64 {
    labels.iter().zip(curve).map(|(label, value)| (label * grid).abs_diff(*value).pow(2)).sum()
}

/// The least cost of all curves on a grid that never fall: for every height, the best that ends there or below.
fn best(labels: &[u64], grid: u64) -> u64 {
    let mut ending: Vec<u64> = (0..=grid).map(|_| 0).collect();
    for label in labels {
        let mut least = u64::MAX;
        for (height, cost) in (0..).zip(&mut ending) {
            *cost += (label * grid).abs_diff(height).pow(2);
            least = least.min(*cost);
            *cost = least;
        }
    }
    ending.into_iter().min().unwrap_or(0)
}

proptest! {
    #[test]
    fn pooling_gives_the_nearest_curve_that_never_falls(
        labels in prop::collection::vec(0_u64..2, 1..11),
    ) {
        // Every mean of up to ten labels lies on this grid.
        let grid = 2_520;
        let pools = pool((0..).zip(&labels).map(|(place, &label)| Pool::new(place, label, 1)));
        let curve: Vec<u64> = pools
            .iter()
            .flat_map(|one| (0..one.members).map(|_| one.sum * grid / one.weight))
            .collect();
        prop_assert_eq!(curve.len(), labels.len());
        prop_assert!(curve.is_sorted());
        prop_assert_eq!(cost(&labels, &curve, grid), best(&labels, grid));
    }

    #[test]
    fn pooling_heeds_weights(
        examples in prop::collection::vec((0_u64..2, 1_u64..5), 1..40),
    ) {
        // An example of weight three is three examples.
        let heavy = pool((0..).zip(&examples).map(|(at, &(label, weight))| Pool::new(at, label, weight)));
        let light = pool((0..).zip(&examples).flat_map(|(at, &(label, weight))| {
            (0..weight).map(move |_| Pool::new(at, label, 1))
        }));
        let values = |pools: &[Pool]| -> Vec<(u64, u64)> {
            let of = |one: &Pool| (0..one.weight).map(|_| (one.sum, one.weight)).collect::<Vec<_>>();
            pools.iter().flat_map(of).map(|(sum, weight)| (sum * 1_000_000 / weight, 0)).collect()
        };
        prop_assert_eq!(values(&heavy), values(&light));
    }

    #[test]
    fn the_logistic_curve_is_that_of_floats(odds in -16.0_f64..16.0) {
        #[expect(clippy::cast_possible_truncation, reason = "16 times 2^24 fits")]
        let fixed = (odds * 16_777_216.0) as i64;
        #[expect(clippy::cast_precision_loss, reason = "at most 2^24")]
        let found = logistic(fixed) as f64 / 16_777_216.0;
        let exact = 1.0 / (1.0 + (-odds).exp());
        prop_assert!((found - exact).abs() < 2e-6, "{} is not {}", found, exact);
    }

    #[test]
    fn log_odds_are_those_of_the_chance(odds in -12.0_f64..12.0) {
        #[expect(clippy::cast_possible_truncation, reason = "12 times 2^24 fits")]
        let fixed = (odds * 16_777_216.0) as i64;
        let back = log_odds(logistic(fixed).clamp(1, ONE - 1));
        prop_assert!((back - fixed).abs() < ONE / 5, "{} is not {}", back, fixed);
        prop_assert!(back <= log_odds((logistic(fixed) + 1).clamp(1, ONE - 1)));
    }
}

#[test]
fn the_exponential_ends_at_nothing_and_begins_at_one() {
    assert_eq!(decay(0), ONE);
    assert_eq!(decay(-5), ONE);
    assert_eq!(decay(i64::MAX), 0);
    assert!((decay(ONE) - 6_171_992).abs() < 4, "1/e: {}", decay(ONE));
}

/// A draft that is good with a chance that falls as it gets more surprising: half at 400 thousandths.
fn good(surprise: u32, dice: &mut Dice) -> Label {
    let chance = Ratio::of(400 * 400, u64::from(surprise).pow(2) + 400 * 400);
    if dice.happens(chance) { Label::AsGood } else { Label::Worse }
}

fn taught(labels: usize, dice: &mut Dice) -> Scorer {
    let mut scorer = Scorer::new();
    for _ in 0..labels {
        let surprise = 1 << dice.below(12);
        let features = draft(surprise, 20, dice).features();
        scorer.learn(&features, traits().class(), good(surprise, dice));
    }
    scorer
}

#[test]
fn a_score_comes_to_what_it_says() {
    let mut dice = Dice::new(5);
    let scorer = taught(2_000, &mut dice);
    let mut bins = [(0_u64, 0_u64, 0_u64); 10];
    for _ in 0..20_000 {
        let surprise = 1 << dice.below(12);
        let score = scorer.score(&draft(surprise, 20, &mut dice).features(), traits().class());
        let bin = &mut bins[usize::try_from(score.get() / 100_001).unwrap()];
        bin.0 += 1;
        bin.1 += u64::from(good(surprise, &mut dice) == Label::AsGood);
        bin.2 += u64::from(score.get());
    }
    let error: u64 = bins.iter().map(|bin| (bin.1 * 1_000_000).abs_diff(bin.2)).sum();
    let error = error / 20_000;
    assert!(error < 60_000, "scores are off by {error} millionths on average");
    let extreme = |bin: (u64, u64, u64)| 0 < bin.0;
    assert!(extreme(bins[0]) && extreme(bins[9]), "and they tell drafts apart: {bins:?}");
}

#[test]
fn a_higher_score_never_means_less() {
    let mut dice = Dice::new(6);
    let scorer = taught(1_500, &mut dice);
    let mut last = Ratio::WHOLE;
    for surprise in (0..2_000).step_by(50) {
        // The same draws for all, scaled: only how surprising they are differs. Trees know it to a few hundredths.
        let score =
            scorer.score(&draft(surprise, 200, &mut Dice::new(77)).features(), traits().class());
        assert!(score <= last.plus(Ratio::permille(50)), "at {surprise}: {score:?} after {last:?}");
        last = score;
    }
}

/// Teaches drafts of two classes: both worse as often, and the first better as often as worse.
fn taught_with_better(better: Label, count: u32) -> (Ratio, Ratio) {
    let mut dice = Dice::new(8);
    let mut scorer = Scorer::new();
    let mut left = count;
    for turn in 0_u64..960 {
        let features = draft(100, 20, &mut dice).features();
        let class = Class::new(turn % 2);
        let label = match dice.below(10) {
            0..3 => Label::Worse,
            3..6 if class == Class::new(0) && 0 < left => {
                left -= 1;
                better
            }
            _ => Label::AsGood,
        };
        scorer.learn(&features, class, label);
    }
    let fresh: Vec<_> = (0..500).map(|_| draft(100, 20, &mut dice).features()).collect();
    let mean = |class| {
        let scores = fresh.iter().map(|one| u64::from(scorer.score(one, Class::new(class)).get()));
        Ratio::of(scores.sum(), 500 * 1_000_000)
    };
    (mean(0), mean(1))
}

#[test]
fn drafts_that_are_better_as_often_as_worse_are_trusted_more() {
    let (mixed, plain) = taught_with_better(Label::Better, u32::MAX);
    assert!(plain < mixed, "{mixed:?} is above {plain:?}");
    for score in [mixed, plain] {
        let apart = score.apart(Ratio::percent(70));
        assert!(apart < Ratio::percent(8), "{score:?} is still the chance of not being worse");
    }
}

#[test]
fn a_few_better_drafts_say_nothing() {
    let (few, none) =
        (taught_with_better(Label::Better, 15), taught_with_better(Label::AsGood, 15));
    assert_eq!(few, none);
    assert_ne!(taught_with_better(Label::Better, 16), none);
}

#[test]
fn a_class_that_is_worse_scores_less() {
    let mut dice = Dice::new(7);
    let mut scorer = Scorer::new();
    let (fair, poor) = (Class::new(1), Class::new(2));
    for turn in 0..800 {
        let features = draft(100, 20, &mut dice).features();
        let (class, chance) = if turn % 2 == 0 { (fair, 95) } else { (poor, 20) };
        let good = dice.happens(Ratio::percent(chance));
        scorer.learn(&features, class, if good { Label::AsGood } else { Label::Worse });
    }
    let features = draft(100, 20, &mut dice).features();
    let (fair, poor) = (scorer.score(&features, fair), scorer.score(&features, poor));
    assert!(Ratio::percent(85) < fair && poor < Ratio::percent(40), "{fair:?} {poor:?}");
}

/// A draft whose answer is good where it is long and sure or short and unsure, which no sum of the two says.
fn crossed(dice: &mut Dice) -> (Evidence, Label) {
    let (long, sure) = (dice.below(2) == 0, dice.below(2) == 0);
    let (surprise, tokens) = (if sure { 20 } else { 600 }, if long { 64 } else { 4 });
    let good = dice.happens(Ratio::percent(if long == sure { 95 } else { 30 }));
    let label = if good { Label::AsGood } else { Label::Worse };
    (draft(surprise, tokens, dice), label)
}

#[test]
fn what_a_feature_means_beside_another_is_learnt() {
    let mut dice = Dice::new(9);
    let mut scorer = Scorer::new();
    for _ in 0..1_500 {
        let (evidence, label) = crossed(&mut dice);
        scorer.learn(&evidence.features(), traits().class(), label);
    }
    let mut error = 0;
    for _ in 0..1_000 {
        let (evidence, label) = crossed(&mut dice);
        let score = scorer.score(&evidence.features(), traits().class());
        error += u32::from((Ratio::percent(70) < score) != (label == Label::AsGood));
    }
    assert!(error < 230, "{error} of 1,000 are mistaken; 175 cannot be told");
}

#[test]
fn what_was_written_scores_alike_whichever_labels_the_ring_has_lost() {
    let mut dice = Dice::new(10);
    let mut scorer = Scorer::new();
    for count in 1..=EXAMPLES_MAX + 200 {
        let (evidence, label) = crossed(&mut dice);
        scorer.learn(&evidence.features(), traits().class(), label);
        let around_full = EXAMPLES_MAX.abs_diff(count) < 40 && count.is_multiple_of(13);
        if !count.is_multiple_of(701) && !around_full && count != EXAMPLES_MAX + 199 {
            continue;
        }
        let mut row = Vec::from([PARTS_VERSION]);
        scorer.write(&mut row);
        let read = Scorer::read(&mut Reader::new(&row, PARTS_VERSION).unwrap()).unwrap();
        assert_eq!(read, scorer, "after {count} labels");
    }
}
