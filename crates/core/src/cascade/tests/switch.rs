//! When a route is switched off, and that a sound one is not.

use super::super::{
    Choice, HORIZON_LABELS, KillSwitch, Label, OffReason, Propensity, Sample, Standing,
};
use super::Dice;
use overdraft_units::Ratio;

fn sample(label: Label, would: Choice) -> Sample {
    Sample { label, would, propensity: Propensity::CERTAIN, least: Propensity::CERTAIN }
}

/// Labels until the route is off, at most so many.
fn labels_until_off(switch: &mut KillSwitch, most: u64, mut next: impl FnMut() -> Sample) -> u64 {
    for labels in 1..=most {
        if switch.learn(&next()) != Standing::On {
            return labels;
        }
    }
    most + 1
}

#[test]
fn a_sound_route_stays_on() {
    let (loss, pays) = (Ratio::percent(1), Ratio::percent(20));
    let seeds = 300;
    let mut alarms = 0;
    for seed in 0..seeds {
        let mut dice = Dice::new(seed);
        let mut switch = KillSwitch::new(loss, pays);
        // As bad as it may be without being wrong: twice the loss, and just as many good drafts as pay.
        let labels = labels_until_off(&mut switch, HORIZON_LABELS, || {
            let lost = dice.happens(Ratio::percent(2));
            let good = !lost && dice.happens(Ratio::of(20, 98));
            let label = if good { Label::AsGood } else { Label::Worse };
            sample(label, if lost { Choice::Draft } else { Choice::Target })
        });
        alarms += u32::from(labels <= HORIZON_LABELS);
    }
    assert!(alarms <= 6, "{alarms} false alarms in {seeds}, where 1 % are allowed");
}

#[test]
fn draws_near_the_bar_do_not_raise_false_alarms() {
    let mut alarms = 0;
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let mut switch = KillSwitch::new(Ratio::percent(1), Ratio::percent(20));
        let least = Propensity::new(Ratio::percent(2));
        let mut labels = 0;
        while labels < HORIZON_LABELS / 10 {
            // All loss is near the bar, where ten times as much is checked.
            let near = dice.happens(Ratio::percent(10));
            let propensity = Propensity::new(Ratio::percent(if near { 20 } else { 2 }));
            if !dice.happens(propensity.chance()) {
                continue;
            }
            labels += 1;
            let lost = near && dice.happens(Ratio::percent(19));
            let label = if lost { Label::Worse } else { Label::AsGood };
            let standing = switch.learn(&Sample { label, would: Choice::Draft, propensity, least });
            if standing != Standing::On {
                alarms += 1;
                break;
            }
        }
    }
    assert!(alarms <= 1, "{alarms} false alarms in 100");
}

#[test]
fn the_worse_a_route_the_sooner_it_is_off() {
    let mut last = 0;
    for (percent, within) in [(100, 20), (30, 80), (10, 400), (5, 2_500)] {
        let mut worst = 0;
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let mut switch = KillSwitch::new(Ratio::percent(1), Ratio::percent(20));
            let labels = labels_until_off(&mut switch, 10_000, || {
                let lost = dice.happens(Ratio::percent(percent));
                sample(if lost { Label::Worse } else { Label::AsGood }, Choice::Draft)
            });
            assert!(matches!(switch.standing(), Standing::Off { reason: OffReason::Harm, .. }));
            worst = worst.max(labels);
        }
        assert!(worst <= within, "{percent} % lost: off after {worst} labels only");
        assert!(last <= worst);
        last = worst;
    }
}

#[test]
fn a_route_that_harms_is_off_and_comes_back_when_it_is_clean() {
    let mut switch = KillSwitch::new(Ratio::percent(1), Ratio::percent(20));
    labels_until_off(&mut switch, 100, || sample(Label::Worse, Choice::Draft));
    // Still harmful: one trial after another fails.
    for turn in 0..1_000 {
        let label = if turn % 20 == 0 { Label::Worse } else { Label::AsGood };
        assert_ne!(switch.learn(&sample(label, Choice::Draft)), Standing::On, "{turn}");
    }
    // What the bar would refuse harms nobody.
    let mut needed = 0;
    while switch.learn(&sample(Label::Worse, Choice::Target)) != Standing::On {
        needed += 1;
        assert!(needed <= 100, "a clean hundred is enough");
    }
    assert_eq!(needed, 99);
}

#[test]
fn a_draft_of_which_too_little_is_accepted_is_useless() {
    let mut switch = KillSwitch::new(Ratio::percent(1), Ratio::percent(40));
    let mut drafts = 0;
    while switch.learn_part(Ratio::percent(10)) == Standing::On {
        drafts += 1;
        assert!(drafts < 200, "a tenth accepted where 40 % pay");
    }
    let mut switch = KillSwitch::new(Ratio::percent(1), Ratio::percent(40));
    for turn in 0..20_000 {
        let part = if turn % 2 == 0 { Ratio::percent(100) } else { Ratio::NONE };
        assert_eq!(switch.learn_part(part), Standing::On, "half accepted pays");
    }
}
