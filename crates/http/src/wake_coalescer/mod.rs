//! Wake coalescing: drops wake-ups of a task that is already being polled.
//!
//! The parts of a connection live in one task and wake each other: a body tells its connection that
//! there is room, the connection tells the body that there is data. To the runtime each of these
//! looks like a task that wants to be polled again, and costs it a turn of the queue and often the
//! waking of another thread. Here a wake that comes during a poll only leaves a note, upon which
//! there is another poll before the task goes to sleep.
//!
//! **Invariant:** no wake is lost. One that comes during a poll is answered by another poll or, after
//! [`TURNS_MAX`] of them, by the runtime; one that comes while asleep goes to the task.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The connection is not being polled: wakes go to the task.
const ASLEEP: u8 = 0;
/// It is being polled.
const POLLING: u8 = 1;
/// It is being polled, and has been woken meanwhile.
const WOKEN: u8 = 2;

/// Polls in a row at most. A part whose turn the runtime has ended (tokio's budget) wakes at every
/// poll, and is served only once the task has gone back to the queue.
const TURNS_MAX: usize = 8;

/// Stands between a connection and the task that waits on it.
#[derive(Debug)]
pub struct WakeCoalescer {
    state: Arc<State>,
    /// `state` as the connection sees it.
    waker: Waker,
}

impl Default for WakeCoalescer {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct State {
    phase: AtomicU8,
    task: Mutex<Waker>,
}

impl WakeCoalescer {
    /// Nobody waits yet.
    pub fn new() -> Self {
        let state = Arc::new(State {
            phase: AtomicU8::new(ASLEEP),
            task: Mutex::new(Waker::noop().clone()),
        });
        let waker = Waker::from(Arc::clone(&state));
        Self { state, waker }
    }

    /// Polls until it is ready or until nothing woke it meanwhile.
    pub fn poll<T>(
        &self,
        cx: &Context<'_>,
        mut work: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.state.listen(cx.waker());
        let mut quiet = Context::from_waker(&self.waker);
        for _ in 0..TURNS_MAX {
            self.state.phase.store(POLLING, Ordering::Release);
            let polled = work(&mut quiet);
            if polled.is_ready() {
                self.state.phase.store(ASLEEP, Ordering::Release);
                return polled;
            }
            let slept = self.state.phase.compare_exchange(
                POLLING,
                ASLEEP,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if slept.is_ok() {
                return Poll::Pending;
            }
        }
        self.state.phase.store(ASLEEP, Ordering::Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl State {
    /// Sends later wakes to `task`.
    fn listen(&self, task: &Waker) {
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.will_wake(task) {
            known.clone_from(task);
        }
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let noted = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |phase| {
            (phase != ASLEEP).then_some(WOKEN)
        });
        if noted.is_err() {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}
