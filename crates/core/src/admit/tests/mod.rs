//! Names and modes, what preemptions and reports teach; the queue is in a file of its own.

mod elsewhere;
mod judge;
mod longest_prefix;
mod pinned;
mod queue;

use alloc::string::ToString;

use overdraft_units::{Instant, Micros};

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

#[test]
fn what_a_worker_holds_beyond_our_books_is_others() {
    let mut correction = Correction::new();
    correction.note(1_000, 400);
    assert_eq!(correction.foreign(), 600, "at once");
    correction.note(500, 400);
    assert_eq!(correction.foreign(), 100 + 375, "and forgotten by quarters");
    for _ in 0..40 {
        correction.note(350, 400);
    }
    assert!(correction.foreign() < 4, "what may have been computed is nobody else's");
}
