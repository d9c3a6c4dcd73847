//! When a draft is asked first, how long it may take, and what that costs at most.

use overdraft_units::{Micros, Ratio, Tokens};

use super::super::{
    Ask, Cascade, Delivery, Finish, Label, Mode, Moment, Payback, Settings, Traits, Unpaid, Upshot,
    Waited,
};
use super::{Dice, draft, traits};

const SECOND: Micros = Micros::new(1_000_000);

fn millis(millis: u64) -> Micros {
    Micros::new(millis * 1_000)
}

fn payback() -> Payback {
    Payback::new(Some(Ratio::percent(3)), Ratio::percent(10))
}

/// The target takes so long, and it is known.
fn with_target(taking: Micros) -> Payback {
    let mut payback = payback();
    for _ in 0..64 {
        payback.handle_target(&traits(), None, taking);
    }
    payback
}

/// Asks first while that is done, at most so often; how often it was, and what clients waited longer in all.
fn ask(payback: &mut Payback, most: u32, took: Micros, upshot: Upshot) -> (u32, i64) {
    let (mut asked, mut longer) = (0, 0);
    while asked < most && payback.unpaid(&traits()).is_none() {
        asked += 1;
        payback.handle_start();
        let waited = payback.limit(&traits()).min(took);
        let upshot = if took <= waited { upshot } else { Upshot::Failed };
        payback.handle_verdict(&traits(), waited, upshot, Waited::Client);
        longer += waited.get().cast_signed();
        if upshot == Upshot::Given {
            payback.handle_draft_end(&traits(), waited, Waited::Client);
            longer -= SECOND.get().cast_signed();
        } else {
            payback.handle_target(&traits(), None, SECOND);
        }
    }
    (asked, longer)
}

#[test]
fn a_draft_whose_answers_are_not_given_is_not_asked_first() {
    let mut payback = with_target(SECOND);
    let (asked, _) = ask(&mut payback, 1_000, millis(10), Upshot::Refused);
    assert!(asked <= 16, "{asked}");
    assert_eq!(payback.unpaid(&traits()), Some(Unpaid::Refused));
    assert_eq!(payback.unpaid_at_all(), Some(Unpaid::Refused));
    // What is learnt beside the target brings it back.
    let mut beside = 0;
    while payback.unpaid(&traits()).is_some() {
        beside += 1;
        assert!(beside < 40, "every answer would be given now");
        payback.handle_verdict(&traits(), millis(10), Upshot::Given, Waited::Nobody);
    }
}

#[test]
fn a_draft_that_is_slower_than_the_target_is_left_within_the_debt() {
    // Given always, and yet later; refused half of the time; failing; hanging.
    let cases = [
        (millis(1_100), Upshot::Given),
        (millis(600), Upshot::Refused),
        (millis(900), Upshot::Failed),
        (Micros::new(3_600_000_000), Upshot::Given),
    ];
    for (took, upshot) in cases {
        let mut payback = with_target(SECOND);
        let (asked, longer) = ask(&mut payback, 10_000, took, upshot);
        assert!(asked < 100, "{took} {upshot:?}: {asked}");
        assert!(longer <= 17 * 1_000_000, "{took} {upshot:?}: {longer}");
    }
}

#[test]
fn a_draft_that_pays_goes_on() {
    let mut payback = with_target(SECOND);
    let (asked, longer) = ask(&mut payback, 10_000, millis(800), Upshot::Given);
    assert_eq!(asked, 10_000);
    assert!(longer < 0);
}

#[test]
fn beside_the_target_it_is_learnt_that_a_draft_is_too_slow_and_nobody_waits_for_that() {
    let mut payback = payback();
    for turn in 0..64 {
        payback.handle_target(&traits(), None, millis(500 + turn % 2 * 1_000));
    }
    for _ in 0..16 {
        payback.handle_verdict(&traits(), millis(1_500), Upshot::Unjudged, Waited::Nobody);
    }
    assert_eq!(payback.unpaid(&traits()), Some(Unpaid::Slow));
}

#[test]
fn beside_the_target_a_draft_may_take_longer_and_counts_as_given_up() {
    let mut payback = with_target(SECOND);
    assert_eq!(payback.limit_beside(&traits()), millis(8_000));
    for _ in 0..32 {
        payback.handle_verdict(&traits(), millis(5_000), Upshot::Given, Waited::Nobody);
    }
    assert_eq!(payback.unpaid(&traits()), Some(Unpaid::Failing));
}

#[test]
fn where_any_time_will_do_only_money_counts() {
    let mut payback = Payback::new(None, Ratio::percent(10));
    for _ in 0..64 {
        payback.handle_target(&traits(), None, SECOND);
    }
    let (asked, _) = ask(&mut payback, 1_000, millis(5_000), Upshot::Given);
    assert_eq!(asked, 1_000);
    let (asked, _) = ask(&mut payback, 1_000, millis(5_000), Upshot::Refused);
    assert!((100..300).contains(&asked), "{asked}: from always to less than a tenth");
}

#[test]
fn of_a_stream_the_first_token_counts_as_well() {
    let streamed = Traits { delivery: Delivery::Streamed, ..traits() };
    let mut payback = payback();
    for _ in 0..64 {
        payback.handle_target(&streamed, Some(millis(100)), SECOND);
        payback.handle_verdict(&streamed, millis(300), Upshot::Given, Waited::Nobody);
        payback.handle_draft_end(&streamed, millis(400), Waited::Nobody);
    }
    assert_eq!(payback.unpaid(&streamed), Some(Unpaid::Slow));
    let mut payback = with_target(SECOND);
    for _ in 0..64 {
        payback.handle_verdict(&traits(), millis(300), Upshot::Given, Waited::Nobody);
        payback.handle_draft_end(&traits(), millis(400), Waited::Nobody);
    }
    assert_eq!(payback.unpaid(&traits()), None, "whoever gets it whole sees the end alone");
}

#[test]
fn requests_of_a_size_are_judged_by_their_own_times() {
    let long = Traits { prompt: Tokens::new(9_000), ..traits() };
    let mut payback = payback();
    for _ in 0..64 {
        payback.handle_target(&traits(), None, millis(200));
        payback.handle_target(&long, None, millis(2_000));
        for (traits, took) in [(traits(), 300), (long, 500)] {
            payback.handle_verdict(&traits, millis(took), Upshot::Given, Waited::Nobody);
            payback.handle_draft_end(&traits, millis(took), Waited::Nobody);
        }
    }
    assert_eq!(payback.unpaid(&traits()), Some(Unpaid::Slow));
    assert_eq!(payback.unpaid(&long), None);
    assert_eq!(payback.unpaid_at_all(), None, "some are asked first");
    assert!(payback.limit(&traits()) < payback.limit(&long));
}

#[test]
fn what_some_requests_gain_others_may_spend() {
    let short = Traits { delivery: Delivery::Streamed, ..traits() };
    let long = Traits { prompt: Tokens::new(9_000), ..short };
    let mut payback = payback();
    for turn in 0..64 {
        let took = millis(500 + turn % 2 * 1_000);
        payback.handle_target(&short, Some(took), took);
        payback.handle_target(&long, Some(took), took);
        for (traits, took) in [(short, 1_200), (long, 500)] {
            payback.handle_verdict(&traits, millis(took), Upshot::Given, Waited::Nobody);
            payback.handle_draft_end(&traits, millis(took), Waited::Nobody);
        }
    }
    assert_eq!(payback.unpaid(&short), Some(Unpaid::Slow), "nothing was gained yet");
    let mut give = |traits: &Traits, took: u64| {
        payback.handle_start();
        payback.handle_verdict(traits, millis(took), Upshot::Given, Waited::Client);
        payback.handle_draft_end(traits, millis(took), Waited::Client);
        payback.unpaid(&short)
    };
    assert_eq!(give(&long, 500), None);
    let spent = (1..10).find(|_| give(&short, 1_200).is_some());
    assert!(spent.is_some_and(|spent| spent <= 3), "what was gained is spent: {spent:?}");
}

#[test]
fn a_pool_that_is_back_is_asked_again_soon() {
    let mut payback = with_target(SECOND);
    for upshot in [Upshot::Given, Upshot::Failed] {
        for _ in 0..200 {
            payback.handle_verdict(&traits(), millis(300), upshot, Waited::Nobody);
        }
    }
    assert_eq!(payback.unpaid(&traits()), Some(Unpaid::Failing));
    let back = (1..100).find(|_| {
        payback.handle_verdict(&traits(), millis(300), Upshot::Given, Waited::Nobody);
        payback.handle_draft_end(&traits(), millis(300), Waited::Nobody);
        payback.unpaid(&traits()).is_none()
    });
    assert!(back.is_some_and(|back| back < 20), "{back:?} good ones beside the target");
}

#[test]
fn where_nothing_is_compared_trials_come_at_longer_and_longer_intervals() {
    let mut payback = payback();
    let trials = |payback: &Payback| (0..4_096).filter(|drawn| payback.is_trial(*drawn)).count();
    assert_eq!(trials(&payback), 128);
    for expected in [64, 32, 16, 8, 4, 4] {
        payback.handle_start();
        assert_eq!(trials(&payback), 0, "one at a time");
        payback.handle_verdict(&traits(), SECOND, Upshot::Failed, Waited::Client);
        assert_eq!(trials(&payback), expected);
    }
}

#[test]
fn the_limit_is_the_target_s_own_time_and_sane_before_that_is_known() {
    assert_eq!(payback().limit(&traits()), millis(10_000));
    assert_eq!(with_target(SECOND).limit(&traits()), SECOND);
    assert_eq!(with_target(millis(1)).limit(&traits()), millis(100));
}

#[test]
fn a_pool_that_stops_answering_holds_no_more_than_were_under_way() {
    let mut payback = with_target(SECOND);
    let mut under_way = 0;
    for _ in 0..1_000 {
        under_way += 1;
        payback.handle_start();
        if 4 < under_way {
            under_way -= 1;
            payback.handle_verdict(&traits(), millis(300), Upshot::Given, Waited::Client);
        }
    }
    let mut stuck = under_way;
    while payback.has_room() {
        stuck += 1;
        payback.handle_start();
        assert!(stuck < 20);
    }
    for _ in 0..4 {
        payback.handle_verdict(&traits(), SECOND, Upshot::Failed, Waited::Client);
    }
    assert!(!payback.has_room(), "the rest of those that hang fill what is left");
    for _ in 4..stuck {
        payback.handle_left(&traits(), millis(1));
    }
    assert!(payback.has_room(), "who left early says nothing of the draft");
}

#[test]
fn a_gate_that_accepts_nothing_switches_itself_off() {
    let settings = Settings { mode: Mode::Gate, first: Tokens::new(8), ..Settings::default() };
    for seed in 0..8 {
        let (mut dice, mut cascade) = (Dice::new(seed), Cascade::new(settings));
        let (mut last, mut given) = (0, 0);
        for turn in 0..3_000 {
            let asked = cascade.ask(&traits(), dice.any());
            if asked == Ask::Target {
                cascade.payback_mut().handle_target(&traits(), None, SECOND);
                continue;
            }
            // Half of the answers are as good, and nothing tells which.
            let mut evidence = draft(300, 24, &mut dice);
            evidence.finish(Finish::Stop);
            let judgement = cascade.judge(Moment::Whole, &evidence, asked, dice.any());
            if judgement.checked {
                let label = if dice.below(2) == 0 { Label::Worse } else { Label::AsGood };
                cascade.learn(&judgement, &evidence, label);
            }
            let is_first = asked == Ask::Draft;
            let waited = if is_first { Waited::Client } else { Waited::Nobody };
            let payback = cascade.payback_mut();
            if is_first {
                payback.handle_start();
            }
            payback.handle_verdict(&traits(), millis(200), judgement.upshot(), waited);
            if 2_000 <= turn {
                last += u32::from(is_first);
                given += u32::from(judgement.serve == super::super::Choice::Draft);
            }
        }
        assert!(last < 100 || 25 < given, "seed {seed}: {last} of 1,000, {given} given");
        assert!(cascade.report().unpaid.is_some(), "seed {seed}: it says so");
    }
}
