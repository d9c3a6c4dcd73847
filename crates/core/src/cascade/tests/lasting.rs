//! What was learnt survives a restart, and nothing else passes for it.

use alloc::vec;
use alloc::vec::Vec;
use overdraft_units::Ratio;

use proptest::prelude::*;

use super::super::{
    Cascade, Finish, Label, Mode, Moment, Observation, PARTS_VERSION, PartsError, Settings,
};
use super::{Dice, draft, traits};

fn settings() -> Settings {
    Settings { mode: Mode::Gate, loss: Ratio::percent(2), ..Settings::default() }
}

fn teach(cascade: &mut Cascade, dice: &mut Dice, labels: usize) {
    for turn in 0..labels {
        let octave = dice.below(10);
        let mut traits = traits();
        traits.tenant = u64::try_from(turn % 3).unwrap();
        let mut evidence = cascade.evidence(traits);
        let model = draft(1 << octave, 20, dice);
        for _ in 0..20 {
            let digit = dice.below(3) == 0;
            let said = super::token(-i64::from(dice.below(2 << octave)));
            evidence.observe(Observation { digit, ..said });
        }
        evidence.finish(Finish::Stop);
        assert_eq!(model.tokens(), evidence.tokens());
        let asked = cascade.ask(&traits, dice.any());
        let judgement = cascade.judge(Moment::Whole, &evidence, asked, dice.any());
        let worse = dice.happens(Ratio::of(u64::from(octave), 12));
        if judgement.checked {
            let better = !worse && dice.below(8) == 0;
            let label = match (worse, better) {
                (true, _) => Label::Worse,
                (_, true) => Label::Better,
                _ => Label::AsGood,
            };
            cascade.learn(&judgement, &evidence, label);
        }
    }
}

#[test]
fn equal_labels_teach_alike_and_what_was_written_goes_on_alike() {
    for labels in [0, 50, 700, 3_000] {
        let (mut one, mut other) = (Cascade::new(settings()), Cascade::new(settings()));
        teach(&mut one, &mut Dice::new(5), labels);
        teach(&mut other, &mut Dice::new(5), labels);
        assert_eq!(one, other);
        let parts = one.to_parts();
        let mut read = Cascade::from_parts(settings(), &parts).unwrap();
        assert_eq!(read.to_parts(), parts);
        teach(&mut one, &mut Dice::new(6), 200);
        teach(&mut read, &mut Dice::new(6), 200);
        // What was counted since the start is not carried over; what was learnt is.
        assert_eq!(read.to_parts(), one.to_parts(), "after {labels} labels");
    }
}

/// What a gateway of the first version had written after 64 labels, and what it scored three drafts.
const FIRST_VERSION: &str = include_str!("first-version.txt");

#[test]
fn what_the_first_version_wrote_is_read_and_scores_alike() {
    let (scores, row) = FIRST_VERSION.split_once('\n').unwrap();
    let numbers = |text: &str| -> Vec<i64> {
        text.split_whitespace().map(|number| number.parse().unwrap()).collect()
    };
    let mut read = Cascade::from_parts(settings(), &numbers(row)).unwrap();
    assert_eq!(read.report().labels, 64);
    for (surprise, expected) in [10, 120, 900].into_iter().zip(numbers(scores)) {
        let score = read.score(Moment::Whole, &draft(surprise, 20, &mut Dice::new(3)));
        let expected = Ratio::millionths(u32::try_from(expected).unwrap());
        let apart = score.apart(expected);
        assert!(apart < Ratio::permille(1), "{surprise}: {score:?}, and it was {expected:?}");
    }
    teach(&mut read, &mut Dice::new(6), 200);
    let parts = read.to_parts();
    assert_eq!(parts[0], PARTS_VERSION);
    assert_eq!(Cascade::from_parts(settings(), &parts).unwrap().to_parts(), parts);
}

#[test]
fn what_is_kept_is_bounded() {
    let mut cascade = Cascade::new(settings());
    teach(&mut cascade, &mut Dice::new(1), 9_000);
    let numbers = cascade.to_parts().len();
    assert!(numbers < 25_000, "{numbers} numbers");
}

#[test]
fn what_is_no_state_is_refused_by_name() {
    let mut cascade = Cascade::new(settings());
    teach(&mut cascade, &mut Dice::new(5), 300);
    let parts = cascade.to_parts();
    let read = |parts: &[i64]| Cascade::from_parts(settings(), parts).map(|_| ());
    assert_eq!(read(&[]), Err(PartsError::Length { found: 0 }));
    let short = &parts[..parts.len() - 1];
    assert_eq!(read(short), Err(PartsError::Length { found: short.len() }));
    let mut long = parts.clone();
    long.push(0);
    assert_eq!(read(&long), Err(PartsError::Length { found: long.len() }));
    let mut other = parts;
    other[0] = PARTS_VERSION + 1;
    let expected = PARTS_VERSION;
    assert_eq!(read(&other), Err(PartsError::Version { found: expected + 1, expected }));
}

proptest! {
    #[test]
    fn made_up_numbers_are_refused_or_harmless(
        places in prop::collection::vec((0_usize..3_000, any::<i64>()), 1..6),
    ) {
        let mut cascade = Cascade::new(settings());
        teach(&mut cascade, &mut Dice::new(5), 40);
        let mut parts = cascade.to_parts();
        for (place, number) in places {
            let place = place % parts.len();
            parts[place] = number;
        }
        if let Ok(mut read) = Cascade::from_parts(settings(), &parts) {
            teach(&mut read, &mut Dice::new(6), 20);
        }
        let row: Vec<i64> = vec![PARTS_VERSION; 40];
        prop_assert!(Cascade::from_parts(settings(), &row).is_err());
    }
}
