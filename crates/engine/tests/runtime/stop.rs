//! The stop matcher against a search of the whole text.

use overdraft_engine::stop::{StopMatcher, StopStep, StopText};
use proptest::prelude::*;

/// Where the stop that ends first starts and ends, and which it is.
fn naive(text: &str, stops: &[String]) -> Option<(usize, usize)> {
    (0..=text.len()).find_map(|end| {
        let longest = stops
            .iter()
            .filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()))
            .map(String::len)
            .max()?;
        Some((end - longest, end))
    })
}

/// Texts over few characters, one of them two bytes long, so that stops overlap often.
fn text(longest: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just('a'), Just('b'), Just('é')], 1..=longest)
        .prop_map(|characters| characters.into_iter().collect())
}

proptest! {
    #[test]
    fn pieces_stop_where_the_whole_text_does(
        pieces in proptest::collection::vec(text(4), 0..12),
        stops in proptest::collection::vec(text(4), 0..4),
        kept in any::<bool>(),
    ) {
        let stop_text = if kept { StopText::Kept } else { StopText::Cut };
        let mut matcher = StopMatcher::new(&stops, stop_text);
        let longest = stops.iter().map(String::len).max().unwrap_or(1);
        let (mut shown, mut pushed, mut ended) = (String::new(), String::new(), false);
        for piece in &pieces {
            pushed.push_str(piece);
            match matcher.push(piece) {
                StopStep::Released(released) => shown.push_str(&released),
                StopStep::Hit { text, stop } => {
                    shown.push_str(&text);
                    prop_assert!(stop < stops.len());
                    ended = true;
                    break;
                }
            }
            prop_assert!(pushed.len() - shown.len() < longest, "held too much");
        }
        let whole = pieces.concat();
        let found = naive(&whole, &stops);
        prop_assert_eq!(ended, found.is_some());
        let expected = if let Some((start, end)) = found {
            &whole[..if kept { end } else { start }]
        } else {
            shown.push_str(&matcher.finish());
            &whole[..]
        };
        prop_assert_eq!(shown, expected);
    }
}
