//! What a full worker answers to one who would stand behind others.

use alloc::string::ToString;

use overdraft_units::{BlockSize, Instant, Micros, Tokens};

use super::super::judge::{Answer, Asked, Judged, judge};
use super::super::worker_queue::Ahead;
use super::super::{AdmitSettings, Portion, Priority, Prospect};
use crate::fleet::{Demand, Fleet, Probe, Scraped, Turn, WorkerId};

/// Tokens that each request needs: a prompt of 1,000 and an answer of 256.
const REQUEST: u64 = 1_256;

/// A worker with room for 10,000 tokens that has eight requests.
fn full() -> (Fleet, WorkerId) {
    let mut fleet = Fleet::new();
    let worker = fleet.join(1).expect("the fleet is empty");
    fleet.probed(worker, Probe::Ready(&["m".to_string()]), Instant::ORIGIN);
    let scraped = Scraped {
        at: Instant::ORIGIN,
        running: 0,
        waiting: 0,
        kv_use_permille: Some(0),
        kv_capacity: Some(Tokens::new(10_000)),
        block_size: BlockSize::new(16),
        preemptions: Some(0),
    };
    fleet.scraped(worker, scraped, &crate::estimate::Lengths::default());
    let (prompt, completion) = (Tokens::new(1_000), Tokens::new(256));
    for _ in 0..8 {
        let demand = Demand { prompt, completion, prospect: prospect(), ..Demand::default() };
        let _ = fleet.start(worker, demand, Turn::First, Instant::ORIGIN);
    }
    (fleet, worker)
}

fn prospect() -> Prospect {
    Prospect { answers: 1, lengths: [256; 8], declared: REQUEST, ..Prospect::default() }
}

fn judged(ahead: u64, wait_max: u64) -> Judged {
    judged_in(&full(), ahead, wait_max)
}

fn judged_in((fleet, worker): &(Fleet, WorkerId), ahead: u64, wait_max: u64) -> Judged {
    let asked = Asked {
        priority: Priority::Default,
        portion: Portion::Within,
        prospect: prospect(),
        own: Tokens::new(1_000),
        tokens: REQUEST,
        ahead: Ahead { tokens: ahead, passable: None },
        wait_max: Micros::new(wait_max),
    };
    let pace = fleet.prefill_rate().pace();
    judge(fleet.worker(*worker), &asked, &AdmitSettings::default(), pace, Instant::ORIGIN)
}

#[test]
fn a_peak_is_computed_only_where_it_could_change_the_answer() {
    let whole = judged(REQUEST, u64::MAX);
    assert!(whole.peak.is_some() && whole.looked, "{whole:?}");
    let Answer::Later(wait) = whole.answer else { panic!("{whole:?}: others stand before it") };
    let short = judged(REQUEST, 1);
    let Answer::Later(least) = short.answer else { panic!("{short:?}: others stand before it") };
    assert!(short.peak.is_none() && short.looked, "{short:?}");
    assert!(Micros::ZERO < least && least <= wait, "{least} of {wait}");
    // Where nobody stands before it, only the peak tells whether there is room.
    assert!(judged(0, 1).peak.is_some());
}

#[test]
fn a_worker_far_away_takes_as_much_more_as_ends_before_it_comes() {
    let answer = |steps: u64| {
        let mut full = full();
        let (fleet, worker) = &mut full;
        let step = fleet.worker(*worker).step_time().micros().get();
        fleet.round_trip(*worker, Micros::new(steps * step));
        judged_in(&full, 0, u64::MAX).answer
    };
    // Eight have 256 tokens before them, so one ends in 64 steps and another one fits in its place.
    assert!(matches!(answer(0), Answer::Later(_)));
    assert!(matches!(answer(32), Answer::Later(_)));
    assert_eq!(answer(128), Answer::Taken);
}
