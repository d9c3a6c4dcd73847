//! Whether labels that were drawn say what all labels would.

use super::super::{Bar, Estimate, Propensity, Shadow};
use super::Dice;
use overdraft_units::Ratio;

#[test]
fn weighted_labels_say_what_all_labels_would() {
    let shadow = Shadow::default();
    let bar = Bar::At(Ratio::percent(90));
    let (requests, seeds) = (2_000, 200);
    let (mut weighted, mut plain, mut truth, mut known) = (0_u64, 0_u64, 0_u64, 0_u64);
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        for _ in 0..requests {
            // Worse answers are nearer to the bar, where more is checked: without weights they count too often.
            let score = Ratio::millionths(850_000 + dice.below(150_000));
            let near = score.apart(Ratio::percent(90)) <= Ratio::percent(2);
            let worse = dice.happens(Ratio::percent(if near { 30 } else { 2 }));
            let draw = shadow.draw(500, score, bar, dice.any());
            truth += u64::from(worse);
            if draw.checked {
                known += 1;
                plain += u64::from(worse);
                weighted += u64::from(worse) * draw.propensity.weight_thousandths();
            }
        }
    }
    let all = requests * seeds;
    let (truth, weighted) = (truth * 1_000_000 / all, weighted * 1_000 / all);
    let plain = plain * 1_000_000 / known;
    assert!(weighted.abs_diff(truth) * 30 < truth, "weighted {weighted}, in truth {truth}");
    assert!(truth * 3 < plain * 2, "unweighted labels mislead: {plain}, in truth {truth}");
}

#[test]
fn more_is_checked_near_the_bar_and_never_less_than_the_floor() {
    let shadow = Shadow::default();
    let bar = Bar::At(Ratio::percent(90));
    let at = |labels, percent| shadow.draw(labels, Ratio::percent(percent), bar, 0).propensity;
    assert_eq!(at(0, 50).chance(), Ratio::percent(5));
    assert_eq!(at(0, 91).chance(), Ratio::percent(20));
    assert_eq!(at(0, 93).chance(), Ratio::percent(5));
    assert!(at(5_000, 50) < at(100, 50));
    assert_eq!(at(u64::MAX >> 1, 50).chance(), Ratio::percent(1));
    let learning = Bar::Learning { labels: 0, needed: 200 };
    assert_eq!(shadow.draw(0, Ratio::NONE, learning, u64::MAX).propensity, Propensity::CERTAIN);
    assert!(shadow.draw(0, Ratio::NONE, learning, u64::MAX).checked);
    assert_eq!(Propensity::new(Ratio::NONE).weight_thousandths(), 100_000);
}

#[test]
fn an_interval_holds_the_truth_as_often_as_it_says() {
    let (seeds, truth) = (400, Ratio::percent(3));
    let mut held = 0;
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let mut estimate = Estimate::default();
        for _ in 0..300 {
            estimate.note(1_000, dice.happens(truth));
        }
        let interval = estimate.interval();
        held += u32::from((interval.low..=interval.high).contains(&truth));
    }
    assert!((370..398).contains(&held), "{held} of {seeds}");
}

#[test]
fn nothing_lost_in_few_labels_is_not_nothing_lost() {
    let mut estimate = Estimate::default();
    assert_eq!(estimate.interval().high, Ratio::WHOLE);
    for _ in 0..50 {
        estimate.note(1_000, false);
    }
    let interval = estimate.interval();
    assert_eq!((interval.share, interval.low), (Ratio::NONE, Ratio::NONE));
    assert!(Ratio::percent(5) < interval.high && interval.high < Ratio::percent(9));
    // Labels of unequal weight are worth fewer.
    for _ in 0..5 {
        estimate.note(100_000, false);
    }
    assert!(interval.high < estimate.interval().high);
}
