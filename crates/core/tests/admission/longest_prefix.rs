//! Requests that wait behind one that finds no room, and whose prompt is in use at the worker.

use overdraft_core::admit::{Mode, Priority, Wait, WaitTime};
use overdraft_core::prefix::{Chunking, PrefixChain};
use overdraft_core::route::{Choice, Policy, Prompt, Request};
use overdraft_units::{BlockSize, CacheSalt, Micros, TokenId, Tokens};

use super::{SECOND, Story, request};

fn block() -> BlockSize {
    BlockSize::new(16).expect("sixteen is not zero")
}

/// A prompt of 4,000 tokens that no other number has.
fn prompt(number: u32) -> PrefixChain {
    let mut chain = PrefixChain::new(CacheSalt::default(), Chunking::Tokens(block()));
    let tokens: Vec<TokenId> = (0..4_000).map(|place| TokenId(number * 10_000 + place)).collect();
    chain.push_tokens(&tokens);
    chain
}

#[test]
fn a_prompt_that_is_in_use_starts_before_its_turn_and_the_decision_says_so() {
    let mut story = Story::new(1, Some(10_000), Mode::Peak);
    story.settings.policy = Policy::Cost;
    let chains = [1, 2, 3].map(prompt);
    let of = |number: usize| Request {
        prompt: Prompt::Counted {
            tokens: Tokens::new(4_000),
            chain: chains[number].keys(),
            block: block(),
        },
        ..request(4_000, Some(1), Priority::Default)
    };
    for number in [0, 1] {
        story.send(of(number)).expect("there is room for two");
        let placed = story.placed.last_mut().expect("it was just sent");
        story.router.remember(placed, of(number).prompt, story.now);
    }
    let Err(Choice::Saturated { at, awaits, .. }) = story.send(of(2)) else { panic!("it is full") };
    let wait = Wait { at, awaits, time: WaitTime::exactly(Micros::new(60 * SECOND)) };
    let first = story.router.wait(of(2), wait, story.now).expect("nobody waits");
    let second = story.router.wait(of(0), wait, story.now).expect("one waits");
    let (called, settings) = (story.router.call(story.now), story.settings);
    assert_eq!(called, Some(second), "its prompt is in use");
    let placed = story.router.place_called(second, of(0), &settings, story.now);
    story.placed.push(placed.expect("it needs room for its answer only"));
    assert!(story.router.decision().out_of_turn);
    story.end_one();
    story.end_one();
    assert_eq!(story.router.call(story.now), Some(first));
    let placed = story.router.place_called(first, of(2), &settings, story.now);
    story.placed.push(placed.expect("one has ended"));
    assert!(!story.router.decision().out_of_turn, "it was its turn");
}
