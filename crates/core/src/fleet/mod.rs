//! Fleet state: the workers, the models that they serve and the ledger of attempts in flight.
//!
//! A [`Fleet`] is plain data: the workers, the models each one serves, a ledger of the attempts in
//! flight on each, its reported load, and the health and speed learnt from probes and answers. The
//! shell reports events; every report returns at most one [`Change`], the fact worth a log line.
//!
//! Invariant: an [`Attempt`] cannot be copied and is consumed when it ends, so every start is
//! booked back exactly once, with the tokens it was booked with. A worker that flaps keeps its
//! ledger: what is in flight is known here, not there. A place is given to another worker only
//! when nothing is in flight on it any more.

mod attempt;
mod breakers;
mod health;
mod hot_fields;
mod load;
mod membership;
mod nonstreamed_prefill;
mod prediction;
mod refusals;
mod seats;
mod seen_prefills;
mod speeds;
#[cfg(test)]
mod tests;
mod traffic;
mod traits;
mod worker;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use overdraft_units::{Instant, Tokens};

use self::attempt::Phase;
pub use self::attempt::{Attempt, Demand, Ending, Failure, FirstToken, Turn};
use self::health::Signal;
pub use self::health::{Cause, Health, MISSED_PROBES_MAX};
pub(crate) use self::hot_fields::{Glance, Seldom};
pub use self::load::{Scraped, Share};
pub(crate) use self::prediction::FOREIGN_PROMPT_TOKENS;
pub use self::prediction::Progress;
pub use self::refusals::{
    Acceptance, BACK_OFF_FIRST, BACK_OFF_MAX, Credentials, LATELY, MISCONFIGURED_FIRST,
    MISCONFIGURED_MAX, RETRY_AFTER_HEEDED, RefusalKind, Refusals, failure_of,
};
pub use self::seats::Seats;
use self::seen_prefills::{before, half};
use self::speeds::computing;
pub(crate) use self::traffic::Behind;
use self::traffic::Traffic;
use self::worker::Membership;
pub use self::worker::{BlockSharing, Booked, SLOW_START, Worker};
use crate::admit::{Chain, Forecast};
use crate::breaker::{BreakerSettings, Ended, Grants};
use crate::estimate::{Lengths, PrefillRate, StepTime};

/// Most workers one fleet may hold.
pub const WORKERS_MAX: usize = 1_024;

/// Most models that one worker is believed to serve; what it lists beyond them is ignored.
pub const WORKER_MODELS_MAX: usize = 256;

/// A worker's place in its [`Fleet`]; given out by [`Fleet::join`], and again to another worker
/// once the first has left and nothing is in flight on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(u16);

impl WorkerId {
    /// No worker's place: who waits for it waits until any is up.
    pub const NOBODY: Self = Self(u16::MAX);

    /// The place as an index, for the shell's tables that run parallel to the fleet.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The worker at a place that one has been given.
    pub(crate) fn at(index: usize) -> Self {
        Self(u16::try_from(index).expect("a fleet has fewer places"))
    }
}

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe<'a> {
    /// It is healthy and serves these models.
    Ready(&'a [String]),
    /// It answers, and says that it cannot serve: loading, or draining.
    Unready,
    /// It did not answer in time.
    Silent,
    /// The connection was refused.
    Unreachable,
    /// No connection came about, and nobody refused it.
    NoConnection,
    /// It is healthy and does not serve the model it is configured for.
    WrongModel,
}

/// What a report changed, where that is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The worker may be chosen from now on.
    CameUp(WorkerId),
    /// The worker is passed over from now on.
    WentDown(WorkerId, Cause),
    /// A worker that stays up serves other models than before.
    ModelsChanged(WorkerId),
    /// The worker is out for failing its requests.
    Opened(WorkerId),
    /// One request may find out whether it still does.
    HalfOpened(WorkerId),
    /// It does not any more.
    Closed(WorkerId),
    /// It turns requests away, and is passed over for a while.
    Refuses(WorkerId, RefusalKind),
}

/// The workers and what is in flight on them.
#[derive(Debug, Default)]
pub struct Fleet {
    workers: Vec<Worker>,
    /// What decisions look at, of each of them.
    glances: Vec<Glance>,
    seldom: Seldom,
    /// Who serves what; kept for workers that are down, so that "unknown" and "down" differ.
    catalogue: BTreeMap<String, Vec<WorkerId>>,
    active: u32,
    retrying: u32,
    starts: u64,
    /// How fast the fleet as a whole computes prompts: what is lent to a worker hardly seen yet.
    prefill_rate: PrefillRate,
    /// How long its decode steps take without anything in a cache.
    step_bare: StepTime,
    traffic: Traffic,
    breakers: BreakerSettings,
    grants: Grants,
    /// Models that others answer for: all of their workers may be out at once.
    spare: BTreeSet<String>,
}

impl Fleet {
    /// A fleet of nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Books an attempt on `worker`.
    pub fn start(&mut self, worker: WorkerId, demand: Demand, turn: Turn, now: Instant) -> Attempt {
        self.starts += 1;
        self.active += 1;
        self.retrying += u32::from(turn == Turn::Again);
        let (fleet_pace, grants, starts) = (self.prefill_rate.pace(), self.grants, self.starts);
        let span = self.traffic.send();
        let mut on = self.changing(worker);
        let prefill = u64::from(demand.prefill().get());
        let pace = on.prefill_rate.pace_within(fleet_pace);
        let before = on.prefill_left(pace, now);
        let may_wait = on.seats.may_wait(on.sequences_all());
        on.booked.requests += 1;
        match demand.first_token {
            FirstToken::Seen => {
                if on.booked.prefilling == 0 {
                    on.prefill_since = now + half(on.round_trip);
                }
                on.booked.prefilling += 1;
                on.booked.prefill_tokens += prefill;
            }
            FirstToken::Unseen => on.unseen.add(prefill, pace, now),
        }
        on.booked.tokens += u64::from(demand.whole().get());
        on.booked.prompt_tokens += u64::from(demand.prompt.get());
        on.started_last = starts;
        let trial = on.breaker.begin(grants, now);
        on.refusals.begin(now);
        on.load.sent(u64::from(demand.fresh().get()));
        on.sent.note(span);
        let phase = Phase::first(demand.first_token);
        let ahead = before.saturating_add(prefill);
        let computed = now + pace.time_for(ahead) + on.round_trip;
        let place = on.book(demand, computed);
        drop(on);
        self.traffic.note(prefill, now);
        Attempt { worker, demand, turn, started: now, ahead, phase, trial, place, may_wait }
    }

    /// Tells the blocks of an attempt's prompt from others' on its worker, so that what several hold
    /// is counted once.
    pub(crate) fn pin(&mut self, attempt: &Attempt, chain: Chain<'_>) {
        if let Some(place) = attempt.place {
            let prompt = attempt.demand.prompt;
            self.change_forecast(attempt.worker, |forecast| forecast.pin(place, prompt, chain));
        }
    }

    /// The first token of an attempt has come: its prompt has been computed. That is proof enough
    /// for a trial, whose answer may go on for minutes.
    pub fn first_token(&mut self, attempt: &mut Attempt, now: Instant) -> Option<Change> {
        if attempt.phase == Phase::Decode {
            return None;
        }
        attempt.phase = Phase::Decode;
        let fleet_pace = self.prefill_rate.pace();
        let mut on = self.changing(attempt.worker);
        if let Some(place) = attempt.place {
            on.forecast.first_token(place);
        }
        on.booked.prefilling -= 1;
        on.booked.prefill_tokens -= u64::from(attempt.demand.prefill().get());
        // It was on the way, and the worker went on.
        on.prefill_since = on.prefill_since.max(before(now, half(on.round_trip)));
        let step = on.step_time.micros();
        let took = computing(attempt.age(now), on.round_trip, step);
        on.note_lateness(attempt.ahead, attempt.age(now));
        // What waited for a seat says nothing of how fast prompts are computed.
        if !attempt.may_wait {
            on.prefill_rate.note_beside(attempt.ahead, took, fleet_pace, now, step);
        }
        on.refusals.served(attempt.started, now);
        drop(on);
        if !attempt.may_wait {
            self.prefill_rate.note(attempt.ahead, took);
        }
        attempt.trial.and_then(|trial| {
            self.heard(attempt.worker, Ended::Served, attempt.started, Some(trial), now)
        })
    }

    /// So many tokens of the answers of an attempt have come, since it was started; `lengths` are
    /// what is asked when there are more than was drawn.
    pub fn progress(
        &mut self,
        attempt: &mut Attempt,
        streamed: Tokens,
        lengths: &Lengths,
        now: Instant,
    ) -> Option<Change> {
        let begun = streamed != Tokens::ZERO;
        let change = begun.then(|| self.first_token(attempt, now)).flatten();
        if let Some(place) = attempt.place {
            let progress = |on: &mut Forecast| on.progress(place, streamed, lengths);
            self.change_forecast(attempt.worker, progress);
        }
        change
    }

    /// Books an attempt back and learns from how it ended.
    #[expect(clippy::needless_pass_by_value, reason = "taking it is what makes it end once")]
    pub fn end(&mut self, attempt: Attempt, ending: Ending, now: Instant) -> Option<Change> {
        let Attempt { worker, demand, turn, started, phase, trial, place, .. } = attempt;
        self.active -= 1;
        self.retrying -= u32::from(turn == Turn::Again);
        let mut on = self.changing(worker);
        on.booked.requests -= 1;
        on.seats.ended();
        if let Some(place) = place {
            on.forecast.end(place);
        }
        if phase == Phase::Prefill {
            on.prefill_since = now;
            on.booked.prefilling -= 1;
            on.booked.prefill_tokens -= u64::from(demand.prefill().get());
        }
        if demand.first_token == FirstToken::Unseen {
            on.unseen.end(u64::from(demand.prefill().get()));
        }
        on.booked.tokens -= u64::from(demand.whole().get());
        on.booked.prompt_tokens -= u64::from(demand.prompt.get());
        on.load.ended(u64::from(demand.fresh().get()), started);
        let refused = on.refusals.ended(ending, started, now);
        drop(on);
        let signal = signal_of(ending);
        let change = signal.and_then(|signal| self.signal(worker, signal, now));
        let turned = self.heard(worker, ended_of(ending), started, trial, now);
        self.vacate(worker);
        change.or(turned).or(refused.map(|kind| Change::Refuses(worker, kind)))
    }

    /// Takes in what `worker` said of its load; `lengths` are what is asked when answers that come
    /// whole should be longer by now than was drawn.
    pub fn scraped(&mut self, worker: WorkerId, scraped: Scraped, lengths: &Lengths) {
        let mut on = self.changing(worker);
        on.advance(lengths, scraped.at);
        let (ours, used) = (on.sequences_ours(), on.forecast.sums().used);
        let prefilling = on.booked.prefilling;
        on.load.note(scraped, ours, prefilling, used);
        on.unseen.told(scraped.waiting);
        on.seats.note(&scraped);
        on.correct();
    }

    /// `worker` told its load, or did not and is to be passed over until it does.
    pub fn measured(&mut self, worker: WorkerId, told: bool, now: Instant) -> Option<Change> {
        let signal = if told { Signal::Measured } else { Signal::Unmeasured };
        self.is_member(worker).then(|| self.signal(worker, signal, now))?
    }

    /// Takes in what other gateways have in flight on `worker`.
    pub fn others(&mut self, worker: WorkerId, share: Share) {
        self.changing(worker).load.note_others(share);
    }

    /// Takes in what a probe of `worker` saw.
    pub fn probed(&mut self, worker: WorkerId, probe: Probe<'_>, now: Instant) -> Option<Change> {
        if !self.is_member(worker) {
            return None;
        }
        let mut remodelled = false;
        let signal = match probe {
            Probe::Ready(models) => {
                remodelled = self.serve(worker, models);
                Signal::Ready
            }
            Probe::Unready => Signal::Unready,
            Probe::Silent => Signal::Missed,
            Probe::Unreachable => Signal::Gone,
            Probe::NoConnection => Signal::NoConnection,
            Probe::WrongModel => Signal::WrongModel,
        };
        let changed = self.signal(worker, signal, now);
        changed.or(remodelled.then_some(Change::ModelsChanged(worker)))
    }

    /// The workers in the order they joined.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        let places = (0u16..).map(WorkerId).zip(&self.workers);
        places.filter(|(_, worker)| worker.membership == Membership::Member)
    }

    /// Whether the worker at this place is still of the fleet.
    pub fn is_member(&self, id: WorkerId) -> bool {
        let worker = self.workers.get(id.index());
        worker.is_some_and(|worker| worker.membership == Membership::Member)
    }

    /// How fast the fleet as a whole computes prompts.
    pub const fn prefill_rate(&self) -> &PrefillRate {
        &self.prefill_rate
    }

    /// One worker.
    pub fn worker(&self, id: WorkerId) -> &Worker {
        &self.workers[id.index()]
    }

    /// The models that some worker served when it was last seen, in the order of their names.
    pub fn models(&self) -> impl Iterator<Item = &str> {
        self.catalogue.keys().map(String::as_str)
    }

    /// Who serves `model`, up or not, in the order they joined; `None` when nobody ever did.
    pub fn serving(&self, model: &str) -> Option<&[WorkerId]> {
        self.catalogue.get(model).map(Vec::as_slice)
    }

    /// Whether a worker of `model` takes new requests. One that drains is on its way out.
    pub fn is_served(&self, model: &str) -> bool {
        let mut serving = self.serving(model).unwrap_or_default().iter();
        serving.any(|&id| self.worker(id).health().is_up() && !self.worker(id).is_draining())
    }

    /// Attempts in flight on all workers.
    pub const fn active(&self) -> u32 {
        self.active
    }

    /// How many of them are retries.
    pub const fn retrying(&self) -> u32 {
        self.retrying
    }

    fn signal(&mut self, id: WorkerId, signal: Signal, now: Instant) -> Option<Change> {
        let mut worker = self.changing(id);
        let before = worker.health;
        worker.health = before.after(signal, now);
        let gone = |health: Health| matches!(health, Health::Failing { cause, .. } if cause.loses_the_cache());
        match (before.is_up(), worker.health) {
            // Failing => Failing, and what it held is gone now.
            (false, Health::Failing { cause, .. }) if gone(worker.health) && !gone(before) => {
                worker.breaker.forget(now);
                worker.forget_process();
                Some(Change::WentDown(id, cause))
            }
            // Unproven => Failing is told too: an operator has to mend it.
            (false, Health::Failing { cause, .. }) if before == Health::Unproven => {
                Some(Change::WentDown(id, cause))
            }
            (false, Health::Up { .. }) => {
                worker.refusals.forget();
                worker.came_up = now;
                Some(Change::CameUp(id))
            }
            (true, Health::Failing { cause, .. }) => {
                if cause.loses_the_cache() {
                    worker.died(now);
                    worker.breaker.forget(now);
                    worker.forget_process();
                }
                // What it said of its load was true of a process that may be gone.
                worker.forget_load();
                Some(Change::WentDown(id, cause))
            }
            _ => None,
        }
    }

    /// Notes which models a worker serves; whether that differs from before.
    fn serve(&mut self, id: WorkerId, models: &[String]) -> bool {
        let models = &models[..models.len().min(WORKER_MODELS_MAX)];
        if self.worker(id).models == models {
            return false;
        }
        let mut worker = self.changing(id);
        worker.models = models.to_vec();
        // Perhaps it lacked what it lists now.
        worker.refusals.forget();
        drop(worker);
        self.list_models();
        true
    }

    fn list_models(&mut self) {
        self.catalogue.clear();
        for (index, worker) in (0u16..).zip(&self.workers) {
            for model in &worker.models {
                let servers = self.catalogue.entry(model.clone()).or_default();
                // A worker may list a name twice; it still is one worker.
                if servers.last() != Some(&WorkerId(index)) {
                    servers.push(WorkerId(index));
                }
            }
        }
    }
}

/// What an ending says about the worker, if anything.
const fn signal_of(ending: Ending) -> Option<Signal> {
    match ending {
        Ending::Answered | Ending::Declined => Some(Signal::Answered),
        Ending::Failed(Failure::Unreachable) => Some(Signal::Gone),
        Ending::Failed(Failure::NoConnection) => Some(Signal::NoConnection),
        // Whether these repeat is the breaker's to count.
        Ending::Failed(Failure::Broken | Failure::Silent | Failure::Faulty) => None,
        Ending::Failed(
            Failure::Local | Failure::Saturated | Failure::Misconfigured | Failure::Disputed,
        )
        | Ending::Abandoned => None,
    }
}

/// What an ending says to the worker's breaker.
const fn ended_of(ending: Ending) -> Ended {
    match ending {
        Ending::Answered => Ended::Served,
        Ending::Failed(Failure::Broken | Failure::Silent | Failure::Faulty) => Ended::Failed,
        // A full worker is a healthy one, and what it refuses is for [`Refusals`] to count. One that is
        // gone, or to which no connection comes about, is its health's business. Blaming the request
        // takes no engine.
        Ending::Failed(
            Failure::Saturated
            | Failure::Misconfigured
            | Failure::Disputed
            | Failure::Unreachable
            | Failure::NoConnection
            | Failure::Local,
        )
        | Ending::Declined
        | Ending::Abandoned => Ended::Unjudged,
    }
}
