//! Arrival process and time scaling: how fast and for how long a workload comes.
//!
//! Times may be scaled or replaced, lengths never: a prompt half as long is another workload.

use overdraft_units::{Instant, Micros};

use super::{Session, Sessions, WorkloadError};
use crate::Draws;
use crate::float_conversion::{float, length, whole};

/// When sessions begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// The workload's own times, sped up by a factor.
    Own {
        /// The factor; above zero.
        speed: f64,
    },
    /// At random.
    Rate {
        /// Requests a second; above zero.
        per_second: f64,
        /// 1 is Poisson, less is burstier, more is more even: the shape of the gaps' gamma
        /// distribution.
        burstiness: f64,
    },
    /// All at once.
    AtOnce,
}

/// How fast, from where on, and how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    /// When sessions begin.
    pub arrivals: Arrivals,
    /// What the workload says of the time before this is left out.
    pub from: Micros,
    /// Requests at most.
    pub requests_max: Option<u64>,
    /// Sessions that would begin then or later are left out.
    pub span: Option<Micros>,
}

impl Default for Pacing {
    /// All of it, as the workload says.
    fn default() -> Self {
        let arrivals = Arrivals::Own { speed: 1.0 };
        Self { arrivals, from: Micros::ZERO, requests_max: None, span: None }
    }
}

impl Pacing {
    /// The sessions that remain, when they come now.
    pub fn apply(self, sessions: Sessions, seed: u64) -> Sessions {
        let left = self.requests_max.unwrap_or(u64::MAX);
        let draws = Draws::new(seed, 0x7061_6365);
        Box::new(Paced { sessions, pacing: self, draws, left, at: Instant::ORIGIN })
    }
}

struct Paced {
    sessions: Sessions,
    pacing: Pacing,
    draws: Draws,
    /// Requests that may still come.
    left: u64,
    at: Instant,
}

impl Paced {
    fn time(&mut self, session: &Session) -> Instant {
        let turns = float(length(session.turns.len()));
        match self.pacing.arrivals {
            Arrivals::AtOnce => Instant::ORIGIN,
            Arrivals::Own { speed } => {
                let since = session.at.since(Instant::ORIGIN + self.pacing.from);
                Instant::ORIGIN + Micros::new(whole(float(since.get()) / speed))
            }
            Arrivals::Rate { per_second, burstiness } => {
                let gap = self.draws.gamma(burstiness, turns / per_second);
                self.at = self.at + super::seconds(gap);
                self.at
            }
        }
    }
}

impl Iterator for Paced {
    type Item = Result<Session, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let from = Instant::ORIGIN + self.pacing.from;
        let mut session = loop {
            match self.sessions.next()? {
                Ok(session) if session.at < from => {}
                Ok(session) => break session,
                Err(error) => {
                    self.left = 0;
                    return Some(Err(error));
                }
            }
        };
        session.at = self.time(&session);
        if self.pacing.span.is_some_and(|span| span <= session.at.since(Instant::ORIGIN)) {
            self.left = 0;
            return None;
        }
        session.turns.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left = self.left.saturating_sub(length(session.turns.len()));
        Some(Ok(session))
    }
}
