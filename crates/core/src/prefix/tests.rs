//! What the prefix index promises, one sentence per test.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use core::num::NonZeroU32;

use overdraft_units::{BlockSize, CacheSalt, Instant, Micros, TokenId};

use super::*;
use crate::fleet::Fleet;

fn workers<const N: usize>() -> [WorkerId; N] {
    let mut fleet = Fleet::new();
    core::array::from_fn(|_| fleet.join(1).unwrap())
}

fn pages(size: u32) -> Chunking {
    Chunking::Tokens(BlockSize::new(size).unwrap())
}

fn tokens(count: u32, first: u32) -> Vec<TokenId> {
    (first..first + count).map(TokenId).collect()
}

/// Keys of a prompt of one-token chunks, each letter a token.
fn keys(prompt: &str) -> Vec<PrefixKey> {
    let mut chain = PrefixChain::new(CacheSalt(0), Chunking::Text(NonZeroU32::new(1).unwrap()));
    chain.push_bytes(prompt.as_bytes());
    chain.keys().to_vec()
}

fn index() -> PrefixIndex {
    PrefixIndex::new(PrefixLimits::default())
}

fn stored(index: &mut PrefixIndex, worker: WorkerId, prompt: &str) {
    index.handle(worker, Event::Stored { parent: None, keys: &keys(prompt) });
}

/// Who holds how much of a prompt, as `place:chunks` in the fleet's order.
#[track_caller]
fn check(index: &PrefixIndex, prompt: &str, expected: &str) {
    let mut out = Matches::new();
    index.lookup(&keys(prompt), &mut out);
    let mut found: Vec<_> = out.iter().map(|(worker, chunks)| (worker.index(), chunks)).collect();
    found.sort_unstable();
    let mut text = String::new();
    for (place, chunks) in found {
        write!(text, "{place}:{} ", chunks.get()).unwrap();
    }
    assert_eq!(text.trim_end(), expected, "of `{prompt}`");
}

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Micros::new(seconds * 1_000_000)
}

#[test]
fn a_chain_in_pieces_is_the_chain_at_once() {
    let all = tokens(1_000, 7);
    let mut whole = PrefixChain::new(CacheSalt(3), pages(16));
    whole.push_tokens(&all);
    assert_eq!(whole.keys().len(), 62);
    for piece in [1, 5, 16, 17, 63, 64, 200] {
        let mut chain = PrefixChain::new(CacheSalt(3), pages(16));
        for part in all.chunks(piece) {
            chain.push_tokens(part);
        }
        assert_eq!(chain, whole);
    }
}

#[test]
fn what_comes_before_and_whose_it_is_names_a_chunk_too() {
    let chain = |salt, chunking, parts: &[&[TokenId]]| {
        let mut chain = PrefixChain::new(CacheSalt(salt), chunking);
        for part in parts {
            chain.push_tokens(part);
        }
        *chain.keys().last().unwrap()
    };
    let (one, other) = (tokens(16, 0), tokens(16, 100));
    let text = Chunking::Text(NonZeroU32::new(64).unwrap());
    let names = [
        chain(0, pages(16), &[&one]),
        chain(0, pages(16), &[&one, &one]),
        chain(0, pages(16), &[&other, &one]),
        chain(0, pages(8), &[&one]),
        chain(1, pages(16), &[&one]),
        chain(0, text, &[&one]),
    ];
    for (place, name) in names.iter().enumerate() {
        assert!(!names[..place].contains(name), "{place}");
    }
}

#[test]
fn chunks_of_zeros_are_told_apart_by_their_place() {
    let mut chain = PrefixChain::new(CacheSalt(0), pages(1));
    chain.push_tokens(&vec![TokenId(0); 10_000]);
    let mut sorted = chain.keys().to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 10_000);
}

#[test]
fn one_lookup_serves_all_workers() {
    let [one, two, three] = workers();
    let mut index = index();
    stored(&mut index, one, "system user answer");
    stored(&mut index, two, "system other");
    stored(&mut index, three, "else");
    check(&index, "system user answer next", "0:18 1:7");
    check(&index, "s", "0:1 1:1");
    check(&index, "", "");
    check(&index, "unheard of", "");
}

#[test]
fn a_match_stops_at_the_first_chunk_that_is_lacking() {
    let [one, two] = workers();
    let mut index = index();
    stored(&mut index, one, "abcdef");
    stored(&mut index, two, "abcdef");
    index.handle(one, Event::Removed { keys: &keys("abc")[2..] });
    check(&index, "abcdef", "0:2 1:6");
    // The same chunk again closes the gap: what follows was there all the time.
    index.handle(one, Event::Stored { parent: Some(keys("ab")[1]), keys: &keys("abc")[2..] });
    check(&index, "abcdef", "0:6 1:6");
}

#[test]
fn a_gap_that_closes_costs_nothing_any_more() {
    let [one] = workers();
    let mut index = index();
    let is_whole = |index: &PrefixIndex| index.slots.at(SlotId(0)).is_whole();
    stored(&mut index, one, "abcdef");
    stored(&mut index, one, "abcxyz");
    index.handle(one, Event::Removed { keys: &keys("abcd")[2..] });
    assert!(!is_whole(&index), "`x` and `e` follow nothing");
    stored(&mut index, one, "abc");
    assert!(!is_whole(&index), "`e` still does");
    stored(&mut index, one, "abcd");
    assert!(is_whole(&index));
    index.handle(one, Event::Removed { keys: &keys("a") });
    index.handle(one, Event::Removed { keys: &keys("ab")[1..] });
    stored(&mut index, one, "ab");
    assert!(is_whole(&index));
    index.handle(one, Event::Removed { keys: &keys("abcdef") });
    index.handle(one, Event::Removed { keys: &keys("abcxyz") });
    assert!(is_whole(&index));
}

#[test]
fn chunks_without_their_beginning_match_once_it_is_stored() {
    let [one] = workers();
    let mut index = index();
    let all = keys("abcdef");
    index.handle(one, Event::Stored { parent: Some(all[2]), keys: &all[3..] });
    check(&index, "abcdef", "");
    assert_eq!(index.memory().keys, 4, "the parent is remembered as a place only");
    index.handle(one, Event::Stored { parent: None, keys: &all[..3] });
    check(&index, "abcdef", "0:6");
    index.handle(one, Event::Removed { keys: &all });
    assert_eq!(index.memory().keys, 0);
}

#[test]
fn too_many_children_to_count_only_cost_time() {
    let [one, two] = workers();
    let mut index = index();
    let hub = keys("a");
    stored(&mut index, one, "a");
    for child in 0..1_100_u32 {
        let mut chain = PrefixChain::new(CacheSalt(0), Chunking::Text(NonZeroU32::MIN));
        chain.push_bytes(b"a");
        chain.push_bytes(&child.to_le_bytes());
        index.handle(one, Event::Stored { parent: Some(hub[0]), keys: &chain.keys()[1..] });
    }
    stored(&mut index, two, "abc");
    stored(&mut index, one, "abcd");
    index.handle(one, Event::Removed { keys: &hub });
    check(&index, "abcd", "1:3");
    stored(&mut index, one, "a");
    check(&index, "abcd", "0:4 1:3");
}

#[test]
fn knowledge_is_exact_from_a_start_and_stale_after_a_gap() {
    let [one] = workers();
    let mut index = index();
    assert!(matches!(index.knowledge(one), Knowledge::Estimated { .. }));
    index.handle(one, Event::Forgotten);
    assert!(matches!(index.knowledge(one), Knowledge::Estimated { .. }));
    stored(&mut index, one, "abc");
    assert_eq!(index.knowledge(one), Knowledge::Stale, "there was something before");
    index.handle(one, Event::Cleared);
    check(&index, "abc", "");
    assert_eq!(index.knowledge(one), Knowledge::Exact);
    stored(&mut index, one, "abc");
    index.handle(one, Event::Forgotten);
    check(&index, "abc", "");
    assert_eq!(index.knowledge(one), Knowledge::Stale);
    index.leave(one);
    assert!(matches!(index.knowledge(one), Knowledge::Estimated { .. }));
}

#[test]
fn an_estimate_forgets_leaves_before_roots() {
    let [one] = workers();
    let mut index = index();
    index.set_capacity(one, Chunks::new(6));
    index.record_routed(one, &keys("abcdef"), at(0));
    check(&index, "abcdef", "0:6");
    index.record_routed(one, &keys("xy"), at(1));
    check(&index, "abcdef", "0:4");
    check(&index, "xy", "0:2");
    // Used again, the front stays and the rest goes.
    index.record_routed(one, &keys("ab"), at(2));
    index.record_routed(one, &keys("pqr"), at(3));
    check(&index, "abcdef", "0:2");
    check(&index, "xy", "0:1");
}

#[test]
fn a_prompt_larger_than_the_cache_leaves_its_front() {
    let [one] = workers();
    let mut index = index();
    index.set_capacity(one, Chunks::new(3));
    index.record_routed(one, &keys("abcdef"), at(0));
    check(&index, "abcdef", "0:3");
    index.set_capacity(one, Chunks::ZERO);
    check(&index, "abcdef", "");
    index.record_routed(one, &keys("abcdef"), at(0));
    check(&index, "abcdef", "");
}

#[test]
fn what_was_cached_confirms_or_cuts_the_estimate() {
    let [one] = workers();
    let mut index = index();
    index.set_capacity(one, Chunks::new(32));
    let first = index.record_routed(one, &keys("abcdef"), at(0));
    assert_eq!(index.record_hint(&first, Chunks::ZERO), Hint::Untested);
    index.record_routed(one, &keys("older"), at(1));
    let again = index.record_routed(one, &keys("abcdefg"), at(60));
    assert_eq!(again.claimed(), Chunks::new(6));
    assert_eq!(index.record_hint(&again, Chunks::new(5)), Hint::Confirmed);
    index.record_routed(one, &keys("xyz"), at(61));
    let late = index.record_routed(one, &keys("older"), at(120));
    assert_eq!(index.record_hint(&late, Chunks::new(1)), Hint::Refuted);
    // What is newer than the chunks that were gone is believed still.
    check(&index, "abcdefg", "0:7");
    check(&index, "older", "0:5");
}

#[test]
fn what_may_still_be_computed_is_no_evidence() {
    let [one] = workers();
    let mut index = index();
    index.record_routed(one, &keys("abcdef"), at(0));
    let twin = index.record_routed(one, &keys("abcdef"), at(1));
    assert_eq!(index.record_hint(&twin, Chunks::ZERO), Hint::Unsure);
    check(&index, "abcdef", "0:6");
}

#[test]
fn a_reporting_worker_is_believed_for_what_is_under_way() {
    let [one] = workers();
    let mut index = index();
    index.handle(one, Event::Cleared);
    index.record_routed(one, &keys("abcd"), at(0));
    check(&index, "abcd", "0:4");
    index.tick(at(15));
    check(&index, "abcd", "0:4");
    stored(&mut index, one, "ab");
    index.tick(at(20));
    check(&index, "abcd", "0:2");
    assert_eq!(index.routed(one), Chunks::ZERO);
}

#[test]
fn what_was_just_sent_is_found_before_it_is_remembered() {
    let [one, two] = workers();
    let mut index = index();
    let note = index.announce(one, &keys("abcdefgh")).unwrap();
    check(&index, "abcdefgh", "0:8");
    check(&index, "abcdefghij", "0:8");
    // A shared beginning, by more than its half.
    check(&index, "abcdef", "0:4");
    check(&index, "abcxyz", "0:2");
    check(&index, "bcdefg", "");
    // What is remembered counts where it is more.
    stored(&mut index, one, "abcde");
    stored(&mut index, two, "ab");
    check(&index, "abcdex", "0:5 1:2");
    index.take_back(note);
    check(&index, "abcdefgh", "0:5 1:2");
    assert_eq!(index.announce(one, &[]), None, "nothing to be found");
}

#[test]
fn a_note_never_says_more_than_is_shared_and_says_half() {
    let [one] = workers();
    let sent = "abcdefghijklmnopqrstuvwxyz";
    for chunks in 1..sent.len() {
        for shared in 0..=chunks {
            let mut index = index();
            let _note = index.announce(one, &keys(&sent[..chunks]));
            let mut out = Matches::new();
            index.lookup(&keys(&format!("{}ABC", &sent[..shared])), &mut out);
            let found = out.leading(one).get() as usize;
            assert!(found <= shared, "{found} of {shared}");
            assert!(2 * found > shared || shared == 0, "{found} of {shared}");
            assert!(found == shared || shared < chunks, "the whole is found whole");
        }
    }
}

#[test]
fn notes_are_bounded_and_go_with_their_worker() {
    let [one, two] = workers();
    let mut index = index();
    let oldest = index.announce(one, &keys("ab")).unwrap();
    for place in 1..=ANNOUNCED_MAX {
        let _lost: Option<Announcement> = index.announce(two, &keys(&format!("{place:03}")));
    }
    check(&index, "ab", "");
    check(&index, "001", "1:3");
    index.take_back(oldest);
    check(&index, "001", "1:3");
    index.leave(two);
    check(&index, "001", "");
}

#[test]
fn a_full_index_marks_who_could_not_be_kept() {
    let [one, two] = workers();
    let mut index = PrefixIndex::new(PrefixLimits { keys_max: 4 });
    for worker in [one, two] {
        index.handle(worker, Event::Cleared);
    }
    stored(&mut index, one, "abc");
    stored(&mut index, two, "xyz");
    check(&index, "abc", "0:3");
    check(&index, "xyz", "1:1");
    assert_eq!(index.knowledge(one), Knowledge::Exact);
    assert_eq!(index.knowledge(two), Knowledge::Stale);
}

#[test]
fn a_block_that_one_worker_holds_costs_less_than_forty_bytes() {
    // Over more than one growth of every row of the hash tables.
    for count in [110_000_u32, 130_000, 155_000, 185_000, 220_000] {
        let [one] = workers();
        let mut index = PrefixIndex::new(PrefixLimits::default());
        let mut chain = PrefixChain::new(CacheSalt(1), pages(1));
        chain.push_tokens(&tokens(count, 0));
        index.handle(one, Event::Stored { parent: None, keys: chain.keys() });
        let memory = index.memory();
        assert_eq!(memory.held, u64::from(count));
        assert!(memory.bytes <= 40 * count as usize, "{} bytes for {count}", memory.bytes);
    }
}

#[test]
fn a_block_of_estimates_that_churn_costs_less_than_forty_bytes() {
    for capacity in [7_000_u32, 9_000, 11_000, 13_000] {
        let workers: [WorkerId; 16] = workers();
        let mut index = PrefixIndex::new(PrefixLimits::default());
        for &worker in &workers {
            index.set_capacity(worker, Chunks::new(capacity));
        }
        for prompt in 0..capacity / 8 {
            let mut chain = PrefixChain::new(CacheSalt(u64::from(prompt)), pages(1));
            chain.push_tokens(&tokens(512, 0));
            let worker = workers[prompt as usize % workers.len()];
            index.record_routed(worker, chain.keys(), Instant::ORIGIN);
        }
        let memory = index.memory();
        assert!(memory.held > u64::from(capacity) * 15, "they are full: {}", memory.held);
        // All drop a generation at once here, so a sixteenth less may be held than there is room for.
        let room = capacity as usize * workers.len();
        assert!(memory.bytes <= 40 * room, "{} bytes for {room}", memory.bytes);
    }
}

#[test]
fn what_fits_is_kept_though_prefixes_repeat() {
    let [one] = workers();
    let mut index = index();
    index.set_capacity(one, Chunks::new(31));
    // 12, 14, 2 and 3 new chunks: 31 in all. Two of them begin as another does.
    let prompts = ["abbbbbbbbbbb", "rrsrsssrrrrrrr", "rrsrsssst", "auvw"];
    for prompt in prompts {
        index.record_routed(one, &keys(prompt), Instant::ORIGIN);
    }
    for (prompt, expected) in prompts.into_iter().zip(["0:12", "0:14", "0:9", "0:4"]) {
        check(&index, prompt, expected);
    }
}
