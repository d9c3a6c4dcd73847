//! What is late, who shares a cause, and what second attempts may cost.

use super::*;

const USUAL: Micros = Micros::new(40_000);

fn at(milliseconds: u64) -> Instant {
    Instant::ORIGIN + Micros::new(milliseconds * 1_000)
}

fn worker(index: usize) -> WorkerId {
    WorkerId::at(index)
}

/// Four workers whose first tokens came as usual so far.
fn learnt() -> Hedging {
    let mut hedging = Hedging::default();
    hedging.set(HedgeSettings { mode: Mode::On, ..HedgeSettings::default() });
    for index in 0..40 {
        let watch = sent(&mut hedging, index % 4, Instant::ORIGIN).unwrap();
        hedging.first_token(watch, Instant::ORIGIN + USUAL);
    }
    hedging
}

fn sent(hedging: &mut Hedging, index: usize, now: Instant) -> Option<Watch> {
    hedging.sent(worker(index), 1, Tokens::new(100), now)
}

fn all() -> [WorkerId; 4] {
    [0, 1, 2, 3].map(worker)
}

#[test]
fn off_keeps_nothing() {
    let mut hedging = Hedging::default();
    assert_eq!(sent(&mut hedging, 0, at(0)), None);
    hedging.served(1_000_000);
    assert!(!hedging.affords(Tokens::new(1)));
}

#[test]
fn nothing_is_late_before_the_usual_time_is_known() {
    let mut hedging = Hedging::default();
    hedging.set(HedgeSettings { mode: Mode::On, ..HedgeSettings::default() });
    assert_eq!(sent(&mut hedging, 0, at(0)).unwrap().due(), None);
    let mut hedging = learnt();
    let due = sent(&mut hedging, 0, at(0)).unwrap().due().unwrap();
    assert!((at(40)..at(52)).contains(&due), "{due:?}");
    // Another size is another class.
    assert_eq!(hedging.sent(worker(0), 1, Tokens::new(9_000), at(0)).unwrap().due(), None);
}

#[test]
fn one_late_worker_of_four_is_alone_and_two_share_a_cause() {
    let mut hedging = learnt();
    let first = sent(&mut hedging, 0, at(0)).unwrap();
    assert!(!hedging.is_shared(&all(), at(200)));
    assert!(hedging.is_suspect(worker(0), at(30)), "half of the usual time is over");
    assert!(!hedging.is_suspect(worker(1), at(200)));
    let _second = sent(&mut hedging, 1, at(0));
    assert!(hedging.is_shared(&all(), at(200)));
    // Its first token comes, late: so it stays until it is on time again, or for a while.
    hedging.first_token(first, at(300));
    assert!(hedging.is_suspect(worker(0), at(400)));
    assert!(!hedging.is_suspect(worker(0), at(10_400)));
    let again = sent(&mut hedging, 0, at(400)).unwrap();
    hedging.first_token(again, at(420));
    assert!(!hedging.is_suspect(worker(0), at(421)));
}

#[test]
fn a_worker_with_much_to_do_is_not_slow_for_one_of_them() {
    let mut hedging = learnt();
    let _late = sent(&mut hedging, 0, at(0));
    for _ in 0..4 {
        let _ = sent(&mut hedging, 0, at(190));
    }
    assert!(!hedging.is_suspect(worker(0), at(200)));
}

#[test]
fn what_was_left_counts_as_late() {
    let mut hedging = learnt();
    for _ in 0..20 {
        let left = sent(&mut hedging, 0, at(0)).unwrap();
        hedging.ended(left, at(80));
    }
    let due = sent(&mut hedging, 1, at(0)).unwrap().due().unwrap();
    assert!(at(80) <= due, "else the percentile would sink with every hedge: {due:?}");
}

#[test]
fn the_budget_is_a_share_of_what_was_served() {
    let mut hedging = learnt();
    hedging.served(2_000);
    assert!(hedging.affords(Tokens::new(100)));
    assert!(!hedging.affords(Tokens::new(101)));
    hedging.spent(Tokens::new(60));
    assert!(hedging.affords(Tokens::new(40)));
    assert!(!hedging.affords(Tokens::new(41)));
}

#[test]
fn looks_are_bounded_and_further_apart_each_time() {
    let mut hedging = learnt();
    let watch = sent(&mut hedging, 0, at(0)).unwrap();
    let looks: alloc::vec::Vec<Instant> = (1..).map_while(|looks| watch.next_look(looks)).collect();
    assert_eq!(looks.len(), 8);
    assert!(looks.is_sorted());
    assert!(watch.due().unwrap() < looks[0]);
}
