//! Beliefs before, during and after observations.

use overdraft_units::{Instant, Micros, Tokens};

use super::*;

fn seconds(micros: Micros) -> u64 {
    micros.get() / 1_000_000
}

#[test]
fn nothing_seen_means_the_prior() {
    let rate = PrefillRate::new();
    assert_eq!(rate.tokens_per_second(), None);
    assert_eq!(seconds(rate.pace().time_for(40_000)), 10);
    assert_eq!(Texts::new().tokens_of(400), Tokens::new(100));
    assert_eq!(Texts::new().completion_of(Some(16)), Tokens::new(16));
    assert_eq!(Texts::new().completion_of(None), Tokens::new(256));
    assert_eq!(StepTime::new().micros(), STEP_TIME_FIRST);
}

#[test]
fn long_prompts_count_for_more_than_short_ones() {
    let mut rate = PrefillRate::new();
    rate.note(10, Micros::new(500_000)); // too short to say anything
    assert_eq!(rate.tokens_per_second(), None);
    rate.note(100, Micros::new(100_000));
    rate.note(10_000, Micros::new(1_000_000));
    let seen = rate.tokens_per_second().unwrap();
    assert!((9_000..9_400).contains(&seen), "{seen}");
}

#[test]
fn one_slow_answer_proves_nothing_and_many_do() {
    let mut fleet = PrefillRate::new();
    for _ in 0..100 {
        fleet.note(8_000, Micros::new(1_000_000));
    }
    let pace = fleet.pace();
    let mut slow = PrefillRate::new();
    let step = Micros::new(20_000);
    slow.note_beside(100, Micros::new(1_000_000), pace, Instant::ORIGIN, step);
    assert_eq!(slow.pace_within(pace), pace, "one answer proves nothing");
    for second in 1..=200 {
        let at = Instant::ORIGIN + Micros::new(second * 1_000_000);
        slow.note_beside(4_000, Micros::new(1_000_000), pace, at, step);
    }
    let often = slow.pace_within(pace).time_for(8_000).get();
    assert!((1_850_000..=2_010_000).contains(&often), "{often}");
}

#[test]
fn the_answers_of_one_step_prove_no_more_than_one() {
    let (fleet, step) = (Pace::per_second(10_000), Micros::new(400_000));
    let mut fast = PrefillRate::new();
    for time in 0..16 {
        let at = Instant::ORIGIN + Micros::new(time * 1_000_000);
        // Thirteen prompts are computed in one step, whose first tokens come together.
        for place in 1..=13 {
            let later = at + Micros::new(place);
            fast.note_beside(place * 700, Micros::new(60_000), fleet, later, step);
        }
        let is_proven = fast.pace_within(fleet) != fleet;
        assert_eq!(is_proven, 8 < time, "{time}: that of nine steps is proof");
    }
}

#[test]
fn a_step_whose_prompts_are_all_late_proves_that_its_worker_is_slow() {
    let (fleet, step) = (Pace::per_second(10_000), Micros::new(400_000));
    let mut stalled = PrefillRate::new();
    for place in 1..=13 {
        let at = Instant::ORIGIN + Micros::new(place);
        stalled.note_beside(1_000 + place * 20, Micros::new(400_000), fleet, at, step);
    }
    assert!(fleet < stalled.pace_within(fleet), "it takes longer for each token");
}

#[test]
fn equal_machines_are_equal_however_long_their_prompts_are() {
    let mut fleet = PrefillRate::new();
    let mut one = PrefillRate::new();
    // Short and long prompts in turn, all of them with much noise.
    for round in 0..400_u64 {
        let tokens = if round % 3 == 0 { 12_000 } else { 300 };
        let noise = 400 + (round * 7_919) % 1_200;
        let took = Micros::new(tokens * 125 * noise / 1_000);
        let pace = fleet.pace();
        fleet.note(tokens, took);
        let at = Instant::ORIGIN + Micros::new(round * 1_000_000);
        one.note_beside(tokens, took, pace, at, Micros::new(20_000));
        if round > 32 {
            assert_eq!(one.pace_within(fleet.pace()), fleet.pace(), "round {round}");
        }
    }
}

#[test]
fn what_changed_is_learnt_within_a_hundred_observations() {
    let mut texts = Texts::new();
    for _ in 0..100 {
        texts.note_prompt(4_000, Media::default(), Tokens::new(1_000));
        texts.note_completion(Tokens::new(50));
    }
    for _ in 0..100 {
        texts.note_prompt(2_000, Media::default(), Tokens::new(1_000));
        texts.note_completion(Tokens::new(200));
    }
    assert!((910..=1_000).contains(&texts.tokens_of(2_000).get()), "{texts:?}");
    let expected = texts.completion_of(None).get();
    assert!((185..=200).contains(&expected), "{expected}");
    assert_eq!(texts.completion_of(Some(20)), Tokens::new(20));
}

#[test]
fn absurd_observations_neither_overflow_nor_divide_by_zero() {
    let mut rate = PrefillRate::new();
    rate.note(u64::MAX, Micros::new(1));
    rate.note(1, Micros::new(u64::MAX));
    rate.note(100, Micros::ZERO);
    rate.pace_within(PrefillRate::new().pace()).time_for(u64::MAX);
    rate.pace().tokens_in(Micros::new(u64::MAX));
    let mut texts = Texts::new();
    texts.note_prompt(u64::MAX, Media::default(), Tokens::new(u32::MAX));
    texts.note_prompt(0, Media::default(), Tokens::new(100));
    assert!(texts.tokens_of(u64::MAX).get() > 0);
    assert_eq!(texts.tokens_of(0), Tokens::new(1));
}

#[test]
fn a_delay_is_the_same_in_64_bits_and_in_128() {
    let literal = |own: u64, span: u64, behind: u64| {
        let product = u128::from(own) * u128::from(span) / 1_000_000;
        u64::try_from(product.saturating_mul(u128::from(behind)) / 1_000).unwrap_or(u64::MAX)
    };
    let times = [0, 1, 999_999, 250_000_000, 1 << 32, 1 << 40, u64::MAX];
    for own in times {
        for span in times {
            for behind in [0, 1, 850, 1_000_000, 1 << 40] {
                let delay = delayed(Micros::new(own), Micros::new(span), behind);
                assert_eq!(delay, literal(own, span, behind), "{own} {span} {behind}");
            }
        }
    }
}
