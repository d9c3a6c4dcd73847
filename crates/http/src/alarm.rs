//! Has something taken too long? A timer that is cheap to move.
//!
//! Every request moves its connection's deadline several times, nearly always to a later point. The
//! alarm therefore only remembers the new deadline and looks at it when the old one fires, instead
//! of taking the timer wheel's lock each time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that may be moved and lifted.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    deadline: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Sets the deadline that far from now, whatever it was before.
    pub(crate) fn arm(&mut self, span: Duration) {
        self.deadline = Some(Instant::now() + span);
    }

    /// Lifts the deadline.
    pub(crate) fn disarm(&mut self) {
        self.deadline = None;
    }

    /// Whether a deadline is set.
    pub(crate) fn is_armed(&self) -> bool {
        self.deadline.is_some()
    }

    /// Ready once the deadline has passed; wakes the task when it does.
    pub(crate) fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}
