//! Single flight: one request to a worker, and all followers that wait for its answer.
//!
//! The flight owns the request to the worker: the leader has no more of it than the followers. Each
//! has a seat; a dropped seat is a client that disconnected, and when the last one has, the request
//! is cancelled. The answer is buffered for all up to a bound; beyond it no request can join any
//! more, the fastest reader sets the pace, and a reader that falls behind by the whole bound is cut
//! off.
//!
//! A follower waits until the answer is overdue and no longer. No request joins a flight that is
//! overdue, or that a client has left before anything came: a client that gave up and retries sends
//! a new request.
//!
//! **Invariants:** at most `bytes_max` bytes and one frame are held for one flight; at most a quarter of the cache's memory,
//! and a frame each, for all of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::response::Parts;
use overdraft_core::admit::Priority;
use overdraft_core::response_cache::Key;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::entry::Entry;
use super::request::Form;
use crate::dispatch::DecisionTrail;
use crate::pipeline::facts::RequestFacts;
use crate::settings::Pool;

/// Which requests may share a flight: the same question, wanted in the same form, as urgently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlightKey {
    pub(crate) key: Key,
    pub(crate) form: Form,
    pub(crate) priority: Priority,
}

/// What part of the cache's memory all flights together may hold.
const MEMORY_PART: u64 = 4;

/// All flights: those that can be joined, and what all of them hold.
#[derive(Debug)]
pub(crate) struct Flights {
    joinable: Mutex<BTreeMap<FlightKey, Arc<Flight>>>,
    held: AtomicU64,
    held_max: AtomicU64,
}

/// How much a flight holds, and until when its answer should have begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) bytes_max: usize,
    pub(crate) due: Instant,
}

impl Flights {
    /// None, with so much memory for all that is kept and held.
    pub(crate) fn new(memory: u64) -> Self {
        let (held, held_max) = (AtomicU64::new(0), AtomicU64::new(memory / MEMORY_PART));
        Self { joinable: Mutex::default(), held, held_max }
    }

    /// There is so much memory now.
    pub(crate) fn resize(&self, memory: u64) {
        self.held_max.store(memory / MEMORY_PART, Ordering::Relaxed);
    }

    /// Bytes that all of them hold.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// A seat in the flight for `key`, and whether it has to be led.
    pub(crate) fn join(self: &Arc<Self>, key: FlightKey, bounds: Bounds) -> (Seat, Role) {
        let mut flights = self.flights();
        let known = flights.get(&key).filter(|flight| !flight.is_overdue());
        if let Some(seat) = known.and_then(Seat::join) {
            return (seat, Role::Follower);
        }
        let flight = Arc::new(Flight::new(bounds, Arc::clone(self), Some(key)));
        flights.insert(key, Arc::clone(&flight));
        (Seat::join(&flight).expect("nobody has left it yet"), Role::Leader)
    }

    /// A flight that nobody else joins.
    pub(crate) fn start(self: &Arc<Self>, bounds: Bounds) -> Seat {
        let flight = Arc::new(Flight::new(bounds, Arc::clone(self), None));
        Seat::join(&flight).expect("nobody has left it yet")
    }

    /// Nobody joins what is under way any more.
    pub(crate) fn close_all(&self) {
        self.flights().clear();
    }

    /// Takes room for so many bytes, where there is some.
    fn hold(&self, bytes: usize) -> bool {
        let (bytes, most) = (wide(bytes), self.held_max.load(Ordering::Relaxed));
        let more = |held: u64| held.checked_add(bytes).filter(|held| *held <= most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn let_go(&self, bytes: usize) {
        self.held.fetch_sub(wide(bytes), Ordering::Relaxed);
    }

    fn forget(&self, key: &FlightKey, flight: &Flight) {
        let mut flights = self.flights();
        if flights.get(key).is_some_and(|known| std::ptr::eq(Arc::as_ptr(known), flight)) {
            flights.remove(key);
        }
    }

    fn flights(&self) -> MutexGuard<'_, BTreeMap<FlightKey, Arc<Flight>>> {
        self.joinable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
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
    /// Whether another model answers than the one that was asked for.
    pub(crate) has_fallen_back: bool,
    /// The decisions that it took, where the leader's are kept.
    pub(crate) trail: DecisionTrail,
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
    CutOff(CutOff),
}

/// Why a reader gets no more of an answer that does not say so itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutOff {
    /// It fell behind: what it needs next has been let go of.
    Behind,
    /// The task that asked is gone without a word.
    Unled,
}

#[derive(Debug)]
pub(crate) struct Flight {
    state: Mutex<State>,
    opening: watch::Sender<Option<Opening>>,
    /// Changes with every frame and with the end.
    progress: watch::Sender<u64>,
    /// A reader has taken something, or left.
    taken: Notify,
    bounds: Bounds,
    flights: Arc<Flights>,
    /// Under what it can be joined.
    listed: Option<FlightKey>,
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
    /// There was no memory for all of the answer.
    is_cut: bool,
    end: Option<Ended>,
    task: Option<AbortHandle>,
    /// What the worker counted.
    facts: Option<RequestFacts>,
    /// Who tells the books of that.
    counted: Option<Counted>,
}

/// In whose books the tokens of an answer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// In those of the reader that asks.
    Here,
    /// In those of one before it.
    Elsewhere,
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
    fn new(bounds: Bounds, flights: Arc<Flights>, listed: Option<FlightKey>) -> Self {
        Self {
            state: Mutex::default(),
            opening: watch::Sender::new(None),
            progress: watch::Sender::new(0),
            taken: Notify::new(),
            bounds,
            flights,
            listed,
        }
    }

    /// Whether its answer should have begun by now and has not.
    fn is_overdue(&self) -> bool {
        self.opening.borrow().is_none() && self.bounds.due <= Instant::now()
    }

    /// Whether not all of the answer could be held, so that nobody has all of it.
    pub(crate) fn is_cut(&self) -> bool {
        self.state().is_cut
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
                if self.has_room(&mut state, frame.len()) {
                    state.bytes += frame.len();
                    state.frames.push_back(frame);
                    break;
                }
            }
            taken.await;
        }
        self.progress.send_modify(|number| *number += 1);
    }

    /// Takes room for a frame, after what can go has gone. Where all flights together hold what they may, this one holds
    /// no more than it does, but always one frame.
    fn has_room(&self, state: &mut State, bytes: usize) -> bool {
        let is_held = self.flights.hold(bytes);
        let bytes_max =
            if is_held { self.bounds.bytes_max } else { self.bounds.bytes_max.min(state.bytes) };
        state.is_cut |= !is_held;
        let before = state.bytes;
        let has_room = state.has_room(bytes, bytes_max);
        self.flights.let_go(before - state.bytes);
        match (is_held, has_room) {
            (true, false) => self.flights.let_go(bytes),
            (false, true) => {
                self.flights.held.fetch_add(wide(bytes), Ordering::Relaxed);
            }
            _ => {}
        }
        has_room
    }

    /// Nothing follows. Without an opening, there was no answer.
    pub(crate) fn end(&self, end: Ended, facts: Option<RequestFacts>) {
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
        if let Some(key) = &self.listed {
            self.flights.forget(key, self);
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

    /// Whether nobody else reads and the answer has not ended: then it is given up.
    fn leave(&self, number: u64) -> bool {
        let (was_last, gave_up) = {
            let mut state = self.state();
            state.cursors.remove(&number);
            let was_last = state.cursors.is_empty() && state.end.is_none();
            // Who left before anything came gave it up, and may ask again: not to wait for the same.
            let gave_up = self.opening.borrow().is_none();
            state.is_closed |= was_last || gave_up;
            if was_last && let Some(task) = state.task.take() {
                task.abort();
            }
            (was_last, gave_up)
        };
        self.taken.notify_one();
        if was_last || gave_up {
            self.unlist();
        }
        was_last
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let bytes = self.state().bytes;
        self.flights.let_go(bytes);
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

    /// The same for who waits no longer than until it is overdue; nothing where that is so.
    pub(crate) async fn opening_in_time(&self) -> Option<Opening> {
        tokio::time::timeout_at(self.flight.bounds.due, self.opening()).await.ok()
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
                    return Next::CutOff(CutOff::Behind);
                };
                let frame = usize::try_from(at).ok().and_then(|at| state.frames.get(at)).cloned();
                if let Some(frame) = frame {
                    state.cursors.insert(self.number, cursor + 1);
                    drop(state);
                    self.flight.taken.notify_one();
                    return Next::Frame(frame);
                }
                match state.end {
                    Some(Ended::Broken) if state.facts.is_none() => {
                        return Next::CutOff(CutOff::Unled);
                    }
                    Some(end) => return Next::End(end),
                    None => {}
                }
            }
            // The flight is ours as long as we sit in it, so there is always a sender.
            let _always = self.progress.changed().await;
        }
    }

    /// Reads no more; whether the answer ends with that. Of those that leave at once, it does for one alone.
    pub(crate) fn leave(&self) -> bool {
        self.flight.leave(self.number)
    }

    /// What the worker counted, and how it ended; the first to ask counts the tokens.
    pub(crate) fn facts(&self) -> Option<(RequestFacts, Counted)> {
        let mut state = self.flight.state();
        let facts = state.facts.clone()?;
        let before = state.counted.replace(Counted::Elsewhere);
        Some((facts, before.unwrap_or(Counted::Here)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _is_last = self.leave();
    }
}

#[cfg(test)]
mod tests;
