//! Names, modes and the queue's plain cases.

use alloc::string::ToString;

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
