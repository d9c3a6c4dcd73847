//! Readable events: what may go to a client whose stream nobody goes on with.
//!
//! A stream that can go on elsewhere is read by its [`Continuation`](super::Continuation), which tells nothing of an
//! event that is broken. Here the same holds for the others. What other servers say between chunks is for the client to
//! judge, as long as it is text.

use bytes::Bytes;
use overdraft_wire::sse::{Ending, Event, Splitter};
use serde::de::IgnoredAny;

use super::{Fault, Passed, Verdict};

/// Lets whole events through up to the first one that no client can read.
pub(super) fn pass(events: Bytes) -> Passed {
    let mut splitter = Splitter::new(usize::MAX);
    splitter.push(&events);
    let mut readable = 0;
    while let Some(event) = next(&mut splitter) {
        if let Some(why) = unreadable(&event) {
            let verdict = Verdict::Failed(Fault::Broken(why.to_owned()));
            return Passed { events: events.slice(..readable), verdict };
        }
        readable += event.raw().len();
    }
    Passed { events, verdict: Verdict::GoesOn }
}

fn next(splitter: &mut Splitter) -> Option<Event> {
    if let Ok(Some(event)) = splitter.next_event() {
        return Some(event);
    }
    // What is whole waits for nothing.
    if let Ending::Event(event) = splitter.finish() { Some(event) } else { None }
}

/// Why no client can read an event, if none can.
fn unreadable(event: &Event) -> Option<&'static str> {
    if std::str::from_utf8(event.raw()).is_err() {
        return Some("an event of it is not UTF-8");
    }
    let data = event.data()?;
    let is_object = data.trim_ascii_start().starts_with(b"{");
    let is_broken = is_object && serde_json::from_slice::<IgnoredAny>(&data).is_err();
    is_broken.then_some("an event of it is not JSON")
}
