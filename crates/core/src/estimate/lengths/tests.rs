//! Draws against what was seen.

use alloc::vec::Vec;

use super::*;

const MODEL: u64 = 1;

fn class(limit: Option<u32>) -> Class {
    Class::new(MODEL, Kind(0), limit)
}

/// A thousand answers, evenly between 100 and 1,099 tokens.
fn seen() -> Lengths {
    let mut lengths = Lengths::new();
    for number in 0..1_000 {
        lengths.note_end(class(None), 0, 100 + number * 617 % 1_000);
    }
    lengths
}

fn draws(lengths: &Lengths, limit: Option<u32>) -> Vec<u32> {
    let drawn = (0..500).flat_map(|dice| lengths.draw(class(limit), limit, 0, dice));
    let mut drawn: Vec<u32> = drawn.collect();
    drawn.sort_unstable();
    drawn
}

/// Mean and variance, in tokens and their square.
fn moments(drawn: &[u32]) -> (u64, u64) {
    let count = drawn.len() as u64;
    let mean = drawn.iter().map(|&one| u64::from(one)).sum::<u64>() / count;
    let squares = drawn.iter().map(|&one| u64::from(one).pow(2)).sum::<u64>() / count;
    (mean, squares - mean * mean)
}

#[test]
fn before_anything_was_seen_answers_are_what_they_are_in_general() {
    let drawn = draws(&Lengths::new(), None);
    assert!((16..20).contains(&drawn[0]) && drawn[drawn.len() - 1] <= 1_024, "{:?}", drawn[0]);
    let middle = drawn[drawn.len() / 2];
    assert!((118..138).contains(&middle), "{middle}");
    assert_eq!(draws(&Lengths::new(), Some(5)), [5; 4_000], "never beyond the limit");
    assert!(moments(&drawn).0 > 200);
}

#[test]
fn draws_are_spread_as_what_was_seen() {
    let lengths = seen();
    let drawn = draws(&lengths, None);
    for (share, expected) in [(10, 200_u32), (50, 600), (90, 1_000)] {
        let at = drawn[drawn.len() * share / 100];
        assert!(at.abs_diff(expected) <= expected / 10, "{share} %: {at} for {expected}");
    }
    let (mean, variance) = moments(&drawn);
    assert!((570..630).contains(&mean), "{mean}");
    // A thousand squared over twelve.
    assert!((70_000..98_000).contains(&variance), "{variance}");
}

#[test]
fn each_request_draws_once_from_every_eighth_and_worlds_do_not_agree() {
    let lengths = seen();
    let mut sums = [0_u64; DRAWS];
    for dice in 0..400 {
        let drawn = lengths.draw(class(None), None, 0, dice);
        assert_eq!(drawn, lengths.draw(class(None), None, 0, dice));
        let mut sorted = drawn;
        sorted.sort_unstable();
        for (eighth, length) in (0_u32..).zip(sorted) {
            let expected = 100 + eighth * 125..=100 + (eighth + 1) * 125;
            let near = expected.start().saturating_sub(90)..=expected.end() + 90;
            assert!(near.contains(&length), "{length} in {expected:?}");
        }
        for (sum, length) in sums.iter_mut().zip(drawn) {
            *sum += u64::from(length);
        }
    }
    assert!(sums.iter().all(|sum| (560..640).contains(&(sum / 400))), "{sums:?}");
}

#[test]
fn an_answer_that_is_long_already_is_drawn_among_the_longer_ones() {
    let lengths = seen();
    let beyond = |length| {
        let drawn = (0..250).flat_map(|dice| lengths.draw(class(None), None, length, dice));
        let mut drawn: Vec<u32> = drawn.collect();
        drawn.sort_unstable();
        drawn
    };
    let drawn = beyond(800);
    assert!(800 < drawn[0] && drawn[1_999] < 1_200, "{} {}", drawn[0], drawn[1_999]);
    assert!(drawn[1_000].abs_diff(950) < 30, "{}", drawn[1_000]);
    let drawn = beyond(50_000);
    assert!(50_000 < drawn[0] && drawn[1_999] <= 100_000, "longer than any that was seen");
    assert_eq!(lengths.draw(class(None), Some(900), 899, 3), [900; DRAWS]);
    assert_eq!(lengths.draw(class(None), Some(900), 900, 3), [900; DRAWS]);
}

#[test]
fn a_class_leans_on_its_model_until_it_was_seen() {
    let mut lengths = seen();
    let short = Class::new(MODEL, Kind(9), Some(64));
    let median = |lengths: &Lengths| {
        let drawn = (0..100).flat_map(|dice| lengths.draw(short, None, 0, dice));
        let mut drawn: Vec<u32> = drawn.collect();
        drawn.sort_unstable();
        drawn[400]
    };
    assert!(median(&lengths) > 500, "it is a stranger");
    for _ in 0..200 {
        lengths.note_end(short, 0, 30);
    }
    assert!(median(&lengths) < 40, "{}", median(&lengths));
    assert!((190..=200).contains(&lengths.seen(short)));
}

#[test]
fn what_changed_is_learnt_and_what_was_is_forgotten() {
    let mut lengths = seen();
    for _ in 0..4_000 {
        lengths.note_end(class(None), 0, 5_000);
    }
    let (mean, _) = moments(&draws(&lengths, None));
    assert!((4_200..5_200).contains(&mean), "{mean}");
}

#[test]
fn classes_are_bounded_and_the_oldest_goes() {
    let mut lengths = Lengths::new();
    let one = |kind: u64| Class::new(MODEL, Kind(kind), None);
    for kind in 0..u64::try_from(CLASSES_MAX).unwrap() + 10 {
        lengths.note_end(one(kind), 0, 10);
    }
    assert_eq!(lengths.classes.len(), CLASSES_MAX);
    assert_eq!((lengths.seen(one(0)), lengths.seen(one(10))), (0, 1));
    for model in 0..2_000 {
        lengths.note_end(Class::new(model, Kind(0), None), 0, u32::MAX);
    }
    assert_eq!(lengths.models.len(), MODELS_MAX);
}

/// Three hundred answers that have 400 tokens, of which none has ended; besides, what was seen before.
fn under_way(mut lengths: Lengths) -> Lengths {
    for _ in 0..300 {
        lengths.note_growth(class(None), 0, 400);
    }
    lengths
}

#[test]
fn what_is_not_known_of_a_class_is_common_to_all_its_answers() {
    let other = Class::new(MODEL, Kind(1), None);
    let mut beside = Lengths::new();
    for number in 0..300 {
        beside.note_end(other, 0, 600 + number);
    }
    for lengths in [under_way(Lengths::new()), under_way(beside)] {
        let mut sums = [0_u64; DRAWS];
        for dice in 0..400 {
            for (sum, length) in sums.iter_mut().zip(lengths.draw(class(None), None, 0, dice)) {
                *sum += u64::from(length);
            }
        }
        let sums = sums.map(|sum| sum / 400);
        let (least, most) = (sums.iter().min().unwrap(), sums.iter().max().unwrap());
        assert!((380..480).contains(least) && (680..900).contains(most), "{sums:?}");
    }
}

#[test]
fn what_is_not_known_of_two_classes_is_not_common_to_them() {
    let order = |model| Lengths::new().draw(Class::new(model, Kind(0), None), None, 0, 5);
    assert!((1..8).any(|model| order(0) != order(model)));
}

#[test]
fn an_answer_is_drawn_from_the_same_place_until_something_else_is_known() {
    let lengths = seen();
    for dice in 0..100 {
        let (before, after) =
            (lengths.draw(class(None), None, 0, dice), lengths.draw(class(None), None, 200, dice));
        for (before, after) in before.into_iter().zip(after) {
            // A tenth of all ends before 200 tokens.
            let expected = 200 + before.saturating_sub(100) * 9 / 10;
            assert!(after.abs_diff(expected) < 30, "{before}: {after} for {expected}");
        }
    }
    assert!(
        under_way(Lengths::new()).draw(class(None), None, 30, 5).iter().all(|length| 390 < *length)
    );
}

#[test]
fn answers_under_way_count_for_what_they_have_shown() {
    // Half of all answers have 100 tokens and half 4,000; the long ones are all under way still.
    let mut lengths = Lengths::new();
    for _ in 0..300 {
        lengths.note_end(class(None), 0, 100);
        for place in 0..100 {
            lengths.note_growth(class(None), place * 30, (place + 1) * 30);
        }
    }
    let drawn = draws(&lengths, None);
    let long = drawn.iter().filter(|length| 2_900 < **length).count();
    assert!((1_800..2_200).contains(&long), "{long} of 4,000");
    assert!(drawn[drawn.len() - 1] <= 6_200, "none is taken to get twice as long as any has");
}
