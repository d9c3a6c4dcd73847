//! Which policies are there, and what can be set about routing?

use core::fmt;
use core::str::FromStr;

use overdraft_units::{Instant, Micros, Tokens};

use super::canary::Canary;
use super::candidate::Decision;
use super::decide::Prefix;
use super::fit_score::FitScore;
use super::sticky::Sticky;
use super::{Ask, cost, fit_score, least_load, prefix_affinity, round_robin, two_choices};
use crate::admit::{AdmitSettings, Ahead, Queue, Ticket};
use crate::fleet::{Fleet, SLOW_START, WorkerId};

/// Who chooses among the workers that could be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// The shortest wait for the first token, and the least harm to others.
    #[default]
    Cost,
    /// The write-up's: free cache and free budget, weighted (C2).
    FitScore,
    /// Where most of the prompt is, unless too much else is there.
    PrefixAffinity,
    /// The fewest requests.
    LeastLoad,
    /// The lesser load of two that are drawn.
    TwoChoices,
    /// Whoever got work longest ago.
    RoundRobin,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Cost,
        Self::FitScore,
        Self::PrefixAffinity,
        Self::LeastLoad,
        Self::TwoChoices,
        Self::RoundRobin,
    ];

    /// As configuration and metrics call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::FitScore => "fit-score",
            Self::PrefixAffinity => "prefix-affinity",
            Self::LeastLoad => "least-load",
            Self::TwoChoices => "two-choices",
            Self::RoundRobin => "round-robin",
        }
    }

    /// Whether its scores are costs: microseconds for `cost`, requests for `least-load` and
    /// `two-choices`, the turn for `round-robin`. The other two score in millionths, higher is
    /// better.
    pub const fn lower_is_better(self) -> bool {
        !matches!(self, Self::FitScore | Self::PrefixAffinity)
    }

    /// Whether it asks where a prompt's prefix is.
    pub const fn asks_for_prefixes(self) -> bool {
        matches!(self, Self::Cost | Self::PrefixAffinity)
    }

    pub(super) fn choose(self, scene: &Scene<'_>, decision: &mut Decision) -> Option<WorkerId> {
        match self {
            Self::Cost => cost::choose(scene, decision),
            Self::FitScore => fit_score::choose(scene, decision),
            Self::PrefixAffinity => prefix_affinity::choose(scene, decision),
            Self::LeastLoad => least_load::choose(scene, decision),
            Self::TwoChoices => two_choices::choose(scene, decision),
            Self::RoundRobin => round_robin::choose(scene, decision),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or(UnknownPolicy)
    }
}

/// Those who wait, as seen by one request.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) queue: &'a Queue,
    /// The model it asks for, as a number.
    pub(super) model: u64,
    /// Its own place, if it has waited.
    pub(super) ticket: Option<Ticket>,
}

/// What a policy looks at.
pub(super) struct Scene<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) ask: Ask<'a>,
    pub(super) prefix: Option<Prefix<'a>>,
    /// Those who wait, if any do.
    pub(super) line: Option<Line<'a>>,
    /// How likely it is that what is pushed out of a cache is asked for again, in thousandths.
    pub(super) reuse: u64,
    /// How many a prompt delays for each second that it takes a worker, in thousandths.
    pub(super) behind_milli: u64,
    pub(super) settings: &'a RouteSettings,
    pub(super) now: Instant,
}

impl Scene<'_> {
    /// Who waits for room on `worker` before this request.
    pub(super) fn ahead(&self, worker: WorkerId) -> Ahead {
        self.line.map_or_else(Ahead::default, |line| {
            line.queue.ahead(line.model, worker, line.ticket, self.ask.priority)
        })
    }

    /// Tokens of the prompt that no request in flight on `worker` holds there.
    pub(super) fn own(&self, worker: WorkerId) -> Tokens {
        let forecast = self.fleet.worker(worker).forecast();
        let pinned = self.prefix.map_or(0, |prefix| forecast.held_of(prefix.chain(worker)));
        Tokens::new(self.ask.prompt.get().saturating_sub(pinned))
    }
}

/// How the requests for one model are routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// Who chooses.
    pub policy: Policy,
    /// Another policy for a share of the traffic, to compare (D9).
    pub canary: Option<Canary>,
    /// Whether sessions stay where they are (D8).
    pub sticky: Option<Sticky>,
    /// For how long a worker that came up gets less than its share.
    pub slow_start: Micros,
    /// The weights of `fit-score`.
    pub fit_score: FitScore,
    /// When a worker takes one more request.
    pub admission: AdmitSettings,
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            policy: Policy::Cost,
            canary: None,
            sticky: None,
            slow_start: SLOW_START,
            fit_score: FitScore::default(),
            admission: AdmitSettings::default(),
        }
    }
}
