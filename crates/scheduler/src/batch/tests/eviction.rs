//! Eviction and preemption: cached pages go in LRU order, then the lowest priority is preempted.

use super::*;

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
