//! Line: what the parts of one connection tell each other, socket, task and requests.
//!
//! HTTP/1 has one request at a time, in the connection's own task. HTTP/2 has many, each in a task of its own, so
//! there the connection is woken for what they have to tell it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What is known of one connection.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Whether requests have tasks of their own (HTTP/2).
    is_multiplexed: bool,
    /// Requests that are being answered.
    answering: AtomicUsize,
    /// Requests so far.
    requests: AtomicU64,
    closing: AtomicBool,
    stalled: AtomicBool,
    unread: AtomicBool,
    /// Frames of answers that have been written (HTTP/2).
    data_frames: AtomicU64,
    idle: Mutex<Idle>,
    flushed: Mutex<Flushed>,
}

/// Since when a connection has been idle, and whom to wake when it has to go.
#[derive(Debug, Default)]
struct Idle {
    since: Option<tokio::time::Instant>,
    waker: Option<Waker>,
    ousted: bool,
}

/// How often everything written so far had left, and who waits for the next time.
#[derive(Debug, Default)]
struct Flushed {
    count: u64,
    /// Polls of the connection that have begun, where requests have other tasks.
    turns: u64,
    /// The connection's own task, where requests have others.
    connection: Option<Waker>,
    /// At most one for each request that is being answered.
    waiting: Vec<Waker>,
}

impl Line {
    /// The line of a connection whose requests have tasks of their own.
    pub(crate) fn multiplexed() -> Self {
        Self { is_multiplexed: true, ..Self::default() }
    }

    /// A request has come.
    pub(crate) fn begin_answer(&self) {
        self.answering.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has been answered, or never will be.
    pub(crate) fn end_answer(&self) {
        let before = self.answering.fetch_sub(1, Ordering::Relaxed);
        if self.is_multiplexed && before == 1 {
            self.wake_connection();
        }
    }

    pub(crate) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// So many frames of answers were written.
    pub(crate) fn note_data_frames(&self, count: u64) {
        self.data_frames.fetch_add(count, Ordering::Relaxed);
    }

    /// Frames of answers that have been written so far.
    pub(crate) fn data_frames(&self) -> u64 {
        self.data_frames.load(Ordering::Relaxed)
    }

    /// Nothing has been asked for and nothing is answered from now on.
    pub(crate) fn note_idle(&self, cx: &Context<'_>) {
        let mut idle = self.idle();
        idle.since = Some(tokio::time::Instant::now());
        if !idle.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            idle.waker = Some(cx.waker().clone());
        }
    }

    /// A head has begun.
    pub(crate) fn note_busy(&self) {
        self.idle().since = None;
    }

    /// Since when it has been idle, if it is and has not been told to go.
    pub(crate) fn idle_since(&self) -> Option<tokio::time::Instant> {
        let idle = self.idle();
        idle.since.filter(|_| !idle.ousted)
    }

    /// It has to make room.
    pub(crate) fn oust(&self) {
        let mut idle = self.idle();
        idle.ousted = true;
        if let Some(waker) = idle.waker.take() {
            waker.wake();
        }
    }

    /// Whether it has to make room.
    pub(crate) fn is_ousted(&self) -> bool {
        self.idle().ousted
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn note_stall(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// Whether the client left what was written to it unread for too long.
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    /// A request's body was not read to its end: the client may still be sending it.
    pub(crate) fn note_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// The connection, whose requests have tasks of their own, is polled by the task of `cx`.
    pub(crate) fn begin_turn(&self, cx: &Context<'_>) {
        let mut flushed = self.flushed();
        flushed.turns += 1;
        if !flushed.connection.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            flushed.connection = Some(cx.waker().clone());
        }
    }

    /// Everything written so far has left.
    pub(crate) fn note_flush(&self) {
        let mut flushed = self.flushed();
        flushed.count = if self.is_multiplexed { flushed.turns } else { flushed.count + 1 };
        for waker in flushed.waiting.drain(..) {
            waker.wake();
        }
    }

    /// Which flush takes along what has been handed over by now.
    ///
    /// With HTTP/1 that is the next. With HTTP/2 it is one of the connection's next turn: a turn that is under way
    /// in another task may have looked for frames before ours came. The connection is woken, so that there is one.
    pub(crate) fn next_flush(&self) -> u64 {
        let flushed = self.flushed();
        match &flushed.connection {
            Some(connection) => {
                connection.wake_by_ref();
                flushed.turns + 1
            }
            None => flushed.count + 1,
        }
    }

    /// Ready once that flush has happened.
    pub(crate) fn poll_flushed(&self, flush: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut flushed = self.flushed();
        if flushed.count >= flush {
            return Poll::Ready(());
        }
        if !flushed.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            flushed.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn wake_connection(&self) {
        if let Some(connection) = &self.flushed().connection {
            connection.wake_by_ref();
        }
    }

    fn flushed(&self) -> MutexGuard<'_, Flushed> {
        self.flushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
