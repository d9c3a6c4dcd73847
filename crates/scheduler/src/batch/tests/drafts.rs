//! Drafts are guests: what they get of a step, and what they may not take (R10).

use alloc::vec::Vec;
use std::string::ToString;

use overdraft_units::{SequenceId, TokenId, Tokens};

use super::*;

#[track_caller]
fn guess(s: &mut Scheduler, id: u64, drafts: &[u32], room: u32) {
    let ahead = Tokens::new(u32::try_from(drafts.len()).unwrap());
    assert_eq!(s.reserve(SequenceId(id), ahead), Tokens::new(room), "places reserved");
    s.handle_drafts(SequenceId(id), drafts.iter().copied().map(TokenId).collect());
    s.audit();
}

#[test]
fn right_drafts_count_as_computed_and_pages_behind_wrong_ones_are_given_back() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 3);
    check(&mut s, "seq1[0..3] last, +seq1");
    guess(&mut s, 1, &[51, 52, 53, 54, 55], 5);
    assert_eq!(s.plan(at(0)).to_string(), "seq1[3..9] every of 5 drafts");
    assert_eq!(pages(&s), "3 held, 0 cached, 13 blank");
    s.handle_step(at(0), &[outcome(1, &[51, 52, 99], Progress::Continues)]);
    s.audit();
    assert_eq!(pages(&s), "2 held, 0 cached, 14 blank");
    check(&mut s, "seq1[6..7] last");
    guess(&mut s, 1, &[61, 62], 2);
    assert_eq!(s.plan(at(0)).to_string(), "seq1[7..10] every of 2 drafts");
    s.handle_step(at(0), &[outcome(1, &[61, 62, 63], Progress::Continues)]);
    check(&mut s, "seq1[10..11] last");
    assert_eq!(s.tokens(SequenceId(1))[4..7], [51, 52, 99].map(TokenId));
}

#[test]
fn drafts_get_what_of_a_step_nobody_else_wants() {
    let mut s = scheduler(64);
    arrive(&mut s, 1, 0, 3);
    check(&mut s, "seq1[0..3] last, +seq1");
    arrive(&mut s, 2, 1000, 13);
    let room = DraftRoom { decodes: 1, prefill: Tokens::new(13), room: Tokens::new(2) };
    assert_eq!(s.draft_room(), room);
    guess(&mut s, 1, &[51, 52, 53], 3);
    check_drafts(&mut s, "seq1[3..6] every of 2 drafts, seq2[0..13] last, +seq2", &[(1, &[7])]);
}

#[test]
fn drafts_preempt_nobody_and_take_no_page_that_others_will_want() {
    let mut s = full_house([0, 0, 0]);
    guess(&mut s, 1, &[51, 52, 53, 54], 0);
    // The page that its next token needs has three places more; a second page it does not get.
    let planned = "seq1[12..16] every of 3 drafts, seq2[12..13] last, -seq3";
    check_drafts(&mut s, planned, &[(1, &[7]), (2, &[7])]);
}

#[test]
fn drafts_leave_room_for_the_token_that_is_sampled_last() {
    let mut s = scheduler(64);
    s.handle_arrival(at(0), Arrival { output_max: Tokens::new(4), ..arrival(1, 0, 3) });
    check(&mut s, "seq1[0..3] last, +seq1");
    guess(&mut s, 1, &[51, 52, 53], 2);
    let last = outcome(1, &[51, 52, 53], Progress::Finished);
    assert_eq!(s.plan(at(0)).to_string(), "seq1[3..6] every of 2 drafts");
    s.handle_step(at(0), &[last]);
    s.audit();
    // What was found right is remembered for whoever goes on with it.
    assert_eq!(pages(&s), "0 held, 1 cached, 63 blank");
}

#[test]
fn drafts_are_for_one_step() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 3);
    check(&mut s, "seq1[0..3] last, +seq1");
    guess(&mut s, 1, &[51], 1);
    assert_eq!(s.plan(at(0)).to_string(), "seq1[3..5] every of 1 drafts");
    s.handle_step(at(0), &[]);
    check(&mut s, "seq1[3..4] last");
}

/// One step with drafts: what it plans, and then what these sequences yield.
#[track_caller]
fn check_drafts(s: &mut Scheduler, expected: &str, yields: &[(u64, &[u32])]) {
    assert_eq!(s.plan(at(0)).to_string(), expected);
    s.audit();
    let outcomes: Vec<_> =
        yields.iter().map(|(id, tokens)| outcome(*id, tokens, Progress::Continues)).collect();
    s.handle_step(at(0), &outcomes);
    s.audit();
}
