//! However a stream is cut, its events are the same, and joined they are the stream.

use overdraft_wire::sse::{Ending, Splitter};
use proptest::prelude::*;

/// Bytes that often make lines, fields and blank lines.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        &b"data: a"[..],
        b"data:",
        b"event: x",
        b": c",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r\n",
        b"\r\n\r\n",
        b"\xEF\xBB\xBF",
        b"\xEF",
        b"\xff",
        b"data: {\"a\":1}\n\n",
        b"data: [DONE]\n\n",
    ]);
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// Events and end of a stream that arrives in `chunks`.
fn run<'a>(chunks: impl Iterator<Item = &'a [u8]>, limit: usize) -> (Vec<Vec<u8>>, String) {
    let mut splitter = Splitter::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        splitter.push(chunk);
        loop {
            match splitter.next_event() {
                Ok(Some(event)) => events.push(event.raw().to_vec()),
                Ok(None) => break,
                Err(error) => return (events, error.to_string()),
            }
        }
    }
    match splitter.finish() {
        Ending::Clean => (events, "clean".to_owned()),
        Ending::Event(event) => {
            events.push(event.raw().to_vec());
            (events, "clean".to_owned())
        }
        Ending::Cut { bytes } => (events, format!("cut {bytes}")),
    }
}

proptest! {
    #[test]
    fn chunking_changes_nothing(
        stream in stream(),
        size in 1..9_usize,
        limit in prop::sample::select(vec![8, 20, 10_000_usize]),
    ) {
        let whole = run(std::iter::once(&stream[..]), limit);
        prop_assert_eq!(&whole, &run(stream.chunks(size), limit));
        prop_assert_eq!(&whole, &run(stream.chunks(1), limit));
    }

    #[test]
    fn events_joined_are_the_stream(stream in stream()) {
        let (events, end) = run(std::iter::once(&stream[..]), 10_000);
        let joined = events.concat();
        prop_assert!(stream.starts_with(&joined));
        let left = stream.len() - joined.len();
        prop_assert_eq!(end, if left == 0 { "clean".to_owned() } else { format!("cut {left}") });
    }

    #[test]
    fn any_bytes_are_split_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        run(bytes.chunks(7), 100);
    }
}
