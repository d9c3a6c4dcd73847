//! What a client has been shown, whatever happens then.

use overdraft_units::{Micros, Ratio, Tokens};
use proptest::prelude::*;

use super::super::{
    Bar, Choice, FIRST_MAX, FIRST_MIN, Finish, Prospects, Release, Running, Stands, Step, Windows,
};
use super::Dice;

const BAR: Ratio = Ratio::percent(90);

fn running(tokens: u32, score: Ratio, finish: Finish) -> Running {
    Running { tokens: Tokens::new(tokens), finish, score, bar: Bar::At(BAR) }
}

proptest! {
    #[test]
    fn what_was_shown_is_never_taken_back(
        first in 1_u32..40,
        next in 1_u32..40,
        scores in prop::collection::vec((0_u32..1_000_001, 0_u32..20), 1..200),
        opens in any::<bool>(),
        ends in any::<bool>(),
    ) {
        let windows = Windows { first: Tokens::new(first), next: Tokens::new(next) };
        let mut release = Release::new(windows);
        let (mut tokens, mut shown, mut over, mut opened) = (0, Tokens::ZERO, false, false);
        let last = scores.len() - 1;
        for (turn, (score, more)) in scores.into_iter().enumerate() {
            tokens += more;
            let finish = if ends && turn == last { Finish::Stop } else { Finish::Running };
            let running = running(tokens, Ratio::millionths(score), finish);
            if !release.due(running.tokens, finish) {
                continue;
            }
            prop_assert!(!over, "nothing is due after the end");
            let step = if opened {
                release.proceed(&running)
            } else {
                opened = true;
                release.open(&running, if opens { Choice::Draft } else { Choice::Target })
            };
            match step {
                Step::Hold => {}
                Step::Show(count) => {
                    prop_assert!(shown <= count && count <= running.tokens);
                    shown = count;
                    over = finish != Finish::Running;
                }
                Step::Refuse => {
                    prop_assert_eq!(shown, Tokens::ZERO, "refused after something was shown");
                    over = true;
                }
                Step::HandOver(count) => {
                    prop_assert_eq!(shown, count);
                    over = true;
                }
            }
            prop_assert_eq!(release.shown(), shown);
        }
        if over {
            let after = running(tokens + 1_000, Ratio::WHOLE, Finish::Stop);
            prop_assert_eq!(release.proceed(&after), Step::Hold);
            prop_assert_eq!(release.open(&after, Choice::Draft), Step::Hold);
            prop_assert_eq!(release.shown(), shown);
        }
    }
}

#[test]
fn the_first_window_fits_the_budget() {
    let first = |budget, pace| {
        Windows::within(Micros::new(budget), Micros::new(pace), Tokens::new(16)).first
    };
    assert_eq!(first(500_000, 10_000), Tokens::new(50));
    assert_eq!(first(500_000, 46_000), Tokens::new(10));
    assert_eq!(first(1_000, 46_000), FIRST_MIN);
    assert_eq!(first(u64::MAX, 1), FIRST_MAX);
    assert_eq!(first(500_000, 0), FIRST_MAX, "a pace that was not measured");
}

#[test]
fn a_window_that_wavers_is_held_and_one_that_falls_is_handed_over() {
    let mut release = Release::new(Windows { first: Tokens::new(8), next: Tokens::new(4) });
    let good = Ratio::percent(95);
    assert!(!release.due(Tokens::new(7), Finish::Running));
    assert!(release.due(Tokens::new(3), Finish::Stop), "a short answer is judged at its end");
    let open = release.open(&running(8, good, Finish::Running), Choice::Draft);
    assert_eq!(open, Step::Show(Tokens::new(8)));
    let low = Ratio::percent(80);
    assert_eq!(release.proceed(&running(12, low, Finish::Running)), Step::Hold);
    assert_eq!(release.proceed(&running(16, good, Finish::Running)), Step::Show(Tokens::new(16)));
    for tokens in [20, 24] {
        assert_eq!(release.proceed(&running(tokens, low, Finish::Running)), Step::Hold);
    }
    let step = release.proceed(&running(28, low, Finish::Running));
    assert_eq!(step, Step::HandOver(Tokens::new(16)));
}

#[test]
fn a_hopeless_draft_is_ended_and_some_are_spared() {
    let mut prospects = Prospects::new(Ratio::percent(5));
    let poor = Prospects::stand(16, Ratio::percent(30));
    let fair = Prospects::stand(16, Ratio::percent(97));
    assert_ne!(poor, fair);
    let mut dice = Dice::new(2);
    assert!(!prospects.hopeless(poor, dice.any()), "nothing is known yet");
    for _ in 0..200 {
        prospects.learn(Stands::default().with(poor), Choice::Target);
        prospects.learn(Stands::default().with(fair), Choice::Draft);
    }
    let ended = (0..1_600).filter(|_| prospects.hopeless(poor, dice.any())).count();
    assert!((1_440..1_560).contains(&ended), "{ended} of 1,600; one in sixteen is spared");
    assert!((0..1_600).all(|_| !prospects.hopeless(fair, dice.any())));
    // Those that were spared show when it was wrong.
    for _ in 0..60 {
        prospects.learn(Stands::default().with(poor), Choice::Draft);
    }
    assert!((0..100).all(|_| !prospects.hopeless(poor, dice.any())));
}
