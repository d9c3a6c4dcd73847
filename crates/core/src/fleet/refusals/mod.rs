//! Outlier detection for refusals: back-off from a worker that turns requests away without computing them.
//!
//! A worker that refuses at once is never busy, so every policy that looks at load or at waiting sends it more: a
//! *black hole*. Therefore a refusal costs it its rank at once, whatever it would be worth by load: it is passed over
//! for a while that doubles (exponential back-off), and then one request is its trial. Refusals come quickly, so a
//! trial that has not been refused after a few times as long as the last refusal took has been accepted, and others
//! may follow before its answer is there.
//!
//! Invariants: a worker that refuses loses its rank and is never shut out: it is asked where nobody else can be; what
//! was begun before its back-off began neither lengthens nor ends it, so a burst of refusals counts as one. See
//! `docs/design/breaker.md`.

#[cfg(test)]
mod tests;

use overdraft_units::{Instant, Micros};

use super::{Change, Ending, Failure, Fleet, Worker, WorkerId};

/// For how long a worker is passed over that is full or fails, the first time; twice as long each time after.
pub const BACK_OFF_FIRST: Micros = Micros::new(500_000);

/// For how long at most: a full worker has room again within seconds.
pub const BACK_OFF_MAX: Micros = Micros::new(8_000_000);

/// The same for one that is misconfigured, which does not mend by waiting.
pub const MISCONFIGURED_FIRST: Micros = Micros::new(1_000_000);

/// The same for one that is misconfigured.
pub const MISCONFIGURED_MAX: Micros = Micros::new(60_000_000);

/// A worker's own Retry-After is heeded up to this.
pub const RETRY_AFTER_HEEDED: Micros = Micros::new(30_000_000);

/// An answer that is no older than this tells that a worker serves.
pub const LATELY: Micros = Micros::new(60_000_000);

/// A trial has been accepted once it is so many times as old as the last refusal took.
const ACCEPTED_AFTER: u64 = 4;

/// Nor is it taken to be accepted before or after these.
const ACCEPTED_BETWEEN: (u64, u64) = (50_000, 1_000_000);

/// Doublings that are remembered; more than reach any longest back-off.
const STREAK_MAX: u8 = 8;

/// Why a worker turns requests away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// It is full (429, 503), which passes by itself.
    Saturated,
    /// It fails as often as would open its breaker, and too many are out already.
    Failing,
    /// It does not accept us, or has not what it says it has; an operator has to mend it.
    Misconfigured,
}

impl RefusalKind {
    /// As logs call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saturated => "saturated",
            Self::Failing => "failing",
            Self::Misconfigured => "misconfigured",
        }
    }

    const fn spans(self) -> (Micros, Micros) {
        match self {
            Self::Saturated | Self::Failing => (BACK_OFF_FIRST, BACK_OFF_MAX),
            Self::Misconfigured => (MISCONFIGURED_FIRST, MISCONFIGURED_MAX),
        }
    }
}

/// Whose credentials a worker was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Ours, or none: a worker that does not accept them is the operator's to mend.
    Own,
    /// The client's.
    Client,
}

/// What a status without a result says of the worker; nothing where it blames the request.
pub const fn failure_of(status: u16, credentials: Credentials) -> Option<Failure> {
    match (status, credentials) {
        (401 | 403, Credentials::Own) => Some(Failure::Misconfigured),
        // The model was listed and the path is one that engines have; but not every model has every path.
        (401 | 403, Credentials::Client) | (404, _) => Some(Failure::Disputed),
        (429 | 503, _) => Some(Failure::Saturated),
        // It was sent all of the request at once, so what it waited for is its own.
        (408 | 425 | 500.., _) => Some(Failure::Faulty),
        _ => None,
    }
}

/// What one worker's refusals say to a request that comes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It takes requests, as far as is known.
    Accepting,
    /// It is passed over.
    BackingOff,
    /// Its time is over: the next request is its trial.
    Due,
    /// The trial is under way and may still be refused.
    Trying,
}

/// The refusals of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    state: State,
    /// Why it is passed over, or was the last time.
    kind: RefusalKind,
    /// Times that it has been passed over since it last served.
    streak: u8,
    /// When that last began: what was begun before is no evidence.
    since: Instant,
    /// How long its last refusal took.
    took: Micros,
    /// When it last gave a result.
    served: Option<Instant>,
    /// Whether the last that it said is that something cannot be had from it.
    disputes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Accepting,
    BackingOff { until: Instant },
    Trying { began: Instant },
}

impl Refusals {
    /// Of a worker that has refused nothing.
    pub const fn new() -> Self {
        Self {
            state: State::Accepting,
            kind: RefusalKind::Saturated,
            streak: 0,
            since: Instant::ORIGIN,
            took: Micros::ZERO,
            served: None,
            disputes: false,
        }
    }

    /// Why it is passed over, or was the last time.
    pub const fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// Whether it is full as one is that works: it has given a result since it was last tried in vain.
    pub const fn is_busy(&self) -> bool {
        matches!(self.kind, RefusalKind::Saturated) && self.streak <= 1
    }

    /// Whether nothing is held against it at any time: what a decision that looks no closer goes by.
    pub(super) const fn is_clear(&self) -> bool {
        matches!(self.state, State::Accepting)
    }

    /// What is said to a request that comes now.
    pub fn acceptance(&self, now: Instant) -> Acceptance {
        match self.state {
            State::Accepting => Acceptance::Accepting,
            State::BackingOff { until } if until <= now => Acceptance::Due,
            State::BackingOff { .. } => Acceptance::BackingOff,
            State::Trying { began } if self.patience() <= now.since(began) => Acceptance::Accepting,
            State::Trying { .. } => Acceptance::Trying,
        }
    }

    /// Whether it has served nothing since it last said that something cannot be had from it.
    pub const fn is_disputing(&self) -> bool {
        self.disputes
    }

    /// Whether it gave a result no longer ago than [`LATELY`].
    pub fn has_served_lately(&self, now: Instant) -> bool {
        self.served.is_some_and(|served| now.since(served) <= LATELY)
    }

    fn patience(&self) -> Micros {
        let (least, most) = ACCEPTED_BETWEEN;
        Micros::new(self.took.get().saturating_mul(ACCEPTED_AFTER).clamp(least, most))
    }

    /// A request is sent there.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.acceptance(now) == Acceptance::Due {
            self.state = State::Trying { began: now };
        }
    }

    /// It turned away what was begun at `began`; whether it is passed over from now on.
    pub(super) fn refused(&mut self, kind: RefusalKind, began: Instant, now: Instant) -> bool {
        let is_news = match self.state {
            State::Accepting => self.since <= began,
            // Who is asked because nobody else could be says nothing new.
            State::BackingOff { .. } => false,
            State::Trying { began: trial } => trial <= began,
        };
        if is_news {
            self.took = now.since(began);
            self.back_off(kind, now);
        }
        is_news
    }

    /// It failed so often that it should not be asked, whatever that was begun; whether it is passed over from now on.
    pub(super) fn condemned(&mut self, kind: RefusalKind, now: Instant) -> bool {
        let is_news = !matches!(self.state, State::BackingOff { until } if now < until);
        if is_news {
            self.back_off(kind, now);
        }
        is_news
    }

    /// It gave a result to what was begun at `began`.
    pub(super) fn served(&mut self, began: Instant, now: Instant) {
        self.served = Some(now);
        self.disputes = false;
        if self.since <= began || self.kind == RefusalKind::Failing {
            self.streak = 0;
            self.state = State::Accepting;
        } else if self.kind == RefusalKind::Saturated {
            // It took that before it was full; but what has ended there has made room for one more.
            self.streak = self.streak.min(1);
            if let State::BackingOff { until } = &mut self.state {
                *until = (*until).min(now);
            }
        }
    }

    /// What was begun at `began` has ended and says nothing: a trial leaves its place to the next.
    pub(super) fn unjudged(&mut self, began: Instant, now: Instant) {
        if matches!(self.state, State::Trying { began: trial } if trial <= began) {
            self.state = State::BackingOff { until: now };
        }
    }

    /// It says that what was begun at `began` cannot be had from it. That alone ends no doubt, nor begins one.
    pub(super) fn disputed(&mut self, began: Instant, now: Instant) {
        self.disputes = true;
        match self.kind {
            RefusalKind::Misconfigured if !self.is_clear() => {
                self.refused(RefusalKind::Misconfigured, began, now);
            }
            _ => self.unjudged(began, now),
        }
    }

    /// Others say the same: it was the request.
    pub(super) fn acquitted(&mut self) {
        if self.kind == RefusalKind::Misconfigured {
            self.state = State::Accepting;
            self.streak = 0;
        }
    }

    /// It asked to be left alone for so long.
    pub(super) fn asked_to_wait(&mut self, wait: Micros) {
        if let State::BackingOff { until } = &mut self.state
            && self.kind == RefusalKind::Saturated
        {
            // From its beginning, or a worker that is asked as the last resort would put it off for ever.
            *until = (*until).max(self.since + wait.min(RETRY_AFTER_HEEDED));
        }
    }

    /// It is another process, or serves something else, from now on.
    pub(super) fn forget(&mut self) {
        *self = Self { served: self.served, ..Self::new() };
    }

    /// What was begun at `began` has ended so; why it is passed over from now on, if it is.
    pub(super) fn ended(
        &mut self,
        ending: Ending,
        began: Instant,
        now: Instant,
    ) -> Option<RefusalKind> {
        let kind = match ending {
            Ending::Answered => {
                self.served(began, now);
                return None;
            }
            Ending::Failed(Failure::Saturated) => RefusalKind::Saturated,
            Ending::Failed(Failure::Misconfigured) => RefusalKind::Misconfigured,
            // One that serves others is believed until another worker says otherwise.
            Ending::Failed(Failure::Disputed) if self.has_served_lately(now) => {
                self.disputed(began, now);
                return None;
            }
            Ending::Failed(Failure::Disputed) => RefusalKind::Misconfigured,
            // Those are for health and the breaker to count.
            Ending::Failed(
                Failure::Unreachable
                | Failure::NoConnection
                | Failure::Local
                | Failure::Broken
                | Failure::Silent
                | Failure::Faulty,
            )
            | Ending::Declined
            | Ending::Abandoned => {
                self.unjudged(began, now);
                return None;
            }
        };
        self.refused(kind, began, now).then_some(kind)
    }

    fn back_off(&mut self, kind: RefusalKind, now: Instant) {
        let (first, most) = kind.spans();
        let doubled = first.get().saturating_mul(1 << self.streak);
        self.kind = kind;
        self.streak = (self.streak + 1).min(STREAK_MAX);
        self.since = now;
        self.state = State::BackingOff { until: now + Micros::new(doubled.min(most.get())) };
    }
}

impl Default for Refusals {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker {
    /// What it turned away.
    pub const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Whether it serves what it is sent, as far as is known: it is up and takes requests, and what it was sent last
    /// did not fail there.
    pub fn is_in_good_standing(&self, now: Instant) -> bool {
        self.health.is_up()
            && !self.is_draining()
            && self.breaker.is_closed()
            && self.breaker.failures_in_a_row() == 0
            && self.refusals.acceptance(now) == Acceptance::Accepting
    }

    /// Whether that is known, from a result that it gave lately.
    pub fn has_answered_lately(&self, now: Instant) -> bool {
        self.is_in_good_standing(now) && self.refusals.has_served_lately(now)
    }
}

impl Fleet {
    /// `worker` asked to be left alone for so long when it turned a request away.
    pub fn asked_to_wait(&mut self, worker: WorkerId, wait: Micros) {
        if self.is_member(worker) {
            self.changing(worker).refusals.asked_to_wait(wait);
        }
    }

    /// Another worker gave a result where `worker` said that there is none: it is misconfigured.
    pub fn blamed(&mut self, worker: WorkerId, now: Instant) -> Option<Change> {
        let kind = RefusalKind::Misconfigured;
        let is_news = self.is_member(worker) && self.changing(worker).refusals.condemned(kind, now);
        is_news.then_some(Change::Refuses(worker, kind))
    }

    /// Another worker said the same as `worker`: it was the request.
    pub fn acquitted(&mut self, worker: WorkerId) {
        if self.is_member(worker) {
            self.changing(worker).refusals.acquitted();
        }
    }
}
