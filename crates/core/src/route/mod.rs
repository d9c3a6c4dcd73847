//! Routing: which worker gets a request, and which one the next attempt.
//!
//! [`decide`] reads every worker that serves the model, excludes those that are not eligible, and
//! lets a [`Policy`] choose among the rest; a sticky session precedes the policy. The [`Decision`]
//! records the score of every candidate and why it lost, so the data that explains a choice is the
//! data that made it. [`retry`] decides whether a failed attempt is retried, always at another
//! worker. A [`Router`] is all of that with its state; gateway and simulator both drive it.
//!
//! Invariant: a worker that is draining, down, or has failed this request is never chosen while
//! another that serves the model is up; ties break by the inputs alone, so equal fleets choose
//! alike.

mod admitted;
mod canary;
mod candidate;
mod cost;
mod deadline;
mod decide;
mod decision_record;
mod decision_scene;
mod eligibility;
mod fast_path;
mod fit_score;
mod hedge;
mod least_load;
mod peers;
mod placed_request;
mod policies;
mod policy;
mod retry;
mod router;
mod router_blocks;
mod router_breakers;
mod router_members;
mod router_memory;
mod router_reports;
mod routing_request;
mod settings;
mod sticky;
#[cfg(test)]
mod tests;
mod wait_queue;

use overdraft_units::{Instant, Micros, Tokens};

pub use self::canary::{Arm, Canary};
pub use self::candidate::{
    Candidate, Cost, DecidedBy, Decision, Ejections, PrefixFate, Reason, Room,
};
pub use self::decide::decide;
pub use self::decision_record::{RECORDED_MAX, Recorded};
pub use self::decision_scene::Prefix;
pub use self::fit_score::FitScore;
pub use self::placed_request::{Outcome, Placed};
pub use self::policy::Policy;
pub use self::retry::{GiveUp, RetrySettings, SecondTry, Strictness, Verdict, retry};
pub use self::router::{MODELS_MAX, Prompt, Request, Router};
pub use self::routing_request::model_number;
pub use self::settings::RouteSettings;
pub use self::sticky::Sticky;
pub use crate::admit::Awaits;
use crate::admit::{Portion, Priority, Prospect};
use crate::fleet::{Failure, Fleet, Turn, WorkerId};

/// Most attempts one request may ever take, whatever the settings say.
pub const ATTEMPTS_MAX: usize = 8;

/// What a request wants, as far as routing is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The model it names.
    pub model: &'a str,
    /// Tokens of its prompt.
    pub prompt: Tokens,
    /// How those are known.
    pub count: Count,
    /// Estimated tokens of its answer.
    pub completion: Tokens,
    /// How much it matters.
    pub priority: Priority,
    /// Where its tenant stands among those who ask.
    pub portion: Portion,
    /// How long its answers may get.
    pub prospect: Prospect,
    /// Its session as a number, if it has one.
    pub session: Option<u64>,
    /// A number of its own, for draws: equal numbers draw alike.
    pub dice: u64,
}

/// How the number of a prompt's tokens is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// By its tokens.
    Counted,
    /// From its length, which pictures in it can make much too large.
    Estimated {
        /// It has no fewer, by what its words come to.
        least: Tokens,
    },
}

impl Ask<'_> {
    /// Tokens that its prompt has at least.
    fn prompt_least(&self) -> Tokens {
        match self.count {
            Count::Counted => self.prompt,
            Count::Estimated { least } => least,
        }
    }
}

/// A routing decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Send it there.
    Send(WorkerId),
    /// Nobody ever served this model.
    #[default]
    UnknownModel,
    /// Nobody who serves it can be asked now.
    NoneUp,
    /// Everybody who could be asked has failed this request already.
    NoneLeft,
    /// Nobody has room for it in its cache (C3).
    NoRoom {
        /// Tokens it needs.
        asked: u64,
        /// Tokens that were free where there was most.
        free: u64,
        /// Tokens that fit the largest of their caches when nothing else is there: fewer than are asked
        /// for only where it is sure that the request never fits, so that waiting is in vain.
        most: u64,
    },
    /// Everybody who could be asked has too much to do: it should wait, or come back.
    Saturated {
        /// Tokens it is expected to need, prompt and answer.
        asked: u64,
        /// Tokens that will not be needed by what is in flight, where there are most of those we
        /// looked at.
        free: u64,
        /// Where it is computed soonest, all told: it should wait for that worker.
        at: WorkerId,
        /// What it waits for there.
        awaits: Awaits,
        /// When there should be room: 1 to 30 s.
        retry_after: Micros,
    },
}

/// Which attempt of a request it is, and who has failed it before.
#[derive(Clone, Copy, Debug)]
pub struct Attempted<'a> {
    /// Workers that have failed it.
    pub tried: &'a Tried,
    /// What this attempt is of.
    pub turn: Turn,
}

/// The workers that have failed a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tried {
    workers: [Option<WorkerId>; ATTEMPTS_MAX],
    /// Those that said that there is no such thing.
    disputing: [Option<WorkerId>; ATTEMPTS_MAX],
    /// Whether one of those had answered others lately.
    is_proven: bool,
}

impl Tried {
    /// Remembers one more failure; beyond [`ATTEMPTS_MAX`] there is nothing left to decide.
    pub fn add(&mut self, worker: WorkerId) {
        if let Some(free) = self.workers.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(worker);
        }
    }

    /// Remembers one more failure, and what it says of the request.
    pub fn fail(&mut self, worker: WorkerId, failure: Failure, fleet: &Fleet, now: Instant) {
        self.add(worker);
        if failure == Failure::Disputed {
            self.is_proven |= fleet.worker(worker).has_answered_lately(now);
            if let Some(free) = self.disputing.iter_mut().find(|slot| slot.is_none()) {
                *free = Some(worker);
            }
        }
    }

    /// The workers that said that there is no such thing.
    pub fn disputing(&self) -> impl Iterator<Item = WorkerId> {
        self.disputing.iter().flatten().copied()
    }

    /// Whether two workers say the same of the request, and one of them is known to serve others.
    pub fn is_agreed(&self) -> bool {
        self.is_proven && self.disputing[1].is_some()
    }

    /// Failed attempts so far.
    pub fn attempts(&self) -> usize {
        self.workers.iter().flatten().count()
    }

    /// Mostly nobody has failed it, and every worker is asked about.
    #[inline]
    fn has(&self, worker: WorkerId) -> bool {
        self.workers[0].is_some() && self.workers.contains(&Some(worker))
    }
}
