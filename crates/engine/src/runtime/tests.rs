//! Plans as text: slots as `seq0[0..16] every`, passes on lines of their own.

use overdraft_scheduler::batch::{Logits, Plan, Slot};
use overdraft_units::{SequenceId, Tokens};

use super::pass::passes;

/// Each slot is `(start, length, logits)`; eight rows a pass.
#[track_caller]
fn check(slots: &[(u32, u32, Logits)], expected: &[&str]) {
    let slot = |(number, &(start, length, logits))| Slot {
        sequence: SequenceId(number),
        start: Tokens::new(start),
        length: Tokens::new(length),
        drafts: Tokens::ZERO,
        logits,
    };
    let plan = Plan { slots: (0..).zip(slots).map(slot).collect(), ..Plan::default() };
    let lines: Vec<String> = passes(&plan, 8)
        .into_iter()
        .map(|slots| Plan { slots, ..Plan::default() }.to_string())
        .collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_plan_without_prompt_log_probabilities_is_one_pass() {
    check(
        &[(40, 1, Logits::Last), (0, 500, Logits::None)],
        &["seq0[40..41] last, seq1[0..500] none"],
    );
    check(
        &[(40, 1, Logits::Last), (0, 8, Logits::Every)],
        &["seq0[40..41] last, seq1[0..8] every"],
    );
}

#[test]
fn the_last_piece_of_a_long_slot_runs_with_the_rest() {
    check(
        &[(40, 1, Logits::Last), (4, 18, Logits::Every)],
        &["seq1[4..12] every", "seq1[12..14] every", "seq0[40..41] last, seq1[14..22] every"],
    );
}

#[test]
fn several_long_slots_share_the_last_pass() {
    check(
        &[(0, 10, Logits::Every), (0, 4, Logits::Every)],
        &["seq0[0..6] every", "seq0[6..10] every, seq1[0..4] every"],
    );
}
