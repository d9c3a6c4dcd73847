//! Pages of four tokens, steps of sixteen unless a test says otherwise.

extern crate std;

mod drafts;

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

// Sharing ----------------------------------------------------------------------------------------

#[test]
fn sixteen_arrivals_with_one_prefix_compute_it_once() {
    let size = BlockSize::new(16).unwrap();
    let (step_tokens, context) = (Tokens::new(512), Tokens::new(2048));
    let mut s =
        Scheduler::new(BatchLimits { step_tokens, context, block_size: size, ..limits(1, 200) });
    for id in 1..=16 {
        assert_eq!(s.handle_arrival(at(0), fork(id, 1000, 20)), Verdict::Queued);
    }
    check(&mut s, "seq1[0..512] none, +seq1");
    check(&mut s, "seq1[512..1020] last");
    assert_eq!(s.stats().held_back, 2 * 15);
    // 62 pages of 16 are shared; 28 tokens of each are not, and 15 times 28 fit into the step.
    let plan = s.plan(at(0));
    let (first, last) = (plan.slots[0].to_string(), plan.slots[15].to_string());
    assert_eq!((&*first, &*last), ("seq1[1020..1021] last", "seq16[992..1020] last"));
    let outcomes = sampled(&s, &plan);
    s.handle_step(at(0), &outcomes);
    s.audit();
    assert_eq!(s.stats().positions_computed, 1020 + 1 + 15 * 28);
    assert_eq!(s.cached(SequenceId(1)), Tokens::ZERO);
    assert_eq!(s.cached(SequenceId(16)), Tokens::new(992));
    assert_eq!(s.stats().prefix_queried, 16 * 1020);
    assert_eq!(s.stats().prefix_hit, 15 * 992);
    assert_eq!(s.stats().blocks_held, Blocks::new(62 + 16 * 2));
}

#[test]
fn a_page_may_be_shared_in_the_step_that_computes_it() {
    let mut s = scheduler(16);
    s.handle_arrival(at(0), fork(1, 8, 2));
    s.handle_arrival(at(0), fork(2, 8, 3));
    check(&mut s, "seq1[0..10] last, seq2[8..11] last, +seq1, +seq2");
    assert_eq!(table(&s, 1)[..2], table(&s, 2)[..2]);
    assert_eq!(s.holders(s.block_table(SequenceId(1))[0]), 2);
}

#[test]
fn who_lacks_the_page_that_a_prefill_is_about_to_compute_waits_for_it() {
    let mut s = scheduler(64);
    s.handle_arrival(at(0), fork(1, 40, 2));
    check(&mut s, "seq1[0..16] none, +seq1");
    s.handle_arrival(at(0), fork(2, 32, 2));
    arrive(&mut s, 3, 5000, 4);
    // The third has nothing in common with the first and goes ahead of the second.
    check(&mut s, "seq1[16..28] none, seq3[0..4] last, +seq3");
    assert_eq!(s.stats().held_back, 1);
    check(&mut s, "seq3[4..5] last, seq1[28..41] none, seq2[32..34] last, +seq2");
    assert_eq!(s.stats().held_back, 1);
    assert_eq!(s.stats().positions_computed, 41 + 2 + 4 + 1);
}

#[test]
fn who_waits_for_a_prefill_goes_ahead_when_that_is_cancelled() {
    let mut s = scheduler(64);
    s.handle_arrival(at(0), fork(1, 40, 2));
    check(&mut s, "seq1[0..16] none, +seq1");
    s.handle_arrival(at(0), fork(2, 32, 2));
    check(&mut s, "seq1[16..32] none");
    s.handle_arrival(at(0), fork(3, 40, 2));
    check(&mut s, "seq1[32..42] last, seq2[32..34] last, seq3[40..42] last, +seq2, +seq3");
    let mut s = scheduler(64);
    s.handle_arrival(at(0), fork(1, 40, 2));
    check(&mut s, "seq1[0..16] none, +seq1");
    s.handle_arrival(at(0), fork(2, 36, 2));
    check(&mut s, "seq1[16..32] none");
    assert!(s.handle_cancel(SequenceId(1)));
    check(&mut s, "seq2[32..38] last, +seq2");
}

#[test]
fn the_last_token_is_never_taken_from_the_cache() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 8);
    finish(&mut s, 1);
    arrive(&mut s, 2, 0, 8);
    check(&mut s, "seq2[4..8] last, +seq2");
    assert_eq!(s.cached(SequenceId(2)), Tokens::new(4));
    arrive(&mut s, 3, 0, 9);
    check(&mut s, "seq2[8..9] last, seq3[8..9] last, +seq3");
}

#[test]
fn what_was_generated_is_found_by_the_next_turn() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 3);
    for _ in 0..6 {
        let plan = s.plan(at(0));
        let outcomes = sampled(&s, &plan);
        s.handle_step(at(0), &outcomes);
    }
    let mut next = arrival(2, 0, 0);
    next.prompt = s.tokens(SequenceId(1)).to_vec();
    finish(&mut s, 1);
    next.prompt.extend([TokenId(1), TokenId(2)]);
    s.handle_arrival(at(0), next);
    check(&mut s, "seq2[8..11] last, +seq2");
}

#[test]
fn equal_prompts_under_different_salts_share_nothing() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 9);
    check(&mut s, "seq1[0..9] last, +seq1");
    s.handle_arrival(at(0), Arrival { salt: CacheSalt(2), ..arrival(2, 0, 9) });
    check(&mut s, "seq1[9..10] last, seq2[0..9] last, +seq2");
    assert!(table(&s, 1).iter().all(|block| !table(&s, 2).contains(block)));
}

#[test]
fn equal_completions_end_up_on_one_page() {
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 6);
    arrive(&mut s, 2, 0, 6);
    check(&mut s, "seq1[0..6] last, seq2[4..6] last, +seq1, +seq2");
    for token in 50..52 {
        s.plan(at(0));
        let same = [1, 2].map(|id| outcome(id, &[token], Progress::Continues));
        s.handle_step(at(0), &same);
    }
    // Each generated a token of its own first, so the second pages differ.
    assert_eq!(table(&s, 1)[0], table(&s, 2)[0]);
    assert_ne!(table(&s, 1)[1], table(&s, 2)[1]);
    let mut s = scheduler(16);
    arrive(&mut s, 1, 0, 6);
    arrive(&mut s, 2, 0, 6);
    for token in 50..53 {
        s.plan(at(0));
        let same = [1, 2].map(|id| outcome(id, &[token], Progress::Continues));
        s.handle_step(at(0), &same);
        s.audit();
    }
    check(&mut s, "seq1[8..9] last, seq2[8..9] last");
    assert_eq!(table(&s, 1)[..2], table(&s, 2)[..2]);
    assert_eq!(pages(&s), "4 held, 0 cached, 12 blank");
}

#[test]
fn colliding_keys_are_told_apart() {
    let limits = limits(16, 32);
    let index = PrefixIndex::with_buckets(limits.blocks, limits.block_size, 1);
    let mut s = Scheduler::with_pool(limits, BlockPool::with_index(limits.blocks, index));
    for id in 1..=3 {
        arrive(&mut s, id, 1000 * small(id), 9);
        check_all(&mut s);
    }
    arrive(&mut s, 4, 2000, 9);
    s.handle_arrival(at(0), Arrival { salt: CacheSalt(9), ..arrival(5, 2000, 9) });
    let plan = s.plan(at(0));
    let joined: Vec<_> = plan.slots[3..].iter().map(ToString::to_string).collect();
    assert_eq!(joined, ["seq4[8..9] last", "seq5[0..9] last"]);
}

/// Steps until all prompts are computed.
#[track_caller]
fn check_all(s: &mut Scheduler) {
    for _ in 0..4 {
        let plan = s.plan(at(0));
        let outcomes = sampled(s, &plan);
        s.handle_step(at(0), &outcomes);
        s.audit();
    }
}

#[test]
fn the_index_forgets_from_any_place_of_a_bucket() {
    let size = BlockSize::new(1).unwrap();
    let mut index = PrefixIndex::with_buckets(Blocks::new(3), size, 1);
    let root = Parent::Root(CacheSalt(0));
    let token = |n| [TokenId(n)];
    for gone in 0..3 {
        for n in 0..3 {
            index.insert(overdraft_units::BlockId(n), root, &token(n));
        }
        index.remove(overdraft_units::BlockId(gone));
        for n in 0..3 {
            assert_eq!(index.find(root, &token(n)).is_some(), n != gone);
            if n != gone {
                index.remove(overdraft_units::BlockId(n));
            }
        }
    }
}

#[test]
fn a_run_of_pages_is_found_past_newer_siblings_and_ends_where_prompts_part() {
    const PAGES: u32 = 40;
    let size = BlockSize::new(2).unwrap();
    let mut index = PrefixIndex::new(Blocks::new(100), size);
    let page = |n: u32| [TokenId(n), TokenId(n + 1)];
    let tokens: Vec<TokenId> = (0..PAGES).flat_map(page).collect();
    let block = overdraft_units::BlockId;
    let root = Parent::Root(CacheSalt(0));
    let after = |n: u32| n.checked_sub(1).map_or(root, |above| Parent::Block(block(above)));
    for n in 0..PAGES {
        index.insert(block(n), after(n), &page(n));
    }
    // Others part from it, later: behind those pages, their page is the newest.
    for (at, n) in (50..).zip([0, 1, 15, 16, 17, 32]) {
        index.insert(block(at), after(n), &page(1_000));
    }
    let run = |tokens: &[TokenId]| {
        let mut found = Vec::new();
        index.find_run(root, tokens, &mut found);
        found.into_iter().map(|block| block.0).collect::<Vec<u32>>()
    };
    assert_eq!(run(&tokens), (0..PAGES).collect::<Vec<u32>>());
    for whole in 0..PAGES {
        let mut parted = tokens[..whole as usize * 2].to_vec();
        parted.extend([TokenId(7_777); 9]);
        assert_eq!(run(&parted), (0..whole).collect::<Vec<u32>>(), "{whole} pages are common");
    }
}

// Eviction and preemption ------------------------------------------------------------------------

#[test]
fn the_least_recently_used_page_goes_first_and_tails_before_heads() {
    let mut s = scheduler(9);
    for id in 1..=2 {
        arrive(&mut s, id, 1000 * small(id), 9);
        finish(&mut s, id);
    }
    assert_eq!(pages(&s), "0 held, 4 cached, 5 blank");
    // The first is used again, so the second is older now.
    arrive(&mut s, 3, 1000, 9);
    finish(&mut s, 3);
    // Six pages: five are blank, one is evicted. Four are full after the first chunk.
    s.handle_arrival(at(0), Arrival { output_max: Tokens::new(4), ..arrival(4, 5000, 21) });
    finish(&mut s, 4);
    assert_eq!(pages(&s), "0 held, 7 cached, 2 blank");
    arrive(&mut s, 5, 1000, 9);
    check(&mut s, "seq5[8..9] last, +seq5");
    arrive(&mut s, 6, 2000, 9);
    // Its tail went, its head stayed.
    check(&mut s, "seq5[9..10] last, seq6[4..9] last, +seq6");
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

#[test]
fn an_overdrawn_plan_says_so() {
    let mut s = full_house([0, 0, 0]);
    let plan = s.plan(at(0));
    assert_eq!(plan.overdraft(), Some(Overdraft { preempted: 1, first: SequenceId(3) }));
    let outcomes = sampled(&s, &plan);
    s.handle_step(at(0), &outcomes);
    assert_eq!(s.plan(at(1)).overdraft(), None);
}

#[test]
fn the_newest_of_the_least_important_is_preempted() {
    let mut s = full_house([0, 0, 0]);
    check(&mut s, "seq1[12..13] last, seq2[12..13] last, -seq3");
    let mut s = full_house([1, 0, 0]);
    check(&mut s, "seq2[12..13] last, seq3[12..13] last, -seq1");
    let mut s = full_house([0, 1, 0]);
    check(&mut s, "seq1[12..13] last, seq3[12..13] last, -seq2");
    assert_eq!(s.stats().preemptions, 1);
    assert_eq!(s.tokens(SequenceId(2)).len(), 13, "it keeps its words");
    assert_eq!(table(&s, 2), []);
}

#[test]
fn nobody_joins_in_a_plan_that_preempts() {
    let mut s = full_house([0, 0, 0]);
    let urgent =
        Arrival { priority: Priority(-1), output_max: Tokens::new(1), ..arrival(4, 9000, 2) };
    s.handle_arrival(at(0), urgent);
    check(&mut s, "seq1[12..13] last, seq2[12..13] last, -seq3");
    check(&mut s, "seq1[13..14] last, seq2[13..14] last, seq4[0..2] last, +seq4");
}

#[test]
fn the_preempted_comes_back_before_later_arrivals_and_finds_what_is_left_of_its_pages() {
    let mut s = full_house([0, 0, 0]);
    check(&mut s, "seq1[12..13] last, seq2[12..13] last, -seq3");
    arrive(&mut s, 4, 9000, 2);
    assert_eq!(pages(&s), "8 held, 1 cached, 0 blank");
    // It needs its 13 tokens' pages and one more, and nobody goes ahead of it.
    check(&mut s, "seq1[13..14] last, seq2[13..14] last");
    finish(&mut s, 1);
    let plan = s.plan(at(0)).to_string();
    assert_eq!(plan, "seq2[15..16] last, seq3[4..13] last, +seq3");
}

#[test]
fn alone_a_sequence_may_fill_the_whole_cache() {
    let mut s = scheduler(6);
    arrive(&mut s, 1, 0, 8);
    arrive(&mut s, 2, 1000, 8);
    let mut steps = 0;
    while s.tokens(SequenceId(1)).len() < 24 {
        let plan = s.plan(at(0));
        let outcomes = sampled(&s, &plan);
        s.handle_step(at(0), &outcomes);
        s.audit();
        steps += 1;
        assert!(steps <= 18, "the most entitled gets on in every step");
    }
    finish(&mut s, 1);
    assert!(!s.is_idle());
}

#[test]
fn who_joins_has_room_for_the_whole_prompt_and_one_page_more() {
    let mut s = scheduler(7);
    arrive(&mut s, 1, 0, 8);
    check(&mut s, "seq1[0..8] last, +seq1");
    s.handle_arrival(at(0), Arrival { output_max: Tokens::new(8), ..arrival(2, 1000, 13) });
    // Seven pages: after the ninth token's three, four are left, and it wants four and one.
    check(&mut s, "seq1[8..9] last");
    arrive(&mut s, 3, 2000, 1);
    check(&mut s, "seq1[9..10] last");
    assert_eq!(s.stats().waiting, 2, "nobody goes ahead for being small");
    finish(&mut s, 1);
    check(&mut s, "seq2[0..13] last, seq3[0..1] last, +seq2, +seq3");
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
