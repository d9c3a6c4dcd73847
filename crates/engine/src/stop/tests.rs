//! Pieces are separated by `|`; what each released stands between the same bars.

use super::*;

#[track_caller]
fn check(stops: &[&str], stop_text: StopText, pieces: &str, shown: &str) {
    let stops: Vec<String> = stops.iter().map(ToString::to_string).collect();
    let mut matcher = StopMatcher::new(&stops, stop_text);
    let mut trace = Vec::new();
    let mut ended = false;
    for piece in pieces.split('|') {
        match matcher.push(piece) {
            StopStep::Released(text) => trace.push(text),
            StopStep::Hit { text, stop } => {
                trace.push(format!("{text} <{}>", stops[stop]));
                ended = true;
                break;
            }
        }
    }
    if !ended {
        trace.push(matcher.finish());
    }
    assert_eq!(trace.join("|"), shown);
}

#[test]
fn text_without_stops_is_released_as_it_comes() {
    check(&[], StopText::Cut, "one|two", "one|two|");
    check(&[""], StopText::Cut, "one|two", "one|two|");
}

#[test]
fn text_that_may_become_a_stop_is_held_back() {
    check(&["END"], StopText::Cut, "the E|N|d", "the ||ENd|");
    check(&["END"], StopText::Cut, "the E|N", "the ||EN");
}

#[test]
fn a_stop_across_pieces_is_cut_whole() {
    check(&["END"], StopText::Cut, "the E|N|D of it", "the || <END>");
    check(&["END"], StopText::Kept, "the E|N|D of it", "the ||END <END>");
}

#[test]
fn the_stop_that_ends_first_counts() {
    check(&["abcd", "bc"], StopText::Cut, "xabcd", "xa <bc>");
    check(&["bc", "abc"], StopText::Cut, "xabc", "x <abc>");
}

#[test]
fn a_failed_match_that_starts_another_is_followed() {
    check(&["aab"], StopText::Cut, "aa|aa|b", "|aa| <aab>");
}

#[test]
fn characters_of_several_bytes_stay_whole() {
    check(&["né"], StopText::Cut, "n|è|n|é", "|nè|| <né>");
}

#[test]
fn passed_text_is_not_searched() {
    let mut matcher = StopMatcher::new(&["ab".to_owned()], StopText::Cut);
    assert_eq!(matcher.pass("ab"), "ab");
    assert_eq!(matcher.pass("a"), "a");
    assert_eq!(matcher.push("b"), StopStep::Released("b".to_owned()));
    assert_eq!(matcher.push("ab"), StopStep::Hit { text: String::new(), stop: 0 });
}
