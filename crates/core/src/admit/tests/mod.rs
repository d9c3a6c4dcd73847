//! Names and modes, what preemptions and reports teach; the queue is in a file of its own.

mod queue;

use alloc::string::ToString;

use overdraft_units::{Instant, Micros, Tokens};

use super::forecast::Sums;
use super::*;

#[test]
fn priorities_are_ordered_and_named() {
    assert!(Priority::Flex < Priority::Default && Priority::Default < Priority::Priority);
    for (place, priority) in Priority::ALL.into_iter().enumerate() {
        assert_eq!(priority.name().parse(), Ok(priority));
        assert_eq!(priority.index(), place);
    }
    assert_eq!("Flex".parse::<Priority>(), Err(UnknownPriority));
}

#[test]
fn a_mode_is_read_as_it_is_written() {
    for mode in [Mode::Peak, Mode::Threshold, Mode::Reserve, Mode::Static(7), Mode::Off] {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    for text in ["", "static", "static:", "static:0", "static:-1", "static:x", "Peak"] {
        assert_eq!(text.parse::<Mode>(), Err(ParseModeError), "{text}");
    }
}

#[test]
fn preemptions_teach_caution_and_clean_work_unlearns_it() {
    let minute = |count: u64| Instant::ORIGIN + Micros::new(count * 60_000_000);
    let mut caution = Caution::new();
    caution.note(Some(40), Strain::Working, minute(0));
    assert_eq!(caution.milli(), 0, "what was before we came is no lesson");
    caution.note(Some(41), Strain::Working, minute(0));
    assert_eq!(caution.milli(), 250);
    caution.note(Some(100), Strain::Working, minute(0));
    assert_eq!(caution.milli(), 1_250, "one burst is one lesson");
    caution.note(Some(100), Strain::Working, minute(1));
    assert_eq!(caution.milli(), 1_230);
    caution.note(Some(100), Strain::Idle, minute(2));
    caution.note(Some(100), Strain::Working, minute(2));
    assert_eq!(caution.milli(), 1_230, "an idle minute says nothing");
    caution.note(None, Strain::Working, minute(3));
    caution.note(Some(2), Strain::Working, minute(3));
    assert_eq!(caution.milli(), 1_710, "it started anew and preempted two");
    for _ in 0..100 {
        caution.note(None, Strain::Working, minute(3));
    }
    for count in 3..100 {
        caution.note(Some(count * 100), Strain::Working, minute(3));
    }
    assert_eq!(caution.milli(), 4_000);
}

fn sums(used: u64, prefilling: u64, cached: u64) -> Sums {
    Sums { used, prefilling, cached, unshared: cached, declared: 0 }
}

#[test]
fn what_a_worker_holds_beyond_our_books_is_others() {
    let mut correction = Correction::new();
    correction.note(1_000, 0, sums(400, 100, 0));
    assert_eq!(correction.foreign(), 600, "at once");
    correction.note(500, 0, sums(400, 100, 0));
    assert_eq!(correction.foreign(), 100 + 375, "and forgotten by quarters");
    for _ in 0..40 {
        correction.note(350, 0, sums(400, 100, 0));
    }
    assert!(correction.foreign() < 4, "what may have been computed is nobody else's");
    assert_eq!(correction.unshared(Tokens::new(800)), Tokens::new(800));
}

#[test]
fn sharing_is_learnt_where_less_is_held_than_was_booked_and_nothing_waits() {
    let mut correction = Correction::new();
    let booked = sums(10_000, 0, 8_000);
    correction.note(4_000, 3, booked);
    assert_eq!(correction.unshared(Tokens::new(1_000)), Tokens::new(1_000), "three wait");
    for _ in 0..40 {
        correction.note(4_000, 0, booked);
    }
    // 6,000 of 8,000 are held by others in flight too.
    let learnt = correction.unshared(Tokens::new(1_000)).get();
    assert!((248..=252).contains(&learnt), "{learnt}");
    for _ in 0..40 {
        correction.note(20_000, 0, sums(10_000, 0, 8_000));
    }
    assert_eq!(correction.unshared(Tokens::new(1_000)), Tokens::new(1_000));
}
