//! Paces in tokens a second, links in bytes a second, times in milliseconds.

extern crate std;

use overdraft_units::{Instant, Micros, Tokens};

use super::*;
use crate::estimate::PrefillRate;

const SECOND: u64 = 1_000_000;

fn pace(tokens_per_second: u64) -> Pace {
    let mut rate = PrefillRate::new();
    rate.note(tokens_per_second, Micros::new(SECOND));
    rate.pace()
}

fn at(millis: u64) -> Instant {
    Instant::ORIGIN + Micros::new(millis * 1_000)
}

fn link(wait_millis: u64, bytes_per_second: u64) -> Link {
    let mut link = Link::new();
    link.note(Micros::new(wait_millis * 1_000), bytes_per_second, Micros::new(SECOND), at(0));
    link
}

fn missing(tokens: u32, bytes: u64) -> Missing {
    Missing { tokens: Tokens::new(tokens), bytes }
}

#[track_caller]
fn check(missing: Missing, link: &Link, tokens_per_second: u64, expected: Result<u64, Why>) {
    let verdict = judge(missing, link, pace(tokens_per_second), at(0));
    match (verdict, expected) {
        (Verdict::Fetch { expected, compute, within }, Ok(millis)) => {
            assert_eq!(expected.get() / 1_000, millis, "{verdict:?}");
            assert!(expected <= compute && within <= compute, "{verdict:?}");
        }
        (Verdict::Compute(why), Err(expected)) => assert_eq!(why, expected),
        _ => panic!("{verdict:?}, expected {expected:?}"),
    }
}

#[test]
fn whichever_is_over_sooner_by_a_margin() {
    // 2,000 tokens of 32 KB: 64 MB, which take 640 ms and 10 ms of waiting.
    let (blocks, gigabit) = (missing(2_000, 64_000_000), link(10, 100_000_000));
    check(blocks, &gigabit, 200, Ok(650));
    check(blocks, &gigabit, 2_000, Ok(650));
    // 833 ms to compute: three quarters are less.
    check(blocks, &gigabit, 2_400, Err(Why::Slow));
    check(blocks, &gigabit, 100_000, Err(Why::Slow));
    check(blocks, &link(1_000, 100_000_000), 2_000, Err(Why::Slow));
    check(missing(63, 1), &gigabit, 200, Err(Why::Short));
}

#[test]
fn who_was_never_asked_is_tried_and_who_was_slow_is_tried_again() {
    let blocks = missing(2_000, 64_000_000);
    check(blocks, &Link::new(), 1_000, Ok(645));
    let slow = link(10, 1_000_000);
    check(blocks, &slow, 1_000, Err(Why::Slow));
    let later = Instant::ORIGIN + STALE + Micros::new(1);
    let verdict = judge(blocks, &slow, pace(1_000), later);
    assert!(matches!(verdict, Verdict::Fetch { .. }), "{verdict:?}");
}

#[test]
fn another_peer_has_the_time_that_the_first_one_left() {
    // 650 ms to fetch, two seconds to compute.
    let (blocks, gigabit) = (missing(2_000, 64_000_000), link(10, 100_000_000));
    for (left, expected) in
        [(2_000_000, Some(2_000_000)), (651_000, Some(651_000)), (600_000, None)]
    {
        let verdict = judge_again(blocks, &gigabit, pace(1_000), at(0), Micros::new(left));
        let within = match verdict {
            Verdict::Fetch { within, .. } => Some(within.get()),
            Verdict::Compute(why) => {
                assert_eq!(why, Why::Slow);
                None
            }
        };
        assert_eq!(within, expected, "{left} left");
    }
    let barred = {
        let mut link = gigabit;
        link.note_failure(at(0));
        judge_again(blocks, &link, pace(1_000), at(0), Micros::new(2_000_000))
    };
    assert_eq!(barred, Verdict::Compute(Why::Barred));
}

#[test]
fn who_is_silent_for_a_moment_is_asked_where_it_has_longer() {
    let mut peer = link(1, 100_000_000);
    peer.note_silence(Micros::new(4_000), at(0));
    // Eight milliseconds to compute, and as many until it is taken to answer; and ten times as long.
    check(missing(80, 1), &peer, 10_000, Err(Why::Slow));
    check(missing(800, 1), &peer, 10_000, Ok(8));
    let later = Instant::ORIGIN + STALE + Micros::new(1);
    let verdict = judge(missing(80, 1), &peer, pace(10_000), later);
    assert!(matches!(verdict, Verdict::Fetch { .. }), "{verdict:?}");
    peer.note(Micros::new(1_000), 1, Micros::new(1), at(0));
    check(missing(80, 1), &peer, 10_000, Ok(1));
    // Who has had long enough has failed.
    peer.note_silence(SILENCE_FAILS, at(0));
    check(missing(800, 1), &peer, 10_000, Err(Why::Barred));
}

#[test]
fn who_fails_is_left_alone_for_a_while_that_doubles_and_ends() {
    let mut link = Link::new();
    let mut now = at(0);
    let mut spans = std::vec::Vec::new();
    for _ in 0..9 {
        link.note_failure(now);
        assert_eq!(judge(missing(999, 1), &link, pace(100), now), Verdict::Compute(Why::Barred));
        let begun = now;
        while link.is_barred(now) {
            now = now + Micros::new(SECOND);
        }
        spans.push(now.since(begun).get() / SECOND);
    }
    assert_eq!(spans, [5, 10, 20, 40, 60, 60, 60, 60, 60]);
    link.note(Micros::new(5), 1, Micros::new(5), now);
    link.note_failure(now);
    assert!(!link.is_barred(now + BARRED_FIRST), "it begins anew once it has answered");
}

#[test]
fn a_sequence_does_not_wait_longer_than_the_bound() {
    let huge = missing(1_000_000, 1_000_000);
    let Verdict::Fetch { within, compute, .. } = judge(huge, &Link::new(), pace(10), at(0)) else {
        panic!("a megabyte is fetched sooner than a million tokens are computed");
    };
    assert!(within == FETCH_TIME_MAX && FETCH_TIME_MAX < compute);
}
