//! Last event: waits a moment for the fingerprint that its engine tells with the token counts.
//!
//! vLLM puts `system_fingerprint` into a stream's last event: the one that finishes it or, where counts
//! are asked for, the one that tells them. Where only the gateway asked for counts, the event that
//! finishes the answer is held until the next one has come, and gets the fingerprint if that tells one.
//! The first choices of several have gone out by then and stay without.
//!
//! Invariant: what is held goes out before what came after it, and at the latest when [`WAIT`] is over.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use overdraft_http::DeadlineTimer;
use overdraft_wire::answer::{names_fingerprint, with_fingerprint};
use overdraft_wire::sse::Event;

/// How long an event is held: engines write the counts right behind it.
const WAIT: Duration = Duration::from_millis(50);

/// The event that finished the answer, while it is held.
#[derive(Debug, Default)]
pub(super) struct LastEvent {
    held: Option<Bytes>,
    timer: DeadlineTimer,
}

impl LastEvent {
    pub(super) const fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Holds the event that finished the answer, unless it tells a fingerprint itself: it is given back then.
    pub(super) fn hold(&mut self, event: Event) -> Option<Event> {
        if names_fingerprint(event.raw()) {
            return Some(event);
        }
        self.held = Some(event.into_raw());
        self.timer.arm(WAIT);
        None
    }

    /// Lets it go as it came.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        self.timer.disarm();
        self.held.take()
    }

    /// Lets it go with the fingerprint that the event of the counts tells.
    pub(super) fn stamped_by(&mut self, counts: &Event) -> Option<Bytes> {
        let event = self.take()?;
        let stamped = counts.data().and_then(|data| with_fingerprint(&event, &data));
        Some(stamped.map_or(event, Bytes::from))
    }

    /// Lets it go when it has waited long enough.
    pub(super) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let is_due = self.is_held() && self.timer.poll_due(cx).is_ready();
        match self.held.take_if(|_| is_due) {
            Some(event) => {
                self.timer.disarm();
                Poll::Ready(event)
            }
            None => Poll::Pending,
        }
    }
}
