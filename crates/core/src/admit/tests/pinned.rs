//! Pinned prefixes against their twin: every block of every prompt in a set.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use overdraft_units::{BlockSize, CacheSalt, TokenId, Tokens};
use proptest::prelude::*;

use crate::admit::{Booking, Chain, Forecast, Place, Prospect, WORLDS};
use crate::prefix::{Chunking, PrefixChain, PrefixKey};

const BLOCK: u32 = 16;

/// The keys of a prompt that begins as all of its group do and goes on as none.
fn keys(group: u32, shared: u32, own: u32, number: u32) -> Vec<PrefixKey> {
    let size = BlockSize::new(BLOCK).expect("sixteen is not zero");
    let mut chain = PrefixChain::new(CacheSalt(0), Chunking::Tokens(size));
    let tokens = (0..shared * BLOCK).map(|place| TokenId(group << 20 | place));
    let rest = (0..own * BLOCK).map(|place| TokenId(1 << 31 | number << 16 | place));
    chain.push_tokens(&tokens.chain(rest).collect::<Vec<_>>());
    chain.keys().to_vec()
}

fn prospect() -> Prospect {
    Prospect { answers: 1, lengths: [1; WORLDS], ..Prospect::default() }
}

struct Story {
    forecast: Forecast,
    running: Vec<(Place, Vec<PrefixKey>)>,
}

impl Story {
    fn new() -> Self {
        Self { forecast: Forecast::new(), running: Vec::new() }
    }

    /// Blocks at the front of a prompt that requests in flight hold.
    fn matched(&self, keys: &[PrefixKey]) -> u32 {
        let same = |other: &[PrefixKey]| keys.iter().zip(other).take_while(|(a, b)| a == b).count();
        let longest = self.running.iter().map(|(_, other)| same(other)).max().unwrap_or(0);
        u32::try_from(longest).unwrap()
    }

    fn start(&mut self, keys: Vec<PrefixKey>) {
        let chain = Chain { keys: &keys, chunk: BLOCK, matched: self.matched(&keys) };
        let prompt = Tokens::new(u32::try_from(keys.len()).unwrap() * BLOCK);
        let held = self.forecast.held_of(chain);
        assert!(held <= chain.matched * BLOCK, "no more is held than there is");
        let own = Tokens::new(prompt.get() - held);
        let booking = Booking { prospect: prospect(), own, unseen: None };
        let place = self.forecast.start(booking).expect("there is room for some");
        self.forecast.pin(place, prompt, chain);
        self.running.push((place, keys));
    }

    fn end(&mut self, which: usize) {
        let (place, _) = self.running.swap_remove(which);
        self.forecast.end(place);
    }

    /// Tokens of all blocks that are held, each counted once.
    fn distinct(&self) -> u64 {
        let all: BTreeSet<PrefixKey> =
            self.running.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
        u64::try_from(all.len()).unwrap() * u64::from(BLOCK)
    }
}

#[test]
fn a_prefix_that_all_in_flight_share_takes_room_once() {
    let mut story = Story::new();
    for number in 0..100 {
        story.start(keys(1, 875, 6, number));
    }
    // The first one was cut before it was known where its prefix ends.
    assert_eq!(story.distinct(), (875 + 600) * 16);
    let used = story.forecast.sums().used;
    assert!((story.distinct()..story.distinct() + 512).contains(&used), "{used}");
    while !story.running.is_empty() {
        story.end(0);
    }
    assert_eq!(story.forecast.sums().used, 0);
}

#[test]
fn what_the_last_one_holds_is_its_own_again() {
    let mut story = Story::new();
    story.start(keys(1, 320, 32, 0));
    story.start(keys(1, 320, 32, 1));
    assert_eq!(story.forecast.sums().used, (320 + 32 + 32) * 16);
    story.end(0);
    assert_eq!(story.forecast.sums().used, (320 + 32) * 16);
    story.end(0);
    assert_eq!(story.forecast.sums().used, 0);
}

proptest! {
    #[test]
    fn tokens_that_are_pinned_are_counted_once_but_for_the_last_cut(
        steps in prop::collection::vec((0..4_u32, 0..400_u32, 0..60_u32, any::<bool>()), 1..60),
    ) {
        let mut story = Story::new();
        for (number, (group, shared, own, ends)) in (0..).zip(steps) {
            if ends && !story.running.is_empty() {
                story.end(number as usize % story.running.len());
            } else {
                story.start(keys(group, shared, own, number));
            }
            let (used, distinct) = (story.forecast.sums().used, story.distinct());
            // Each prompt may hold two pieces that it shares in part: where a match that is over was cut,
            // and at its end.
            let running = u64::try_from(story.running.len()).unwrap();
            prop_assert!(distinct <= used, "{distinct} {used}");
            prop_assert!(used <= distinct + running * 2 * 512, "{distinct} {used} {running}");
        }
        while !story.running.is_empty() {
            story.end(0);
        }
        prop_assert_eq!(story.forecast.sums().used, 0);
    }
}

#[test]
fn the_first_half_of_a_prompt_is_named_where_all_prompts_are_cut() {
    let half = |keys: &[PrefixKey], prompt| {
        Chain { keys, chunk: BLOCK, matched: 0 }.first_half(Tokens::new(prompt))
    };
    // 100 shared blocks of 128: cut after 32, 64 and 96 blocks, and 64 are half of it.
    let (one, other) = (keys(0, 100, 28, 1), keys(0, 100, 28, 2));
    assert_eq!(half(&one, 2_048), Some(one[63]));
    assert_eq!(half(&one, 2_048), half(&other, 2_048));
    assert_eq!(half(&one, 2_049), Some(one[95]));
    let mut story = Story::new();
    assert!(!story.forecast.pins(one[63]));
    story.start(other);
    assert!(story.forecast.pins(one[63]), "the other one has it");
    assert!(!story.forecast.pins(one[127]), "not its end");
    assert_eq!(half(&keys(0, 31, 0, 1), 496), None, "too short to be cut");
}
