//! The parts one by one; the controller against a changing load is in `tests/speculation.rs`.

extern crate std;

use alloc::vec;
use alloc::vec::Vec;
use std::format;
use std::string::ToString;

use overdraft_units::{Instant, Micros, Ratio, TokenId};
use proptest::prelude::*;

use super::probe::PROBE_OFF_DEPTH;
use super::threshold::{Measure, Threshold};
use super::*;

fn at(millis: u64) -> Instant {
    Instant::ORIGIN + Micros::new(millis * 1_000)
}

/// A step costs 1,000 ns and 100 for each row, a draft pass 100 and 10.
fn costs() -> StepCosts {
    let line = |base: u64, row: u64| {
        CostCurve::new((0..9).map(|power| (1 << power, base + (row << power))).collect())
    };
    StepCosts { verify: line(1_000, 100), draft: line(100, 10), ..StepCosts::default() }
}

#[track_caller]
fn check_chances(acceptance: &Acceptance, expected: &[(u32, u32)]) {
    let survival = acceptance.pooled().survival();
    let mut before = Ratio::WHOLE;
    for (chance, (low, high)) in survival.iter().zip(expected) {
        let percent = Ratio::of(chance.get().into(), before.get().into()).get() / 10_000;
        assert!((*low..=*high).contains(&percent), "{percent} % is not within {low}..={high}");
        before = *chance;
    }
}

#[test]
fn a_position_is_judged_only_where_those_before_it_were_right() {
    let mut acceptance = Acceptance::default();
    // The first is right nine times in ten, the second half of those times.
    for n in 0..2_000_usize {
        let right = if n % 10 == 0 { 0 } else { 1 + n % 2 };
        acceptance.observe(2, right);
    }
    check_chances(&acceptance, &[(88, 91), (48, 57)]);
}

#[test]
fn how_deep_drafts_were_does_not_change_what_is_learnt_of_the_first() {
    let (mut deep, mut shallow) = (Acceptance::default(), Acceptance::default());
    for n in 0..500_usize {
        deep.observe(8, n % 4);
        shallow.observe(1, (n % 4).min(1));
    }
    let first = |acceptance: &Acceptance| acceptance.pooled().survival()[0];
    assert_eq!(first(&deep), first(&shallow));
}

#[test]
fn four_hundred_trials_halve_what_older_ones_count() {
    let mut acceptance = Acceptance::default();
    for _ in 0..10_000 {
        acceptance.observe(1, 1);
    }
    for n in 0..400_usize {
        acceptance.observe(1, usize::from(n % 5 != 0));
    }
    check_chances(&acceptance, &[(89, 91)]);
}

#[test]
fn a_text_that_changes_is_noticed_within_two_dozen_trials() {
    let mut acceptance = Acceptance::default();
    for n in 0..10_000_usize {
        acceptance.observe(1, usize::from(n % 10 != 0));
    }
    for n in 0..24_usize {
        acceptance.observe(1, usize::from(n % 5 == 0));
    }
    // A mean of the last four hundred would still say 88.
    check_chances(&acceptance, &[(20, 65)]);
    for n in 0..5_000_usize {
        // What chance does is no change.
        acceptance.observe(1, usize::from((n * 7) % 16 < 8));
        let kept = acceptance.trials();
        assert!(n < 2_000 || 400 <= kept, "{kept} of the trials before {n} count");
    }
}

#[test]
fn a_kind_of_text_is_judged_by_its_like_until_it_has_shown_enough() {
    let mut pool = Acceptance::default();
    for _ in 0..1_000 {
        pool.observe(4, 4);
    }
    let pooled = pool.pooled();
    let fresh = Acceptance::default();
    assert_eq!(fresh.within(&pooled).survival()[0], pooled.survival()[0]);
    let mut bad = Acceptance::default();
    for _ in 0..200 {
        bad.observe(4, 0);
    }
    let survival = bad.within(&pooled).survival();
    assert!(survival[0] < Ratio::percent(30));
    assert!(survival[1] < Ratio::percent(20), "what follows is drawn down with it");
}

#[test]
fn a_cost_between_two_points_lies_on_their_line_and_beyond_them_goes_on() {
    let curve = CostCurve::new(vec![(8, 1_700), (1, 1_000), (2, 1_100)]);
    let at: Vec<_> = [0, 1, 2, 5, 8, 10].map(|rows| curve.at(rows)).to_vec();
    assert_eq!(at, [0, 1_000, 1_100, 1_400, 1_700, 1_900]);
    assert_eq!(CostCurve::new(vec![(4, 400)]).at(8), 800);
    assert_eq!(CostCurve::default().at(8), 0);
}

#[test]
fn rows_beyond_the_table_are_not_free_where_its_last_two_points_came_to_the_same() {
    let curve = CostCurve::new(vec![(1, 4_000), (16, 17_000), (24, 27_000), (32, 26_000)]);
    assert_eq!([24, 32, 48].map(|rows| curve.at(rows)), [27_000, 27_000, 37_000]);
}

#[test]
fn steps_that_take_longer_move_the_table_and_one_that_was_disturbed_hardly() {
    let mut curve = CostCurve::new(vec![(1, 1_000), (8, 1_700)]);
    curve.correct(1, 1_000_000);
    assert!(curve.at(1) < 1_050, "{}", curve.at(1));
    for _ in 0..400 {
        curve.correct(1, 1_500);
    }
    assert!((1_450..=1_550).contains(&curve.at(1)), "{}", curve.at(1));
}

#[test]
fn a_slow_machine_changes_the_pace_and_no_price() {
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    for step in 0..4_000_u64 {
        // Every hundred steps it is slower by half, or quick again; sequences take 1,400, guesses 40, rows of prompts 50.
        let slow = if step / 100 % 2 == 0 { 2 } else { 3 };
        let guesses = if step % 96 == 0 { 0 } else { 8 };
        let prompts = if step % 10 == 0 { 0 } else { 20 };
        let ran = Ran { sequences: 4, guesses, prompts, beginning: prompts / 20, tokens: 8 };
        let took = 1_400 + 40 * u64::from(guesses) + 50 * u64::from(prompts);
        controller.measure(&ran, took / 2 * slow);
        let guessed = controller.costs().guesses(4, 8);
        // Of 320 by a third; beside a table that stays it would be above 700.
        assert!(step < 1_000 || (213..=427).contains(&guessed), "{guessed} after {step} steps");
    }
}

#[test]
fn guesses_have_a_price_of_their_own_and_leave_that_of_sequences_alone() {
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    // 1,000 and 100 a row, says the table of `costs`; guesses take 40.
    for step in 0..4_000_u64 {
        let guesses = if step % 128 == 0 { 0 } else { 8 };
        let ran = Ran { sequences: 4, guesses, ..Ran::default() };
        controller.measure(&ran, 1_400 + 40 * u64::from(guesses));
    }
    let costs = controller.costs();
    let (plain, guessed) = (costs.verify.at(4), costs.guesses(4, 8));
    assert!((1_380..=1_420).contains(&plain), "{plain}");
    assert!((280..=360).contains(&guessed), "{guessed}");
}

proptest! {
    #[test]
    fn more_rows_never_cost_less(
        points in prop::collection::vec((1..300_u32, 0..10_000_u64), 1..12),
        steps in prop::collection::vec((1..400_u32, 0..20_000_u64), 0..60),
    ) {
        let mut curve = CostCurve::new(points);
        for (rows, took) in steps {
            curve.correct(rows, took);
            for rows in 0..400 {
                prop_assert!(curve.at(rows) <= curve.at(rows + 1), "at {rows}");
            }
        }
    }

    #[test]
    fn a_grant_keeps_within_what_there_is(
        seen in prop::collection::vec((0..9_usize, 0..9_usize, 0..9_usize, 0..9_usize), 1..20),
        policy in prop::sample::select(vec!["off", "fixed:5", "threshold", "batch-table", "goodput"]),
        room in 0..60_u32,
        depth_max in 0..9_usize,
        rounds in 1..80_u64,
    ) {
        let policy: Policy = policy.parse().expect("the name of one");
        let mut controller = Controller::new(policy.clone(), depth_max, costs());
        let mut records = vec![[Acceptance::default(); 2]; seen.len()];
        for round in 0..rounds {
            for (record, (lookup, _, drafted, right)) in records.iter_mut().zip(&seen) {
                let place = usize::from(*lookup > 0);
                record[place].observe(*drafted, (*right).min(*drafted));
            }
            let prospects: Vec<_> = records
                .iter()
                .zip(&seen)
                .map(|(seen, (lookup, model, ..))| Prospect {
                    class: 1, seen, lookup: *lookup, model: *model, backlog: 1,
                })
                .collect();
            let load = Load::decoding(u32::try_from(seen.len()).expect("few"), room);
            let decision = controller.decide(at(round * 500), &load, &prospects);
            prop_assert_eq!(decision.grants.len(), prospects.len());
            let mut rows = 0;
            for (grant, prospect) in decision.grants.iter().zip(&prospects) {
                let most = [prospect.lookup, prospect.model][grant.drafter.place()];
                prop_assert!(grant.depth <= most.min(depth_max));
                rows += grant.depth;
            }
            // A probe goes beyond by no more than itself.
            prop_assert!(rows <= room as usize + 8, "{rows} rows of {room}");
            prop_assert!(policy != Policy::Off || rows == 0);
        }
    }
}

/// Depths granted to sequences whose drafts were right so often, in hundredths.
#[track_caller]
fn check_depths(rates: &[u32], expected: impl Fn(&[usize]) -> bool) {
    let mut records = Vec::new();
    for rate in rates {
        let mut seen = [Acceptance::default(); 2];
        for n in 0..400_u32 {
            seen[1]
                .observe(8, (0..8).take_while(|place| (n * 7 + place * 31) % 100 < *rate).count());
        }
        records.push(seen);
    }
    let prospects: Vec<_> = records
        .iter()
        .map(|seen| Prospect { class: 0, seen, lookup: 0, model: 8, backlog: 1 })
        .collect();
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    let load = Load::decoding(u32::try_from(rates.len()).unwrap(), 200);
    for step in 0..20 {
        controller.decide(at(step), &load, &prospects);
    }
    let decision = controller.decide(at(21), &load, &prospects);
    let depths: Vec<_> = decision.grants.iter().map(|grant| grant.depth).collect();
    assert!(expected(&depths), "{depths:?}");
}

#[test]
fn depth_is_each_sequences_own() {
    check_depths(&[99, 5], |depths| depths[0] >= 5 && depths[1] == 0);
    check_depths(&[3, 3], |depths| depths == [0, 0]);
}

#[test]
fn nothing_is_guessed_while_the_cache_is_full_or_prompts_wait_for_rows() {
    let mut seen = [Acceptance::default(); 2];
    (0..500).for_each(|_| seen[1].observe(8, 8));
    let prospect = Prospect { class: 0, seen: &seen, lookup: 0, model: 8, backlog: 1 };
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    let calm = Load::decoding(1, 100);
    controller.decide(at(0), &calm, &[prospect]);
    let full = Load { held: Ratio::percent(96), ..calm };
    controller.decide(at(1), &full, &[prospect]);
    assert_eq!((controller.depth(), controller.last_change().0), (0, Reason::CacheFull));
    controller.decide(at(2), &calm, &[prospect]);
    assert_eq!((controller.depth(), controller.last_change().0), (8, Reason::PaysMore));
    controller.decide(at(3), &Load { preemptions: 1, ..calm }, &[prospect]);
    assert_eq!(controller.depth(), 0);
    controller.decide(at(900), &Load { preemptions: 1, ..calm }, &[prospect]);
    assert_eq!(controller.depth(), 0, "for a second after a preemption");
    // Rows are cheap here until there are many.
    let waits = Load { waiting: 3, preemptions: 1, ..calm };
    controller.decide(at(2_000), &waits, &[prospect]);
    assert_eq!(controller.depth(), 8);
    let crowd = vec![prospect; 64];
    let many = Load { waiting: 3, preemptions: 1, ..Load::decoding(64, 100) };
    controller.decide(at(2_001), &many, &crowd);
    assert_eq!((controller.depth(), controller.last_change().0), (0, Reason::Queue));
}

#[test]
fn what_is_off_is_tried_again_and_comes_back_when_it_pays() {
    let seen = [Acceptance::default(); 2];
    let prospect = Prospect { class: 0, seen: &seen, lookup: 0, model: 8, backlog: 1 };
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    let load = Load::decoding(1, 100);
    let mut deepest_bad = 0;
    let mut rows = (0, 0);
    for step in 0..20_000 {
        // Ten milliseconds a step; the text turns good after a hundred seconds.
        let good = 10_000 <= step;
        let decision = controller.decide(at(step * 10), &load, &[prospect]);
        let depth = decision.grants[0].depth;
        let right = if good { depth } else { 0 };
        controller.learn(Trial { class: 0, drafter: Drafter::Model, drafted: depth, right });
        if (5_000..10_000).contains(&step) {
            deepest_bad = deepest_bad.max(depth);
            rows.0 += depth;
        }
        if 19_000 <= step {
            rows.1 += depth;
        }
    }
    assert!((1..=2).contains(&deepest_bad), "only probes, and those: {deepest_bad}");
    assert!(rows.0 <= 26 * 8 * 2, "{} rows in fifty seconds", rows.0);
    assert!(rows.1 >= 7 * 1_000, "{} rows in the last thousand steps", rows.1);
}

#[test]
fn what_is_behind_a_point_that_was_disturbed_is_not_free() {
    // As profiled while others had the machine, in tenths of a millisecond.
    let small = [(1, 57), (2, 60), (3, 64), (4, 72), (6, 82), (8, 96)];
    let large = [(12, 220), (16, 372), (24, 259), (32, 422), (48, 815)];
    let points = small.into_iter().chain(large);
    let curve = CostCurve::new(points.map(|(rows, cost)| (rows, cost * 100_000)).collect());
    for rows in 8..40 {
        let row = (curve.at(rows + 4) - curve.at(rows)) / 4;
        assert!((500_000..4_000_000).contains(&row), "{row} ns for one more than {rows}");
    }
    // Two rows are dear and four are not: that is what steps so small are like.
    let stairs = CostCurve::new(vec![(1, 1_000), (2, 1_320), (4, 1_570), (8, 2_390)]);
    assert_eq!([1, 2, 4, 8].map(|rows| stairs.at(rows)), [1_000, 1_320, 1_570, 2_390]);
}

#[test]
fn tries_that_find_the_same_get_rarer_until_the_load_is_another() {
    let seen = [Acceptance::default(); 2];
    let prospect = Prospect { class: 0, seen: &seen, lookup: 0, model: 8, backlog: 1 };
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    let mut now = 0;
    let mut tried = |sequences: u32, steps: u32| {
        let prospects = vec![prospect; usize::try_from(sequences).expect("few")];
        let load = Load::decoding(sequences, 200);
        let mut rows = 0;
        for _ in 0..steps {
            now += 10;
            for grant in controller.decide(at(now), &load, &prospects).grants {
                let drafted = grant.depth;
                rows += drafted;
                let drafter = Drafter::Model;
                controller.learn(Trial { class: 0, drafter, drafted, right: 0 });
            }
        }
        rows
    };
    // What the draft model is good for is learnt first.
    let _learns = tried(16, 2_000);
    let known = tried(16, 1_000);
    let _alone = tried(1, 500);
    let (again, known_again) = (tried(16, 1_000), tried(16, 1_000));
    assert!(0 < known && 4 * known < 3 * again, "{known} rows, {again} after another load");
    assert!(4 * known_again < 3 * again, "{again} rows, then {known_again}");
}

#[test]
fn what_was_guessed_goes_on_as_soon_as_nothing_forbids_it() {
    let mut seen = [Acceptance::default(); 2];
    (0..500).for_each(|_| seen[1].observe(8, 8));
    let prospects = [Prospect { class: 0, seen: &seen, lookup: 0, model: 8, backlog: 1 }; 8];
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    let calm = Load::decoding(8, 100);
    let full = Load { held: Ratio::percent(96), ..calm };
    (0..100).for_each(|step| drop(controller.decide(at(step), &calm, &prospects)));
    assert!(0 < controller.depth());
    for step in [100, 101, 102] {
        controller.decide(at(step), &full, &prospects);
        assert_eq!(controller.depth(), 0);
    }
    // One that begins beside others must be wanted for eight steps.
    controller.decide(at(103), &calm, &prospects);
    assert!(PROBE_OFF_DEPTH < controller.depth(), "{}", controller.depth());
}

/// Seven hundred guesses, of which so many hundredths were right.
fn seen(hundredths: usize) -> [Acceptance; 2] {
    let mut seen = [Acceptance::default(); 2];
    (0..700).for_each(|n| seen[1].observe(1, usize::from(n * 37 % 100 < hundredths)));
    seen
}

#[test]
fn what_brings_little_begins_once_it_is_wanted_for_long() {
    // Eight rows more and a pass take 0.54 of a step: 59 of a hundred bring three hundredths.
    let texts = [seen(100), seen(0), seen(59)];
    let mut controller = Controller::new(Policy::Goodput, 1, costs());
    let load = Load::decoding(8, 100);
    let mut began = None;
    for step in 0..500 {
        let text = if step < 100 { 0 } else { 1 + usize::from(300 <= step) };
        let of = Prospect { class: 0, seen: &texts[text], lookup: 0, model: 1, backlog: 1 };
        let decision = controller.decide(at(step), &load, &[of; 8]);
        let all = decision.grants.iter().all(|grant| 0 < grant.depth);
        assert!(all || !(20..100).contains(&step), "what brings much goes on in step {step}");
        if 300 <= step && all {
            began = began.or(Some(step - 300));
        }
    }
    let began = began.expect("three hundredths are worth having");
    assert!((12..60).contains(&began), "after {began} steps");
}

#[track_caller]
fn check_lookup(text: &str, count: usize, expected: &str) {
    let tokens: Vec<_> = text.bytes().map(|byte| TokenId(byte.into())).collect();
    let guess = Lookup::default().guess(&tokens, count);
    let guess: Vec<u8> = guess.iter().map(|token| u8::try_from(token.0).unwrap()).collect();
    assert_eq!(std::str::from_utf8(&guess).unwrap(), expected);
}

#[test]
fn a_lookup_goes_on_as_the_longest_and_latest_match_did() {
    check_lookup("the cat sat. the c", 5, "at sa");
    check_lookup("one two, one three, one t", 3, "hre");
    check_lookup("xn two, yn three, xn t", 3, "wo,");
    check_lookup("abcdef", 4, "");
    check_lookup("abca", 4, "");
    check_lookup("ababab", 5, "ababa");
    check_lookup("", 5, "");
    check_lookup("the cat the c", 0, "");
}

#[track_caller]
fn check_policy(text: &str, shown: &str) {
    let shown_as = match text.parse::<Policy>() {
        Ok(policy) => {
            assert_eq!(policy.to_string().parse(), Ok(policy.clone()), "{policy} is read back");
            policy.to_string()
        }
        Err(error) => format!("{error:.40}"),
    };
    assert!(shown_as.starts_with(shown), "{shown_as}");
}

#[test]
fn policies_are_read_as_they_are_shown() {
    check_policy("off", "off");
    check_policy("fixed:3", "fixed:3");
    check_policy("threshold", "threshold");
    check_policy("goodput", "goodput");
    check_policy("batch-table:1-8=4,9-64=0", "batch-table:1-8=4,9-");
    for wrong in
        ["fixed", "fixed:9", "fixed:x", "batch-table:2-8=4", "batch-table:1-8=4,8-9=2", "on"]
    {
        check_policy(wrong, &format!("`{wrong}` is not"));
    }
}

#[test]
fn a_table_keeps_the_last_depth_where_it_has_a_gap() {
    let table = DepthTable::new(&[(1, 4, 5), (9, 16, 2)]).unwrap();
    assert_eq!([1, 4, 6, 9, 16, 99].map(|n| table.depth(n)), [5, 5, 5, 2, 2, 2]);
}

/// The depth of each second under a rule that sees one answer a second, of ten drafts each; `right`
/// says how many of a draft of that depth are right in that second.
fn depths_over(seconds: u64, rule: Policy, right: impl Fn(u64, usize) -> usize) -> Vec<usize> {
    let mut controller = Controller::new(rule, 8, costs());
    let seen = [Acceptance::default(); 2];
    let prospect = Prospect { class: 0, seen: &seen, lookup: 0, model: 8, backlog: 1 };
    let mut depths = Vec::new();
    for second in 0..seconds {
        let (mut drafted, mut accepted, mut least) = (0, 0, usize::MAX);
        for step in 0..10 {
            let now = at(second * 1_000 + step * 100);
            let decision = controller.decide(now, &Load::decoding(1, 100), &[prospect]);
            let depth = decision.grants[0].depth;
            let right = right(second, depth);
            controller.note_used(depth, right);
            (drafted, accepted) = (drafted + depth as u64, accepted + right as u64);
            // Where it is off, some steps probe.
            least = least.min(depth);
        }
        controller.note_answer(drafted, accepted);
        depths.push(least);
    }
    depths
}

#[test]
fn both_threshold_rules_turn_off_and_come_back() {
    // Good for 50 s, bad for 300 s, then good again.
    let good = |second: u64| !(50..350).contains(&second);
    for rule in [Policy::Threshold, Policy::ThresholdPerToken] {
        let depths =
            depths_over(900, rule.clone(), |second, depth| if good(second) { depth } else { 0 });
        assert_eq!([5, 15, 25, 35, 45].map(|second| depths[second]), [4, 5, 6, 7, 8], "{rule}");
        assert_eq!((depths[349], depths[899]), (0, 8), "{rule}");
    }
}

/// Answers of drafts of four, whose guesses are right with a chance of 0.8 each: of a thousand drafts
/// 200 keep none, 160 one, 128 two, 102 three and 410 all four.
const OF_EIGHT_TENTHS: [(u64, usize); 5] = [(200, 0), (160, 1), (128, 2), (102, 3), (410, 4)];

#[test]
fn d2_the_threshold_rule_reads_accepted_over_drafted_and_decides_by_it() {
    let mut threshold = Threshold::new();
    for (drafts, right) in OF_EIGHT_TENTHS {
        for _ in 0..drafts / 2 {
            threshold.observe(4, right);
        }
    }
    // An answer is of all of them.
    let accepted = OF_EIGHT_TENTHS.iter().map(|(drafts, right)| drafts * *right as u64).sum();
    threshold.observe_answer(4 * 1_000, accepted);
    let read = |share: Option<Ratio>| share.map(|share| share.get() / 1_000);
    assert_eq!(read(threshold.share(Measure::PerAnswer)), Some(590));
    // One deeper every ten seconds by what was tried, one shallower by the write-up.
    let draft = |second: u64, depth: usize| match second % 10 {
        0 | 5 => 0,
        3 | 8 => depth.min(1),
        1 | 6 => depth.min(2),
        _ => depth.min(4),
    };
    let shallower = depths_over(15, Policy::Threshold, draft);
    let deeper = depths_over(15, Policy::ThresholdPerToken, draft);
    assert_eq!((shallower[14], deeper[14]), (3, 5));
}

/// One answer after another, and what the write-up's formula makes of them.
#[track_caller]
fn check_mean(answers: &[(u64, u64)], thousandths: u32) {
    let mut threshold = Threshold::new();
    for (drafted, accepted) in answers {
        threshold.observe_answer(*drafted, *accepted);
    }
    let share = threshold.share(Measure::PerAnswer).expect("an answer is enough");
    let read = (share.get() + 500) / 1_000;
    assert_eq!(read, thousandths, "{answers:?}");
}

#[test]
fn d2_the_newest_answer_counts_twice_the_oldest_and_long_ones_no_more_than_short_ones() {
    check_mean(&[(4, 3)], 750);
    check_mean(&[(4, 4), (4, 0)], 333);
    check_mean(&[(4, 0), (400, 400)], 667);
    // Weights 0.5, 0.75, 1.
    check_mean(&[(10, 10), (10, 5), (10, 0)], 389);
    // The first of 101 is forgotten.
    let many = |first: u64| {
        let mut answers = vec![(1, 1); 101];
        answers[0].1 = first;
        answers
    };
    check_mean(&many(0), 1_000);
    // The newer half weighs 43.8 of 75.
    let halves: Vec<_> = (0..100).map(|place| (1, u64::from(50 <= place))).collect();
    check_mean(&halves, 584);
}

#[test]
fn d7_the_depth_in_force_is_not_what_a_single_step_explored() {
    let mut seen = [Acceptance::default(); 2];
    (0..500).for_each(|_| seen[1].observe(8, 8));
    let prospect = Prospect { class: 0, seen: &seen, lookup: 0, model: 8, backlog: 1 };
    // Before anything was guessed: what the rule begins with.
    let begins = [Policy::Off, Policy::Fixed(3), Policy::Threshold, Policy::Goodput];
    let began = begins.map(|rule| Controller::new(rule, 8, costs()).depth_in_force());
    assert_eq!(began, [0, 3, 4, 0]);
    // Steps without guesses, and with fewer, come now and then; nobody to guess for leaves it, too.
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    let mut granted = alloc::collections::BTreeSet::new();
    for step in 0..500 {
        let decision = controller.decide(at(step), &Load::decoding(1, 100), &[prospect]);
        granted.insert(decision.grants[0].depth);
        controller.measure(&Ran { sequences: 1, guesses: 8, ..Ran::default() }, 1_900);
        assert_eq!(controller.depth_in_force(), 8, "step {step}");
    }
    assert!(granted.contains(&0), "a step without guesses: {granted:?}");
    controller.decide(at(600), &Load::decoding(0, 100), &[]);
    assert_eq!((controller.depth(), controller.depth_in_force()), (0, 8));
}

#[test]
fn d7_lookups_that_find_nothing_in_a_step_leave_the_depth_in_force() {
    let mut seen = [Acceptance::default(); 2];
    (0..500).for_each(|_| seen[0].observe(4, 4));
    let found = |lookup| Prospect { class: 0, seen: &seen, lookup, model: 0, backlog: 0 };
    let mut controller = Controller::new(Policy::Goodput, 8, costs());
    controller.decide(at(0), &Load::decoding(1, 100), &[found(4)]);
    assert_eq!(controller.depth_in_force(), 4);
    controller.decide(at(1), &Load::decoding(1, 100), &[found(0)]);
    assert_eq!((controller.depth(), controller.depth_in_force()), (0, 4));
}
