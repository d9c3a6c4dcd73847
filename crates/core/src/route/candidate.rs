//! Routing candidates: the score of each worker and why it was not chosen (explain record).

use alloc::vec::Vec;

use overdraft_units::{Micros, Tokens};

use super::canary::Arm;
use super::{Choice, Policy};
use crate::fleet::WorkerId;

/// A routing decision, and all that led to it.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// What is to be done.
    pub choice: Choice,
    /// The policy that decided.
    pub policy: Policy,
    /// The arm of a comparison that the request is on.
    pub arm: Arm,
    /// Who decided: mostly the policy.
    pub by: DecidedBy,
    /// A worker that holds more of the prompt than the chosen one, where the chosen one can fetch
    /// it.
    pub source: Option<WorkerId>,
    /// Whether another worker that could have been asked would have had to evict for this request,
    /// and the chosen one does not (C6).
    pub eviction_prevented: bool,
    /// The longest cached prefix at any worker that serves the model.
    pub cached_most: Tokens,
    /// Tokens of prefixes that the request evicts from the chosen one's cache.
    pub displaced: u64,
    /// Whether ejected workers were candidates as well (panic).
    pub ejections: Ejections,
    /// How well the request fitted where it goes, before it was booked there, in thousandths (C6):
    /// set where it was placed.
    pub fit_permille: Option<u16>,
    /// Whether the request has waited and started before another one's turn, because its prompt was in use at the
    /// chosen worker: set where it was placed.
    pub out_of_turn: bool,
    /// Every worker that serves the model, in the order they joined.
    pub candidates: Vec<Candidate>,
    /// Scores of a decision that needs no candidates.
    pub(super) scores: Vec<u64>,
}

/// Who made a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecidedBy {
    /// The policy, by its scores.
    #[default]
    Policy,
    /// The session: it sticks to a worker, and nobody was scored.
    Session,
    /// The breaker: a worker was due for a trial, and nobody was scored.
    Trial,
}

impl DecidedBy {
    /// As explanations call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Session => "session",
            Self::Trial => "trial",
        }
    }
}

/// What became of a prompt's prefix, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixFate {
    /// It goes where most of it is.
    Warm,
    /// Nobody holds any of it.
    Unknown,
    /// Who holds more of it has so much to do that computing it anew is cheaper for all.
    HolderBusy,
    /// Who holds more of it has no room.
    HolderFull,
    /// Who holds more of it cannot be asked.
    HolderOut,
}

impl PrefixFate {
    /// As metrics and explanations call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Unknown => "unknown",
            Self::HolderBusy => "holder_busy",
            Self::HolderFull => "holder_full",
            Self::HolderOut => "holder_out",
        }
    }
}

/// Whether workers that are out for failing their requests are passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ejections {
    /// They are.
    #[default]
    Kept,
    /// So few others could be asked that they are not: panic.
    Waived,
}

/// One worker before the choice.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Who.
    pub worker: WorkerId,
    /// What became of it.
    pub reason: Reason,
    /// The policy's verdict in the policy's own terms; see [`Policy::lower_is_better`]. Zero where the policy was not
    /// asked.
    pub score: u64,
    /// Prompt tokens it should hold already.
    pub cached: Tokens,
    /// Prompt tokens beyond those that it can fetch from another worker.
    pub fetchable: Tokens,
    /// Prompt tokens that stand before this request's, as far as they are ours.
    pub queued: u64,
    /// Requests on it, ours and others'.
    pub requests: u32,
    /// Tokens of its cache that nothing in flight holds or has yet to generate; `None` while its capacity is
    /// unknown.
    pub free: Option<u64>,
    /// Whether the request fits there.
    pub room: Room,
    /// Tokens that it would hold at its predicted peak with the request, with what is added for
    /// caution; `None` where nobody had to look.
    pub peak: Option<u64>,
    /// What the policy `cost` made of it.
    pub cost: Cost,
}

/// Why a worker was or was not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was.
    Chosen,
    /// Another one is better.
    Outscored,
    /// It finishes what it has and takes nothing new.
    Draining,
    /// It is down, or was never up.
    Down,
    /// It does not answer as it should, and others do.
    LastResort,
    /// It is out for failing its requests.
    Open,
    /// It is out, and one request is finding out whether it still fails.
    Probing,
    /// It turned requests away lately, and others do not.
    Refusing,
    /// It has failed this request.
    Tried,
    /// The request has failed elsewhere, and others have answered lately.
    Unproven,
    /// It came up a moment ago and has its share already.
    Warming,
    /// The request does not fit into its cache.
    NoRoom,
    /// The session's worker, and it has more than its share of the load.
    Overloaded,
    /// It has too much to do: by its predicted peak, by what it reported, or by its backlog.
    Saturated,
    /// It has room, and waiting for one that has none yet is cheaper for all.
    Costlier,
}

impl Reason {
    /// As metrics and explanations call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chosen => "chosen",
            Self::Outscored => "outscored",
            Self::Draining => "draining",
            Self::Down => "down",
            Self::LastResort => "last_resort",
            Self::Open => "circuit_open",
            Self::Probing => "probing",
            Self::Refusing => "refusing",
            Self::Tried => "tried",
            Self::Unproven => "unproven",
            Self::Warming => "warming",
            Self::NoRoom => "no_room",
            Self::Overloaded => "overloaded",
            Self::Saturated => "saturated",
            Self::Costlier => "costlier_than_waiting",
        }
    }
}

/// Whether a request fits into a worker's cache beside what requests hold there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It does.
    Fits,
    /// Something that is in use would have to go.
    Crowded,
    /// It would not even fit alone.
    Never,
    /// The worker has not said how much it holds.
    Unknown,
}

/// The parts of the policy `cost`, each as time that a request waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Until the first token: what stands before it and what is not cached.
    pub wait: Micros,
    /// What those wait who come after it while its worker has prompts to compute.
    pub behind: Micros,
    /// Fetching from another worker what is sooner fetched than computed; zero where nothing is.
    pub fetch: Micros,
    /// Decoding beside others, and others beside it.
    pub slowed: Micros,
    /// Computing again what it pushes out of the cache.
    pub displaced: Micros,
    /// Waiting for a cache that is full.
    pub crowded: Micros,
}

impl Cost {
    /// All of it.
    pub const fn total(self) -> u64 {
        self.wait
            .get()
            .saturating_add(self.behind.get())
            .saturating_add(self.fetch.get())
            .saturating_add(self.slowed.get())
            .saturating_add(self.displaced.get())
            .saturating_add(self.crowded.get())
    }
}

impl Decision {
    /// The candidate that was chosen.
    pub fn chosen(&self) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.reason == Reason::Chosen)
    }

    /// What becomes of the prompt's prefix, where the request is sent.
    pub fn prefix_fate(&self) -> Option<PrefixFate> {
        let chosen = self.chosen()?;
        let holds = |one: &&Candidate| one.cached == self.cached_most;
        Some(match self.candidates.iter().find(holds).map(|holder| holder.reason) {
            _ if self.cached_most == Tokens::ZERO => PrefixFate::Unknown,
            _ if chosen.cached == self.cached_most => PrefixFate::Warm,
            // Where nothing is out of the ordinary, only the chosen one is listed.
            None | Some(Reason::Outscored | Reason::Chosen | Reason::Costlier) => {
                PrefixFate::HolderBusy
            }
            Some(Reason::Saturated | Reason::NoRoom | Reason::Overloaded) => PrefixFate::HolderFull,
            Some(_) => PrefixFate::HolderOut,
        })
    }

    pub(super) fn clear(&mut self) {
        self.candidates.clear();
        self.choice = Choice::UnknownModel;
        self.by = DecidedBy::Policy;
        self.source = None;
        self.ejections = Ejections::Kept;
        self.eviction_prevented = false;
        self.cached_most = Tokens::ZERO;
        self.out_of_turn = false;
        self.displaced = 0;
        self.fit_permille = None;
    }

    /// The score of `candidate`, where the policy gave it one.
    pub fn score(&self, candidate: &Candidate) -> Option<u64> {
        (self.by == DecidedBy::Policy).then_some(candidate.score)
    }

    /// Those still in the running.
    pub(super) fn open(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(|candidate| candidate.reason == Reason::Outscored)
    }

    /// Those still in the running, to be scored.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Candidate> {
        self.candidates.iter_mut().filter(|candidate| candidate.reason == Reason::Outscored)
    }
}
