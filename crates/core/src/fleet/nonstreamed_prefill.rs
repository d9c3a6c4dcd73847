//! Prefill backlog of non-streamed requests: estimated, because no first token marks its end.
//!
//! A non-streamed response gives no prefill-done signal. The estimate takes the prompt to be
//! computed at the worker's pace, and at the latest when its answer is there; where the worker
//! reports an empty queue, the requests sent before its last report but one are running
//! (`docs/design/routing.md#r2`). The pace is estimated too: the prompts answered since some
//! moment, less those in flight then, took no longer than since then, which is a lower bound. Where
//! requests are queued, and few are in flight compared with those answered, the rate of answers is
//! the pace.
//!
//! Invariant: the backlog is at most the prompts of the answers that have not come.

use overdraft_units::{Instant, Micros};

use crate::estimate::Pace;

/// A span counts once this many times the tokens in flight at its beginning have been answered: so
/// at most a quarter of the answered tokens was computed before it. Where the same is true of its
/// end, the tokens answered are about the tokens computed.
const ANSWERED_MIN: u64 = 4;

/// Prompt tokens of answers that come whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    tokens: u64,
    at: Instant,
    /// Tokens of the answers that have not come yet: the upper bound of the backlog.
    inflight: u64,
    /// Tokens that were sent since the worker's last report.
    since_word: u64,
    /// Whether it reported that requests wait there.
    queue: Queue,
    span: Span,
}

/// Whether requests wait at a worker, by its last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Empty,
    Waiting,
}

/// What was answered since some moment.
#[derive(Clone, Copy, Debug)]
struct Span {
    since: Instant,
    /// Prompt tokens in flight then: perhaps they had been computed before.
    inflight: u64,
    answered: u64,
}

/// What a span tells of the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Computed {
    /// So many tokens, or at least so many, …
    pub(super) tokens: u64,
    /// … in that time.
    pub(super) took: Micros,
    /// Whether it was about so many, and there was always something to compute.
    is_all: bool,
}

impl Computed {
    /// Whether a worker that is believed to go at `pace` is shown not to.
    pub(super) fn refutes(self, pace: Pace) -> bool {
        self.is_all || self.took < pace.time_for(self.tokens)
    }
}

impl Span {
    const fn new(since: Instant, inflight: u64) -> Self {
        Self { since, inflight, answered: 0 }
    }
}

impl Unseen {
    pub(super) const fn new() -> Self {
        Self {
            tokens: 0,
            at: Instant::ORIGIN,
            inflight: 0,
            since_word: 0,
            queue: Queue::Empty,
            span: Span::new(Instant::ORIGIN, 0),
        }
    }

    /// Whether there are any.
    pub(super) const fn is_any(self) -> bool {
        self.tokens != 0
    }

    /// Tokens that have yet to be computed at `pace`.
    pub(super) fn left(self, pace: Pace, now: Instant) -> u64 {
        if self.tokens == 0 {
            return 0;
        }
        self.tokens.saturating_sub(pace.tokens_in(now.since(self.at))).min(self.inflight)
    }

    /// A prompt was sent.
    pub(super) fn add(&mut self, tokens: u64, pace: Pace, now: Instant) {
        if self.inflight == 0 {
            // Before, it had nothing to compute.
            self.span = Span::new(now, 0);
        }
        self.tokens = self.left(pace, now).saturating_add(tokens);
        self.at = now;
        self.inflight = self.inflight.saturating_add(tokens);
        self.since_word = self.since_word.saturating_add(tokens);
    }

    /// An answer has come, or nobody waits for it any more.
    pub(super) fn end(&mut self, tokens: u64) {
        self.inflight = self.inflight.saturating_sub(tokens);
        self.tokens = self.tokens.min(self.inflight);
    }

    /// The answer to a prompt of so many tokens, which is not in flight any more, was a result: what that tells of the
    /// pace.
    pub(super) fn answered(&mut self, tokens: u64, now: Instant) -> Option<Computed> {
        let Span { since, inflight, answered } = self.span;
        let answered = answered.saturating_add(tokens);
        self.span.answered = answered;
        if answered < inflight.saturating_mul(ANSWERED_MIN) {
            return None;
        }
        self.span = Span::new(now, self.inflight);
        // What is in flight now may have been computed, too: of a crowd the first answer says little.
        let few_left = self.inflight.saturating_mul(ANSWERED_MIN) <= answered;
        let is_all = few_left && self.queue == Queue::Waiting;
        let tokens = if is_all { answered } else { answered - inflight };
        Some(Computed { tokens, took: now.since(since), is_all })
    }

    /// The worker said that so many requests wait there. What was sent since its last word may be on its way.
    pub(super) fn told(&mut self, waiting: u32) {
        self.queue = if waiting == 0 { Queue::Empty } else { Queue::Waiting };
        if self.queue == Queue::Empty {
            self.tokens = self.tokens.min(self.since_word);
        }
        self.since_word = 0;
    }
}
