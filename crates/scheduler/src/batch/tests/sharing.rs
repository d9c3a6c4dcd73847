//! Prefix sharing: a common prefix is computed once and found by later prompts.

use overdraft_units::BlockId;

use super::*;
use crate::batch::prefix::STRIDE;

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
            index.insert(BlockId(n), root, &token(n));
        }
        index.remove(BlockId(gone));
        for n in 0..3 {
            assert_eq!(index.find(root, &token(n)).is_some(), n != gone);
            if n != gone {
                index.remove(BlockId(n));
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
    let block = BlockId;
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

#[test]
fn a_page_is_found_whichever_siblings_came_and_went() {
    const BLOCKS: u32 = 24;
    let size = BlockSize::new(1).unwrap();
    let root = Parent::Root(CacheSalt(0));
    let mut index = PrefixIndex::new(Blocks::new(BLOCKS), size);
    // By the page's number: its parent's, and its token.
    let mut places: Vec<Option<(Option<u32>, u32)>> = vec![None; BLOCKS as usize];
    let parent = |above: Option<u32>| above.map_or(root, |at| Parent::Block(BlockId(at)));
    let mut dice: u64 = 7;
    let mut below = |bound: u32| {
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        u32::try_from((dice >> 33) % u64::from(bound)).unwrap()
    };
    for _ in 0..4_000 {
        let at = below(BLOCKS);
        if let Some((above, _)) = places[at as usize] {
            let is_followed = places.iter().flatten().any(|(other, _)| *other == Some(at));
            if !is_followed {
                index.remove(BlockId(at));
                places[at as usize] = None;
            } else if let Some(above) = above {
                // A guess, mostly wrong.
                index.note_far(BlockId(above), BlockId(at));
            }
        } else {
            let above = below(BLOCKS);
            let above = places[above as usize].map(|_| above);
            let token = below(3);
            if !places.contains(&Some((above, token))) {
                index.insert(BlockId(at), parent(above), &[TokenId(token)]);
                places[at as usize] = Some((above, token));
            }
        }
        for above in (0..BLOCKS).filter(|at| places[*at as usize].is_some()).map(Some).chain([None])
        {
            for token in 0..3 {
                let place = places.iter().position(|place| *place == Some((above, token)));
                let found = index.find(parent(above), &[TokenId(token)]);
                assert_eq!(found.map(|block| block.0 as usize), place, "{above:?} {token}");
            }
        }
    }
}

#[test]
fn pages_that_were_far_behind_help_while_they_are_and_mislead_nobody_later() {
    const PAGES: u32 = 100;
    let size = BlockSize::new(1).unwrap();
    let root = Parent::Root(CacheSalt(0));
    let mut index = PrefixIndex::new(Blocks::new(PAGES), size);
    let stride = u32::try_from(STRIDE).unwrap();
    let grow = |index: &mut PrefixIndex, from: u32, above: Parent| {
        let mut above = above;
        for n in from..PAGES {
            index.insert(BlockId(n), above, &[TokenId(n)]);
            if let Some(far) = n.checked_sub(stride) {
                index.note_far(BlockId(far), BlockId(n));
            }
            above = Parent::Block(BlockId(n));
        }
    };
    let run = |index: &PrefixIndex, tokens: &[TokenId]| {
        let mut found = Vec::new();
        index.find_run(root, tokens, &mut found);
        found.into_iter().map(|block| block.0).collect::<Vec<u32>>()
    };
    let tokens: Vec<TokenId> = (0..PAGES).map(TokenId).collect();
    grow(&mut index, 0, root);
    for whole in 0..=PAGES {
        assert_eq!(run(&index, &tokens[..whole as usize]), (0..whole).collect::<Vec<u32>>());
    }
    // The last pages go and come back behind another place: what was far behind is elsewhere now.
    for parts in [41, 64, 90] {
        for n in (parts..PAGES).rev() {
            index.remove(BlockId(n));
        }
        assert_eq!(run(&index, &tokens), (0..parts).collect::<Vec<u32>>());
        grow(&mut index, parts, Parent::Block(BlockId(parts - 30)));
        let other: Vec<TokenId> = (0..parts - 29).chain(parts..PAGES).map(TokenId).collect();
        assert_eq!(run(&index, &tokens), (0..parts).collect::<Vec<u32>>());
        assert_eq!(run(&index, &other), other.iter().map(|token| token.0).collect::<Vec<u32>>());
        for n in (parts..PAGES).rev() {
            index.remove(BlockId(n));
        }
        grow(&mut index, parts, Parent::Block(BlockId(parts - 1)));
    }
}
