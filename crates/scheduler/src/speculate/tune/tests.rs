//! What a table is made of, what is refused, and what the window shows.

extern crate std;

use std::string::ToString;

use super::*;

/// A worker whose steps take 20 ms and some for each row beyond 64, whose draft takes a
/// twentieth, and whose guesses are right so often.
fn evidence(percent: u64, row: Nanos) -> Evidence {
    let verify = |rows: u32| 20_000_000 + row * u64::from(rows.saturating_sub(64));
    let mut accepted = [0; DEPTH_MAX];
    let mut right = 10_000;
    for place in &mut accepted[..4] {
        right = right * percent / 100;
        *place = right;
    }
    let sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    let plain = sizes.map(|sequences| StepSeen {
        sequences,
        drafted: 0,
        accepted_milli: 0,
        took: verify(sequences),
    });
    let drafted = sizes.map(|sequences| StepSeen {
        sequences,
        drafted: 4 * sequences,
        accepted_milli: sequences * u32::try_from(accepted.iter().sum::<u64>() / 10).unwrap(),
        took: verify(5 * sequences) + 4 * 1_000_000,
    });
    let steps = [plain, drafted].concat();
    Evidence { sequence_steps: 10_000, drafts: 10_000, accepted, depth: 4, steps }
}

#[track_caller]
fn check(evidence: &Evidence, expected: &[(u32, u32, usize)]) {
    let table = evidence.table(256, 8).unwrap();
    let lines: Vec<_> = table.iter().map(|line| (line.first, line.last, line.depth)).collect();
    assert_eq!(lines, expected);
    assert!(crate::speculate::DepthTable::new(&lines).is_some(), "vLLM takes it");
}

#[test]
fn depth_falls_as_the_batch_grows() {
    check(
        &evidence(80, 150_000),
        &[(1, 7, 8), (8, 15, 4), (16, 63, 2), (64, 127, 1), (128, 256, 0)],
    );
}

#[test]
fn guesses_that_are_mostly_wrong_are_not_worth_making() {
    let table = evidence(4, 150_000).table(256, 8).unwrap();
    assert!(table.iter().all(|line| line.depth == 0), "{table:?}");
}

#[test]
fn a_table_says_nothing_that_its_window_contradicts() {
    let mut evidence = evidence(80, 0);
    // At one sequence guesses are wrong, and steps with them slower than elsewhere.
    for step in evidence.steps.iter_mut().filter(|step| 0 < step.drafted && step.sequences == 1) {
        (step.took, step.accepted_milli) = (2 * step.took, 0);
    }
    let table = evidence.table(4, 8).unwrap();
    let lines: Vec<_> =
        table.iter().map(|line| (line.first, line.depth, line.contradicted.is_some())).collect();
    // The slow steps make guesses dearer at every size, and elsewhere they pay all the same.
    assert_eq!(lines, [(1, 0, true), (2, 3, false)]);
    let present = evidence.present();
    assert!(present[0].permille < 1_000 && 2_000 < present[1].permille, "{present:?}");
    assert_eq!((present[0].sequences, present[0].depth), (1, 4));
}

#[test]
fn what_was_not_seen_is_told_apart() {
    let mut evidence = evidence(80, 0);
    evidence.steps.retain(|step| step.sequences < 33);
    let table = evidence.table(64, 4).unwrap();
    assert!(table.iter().all(|line| line.depth == 4 && !line.seen), "{table:?}");
}

#[test]
fn lookups_that_find_little_count_little() {
    let mut rare = evidence(80, 150_000);
    rare.sequence_steps = 100_000;
    let (often, rare) = (evidence(80, 150_000).table(1, 4), rare.table(1, 4));
    let gain = |table: Result<Vec<Advised>, TuneError>| table.unwrap()[0].permille;
    let (often, rare) = (gain(often), gain(rare));
    assert!(2_000 < often && rare < 1_300, "{often} {rare}");
}

#[track_caller]
fn check_refused(change: impl Fn(&mut Evidence), says: &str) {
    let mut seen = evidence(80, 1);
    change(&mut seen);
    assert!(seen.table(8, 4).unwrap_err().to_string().contains(says));
}

#[test]
fn too_little_is_refused() {
    check_refused(|seen| seen.drafts = 12, "`12` drafts were verified; expected at least 200");
    check_refused(|seen| seen.steps.retain(|step| 0 < step.drafted), "at `0` sizes");
    check_refused(
        |seen| seen.steps.retain(|step| 0 < step.drafted || step.sequences == 8),
        "at `1` sizes of the batch; expected at least two",
    );
    check_refused(|seen| seen.steps.retain(|step| step.drafted == 0), "no step with drafts");
}

#[test]
fn steps_are_read_off_counters_of_a_steady_load() {
    // Eight sequences for a second, fifty steps; four tokens drafted in each, two of them right.
    let earlier = Counts { running: 8, generated: 5, drafts: 3, ..Counts::default() };
    let later = Counts {
        running: 8,
        generated: 5 + 8 * 50 * 3,
        drafts: 3 + 8 * 50,
        drafted: 8 * 50 * 4,
        accepted: 8 * 50 * 2,
        accepted_at: [400, 300, 100, 0, 0, 0, 0, 0],
        ..earlier
    };
    let second = Micros::new(1_000_000);
    let mut seen = Evidence::default();
    seen.observe(&earlier, &later, second);
    let step = StepSeen { sequences: 8, drafted: 32, accepted_milli: 16_000, took: 20_000_000 };
    assert_eq!((seen.drafts, seen.sequence_steps, seen.depth), (400, 400, 4));
    assert_eq!(seen.steps, [step]);
    // A restart counts for nothing, and a load that changes is no measure of a step.
    seen.observe(&later, &earlier, second);
    seen.observe(&Counts { running: 2, ..earlier }, &later, second);
    seen.observe(&earlier, &Counts { waiting: 1, ..later }, second);
    assert_eq!((seen.drafts, seen.steps.len()), (1_200, 1));
}

#[test]
fn sizes_that_are_alike_are_one_point() {
    let points = middles([(2, 5), (3, 4), (3, 9), (0, 7), (4, 1)].into_iter());
    assert_eq!(points, [(2, 5), (4, 1)]);
}
