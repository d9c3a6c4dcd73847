//! What is cacheable, what is kept, and what makes room.

use overdraft_units::{Instant, Micros};
use proptest::prelude::*;

use super::*;

#[test]
fn the_table_is_sorted_and_says_each_field_once() {
    for pair in FIELDS.windows(2) {
        assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
    }
    assert_eq!(effect("messages"), Some(Effect::Keyed));
    assert_eq!(effect("message"), None);
}

#[test]
fn whatever_is_ignored_says_why() {
    for field in FIELDS {
        if let Effect::Ignored(why) | Effect::Never(why) | Effect::NeverWhereOn(why) = field.effect
        {
            assert!(why.len() > 10, "{}", field.name);
        }
    }
}

/// A request whose answer is drawn anew each time.
const DRAWN: Asked = Asked { is_greedy: false, is_seeded: false, without_key: None };
const GREEDY: Asked = Asked { is_greedy: true, ..DRAWN };
const SEEDED: Asked = Asked { is_seeded: true, ..DRAWN };

#[test]
fn only_what_is_deterministic_is_reused_unless_somebody_says_so() {
    use Bypass::{Asked as Wished, NotDeterministic, Off, UnknownField};
    for (reuse, wish, asked, expected) in [
        (Reuse::Deterministic, Wish::Unsaid, DRAWN, Plan::Bypass(NotDeterministic)),
        (Reuse::Deterministic, Wish::Unsaid, GREEDY, Plan::LookUp),
        (Reuse::Deterministic, Wish::Unsaid, SEEDED, Plan::LookUp),
        (Reuse::Deterministic, Wish::Reuse, DRAWN, Plan::LookUp),
        (Reuse::All, Wish::Unsaid, DRAWN, Plan::LookUp),
        (Reuse::All, Wish::Refresh, DRAWN, Plan::Refresh),
        (Reuse::Deterministic, Wish::Refresh, DRAWN, Plan::Bypass(NotDeterministic)),
        (Reuse::All, Wish::Avoid, GREEDY, Plan::Bypass(Wished)),
        (Reuse::Off, Wish::Reuse, GREEDY, Plan::Bypass(Off)),
    ] {
        assert_eq!(plan(reuse, wish, asked), expected, "{reuse:?} {wish:?} {asked:?}");
    }
    let odd = Asked { without_key: Some(UnknownField), ..GREEDY };
    assert_eq!(plan(Reuse::All, Wish::Reuse, odd), Plan::Bypass(UnknownField));
}

#[test]
fn only_whole_answers_that_ended_by_themselves_are_kept() {
    let good = Answered { finish: Finish::Complete, is_whole: true, is_success: true, bytes: 10 };
    assert_eq!(unkept(good, 10), None);
    for (answered, why) in [
        (Answered { bytes: 11, ..good }, Unkept::TooLarge),
        (Answered { is_success: false, ..good }, Unkept::Negative),
        (Answered { is_whole: false, ..good }, Unkept::BrokenOff),
        (Answered { finish: Finish::Calls, ..good }, Unkept::Calls),
        (Answered { finish: Finish::Otherwise, ..good }, Unkept::Unfinished),
    ] {
        assert_eq!(unkept(answered, 10), Some(why));
    }
}

fn key(number: u16) -> Key {
    let mut key = [0; 32];
    key[..2].copy_from_slice(&number.to_le_bytes());
    key
}

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN + Micros::new(seconds * 1_000_000)
}

/// Bytes of a thing that fills a tenth of a shelf of ten, with its slot.
const TENTH: u64 = 840;
const NEVER: u64 = 1_000_000;

fn shelf() -> Shelf<u16> {
    Shelf::new(10_000)
}

fn put(shelf: &mut Shelf<u16>, number: u16) -> Evicted {
    shelf.insert(key(number), number, TENTH, at(NEVER), at(0))
}

fn holds(shelf: &mut Shelf<u16>, number: u16) -> bool {
    matches!(shelf.get(&key(number), at(0)), Found::Hit(found) if *found == number)
}

#[test]
fn what_is_asked_for_outlives_what_came_once() {
    let mut shelf = shelf();
    put(&mut shelf, 0);
    assert!(holds(&mut shelf, 0));
    for number in 1..100 {
        put(&mut shelf, number);
    }
    assert!(holds(&mut shelf, 0));
    assert!(!holds(&mut shelf, 50));
    assert_eq!(shelf.len(), 10);
}

#[test]
fn who_comes_back_soon_is_not_thrown_out_again() {
    let mut shelf = shelf();
    for number in 0..11 {
        put(&mut shelf, number);
    }
    assert!(!holds(&mut shelf, 0));
    put(&mut shelf, 0);
    for number in 11..40 {
        put(&mut shelf, number);
    }
    assert!(holds(&mut shelf, 0));
}

#[test]
fn what_is_too_old_is_not_found_and_gives_its_room_back() {
    let mut shelf = shelf();
    shelf.insert(key(1), 1, TENTH, at(5), at(0));
    assert_eq!(shelf.get(&key(1), at(4)), Found::Hit(&1));
    assert_eq!(shelf.get(&key(1), at(5)), Found::Expired);
    assert_eq!(shelf.get(&key(1), at(5)), Found::Missing);
    assert_eq!(shelf.bytes(), 0);
    for number in 0..10 {
        shelf.insert(key(number), number, TENTH, at(5), at(0));
    }
    let evicted = shelf.insert(key(20), 20, TENTH, at(99), at(6));
    assert_eq!(evicted, Evicted { for_room: 0, expired: 1 });
}

#[test]
fn what_cannot_fit_stays_off_and_replaces_what_it_was_to_replace() {
    let mut shelf = shelf();
    put(&mut shelf, 1);
    shelf.insert(key(1), 7, 10_000, at(NEVER), at(0));
    assert!(shelf.is_empty());
    put(&mut shelf, 2);
    shelf.insert(key(2), 7, TENTH, at(NEVER), at(0));
    assert_eq!(shelf.get(&key(2), at(0)), Found::Hit(&7));
    assert_eq!((shelf.len(), shelf.bytes()), (1, 1_000));
}

#[test]
fn a_purge_takes_what_it_names() {
    let mut shelf = shelf();
    for number in 0..10 {
        put(&mut shelf, number);
    }
    assert_eq!(shelf.retain(|number| number % 2 == 0), 5);
    assert!(holds(&mut shelf, 4) && !holds(&mut shelf, 5));
    assert_eq!(shelf.bytes(), 5_000);
}

proptest! {
    #[test]
    fn a_shelf_never_holds_more_than_it_may(
        steps in prop::collection::vec((0_u16..60, 0_u64..3_000, 0_u8..6, 0_u64..20), 1..400),
    ) {
        let mut shelf = shelf();
        let mut now = 0;
        for (number, bytes, what, later) in steps {
            now += later;
            match what {
                0 => drop(shelf.retain(|kept| *kept != number)),
                1 => drop(shelf.resize(1_000 * (bytes % 12), at(now))),
                2 | 3 => {
                    if let Found::Hit(found) = shelf.get(&key(number), at(now)) {
                        prop_assert_eq!(*found, number);
                    }
                }
                _ => {
                    shelf.insert(key(number), number, bytes, at(now + 30), at(now));
                }
            }
            prop_assert!(shelf.bytes() <= 12_000);
            prop_assert!(shelf.is_sound());
        }
    }
}

#[test]
fn an_answer_is_overdue_when_it_is_later_than_such_answers_are() {
    let seconds = |seconds: u64| Micros::new(seconds * 1_000_000);
    let short = Wanted { whole: false, bytes: 500, limit: Some(100) };
    let long = Wanted { bytes: 400_000, ..short };
    let mut openings = Openings::default();
    assert_eq!(openings.patience(short), seconds(5), "nothing is known");
    for _ in 0..50 {
        openings.note(short, Micros::new(40_000));
        openings.note(long, seconds(8));
    }
    assert_eq!(openings.patience(short), Micros::new(250_000));
    let patience = openings.patience(long);
    assert!(seconds(8) <= patience && patience < seconds(10), "{patience}");
    let unseen = Wanted { limit: None, ..short };
    assert!(seconds(5) <= openings.patience(unseen), "of another kind nothing is known");
    assert_eq!(openings.patience(Wanted { whole: true, ..short }), seconds(5));
}
