//! Deadline timer: a deadline that moves far more often than it passes.
//!
//! Every request moves its connection's deadline several times, and each event of a stream moves that of the
//! stream, nearly always to a later point. Moving only notes the new time; the runtime's timer is touched
//! when the old time comes, which for a healthy stream is once per span and not once per token.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that may be set, moved and lifted.
#[derive(Debug, Default)]
pub struct DeadlineTimer {
    at: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// The task that the timer wakes.
    wakes: Option<Waker>,
}

impl DeadlineTimer {
    /// Sets the deadline that far from now, whatever it was before.
    pub fn arm(&mut self, span: Duration) {
        self.at = Some(Instant::now() + span);
    }

    /// The same, but not past `last`.
    pub fn arm_until(&mut self, span: Duration, last: Instant) {
        self.at = Some((Instant::now() + span).min(last));
    }

    /// Lifts the deadline.
    pub fn disarm(&mut self) {
        self.at = None;
    }

    /// Whether a deadline is set.
    pub const fn is_armed(&self) -> bool {
        self.at.is_some()
    }

    /// Ready once a write has waited for longer than `patience`; one that has ended lifts the deadline.
    pub(crate) fn poll_stalled<T>(
        &mut self,
        wrote: &Poll<T>,
        patience: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if wrote.is_ready() {
            self.disarm();
        } else if !self.is_armed() {
            self.arm(patience);
        }
        self.poll_due(cx)
    }

    /// Ready once the deadline has passed; wakes the task when it does.
    pub fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
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
