//! One question to a worker, and all who wait for its answer.
//!
//! The flight owns the question: whoever asked first has no more of it than those who joined. Each has a
//! seat; a seat that is dropped is a client that left, and when the last one has, the question is
//! called off. What the worker says is held for all up to a bound; when there is more, nobody can join
//! any more, the fastest reader sets the pace, and who falls behind by the whole bound is cut off.
//!
//! **Invariant:** at most `bytes_max` bytes and one frame are held for one flight.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::response::Parts;
use overdraft_core::admit::Priority;
use overdraft_core::reuse::Key;
use overdraft_telemetry::AccessRecord;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::entry::Entry;
use super::request::Form;
use crate::settings::Pool;

/// Which requests may share a flight: the same question, wanted in the same form, as urgently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlightKey {
    pub(crate) key: Key,
    pub(crate) form: Form,
    pub(crate) priority: Priority,
}

/// All flights that can be joined.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<BTreeMap<FlightKey, Arc<Flight>>>);

impl Flights {
    /// A seat in the flight for `key`, and whether it has to be led.
    pub(crate) fn board(self: &Arc<Self>, key: FlightKey, bytes_max: usize) -> (Seat, Role) {
        let mut flights = self.flights();
        if let Some(seat) = flights.get(&key).and_then(Seat::join) {
            return (seat, Role::Follower);
        }
        let flight = Arc::new(Flight::new(bytes_max, Some((Arc::clone(self), key))));
        flights.insert(key, Arc::clone(&flight));
        (Seat::join(&flight).expect("nobody has left it yet"), Role::Leader)
    }

    /// A flight that nobody else joins.
    pub(crate) fn charter(bytes_max: usize) -> Seat {
        let flight = Arc::new(Flight::new(bytes_max, None));
        Seat::join(&flight).expect("nobody has left it yet")
    }

    fn forget(&self, key: &FlightKey, flight: &Flight) {
        let mut flights = self.flights();
        if flights.get(key).is_some_and(|known| std::ptr::eq(Arc::as_ptr(known), flight)) {
            flights.remove(key);
        }
    }

    fn flights(&self) -> MutexGuard<'_, BTreeMap<FlightKey, Arc<Flight>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has to see to it that the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    Follower,
}

/// What is known first of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Opening {
    /// It was kept already.
    Found(Arc<Entry>, Bytes),
    /// It comes from a worker.
    Begun(Arc<Begun>),
    /// There is none, for reasons that the first to ask was told.
    Failed,
}

/// The beginning of a worker's answer.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) head: Parts,
    /// Its length, where it is all there already.
    pub(crate) length: Option<u64>,
    pub(crate) worker: Option<String>,
    pub(crate) pool: Option<Pool>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Whole,
    Broken,
}

/// What comes next for one reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Frame(Bytes),
    End(Ended),
}

#[derive(Debug)]
pub(crate) struct Flight {
    state: Mutex<State>,
    opening: watch::Sender<Option<Opening>>,
    /// Changes with every frame and with the end.
    progress: watch::Sender<u64>,
    /// A reader has taken something, or left.
    taken: Notify,
    bytes_max: usize,
    /// Where it can be joined.
    listed: Option<(Arc<Flights>, FlightKey)>,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first frame that is held.
    first: u64,
    /// By seat, the number of the frame that it needs next.
    cursors: BTreeMap<u64, u64>,
    seats: u64,
    /// Nobody joins any more: frames have been let go of, or it was called off.
    is_closed: bool,
    end: Option<Ended>,
    task: Option<AbortHandle>,
    /// What the worker counted, for the first reader that tells the books.
    facts: Option<AccessRecord>,
}

impl State {
    fn next(&self) -> u64 {
        self.first.saturating_add(u64::try_from(self.frames.len()).unwrap_or(u64::MAX))
    }

    /// Lets go of frames before `number`.
    fn trim(&mut self, number: u64) {
        while self.first < number {
            let Some(frame) = self.frames.pop_front() else { return };
            self.bytes -= frame.len();
            self.first += 1;
        }
    }

    /// Whether there is room for a frame, after what can go has gone.
    fn has_room(&mut self, bytes: usize, bytes_max: usize) -> bool {
        if self.bytes + bytes <= bytes_max {
            return true;
        }
        self.is_closed = true;
        if let Some(slowest) = self.cursors.values().min().copied() {
            self.trim(slowest);
        }
        if self.bytes + bytes <= bytes_max || self.frames.is_empty() {
            return true;
        }
        // Who is up to date shall not wait for those who are not.
        let fastest = self.cursors.values().max().copied().unwrap_or_default();
        if fastest == self.next() {
            self.trim(fastest);
        }
        self.bytes + bytes <= bytes_max || self.frames.is_empty()
    }
}

impl Flight {
    fn new(bytes_max: usize, listed: Option<(Arc<Flights>, FlightKey)>) -> Self {
        Self {
            state: Mutex::default(),
            opening: watch::Sender::new(None),
            progress: watch::Sender::new(0),
            taken: Notify::new(),
            bytes_max,
            listed,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is how it begins.
    pub(crate) fn open(&self, opening: Opening) {
        self.opening.send_replace(Some(opening));
    }

    /// Gives the next frame to all; waits while nobody has read far enough.
    pub(crate) async fn push(&self, frame: Bytes) {
        loop {
            let taken = self.taken.notified();
            {
                let mut state = self.state();
                if state.has_room(frame.len(), self.bytes_max) {
                    state.bytes += frame.len();
                    state.frames.push_back(frame);
                    break;
                }
            }
            taken.await;
        }
        self.progress.send_modify(|number| *number += 1);
    }

    /// Nothing follows. Without an opening, there was no answer.
    pub(crate) fn end(&self, end: Ended, facts: Option<AccessRecord>) {
        self.unlist();
        {
            let mut state = self.state();
            if state.end.is_some() {
                return;
            }
            state.end = Some(end);
            state.is_closed = true;
            state.facts = facts;
        }
        self.opening.send_if_modified(|opening| {
            let failed = opening.is_none();
            if failed {
                *opening = Some(Opening::Failed);
            }
            failed
        });
        self.progress.send_modify(|number| *number += 1);
    }

    /// Nobody joins any more.
    pub(crate) fn unlist(&self) {
        if let Some((flights, key)) = &self.listed {
            flights.forget(key, self);
        }
    }

    /// This task asks; it ends when nobody waits.
    pub(crate) fn led_by(&self, task: AbortHandle) {
        let mut state = self.state();
        if state.cursors.is_empty() && state.end.is_none() {
            task.abort();
        }
        state.task = Some(task);
    }

    fn leave(&self, number: u64) {
        let was_last = {
            let mut state = self.state();
            state.cursors.remove(&number);
            let was_last = state.cursors.is_empty() && state.end.is_none();
            if was_last {
                state.is_closed = true;
                if let Some(task) = state.task.take() {
                    task.abort();
                }
            }
            was_last
        };
        self.taken.notify_one();
        if was_last {
            self.unlist();
        }
    }
}

/// A client's place in a flight; dropping it is leaving.
#[derive(Debug)]
pub(crate) struct Seat {
    flight: Arc<Flight>,
    number: u64,
    progress: watch::Receiver<u64>,
}

impl Seat {
    /// A seat; `None` where it is too late.
    fn join(flight: &Arc<Flight>) -> Option<Self> {
        let progress = flight.progress.subscribe();
        let mut state = flight.state();
        if state.is_closed {
            return None;
        }
        state.seats += 1;
        let number = state.seats;
        let first = state.first;
        state.cursors.insert(number, first);
        drop(state);
        Some(Self { flight: Arc::clone(flight), number, progress })
    }

    pub(crate) const fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    /// How the answer begins, once that is known.
    pub(crate) async fn opening(&self) -> Opening {
        let mut opening = self.flight.opening.subscribe();
        let known = opening.wait_for(Option::is_some).await;
        known.ok().and_then(|known| known.clone()).unwrap_or(Opening::Failed)
    }

    /// What comes next.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            self.progress.borrow_and_update();
            {
                let mut state = self.flight.state();
                let cursor = state.cursors.get(&self.number).copied().unwrap_or_default();
                let Some(at) = cursor.checked_sub(state.first) else {
                    return Next::End(Ended::Broken);
                };
                let frame = usize::try_from(at).ok().and_then(|at| state.frames.get(at)).cloned();
                if let Some(frame) = frame {
                    state.cursors.insert(self.number, cursor + 1);
                    drop(state);
                    self.flight.taken.notify_one();
                    return Next::Frame(frame);
                }
                if let Some(end) = state.end {
                    return Next::End(end);
                }
            }
            // The flight is ours as long as we sit in it, so there is always somebody who tells.
            let _always = self.progress.changed().await;
        }
    }

    /// What the worker counted, and how it ended; the first to ask gets the counts.
    pub(crate) fn facts(&self) -> Option<AccessRecord> {
        let mut state = self.flight.state();
        let facts = state.facts.clone();
        if let Some(facts) = &mut state.facts {
            (facts.prompt, facts.completion) = (None, None);
        }
        facts
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.flight.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    async fn read(seat: &mut Seat) -> String {
        match seat.next().await {
            Next::Frame(frame) => String::from_utf8(frame.to_vec()).unwrap(),
            Next::End(end) => format!("{end:?}"),
        }
    }

    fn key() -> FlightKey {
        FlightKey { key: [1; 32], form: Form::Whole, priority: Priority::Default }
    }

    #[tokio::test]
    async fn who_joins_late_gets_all_of_it() {
        let flights: Arc<Flights> = Arc::default();
        let (mut leader, role) = flights.board(key(), 100);
        assert_eq!(role, Role::Leader);
        leader.flight().push(frame("a")).await;
        assert_eq!(read(&mut leader).await, "a");
        let (mut follower, role) = flights.board(key(), 100);
        assert_eq!(role, Role::Follower);
        leader.flight().push(frame("b")).await;
        leader.flight().end(Ended::Whole, None);
        for expected in ["a", "b", "Whole"] {
            assert_eq!(read(&mut follower).await, expected);
        }
        assert_eq!(flights.board(key(), 100).1, Role::Leader, "what has ended is not joined");
    }

    #[tokio::test]
    async fn the_question_is_called_off_when_the_last_one_leaves() {
        let flights: Arc<Flights> = Arc::default();
        let (leader, _) = flights.board(key(), 100);
        let (follower, _) = flights.board(key(), 100);
        let task = tokio::spawn(std::future::pending::<()>());
        leader.flight().led_by(task.abort_handle());
        drop(leader);
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
        drop(follower);
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(flights.board(key(), 100).1, Role::Leader);
    }

    #[tokio::test]
    async fn beyond_the_bound_the_fastest_sets_the_pace_and_who_is_too_slow_is_cut_off() {
        let flights: Arc<Flights> = Arc::default();
        let (mut fast, _) = flights.board(key(), 4);
        let (mut slow, _) = flights.board(key(), 4);
        let flight = Arc::clone(fast.flight());
        flight.push(frame("aa")).await;
        flight.push(frame("bb")).await;
        let mut third = Box::pin(flight.push(frame("cc")));
        let waits =
            std::future::poll_fn(|cx| std::task::Poll::Ready(third.as_mut().poll(cx).is_pending()));
        assert!(waits.await, "nobody has read anything");
        assert_eq!((read(&mut fast).await, read(&mut fast).await), ("aa".into(), "bb".into()));
        third.await;
        assert_eq!(read(&mut fast).await, "cc");
        assert_eq!(read(&mut slow).await, "Broken");
        assert_eq!(flights.board(key(), 4).1, Role::Leader, "its beginning is gone");
    }

    #[tokio::test]
    async fn a_flight_that_ends_without_an_answer_has_failed() {
        let seat = Flights::charter(10);
        seat.flight().end(Ended::Broken, None);
        assert!(matches!(seat.opening().await, Opening::Failed));
    }
}
