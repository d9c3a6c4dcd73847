//! Stream relay: forwards a worker's stream to a client.
//!
//! It is polled when the client can take more (backpressure) and yields what the worker has sent
//! meanwhile; it holds at most one unfinished event. It owns all resources of the request (the
//! attempt, the stream slot, the connection), so a client that disconnects drops it and releases
//! them.
//!
//! An answer that breaks off goes on at another worker where its [`Continuation`] says how.
//!
//! Invariant: it ends cleanly only after `[DONE]` or the last event of a dialect, or where a recording ends. Every other end is an error event, where
//! events are in it, then an aborted connection.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use overdraft_core::deadline::{DeadlineSettings, Limit};
use overdraft_core::fleet::Ending;
use overdraft_http::{Awaited, BrokenOff, Drain};
use overdraft_telemetry::EndCode;
use overdraft_units::Tokens;
use overdraft_wire::ApiError;
use tokio::time::Instant;

use super::time_limits::TimeLimits;
use super::watch::count_events;
use super::{
    Continuation, Fault, Opened, Outcome, Passed, Resumed, Resuming, Verdict, Watch, note_used,
    readable,
};
use crate::dispatch::{Lease, Used};
use crate::pipeline::deadline::Deadline;
use crate::pipeline::facts::SharedFacts;
use crate::pipeline::request_guard::RequestGuard;
use crate::upstream::AnswerBody;

/// How long the worker's connection may take to end after `[DONE]`. The client has its answer by then.
const LINGER: Duration = Duration::from_secs(1);

/// Events after which the core is told how far a stream has come.
const PROGRESS_EVENTS: u32 = 32;

/// What a stream owns besides its bytes.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) lease: Lease,
    pub(crate) guard: Option<RequestGuard>,
    pub(crate) facts: SharedFacts,
    pub(crate) drain: Drain,
    /// The limits of time of its model.
    pub(crate) deadlines: DeadlineSettings,
    /// How long the answer may take, ...
    pub(crate) total: Limit,
    /// ... and when it must have ended by that.
    pub(crate) last: Instant,
    /// When it must have ended by the word of its client or its key.
    pub(crate) deadline: Option<Deadline>,
    /// How it goes on if it breaks off, where it may.
    pub(crate) continuation: Option<Box<dyn Continuation>>,
}

enum State {
    /// The first events are to be given out.
    First(Bytes),
    /// Events come and go.
    Relaying,
    /// It broke off, or its worker leaves: another one is asked.
    Resuming(Resuming),
    /// Another one has begun: these events are to be given out as they are.
    Resumed(Bytes),
    /// These events are the last, and nobody is asked for more.
    Ending(Bytes),
    /// `[DONE]` is out; the worker's connection is to end where its framing says.
    Lingering,
    /// This event is the last.
    Error(Bytes),
    /// The error event has been handed over and must leave before the connection does.
    Flushing,
    /// The connection is to be aborted.
    Aborting,
    /// Nothing follows.
    Over,
}

/// An answer without its continuation.
#[derive(Clone, Copy, Debug)]
struct Parted {
    /// The tokens of all that had come.
    used: Option<Used>,
}

/// The body of a streamed answer.
pub(crate) struct Stream {
    state: State,
    answer: AnswerBody,
    watch: Watch,
    limits: TimeLimits,
    facts: SharedFacts,
    lease: Option<Lease>,
    cut: Awaited,
    guard: Option<RequestGuard>,
    continuation: Option<Box<dyn Continuation>>,
    /// What it was when its continuation went to ask another worker.
    parted: Option<Parted>,
    /// Why it broke off, while another worker is asked.
    broken: Option<Fault>,
    /// Events given out, each of which brings a token in most engines.
    events: u32,
    /// Of those, how many the core knows of.
    reported: u32,
}

impl Stream {
    pub(crate) fn new(opened: Opened, story: Story) -> Self {
        let limits = TimeLimits::new(story.deadlines, story.total, story.last, story.deadline);
        Self {
            state: State::First(opened.first),
            answer: opened.answer,
            watch: opened.watch,
            limits,
            facts: story.facts,
            lease: Some(story.lease),
            cut: story.drain.until_cut(),
            guard: story.guard,
            continuation: story.continuation,
            parted: None,
            broken: None,
            events: 0,
            reported: 0,
        }
    }

    /// Has its continuation see what is to be given out, and goes by what that amounts to; `fault` says why nothing
    /// may follow.
    fn pass(&mut self, events: Bytes, fault: Option<Fault>) -> Bytes {
        let Passed { events, verdict } = match &mut self.continuation {
            Some(continuation) if !events.is_empty() => continuation.pass(&events),
            None if self.watch.has_events() => readable::pass(events),
            _ => Passed { events, verdict: Verdict::GoesOn },
        };
        self.count(&events);
        match (verdict, fault) {
            (Verdict::Failed(fault), _) | (Verdict::GoesOn, Some(fault)) => self.broke(fault),
            (Verdict::Finished, _) => {
                self.answer.close();
                self.finish();
            }
            (Verdict::GoesOn, None) if self.watch.is_done() => self.finish(),
            (Verdict::GoesOn, None) => self.hand_over(),
        }
        events
    }

    /// Counts what goes out, and reports it now and then.
    fn count(&mut self, events: &[u8]) {
        if !self.watch.has_events() {
            return;
        }
        self.events = self.events.saturating_add(count_events(events));
        if PROGRESS_EVENTS <= self.events - self.reported
            && let Some(lease) = &mut self.lease
        {
            self.reported = self.events;
            lease.progress(Tokens::new(self.events));
        }
    }

    /// The next thing to give out while events flow; `None` when the state has changed.
    fn poll_relay(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match self.answer.poll_data(cx) {
                Poll::Ready(Some(Ok(chunk))) => {
                    let seen = self.watch.take(chunk);
                    let relay = self.pass(seen.relay, seen.fault);
                    if seen.has_data && matches!(self.state, State::Relaying) {
                        // A byte that completes no event is no progress, and neither is a keep-alive: a
                        // worker that drips is as stuck as one that is silent.
                        self.limits.await_event();
                    }
                    if !relay.is_empty() {
                        return Poll::Ready(Some(relay));
                    }
                    if !matches!(self.state, State::Relaying) {
                        return Poll::Ready(None);
                    }
                }
                Poll::Ready(None) => {
                    self.watch.handle_end();
                    return Poll::Ready(self.end(self.watch.missing().to_owned()));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(self.end(error.to_string())),
                Poll::Pending => break,
            }
        }
        if let Poll::Ready(event) = self.watch.poll_rest(cx) {
            return Poll::Ready(Some(self.pass(event, None)).filter(|event| !event.is_empty()));
        }
        while self.limits.poll_due(cx).is_ready() {
            if let Some(fault) = self.limits.overdue(self.lease.as_ref()) {
                self.broke(fault);
                return Poll::Ready(None);
            }
        }
        if self.cut.poll(cx).is_ready() {
            self.fail(&Fault::Drained);
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    /// The worker sends nothing more. What remains to be given out, if anything.
    fn end(&mut self, why: String) -> Option<Bytes> {
        let is_doubtful =
            self.continuation.as_ref().is_some_and(|continuation| continuation.is_doubtful());
        if self.watch.is_whole() && !is_doubtful {
            // All choices are finished and only the formality is missing.
            let rest = self.watch.rest().map(|event| self.pass(event, None));
            self.finish();
            let ending = self.continuation.as_mut().map(|continuation| continuation.ending());
            let ending = ending.unwrap_or_else(|| self.watch.ending());
            let last = match rest {
                Some(rest) => [rest, ending].concat().into(),
                None => ending,
            };
            return Some(last).filter(|last: &Bytes| !last.is_empty());
        }
        self.broke(Fault::Broken(why));
        None
    }

    /// Relaying => Resuming | Error
    fn broke(&mut self, fault: Fault) {
        let may_go_on = fault.failure().is_some() && self.limits.is_time_left();
        let Some(continuation) = self.continuation.take_if(|_| may_go_on) else {
            return self.fail(&fault);
        };
        self.answer.close();
        if let Some(lease) = self.lease.take() {
            lease.end(fault.failure().map_or(Ending::Abandoned, Ending::Failed), None);
        }
        self.limits.await_end();
        let passed = self.limits.passed(&fault);
        self.facts.note(|record| record.limit = passed.or(record.limit));
        self.ask_another(continuation, Some(fault.clone()));
        self.broken = Some(fault);
    }

    /// Relaying => Resuming
    fn ask_another(&mut self, continuation: Box<dyn Continuation>, fault: Option<Fault>) {
        self.parted = Some(Parted { used: continuation.used(self.watch.used()) });
        self.state = State::Resuming(continuation.resume(fault));
    }

    /// Relaying => Resuming, where its worker leaves and has been given its time; the answer waits meanwhile.
    fn hand_over(&mut self) {
        let is_over = self.watch.is_whole();
        let leaves =
            |continuation: &mut Box<dyn Continuation>| !is_over && continuation.is_leaving();
        if let Some(continuation) = self.continuation.take_if(leaves) {
            self.limits.await_end();
            self.ask_another(continuation, None);
        }
    }

    /// Resuming => Resumed | Ending | Relaying | Error
    fn resumed(&mut self, Resumed { continuation, outcome }: Resumed) {
        self.continuation = Some(continuation);
        self.limits.await_event();
        match outcome {
            Outcome::GoesOn { lease, opened } => self.adopt(*opened, *lease),
            Outcome::Finished(events) => {
                self.answer.close();
                self.finish();
                self.state = State::Ending(events);
            }
            Outcome::Refused(why) => match self.broken.take() {
                Some(fault) => self.give_up(&fault, why),
                // Its worker lives: it may finish there.
                None => self.state = State::Relaying,
            },
        }
    }

    fn adopt(&mut self, opened: Opened, mut lease: Lease) {
        self.broken = None;
        lease.first_token();
        if let Some(guard) = &mut self.guard {
            guard.by(lease.member().settings.pool);
        }
        // What is left here was handed over; its worker is not to blame.
        if let Some(left) = self.lease.replace(lease) {
            left.end(Ending::Abandoned, None);
        }
        self.answer = opened.answer;
        self.watch = opened.watch;
        self.count(&opened.first);
        self.state = State::Resumed(opened.first);
    }

    /// Ready when it goes on or does not; the limits of the whole answer hold meanwhile.
    fn poll_resuming(&mut self, mut resuming: Resuming, cx: &mut Context<'_>) -> Poll<()> {
        if let Poll::Ready(resumed) = resuming.as_mut().poll(cx) {
            self.resumed(resumed);
            return Poll::Ready(());
        }
        while self.limits.poll_due(cx).is_ready() {
            if let Some(fault) = self.limits.expired() {
                self.fail(&fault);
                return Poll::Ready(());
            }
            self.limits.await_end();
        }
        if self.cut.poll(cx).is_ready() {
            self.fail(&Fault::Drained);
            return Poll::Ready(());
        }
        self.state = State::Resuming(resuming);
        Poll::Pending
    }

    /// Relaying => Lingering
    fn finish(&mut self) {
        self.state = State::Lingering;
        self.limits.await_close(LINGER);
        let (last, used) = (self.watch.used(), self.used());
        if let Some(lease) = self.lease.take() {
            // What a part of an answer took says nothing of whole ones.
            lease.end(Ending::Answered, last.filter(|_| last == used));
        }
        self.facts.note(|record| {
            note_used(record, used);
            record.end = EndCode::WHOLE;
        });
    }

    /// The tokens of the whole answer, as far as it has come.
    fn used(&self) -> Option<Used> {
        let last = self.watch.used();
        match (&self.continuation, self.parted) {
            (Some(continuation), _) => continuation.used(last),
            // What its last worker told is a part of it.
            (None, Some(parted)) => parted.used,
            (None, None) => last,
        }
    }

    /// Relaying => Error | Flushing
    fn fail(&mut self, fault: &Fault) {
        self.fail_with(fault, &fault.error());
    }

    /// The same where another worker was to go on with it, and why that came to nothing.
    fn give_up(&mut self, fault: &Fault, why: &'static str) {
        let mut error = fault.error();
        error.message = format!("{}; it could not go on elsewhere: {why}", error.message);
        self.fail_with(fault, &error);
    }

    fn fail_with(&mut self, fault: &Fault, error: &ApiError) {
        let event = || State::Error(self.watch.error_event(error));
        self.state = if self.watch.has_events() { event() } else { State::Flushing };
        let used = self.used();
        if let Some(lease) = self.lease.take() {
            lease.end(fault.failure().map_or(Ending::Abandoned, Ending::Failed), used);
        }
        let (passed, events) = (self.limits.passed(fault), self.events);
        self.facts.note(|record| {
            super::note_broken(record, used, events);
            record.limit = passed.or(record.limit);
            record.end = fault.end();
        });
    }

    /// Ready when the worker's connection has ended or has taken too long; what still comes over
    /// it is thrown away.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Poll::Ready(data) = self.answer.poll_data(cx) {
            if !matches!(data, Some(Ok(_))) {
                return Poll::Ready(());
            }
        }
        self.limits.poll_due(cx)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let used = self.used();
        self.facts.note(|record| super::note_left(record, used, self.events));
        if let Some(guard) = &mut self.guard {
            guard.streamed(self.events);
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        loop {
            match std::mem::replace(&mut this.state, State::Over) {
                // First => Relaying | Resuming | Lingering | Error
                State::First(events) => {
                    this.state = State::Relaying;
                    let events = this.pass(events, None);
                    if !events.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(events))));
                    }
                }
                // Resuming => Resumed | Ending | Relaying | Error
                State::Resuming(resuming) => std::task::ready!(this.poll_resuming(resuming, cx)),
                // Resumed => Relaying | Lingering
                State::Resumed(events) => {
                    this.state = State::Relaying;
                    if this.watch.is_done() {
                        this.finish();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(events))));
                }
                // Ending => Lingering
                State::Ending(events) => {
                    this.state = State::Lingering;
                    return Poll::Ready(Some(Ok(Frame::data(events))));
                }
                // Relaying => Relaying | Lingering | Error
                State::Relaying => {
                    this.state = State::Relaying;
                    if let Some(events) = std::task::ready!(this.poll_relay(cx)) {
                        return Poll::Ready(Some(Ok(Frame::data(events))));
                    }
                }
                // Lingering => Over
                State::Lingering => {
                    this.state = State::Lingering;
                    std::task::ready!(this.poll_linger(cx));
                    this.state = State::Over;
                }
                // Error => Flushing
                State::Error(event) => {
                    this.state = State::Flushing;
                    return Poll::Ready(Some(Ok(Frame::data(event))));
                }
                // Flushing => Aborting: a body that has nothing to give makes hyper flush.
                State::Flushing => {
                    this.state = State::Aborting;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                // Aborting => Over
                State::Aborting => return Poll::Ready(Some(Err(BrokenOff))),
                State::Over => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let first = match &self.state {
            State::First(first) => first.len() as u64,
            _ => 0,
        };
        self.watch.left().map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + first))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("watch", &self.watch).finish_non_exhaustive()
    }
}
