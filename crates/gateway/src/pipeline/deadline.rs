//! Has this taken too long? A deadline that is moved far more often than it passes.
//!
//! Each event of a stream moves it. Moving only notes the new time; the runtime's timer is touched
//! when the old time comes, which for a healthy stream is once per span and not once per token.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that moves.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
    /// The task that the timer wakes.
    wakes: Option<Waker>,
}

impl Deadline {
    /// A deadline at `at`.
    pub(crate) const fn new(at: Instant) -> Self {
        Self { at, sleep: None, wakes: None }
    }

    /// Moves it to `span` from now, but not past `last`.
    pub(crate) fn move_to(&mut self, span: Duration, last: Instant) {
        self.at = (Instant::now() + span).min(last);
    }

    /// Ready once it has passed; wakes the task when it does.
    pub(crate) fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        let knows = self.wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if knows && sleep.deadline() <= at && !sleep.is_elapsed() {
            return Poll::Pending;
        }
        if at < sleep.deadline() {
            sleep.as_mut().reset(at);
        }
        self.wakes = Some(cx.waker().clone());
        loop {
            ready!(sleep.as_mut().poll(cx));
            if at <= sleep.deadline() {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}
