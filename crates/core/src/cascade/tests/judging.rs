//! The cascade of a route from its first request on.

use overdraft_units::{Ratio, Tokens};

use super::super::{
    Ask, Bar, Cascade, Choice, Finish, Journal, Judgement, Label, Mode, Moment, OffReason,
    Settings, Standing, Stands,
};
use super::{Dice, draft, traits};

fn settings(mode: Mode, percent: u32) -> Settings {
    Settings { mode, loss: Ratio::percent(percent), first: Tokens::new(8), ..Settings::default() }
}

/// One request of a route, from its asking to its label. A draft of surprise 2^n is worse with the chance that
/// `worse` gives for n.
fn request(
    cascade: &mut Cascade,
    dice: &mut Dice,
    moment: Moment,
    worse: fn(u32) -> Ratio,
) -> Option<(Judgement, bool)> {
    let asked = cascade.ask(&traits(), dice.any());
    if asked == Ask::Target {
        return None;
    }
    let octave = dice.below(10);
    let mut evidence = draft(1 << octave, 24, dice);
    evidence.finish(Finish::Stop);
    let judgement = cascade.judge(moment, &evidence, asked, dice.any());
    let worse = dice.happens(worse(octave));
    if judgement.checked {
        let label = if worse { Label::Worse } else { Label::AsGood };
        cascade.learn(&judgement, &evidence, label);
    }
    Some((judgement, worse && judgement.serve == Choice::Draft))
}

/// A sound draft: it is worse only where it is surprised.
fn sound(octave: u32) -> Ratio {
    Ratio::millionths([0, 0, 0, 0, 500, 2_000, 10_000, 50_000, 200_000, 500_000][octave as usize])
}

#[test]
fn a_useless_draft_is_off_within_500_requests() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let mut cascade = Cascade::new(settings(Mode::Gate, 1));
        let mut requests = 0;
        while cascade.standing() == Standing::On {
            requests += 1;
            assert!(requests <= 500, "seed {seed}: still on");
            let served = request(&mut cascade, &mut dice, Moment::Whole, |_| Ratio::percent(99));
            assert!(served.is_none_or(|(_, lost)| !lost), "nothing was served while learning");
        }
        assert!(matches!(cascade.standing(), Standing::Off { reason: OffReason::Useless, .. }));
        let asked = cascade.ask(&traits(), 0);
        assert!(matches!(asked, Ask::Beside(_)), "it is watched on, and never served: {asked:?}");
    }
}

#[test]
fn a_sound_draft_is_served_within_its_loss() {
    for moment in [Moment::First, Moment::Whole] {
        for seed in 0..4 {
            let mut dice = Dice::new(seed);
            let mut cascade = Cascade::new(settings(Mode::Gate, 2));
            let (mut served, mut lost, requests) = (0, 0, 6_000);
            for _ in 0..requests {
                let Some((judgement, worse)) = request(&mut cascade, &mut dice, moment, sound)
                else {
                    continue;
                };
                served += u32::from(judgement.serve == Choice::Draft);
                lost += u32::from(worse);
            }
            assert_eq!(cascade.standing(), Standing::On, "seed {seed}");
            assert!(requests * 4 <= served * 10, "{moment:?} {seed}: {served} served");
            assert!(lost * 1_000 <= requests * 25, "{moment:?} {seed}: {lost} of {requests} lost");
            let report = cascade.report();
            assert_eq!(report.served, u64::from(served));
            assert!(matches!(report.bar, Bar::At(_)));
        }
    }
}

#[test]
fn a_route_that_turns_bad_is_noticed() {
    let mut dice = Dice::new(1);
    let mut cascade = Cascade::new(settings(Mode::Gate, 2));
    for _ in 0..3_000 {
        request(&mut cascade, &mut dice, Moment::Whole, sound);
    }
    let (mut served, mut lost) = (0_u32, 0_u32);
    for _ in 0..10_000 {
        let Some((judgement, worse)) =
            request(&mut cascade, &mut dice, Moment::Whole, |_| Ratio::percent(60))
        else {
            continue;
        };
        served += u32::from(judgement.serve == Choice::Draft);
        lost += u32::from(worse);
    }
    assert!(lost < 400, "{lost} of {served} served were lost before it was noticed");
}

#[test]
fn a_shadow_serves_nothing_and_says_what_a_gate_would() {
    let mut dice = Dice::new(2);
    let mut cascade = Cascade::new(settings(Mode::Shadow, 2));
    let (mut asked, mut would) = (0, 0);
    for _ in 0..20_000 {
        let Some((judgement, _)) = request(&mut cascade, &mut dice, Moment::Whole, sound) else {
            continue;
        };
        assert_eq!(judgement.serve, Choice::Target);
        asked += 1;
        would += u32::from(judgement.would == Choice::Draft);
    }
    assert!((300..1_100).contains(&asked), "{asked} of 20,000, falling from 5 %");
    assert!(0 < would, "a gate would have served some");
    assert_eq!(Cascade::new(settings(Mode::Off, 1)).ask(&traits(), 0), Ask::Target);
}

#[test]
fn verification_needs_no_labels_and_ends_when_nothing_is_accepted() {
    let mut cascade = Cascade::new(settings(Mode::Verify, 1));
    assert_eq!(cascade.ask(&traits(), u64::MAX), Ask::Draft);
    let mut journal = Journal::new(1);
    let mut verified = |accepted| {
        let note = cascade.counted(Tokens::new(accepted), Tokens::new(40));
        cascade.tell(note, &mut journal)
    };
    for _ in 0..1_000 {
        assert_eq!(verified(30), Standing::On);
    }
    let mut drafts = 0;
    while verified(0) == Standing::On {
        drafts += 1;
        assert!(drafts < 500, "nothing is accepted any more");
    }
}

#[test]
fn a_draft_that_will_be_refused_is_ended_early() {
    let mut dice = Dice::new(3);
    // Nine of ten bad drafts are worse and one answer in a hundred may be lost, so one in forty of the bad may pass: well
    // below the one in twenty at which a draft is worth waiting for.
    let mut cascade = Cascade::new(settings(Mode::Gate, 1));
    let (mut ended, mut wrongly, mut poor) = (0, 0, 0);
    for turn in 0..6_000 {
        let asked = cascade.ask(&traits(), dice.any());
        let bad = turn % 2 == 0;
        let mut evidence = cascade.evidence(traits());
        let (mut stands, mut hopeless, drawn) = (Stands::default(), false, dice.any());
        for token in 1..=24 {
            let surprise = dice.below(if bad { 2_000 } else { 20 });
            evidence.observe(super::token(-i64::from(surprise)));
            if token % 8 == 0 && !hopeless {
                let (stand, end) = cascade.prospect(&evidence, drawn);
                stands = stands.with(stand);
                hopeless = end;
            }
        }
        if 3_000 < turn {
            poor += u32::from(bad);
            ended += u32::from(hopeless);
            wrongly += u32::from(hopeless && !bad);
        }
        evidence.finish(Finish::Stop);
        let judgement = cascade.judge(Moment::Whole, &evidence, asked, dice.any());
        if !hopeless {
            cascade.came_out(stands, &judgement);
        }
        if judgement.checked {
            let worse = bad && dice.happens(Ratio::percent(90));
            let label = if worse { Label::Worse } else { Label::AsGood };
            cascade.learn(&judgement, &evidence, label);
        }
    }
    assert!(poor * 7 < ended * 10, "{ended} of {poor} hopeless drafts were ended");
    assert!(wrongly * 20 < ended, "{wrongly} good ones among {ended}");
}
