//! Pages of four tokens, steps of sixteen unless a test says otherwise.

extern crate std;

mod batching;
mod drafts;
mod eviction;
mod sharing;

use alloc::vec;
use alloc::vec::Vec;
use std::format;
use std::string::{String, ToString};

use overdraft_units::{
    BlockSize, Blocks, CacheSalt, Instant, Micros, Priority, SequenceId, TokenId, Tokens,
};

use super::blocks::BlockPool;
use super::prefix::{Parent, PrefixIndex};
use super::*;

/// What the engine generates when a test does not care.
const GENERATED: u32 = 7_000_000;

fn limits(step_tokens: u32, blocks: u32) -> BatchLimits {
    BatchLimits {
        step_tokens: Tokens::new(step_tokens),
        running_max: 16,
        waiting_max: 16,
        blocks: Blocks::new(blocks),
        block_size: BlockSize::new(4).unwrap(),
        context: Tokens::new(64),
        batching: Batching::Mixed,
    }
}

fn scheduler(blocks: u32) -> Scheduler {
    Scheduler::new(limits(16, blocks))
}

fn at(millis: u64) -> Instant {
    Instant::ORIGIN + Micros::new(millis * 1_000)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap()
}

/// A prompt of the numbers `first..first + length`.
fn arrival(id: u64, first: u32, length: u32) -> Arrival {
    Arrival {
        sequence: SequenceId(id),
        prompt: (first..first + length).map(TokenId).collect(),
        output_max: Tokens::new(16),
        salt: CacheSalt(1),
        priority: Priority(0),
        reuse: PrefixReuse::Allowed,
        logits: Logits::Last,
    }
}

#[track_caller]
fn arrive(s: &mut Scheduler, id: u64, first: u32, length: u32) {
    assert_eq!(s.handle_arrival(at(0), arrival(id, first, length)), Verdict::Queued);
    s.audit();
}

/// A prompt that goes on differently after `shared` tokens that start at 1000.
fn fork(id: u64, shared: u32, own: u32) -> Arrival {
    let mut arrival = arrival(id, 1000, shared);
    let first = 100_000 * small(id);
    arrival.prompt.extend((first..first + own).map(TokenId));
    arrival
}

/// Outcomes for what a plan samples: one token each, unlike any other.
fn sampled(s: &Scheduler, plan: &Plan) -> Vec<Outcome> {
    let ends =
        |slot: &&Slot| (slot.start + slot.length).get() as usize == s.tokens(slot.sequence).len();
    let outcome = |slot: &Slot| {
        let token = GENERATED + 1000 * small(slot.sequence.0) + (slot.start + slot.length).get();
        outcome(slot.sequence.0, &[token], Progress::Continues)
    };
    plan.slots.iter().filter(ends).map(outcome).collect()
}

fn outcome(id: u64, tokens: &[u32], progress: Progress) -> Outcome {
    let appended = tokens.iter().copied().map(TokenId).collect();
    Outcome { sequence: SequenceId(id), appended, progress }
}

/// One step: what it plans, as text, and then every slot yields what it should.
#[track_caller]
fn check(s: &mut Scheduler, expected: &str) {
    let plan = s.plan(at(0));
    assert_eq!(plan.to_string(), expected);
    s.audit();
    let outcomes = sampled(s, &plan);
    s.handle_step(at(0), &outcomes);
    s.audit();
}

/// One step in which this sequence says its last word.
#[track_caller]
fn finish(s: &mut Scheduler, id: u64) {
    let plan = s.plan(at(0));
    let mut outcomes = sampled(s, &plan);
    outcomes.retain(|outcome| outcome.sequence != SequenceId(id));
    outcomes.push(outcome(id, &[], Progress::Finished));
    s.handle_step(at(0), &outcomes);
    s.audit();
}

/// Held, cached and blank pages.
fn pages(s: &Scheduler) -> String {
    let BatchStats { blocks, blocks_held, blocks_cached, .. } = s.stats();
    let blank = blocks.get() - blocks_held.get() - blocks_cached.get();
    format!("{} held, {} cached, {blank} blank", blocks_held.get(), blocks_cached.get())
}

fn table(s: &Scheduler, id: u64) -> Vec<u32> {
    s.block_table(SequenceId(id)).iter().map(|block| block.0).collect()
}

/// Three sequences that fill nine pages with 12 tokens each and know one more, for a tenth page.
fn full_house(priorities: [i32; 3]) -> Scheduler {
    let mut s = scheduler(9);
    for (id, priority) in (1..).zip(priorities) {
        let arrival = Arrival { priority: Priority(priority), ..arrival(id, 1000 * small(id), 5) };
        s.handle_arrival(at(0), arrival);
    }
    for _ in 0..8 {
        let plan = s.plan(at(0));
        let outcomes = sampled(&s, &plan);
        s.handle_step(at(0), &outcomes);
        s.audit();
    }
    assert_eq!(pages(&s), "9 held, 0 cached, 0 blank");
    s
}

// Steps ------------------------------------------------------------------------------------------

#[test]
fn a_prompt_is_computed_in_chunks_and_then_goes_on_token_by_token() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 35);
    check(&mut s, "seq1[0..16] none, +seq1");
    check(&mut s, "seq1[16..32] none");
    check(&mut s, "seq1[32..35] last");
    check(&mut s, "seq1[35..36] last");
    check(&mut s, "seq1[36..37] last");
    assert_eq!(pages(&s), "10 held, 0 cached, 6 blank");
}

#[test]
fn without_sequences_a_plan_is_empty_and_needs_no_closing() {
    let mut s = scheduler(4);
    assert!(s.is_idle());
    assert_eq!(s.plan(at(0)), Plan::default());
    assert_eq!(s.plan(at(1)), Plan::default());
}

#[test]
fn decodes_go_first_and_prefills_share_the_rest() {
    let mut s = scheduler(64);
    arrive(&mut s, 1, 0, 3);
    check(&mut s, "seq1[0..3] last, +seq1");
    arrive(&mut s, 2, 1000, 40);
    arrive(&mut s, 3, 2000, 40);
    // 15 tokens are left of 16: three quarters, at least a page, then what is left over.
    check(&mut s, "seq1[3..4] last, seq2[0..12] none, seq3[0..3] none, +seq2, +seq3");
    check(&mut s, "seq1[4..5] last, seq2[12..24] none, seq3[3..6] none");
}

#[test]
fn a_long_prompt_does_not_shut_a_short_one_out() {
    let mut s = scheduler(64);
    arrive(&mut s, 1, 0, 60);
    check(&mut s, "seq1[0..16] none, +seq1");
    arrive(&mut s, 2, 1000, 4);
    check(&mut s, "seq1[16..28] none, seq2[0..4] last, +seq2");
    check(&mut s, "seq2[4..5] last, seq1[28..43] none");
}

#[test]
fn every_running_sequence_gets_a_token_of_every_step() {
    let mut s = Scheduler::new(BatchLimits { running_max: 100, ..limits(4, 64) });
    for id in 1..=3 {
        arrive(&mut s, id, 1000 * small(id), 1);
    }
    check(&mut s, "seq1[0..1] last, seq2[0..1] last, seq3[0..1] last, +seq1, +seq2, +seq3");
    for id in 4..=6 {
        arrive(&mut s, id, 1000 * small(id), 9);
    }
    let joined = "seq1[1..2] last, seq2[1..2] last, seq3[1..2] last, seq4[0..1] none, +seq4";
    check(&mut s, joined);
    // A step has four tokens, so only four run.
    check(&mut s, "seq1[2..3] last, seq2[2..3] last, seq3[2..3] last, seq4[1..2] none");
}

#[test]
fn several_tokens_may_follow_a_step() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 3);
    let plan = s.plan(at(0));
    assert_eq!(plan.to_string(), "seq1[0..3] last, +seq1");
    s.handle_step(at(0), &[outcome(1, &[51, 52, 53, 54, 55, 56], Progress::Continues)]);
    check(&mut s, "seq1[3..9] last");
    check(&mut s, "seq1[9..10] last");
    assert_eq!(s.tokens(SequenceId(1))[..6], [0, 1, 2, 51, 52, 53].map(TokenId));
}

#[test]
fn a_slot_that_yields_nothing_is_computed_again() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 4);
    s.plan(at(0));
    s.handle_step(at(0), &[]);
    check(&mut s, "seq1[3..4] last");
    s.plan(at(0));
    s.handle_step(at(0), &[outcome(1, &[], Progress::Continues)]);
    check(&mut s, "seq1[4..5] last");
}

#[test]
fn outcomes_count_in_any_order_and_strangers_are_ignored() {
    let mut s = scheduler(16);
    for id in 1..=3 {
        arrive(&mut s, id, 1000 * small(id), 2);
    }
    let plan = s.plan(at(0));
    let mut outcomes = sampled(&s, &plan);
    outcomes.rotate_left(1);
    outcomes.insert(1, outcome(99, &[1], Progress::Finished));
    s.handle_step(at(0), &outcomes);
    check(&mut s, "seq1[2..3] last, seq2[2..3] last, seq3[2..3] last");
}

#[test]
fn prompt_logits_are_owed_once_and_not_shortened_by_the_cache() {
    let mut s = scheduler(32);
    arrive(&mut s, 1, 0, 20);
    check(&mut s, "seq1[0..16] none, +seq1");
    finish(&mut s, 1);
    let every =
        Arrival { logits: Logits::Every, reuse: PrefixReuse::Forbidden, ..arrival(2, 0, 20) };
    s.handle_arrival(at(0), every);
    check(&mut s, "seq2[0..16] every, +seq2");
    check(&mut s, "seq2[16..20] every");
    check(&mut s, "seq2[20..21] last");
    assert_eq!(s.stats().prefix_queried, 20, "only the first one looked");
    // Computed anew, but into the pages that hold the same already.
    assert_eq!(s.cached(SequenceId(2)), Tokens::ZERO);
    assert_eq!(pages(&s), "6 held, 0 cached, 26 blank");
}

#[test]
#[should_panic(expected = "a step is closed before the next is planned")]
fn a_second_plan_before_the_first_is_answered_is_a_mistake() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 4);
    s.plan(at(0));
    s.plan(at(0));
}

// Turns ------------------------------------------------------------------------------------------

/// Who joins, in which order, when only one at a time can run.
#[track_caller]
fn check_turns(arrivals: &[(u64, i32)], expected: &[u64]) {
    let mut s = Scheduler::new(BatchLimits { running_max: 1, ..limits(16, 16) });
    for (id, (millis, priority)) in (1..).zip(arrivals) {
        let arrival = Arrival { priority: Priority(*priority), ..arrival(id, 1000 * small(id), 2) };
        assert_eq!(s.handle_arrival(at(*millis), arrival), Verdict::Queued);
    }
    let mut turns = vec![];
    while !s.is_idle() {
        let plan = s.plan(at(1_000_000));
        let id = plan.slots[0].sequence.0;
        turns.push(id);
        s.handle_step(at(1_000_000), &[outcome(id, &[], Progress::Finished)]);
    }
    assert_eq!(turns, expected);
}

#[test]
fn the_lower_priority_goes_first_and_equals_in_the_order_of_arrival() {
    check_turns(&[(0, 0), (1, 0), (2, 0)], &[1, 2, 3]);
    check_turns(&[(0, 1), (1, 0), (2, -1)], &[3, 2, 1]);
    check_turns(&[(0, 1), (0, 0), (0, 1), (0, 0)], &[2, 4, 1, 3]);
}

#[test]
fn five_seconds_of_waiting_outweigh_one_level() {
    check_turns(&[(0, 1), (4_999, 0), (5_001, 0)], &[2, 1, 3]);
    check_turns(&[(0, 3), (14_999, 0), (15_001, 0)], &[2, 1, 3]);
}

#[test]
fn nobody_is_passed_over_for_more_than_a_thousand_seconds() {
    check_turns(&[(0, i32::MAX), (999_999, i32::MIN), (1_000_001, i32::MIN)], &[2, 1, 3]);
}

#[test]
fn a_stream_of_important_arrivals_starves_nobody() {
    let mut s = Scheduler::new(BatchLimits { running_max: 2, ..limits(16, 16) });
    s.handle_arrival(at(0), Arrival { priority: Priority(3), ..arrival(1, 0, 4) });
    let mut finished_at = None;
    // Each step takes 100 ms and two fresh important sequences arrive; each wants three tokens.
    for n in 0..400_u64 {
        let now = at(n * 100);
        for id in [1_000 + 2 * n, 1_001 + 2 * n] {
            s.handle_arrival(now, arrival(id, 10 * small(id), 4));
        }
        let plan = s.plan(now);
        let mut outcomes = sampled(&s, &plan);
        for outcome in &mut outcomes {
            if s.tokens(outcome.sequence).len() == 6 {
                outcome.progress = Progress::Finished;
            }
        }
        let done = |o: &Outcome| o.sequence.0 == 1 && o.progress == Progress::Finished;
        if outcomes.iter().any(done) {
            finished_at.get_or_insert(n);
        }
        s.handle_step(now, &outcomes);
        s.audit();
    }
    let finished_at = finished_at.expect("it is never starved");
    assert!(
        (150..=180).contains(&finished_at),
        "150 steps of ageing and a full queue, not {finished_at}"
    );
}

// Refusals, cancellations, losses ----------------------------------------------------------------

#[track_caller]
fn refused(s: &mut Scheduler, arrival: Arrival, expected: Refusal) {
    let before = s.clone();
    assert_eq!(s.handle_arrival(at(9), arrival), Verdict::Refused(expected));
    assert_eq!(*s, before, "a refusal changes nothing");
}

#[test]
fn refuses_what_can_never_run() {
    let mut s = Scheduler::new(BatchLimits { waiting_max: 2, ..limits(16, 10) });
    let (context, blocks) = (Tokens::new(64), Blocks::new(10));
    refused(&mut s, arrival(1, 0, 0), Refusal::EmptyPrompt);
    let asked = Tokens::new(64);
    refused(&mut s, arrival(1, 0, 64), Refusal::LongerThanContext { asked, context });
    let asked = Blocks::new(11);
    refused(&mut s, arrival(1, 0, 25), Refusal::LargerThanCache { asked, blocks });
    arrive(&mut s, 1, 0, 24);
    refused(&mut s, arrival(1, 0, 4), Refusal::DuplicateSequence);
    arrive(&mut s, 2, 0, 4);
    refused(&mut s, arrival(3, 0, 4), Refusal::QueueFull { waiting_max: 2 });
}

#[test]
fn a_completion_may_be_cut_short_by_the_context() {
    let mut s = scheduler(16);
    let whole = Arrival { output_max: Tokens::new(u32::MAX), ..arrival(1, 0, 60) };
    assert_eq!(s.handle_arrival(at(0), whole), Verdict::Queued);
}

#[test]
fn a_cancelled_sequence_gives_its_pages_back_whatever_it_does() {
    let mut s = scheduler(20);
    arrive(&mut s, 1, 0, 30);
    assert!(s.handle_cancel(SequenceId(1)), "waiting");
    assert!(!s.handle_cancel(SequenceId(1)));
    assert!(s.is_idle());
    arrive(&mut s, 2, 0, 30);
    check(&mut s, "seq2[0..16] none, +seq2");
    assert_eq!(pages(&s), "8 held, 0 cached, 12 blank");
    assert!(s.handle_cancel(SequenceId(2)), "in the middle of its prompt");
    assert_eq!(pages(&s), "0 held, 4 cached, 16 blank");
    arrive(&mut s, 3, 0, 3);
    check(&mut s, "seq3[0..3] last, +seq3");
    assert!(s.handle_cancel(SequenceId(3)), "decoding");
    assert_eq!(pages(&s), "0 held, 4 cached, 16 blank");
    assert!(s.is_idle());
    s.audit();
}

#[test]
fn a_sequence_cancelled_in_an_open_step_goes_when_it_is_closed() {
    let mut s = scheduler(20);
    s.handle_arrival(at(0), fork(1, 8, 2));
    s.handle_arrival(at(0), fork(2, 8, 3));
    let plan = s.plan(at(0));
    assert!(s.handle_cancel(SequenceId(1)));
    assert!(!s.handle_cancel(SequenceId(1)), "it is cancelled already");
    refused(&mut s, arrival(1, 0, 4), Refusal::DuplicateSequence);
    assert_eq!(table(&s, 1).len(), 3, "the step still writes there");
    s.audit();
    let outcomes = sampled(&s, &plan);
    s.handle_step(at(0), &outcomes);
    s.audit();
    assert_eq!(s.tokens(SequenceId(1)), []);
    check(&mut s, "seq2[11..12] last");
}

#[test]
fn a_lost_step_takes_its_sequences_and_what_they_were_to_compute() {
    let mut s = scheduler(32);
    arrive(&mut s, 1, 0, 20);
    check(&mut s, "seq1[0..16] none, +seq1");
    s.handle_arrival(at(0), fork(2, 8, 2));
    s.handle_arrival(at(0), fork(3, 8, 2));
    let plan = s.plan(at(0));
    let joined = "seq1[16..20] last, seq2[0..10] last, seq3[8..10] last, +seq2, +seq3";
    assert_eq!(plan.to_string(), joined);
    s.handle_cancel(SequenceId(3));
    assert_eq!(s.handle_step_lost(), [SequenceId(1), SequenceId(2)]);
    s.audit();
    assert!(s.is_idle());
    assert_eq!(pages(&s), "0 held, 4 cached, 28 blank", "earlier steps' pages are as good as ever");
    s.handle_arrival(at(0), fork(4, 8, 2));
    check(&mut s, "seq4[0..10] last, +seq4");
}

#[test]
fn the_stats_count_everything() {
    let mut s = Scheduler::new(BatchLimits { running_max: 1, ..limits(16, 8) });
    arrive(&mut s, 1, 0, 6);
    s.handle_arrival(at(40), arrival(2, 0, 6));
    let plan = s.plan(at(100));
    let outcomes = sampled(&s, &plan);
    s.handle_step(at(140), &outcomes);
    let expected = BatchStats {
        running: 1,
        waiting: 1,
        blocks: Blocks::new(8),
        blocks_held: Blocks::new(2),
        blocks_cached: Blocks::ZERO,
        blocks_evicted: 0,
        prefix_queried: 6,
        prefix_hit: 0,
        preemptions: 0,
        held_back: 0,
        positions_computed: 6,
        waiting_longest: Micros::new(100_000),
    };
    assert_eq!(s.stats(), expected);
}
