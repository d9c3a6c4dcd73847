//! Circuit breaker: takes a failing worker out of rotation; one trial request decides (half-open).
//!
//! A [`Breaker`] observes how attempts at one worker end. Closed, it counts failures; after too
//! many it opens, and the worker gets no requests. When its ejection time is over it is half-open:
//! one real request is sent as a trial. A success closes the breaker; a failure opens it for twice
//! as long. Backpressure (429, 503) and errors of the client are no failures and are never reported
//! here.
//!
//! Gateways that share a store decide together: each takes in the others' decisions as [`Seen`], by
//! versions that only grow, and the store grants one gateway the trial ([`Grants::Shared`]).
//!
//! Invariants: an open breaker closes only by an attempt that began after it opened, by another
//! gateway's decision, or because the worker's process was replaced; at most one trial is in flight
//! until its timeout. See `docs/design/breaker.md`.

mod settings;
#[cfg(test)]
mod tests;
mod window;

use overdraft_units::{Instant, Micros};

pub use self::settings::{BreakerSettings, FADE, GRANT_PATIENCE, TRIAL_PATIENCE};
use self::window::Window;
pub use self::window::{BUCKET, BUCKETS};

/// Doublings of the time open that are remembered, at most; more than reach any longest time.
pub const STREAK_MAX: u8 = 16;

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Requests pass, failures are counted.
    Closed,
    /// Nothing is sent.
    Open {
        /// From then on one trial may be.
        until: Instant,
    },
    /// One request may find out.
    HalfOpen {
        /// Whether it has been sent.
        trial: Trial,
        /// From then on nobody waits for its end any more, and another may be sent.
        lapses: Instant,
    },
}

impl State {
    /// As metrics and lists call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half_open",
        }
    }
}

/// How far the one trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The next request may be it.
    Granted,
    /// It is under way.
    InFlight,
}

/// Who says that a trial may be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grants {
    /// The breaker itself, as soon as its time is over.
    #[default]
    Own,
    /// The caller: it asks the other gateways first, and then calls [`Breaker::grant`].
    Shared,
}

/// What a breaker says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Pass.
    Closed,
    /// Do not.
    Open,
    /// Be the trial.
    Due,
    /// Do not; another is finding out.
    Probing,
}

/// How an attempt ended, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The worker did its part.
    Served,
    /// It did not.
    Failed,
    /// It says nothing of the worker: back-pressure, or the client left.
    Unjudged,
}

/// What follows for the owner of the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// It wants to be opened ([`Breaker::open`]), if that takes out not too many.
    Trips,
    /// It has opened.
    Opened,
    /// It has closed.
    Closed,
}

/// What another gateway decided, in this one's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Grows with every decision.
    pub version: u64,
    /// Until when it is open; `None` for closed.
    pub until: Option<Instant>,
    /// How often it has opened in a row.
    pub streak: u8,
}

/// What this gateway decided and has not told the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// Counts this gateway's decisions; to be given back to [`Breaker::told`].
    pub sequence: u32,
    /// For how long it is still open; `None` for closed.
    pub open_for: Option<Micros>,
    /// How often it has opened in a row.
    pub streak: u8,
}

/// One worker's breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: State,
    /// Failures since the last attempt that was served.
    in_a_row: u32,
    window: Window,
    /// Times it has opened without having been closed for long in between.
    streak: u8,
    /// Attempts begun before are no evidence any more.
    since: Instant,
    /// Trials so far; tells the one that counts from those given up on.
    round: u32,
    version: u64,
    sequence: u32,
    untold: bool,
}

impl Breaker {
    /// A closed one that has seen nothing.
    pub const fn new() -> Self {
        Self {
            state: State::Closed,
            in_a_row: 0,
            window: Window::new(),
            streak: 0,
            since: Instant::ORIGIN,
            round: 0,
            version: 0,
            sequence: 0,
            untold: false,
        }
    }

    /// Where it stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// How often it has opened in a row.
    pub const fn streak(&self) -> u8 {
        self.streak
    }

    /// Failures since the last attempt that was served.
    pub const fn failures_in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// Whether requests pass.
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// What it says to a request that comes now.
    pub fn standing(&self, grants: Grants, now: Instant) -> Standing {
        match self.state {
            State::Closed => Standing::Closed,
            State::HalfOpen { trial: Trial::Granted, lapses } if now < lapses => Standing::Due,
            State::HalfOpen { trial: Trial::InFlight, lapses } if now < lapses => Standing::Probing,
            State::Open { .. } | State::HalfOpen { .. } => match grants {
                Grants::Own if self.is_due(now) => Standing::Due,
                Grants::Own | Grants::Shared => Standing::Open,
            },
        }
    }

    /// Whether its time is over and nobody is finding out.
    pub fn is_due(&self, now: Instant) -> bool {
        match self.state {
            State::Closed => false,
            State::Open { until } => until <= now,
            State::HalfOpen { lapses, .. } => lapses <= now,
        }
    }

    /// Whether the one trial is this gateway's to send, or under way from here.
    pub fn is_trying(&self, now: Instant) -> bool {
        matches!(self.state, State::HalfOpen { lapses, .. } if now < lapses)
    }

    /// Lets the next request be the trial; whether that was due.
    pub fn grant(&mut self, now: Instant) -> bool {
        let due = self.is_due(now);
        if due {
            self.state = State::HalfOpen { trial: Trial::Granted, lapses: now + GRANT_PATIENCE };
        }
        due
    }

    /// A request is sent there; the number of its trial, if it is one.
    pub fn begin(&mut self, grants: Grants, now: Instant) -> Option<u32> {
        if self.standing(grants, now) != Standing::Due {
            return None;
        }
        self.round = self.round.wrapping_add(1);
        self.state = State::HalfOpen { trial: Trial::InFlight, lapses: now + TRIAL_PATIENCE };
        Some(self.round)
    }

    /// An attempt that was begun at `began` has ended; `round` is what [`Breaker::begin`] gave.
    pub fn end(
        &mut self,
        ended: Ended,
        began: Instant,
        round: Option<u32>,
        settings: &BreakerSettings,
        now: Instant,
    ) -> Option<Turned> {
        let stale = began < self.since;
        let is_the_trial = round == Some(self.round);
        match (self.state, ended) {
            (_, Ended::Served) if stale => None,
            (State::Closed, Ended::Served) => {
                self.in_a_row = 0;
                self.window.note(ended, now);
                None
            }
            (State::Open { .. } | State::HalfOpen { .. }, Ended::Served) => {
                self.close(now);
                self.decided();
                Some(Turned::Closed)
            }
            (State::Closed, Ended::Failed) if !stale => {
                self.in_a_row = self.in_a_row.saturating_add(1);
                self.window.note(ended, now);
                self.trips(settings, now).then_some(Turned::Trips)
            }
            (State::HalfOpen { trial: Trial::InFlight, .. }, Ended::Failed) if is_the_trial => {
                self.open_for(self.streak, settings, now);
                Some(Turned::Opened)
            }
            (State::HalfOpen { trial: Trial::InFlight, .. }, Ended::Unjudged) if is_the_trial => {
                let lapses = now + GRANT_PATIENCE;
                self.state = State::HalfOpen { trial: Trial::Granted, lapses };
                None
            }
            (_, Ended::Failed | Ended::Unjudged) => None,
        }
    }

    /// Opens it, for longer the more often it has been; one that stayed closed for long has been
    /// forgiven.
    pub fn open(&mut self, settings: &BreakerSettings, now: Instant) {
        let faded = now.since(self.since).get() / FADE.get();
        let streak = self.streak.saturating_sub(u8::try_from(faded).unwrap_or(u8::MAX));
        self.open_for(streak, settings, now);
    }

    /// The process behind it is gone: what was known is of no use for the next.
    pub fn forget(&mut self, now: Instant) {
        if !self.is_closed() {
            self.decided();
        }
        self.close(now);
    }

    /// Takes in what another gateway decided.
    pub fn see(&mut self, seen: Seen, now: Instant) -> Option<Turned> {
        // Ours is told first; what comes of both is what is seen then.
        if self.untold || seen.version <= self.version {
            return None;
        }
        self.adopt(seen, now)
    }

    /// What the others have not been told.
    pub fn news(&self, now: Instant) -> Option<News> {
        let open_for = match self.state {
            State::Closed => None,
            State::Open { until } => Some(until.since(now)),
            State::HalfOpen { .. } => Some(Micros::ZERO),
        };
        let (sequence, streak) = (self.sequence, self.streak);
        self.untold.then_some(News { sequence, open_for, streak })
    }

    /// The others were told of `sequence`, and `seen` is what all of them go by now.
    pub fn told(&mut self, sequence: u32, seen: Seen, now: Instant) -> Option<Turned> {
        if sequence != self.sequence {
            return None;
        }
        self.untold = false;
        self.adopt(seen, now)
    }

    fn adopt(&mut self, seen: Seen, now: Instant) -> Option<Turned> {
        self.version = seen.version;
        let was_closed = self.is_closed();
        self.streak = seen.streak.min(STREAK_MAX);
        match seen.until {
            Some(until) => {
                if was_closed {
                    self.since = now;
                }
                self.clear();
                self.state = State::Open { until };
                was_closed.then_some(Turned::Opened)
            }
            None if was_closed => None,
            None => {
                self.close(now);
                Some(Turned::Closed)
            }
        }
    }

    fn trips(&mut self, settings: &BreakerSettings, now: Instant) -> bool {
        if settings.failures_in_a_row <= self.in_a_row {
            return true;
        }
        if settings.failures_permille == 0 {
            return false;
        }
        // What fails in a row is the other rule's to count, and one failure to this one.
        let row = self.in_a_row.saturating_sub(1);
        let (total, failures) = self.window.sum(now);
        let (total, failures) = (total.saturating_sub(row), failures.saturating_sub(row));
        let share =
            u64::from(failures) * 1_000 >= u64::from(total) * u64::from(settings.failures_permille);
        settings.volume_min <= total && share
    }

    fn open_for(&mut self, streak: u8, settings: &BreakerSettings, now: Instant) {
        let span = settings.open_time(streak, settings.dice ^ now.since(Instant::ORIGIN).get());
        self.streak = streak.saturating_add(1).min(STREAK_MAX);
        self.state = State::Open { until: now + span };
        self.since = now;
        self.clear();
        self.decided();
    }

    fn close(&mut self, now: Instant) {
        self.state = State::Closed;
        self.since = now;
        self.clear();
    }

    fn clear(&mut self) {
        self.in_a_row = 0;
        self.window = Window::new();
    }

    fn decided(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.untold = true;
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}
