//! Which workers are there, what can they do, and what have we asked of them?
//!
//! A [`Fleet`] is plain data: the workers, the models each one serves, a ledger of the attempts in
//! flight on each, and what probes and answers taught us of its health. The shell reports what
//! happened; every report returns at most one [`Change`], the fact worth a log line.
//!
//! Invariant: an [`Attempt`] cannot be copied and is consumed when it ends, so every start is
//! booked back exactly once, with the tokens it was booked with. A worker that flaps keeps its
//! ledger: what is in flight is known here, not there.

mod health;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use overdraft_units::{Instant, Tokens};

use self::health::Signal;
pub use self::health::{Cause, FAULTY_HOLD, Health, MISSED_PROBES_MAX, STRIKES_MAX};

/// Most workers one fleet may hold.
pub const WORKERS_MAX: usize = 1_024;

/// Most models that one worker is believed to serve; what it lists beyond them is ignored.
pub const WORKER_MODELS_MAX: usize = 256;

/// A worker's place in its [`Fleet`]; given out by [`Fleet::join`], never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(u16);

impl WorkerId {
    /// The place as an index, for the shell's tables that run parallel to the fleet.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One request in flight on one worker: the receipt that [`Fleet::start`] gives and
/// [`Fleet::end`] takes back.
#[derive(Debug)]
#[must_use = "an attempt that is never ended stays on the worker's ledger for ever"]
pub struct Attempt {
    worker: WorkerId,
    tokens: Tokens,
    turn: Turn,
}

impl Attempt {
    /// Where it runs.
    pub const fn worker(&self) -> WorkerId {
        self.worker
    }
}

/// Whether an attempt is a request's first or comes after a failed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The request has not been sent anywhere yet.
    First,
    /// Another worker failed it before a byte of the answer had reached the client.
    Again,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The worker answered for itself: a result, or a refusal that blames the request.
    Answered,
    /// The worker did not do its part.
    Failed(Failure),
    /// We gave up for reasons of our own (the client left, we drain): says nothing of the worker.
    Abandoned,
}

/// What a worker did wrong, as far as it matters to what is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection: refused, unroutable, or not accepted in time.
    Unreachable,
    /// The connection broke, or what came over it is not an answer.
    Broken,
    /// The connection stands and nothing came over it in time.
    Silent,
    /// It says that it is full (429, 503): true of its load, not of its health.
    Saturated,
    /// It says that it failed (500, 502, 504), or ended the answer as aborted.
    Faulty,
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
    /// No connection.
    Unreachable,
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
}

/// One worker as the fleet sees it.
#[derive(Debug)]
pub struct Worker {
    health: Health,
    draining: bool,
    models: Vec<String>,
    requests: u32,
    tokens: u64,
    /// The fleet's count of starts when this worker last got one: what rotates ties.
    started_last: u64,
}

impl Worker {
    /// What is known of its health.
    pub const fn health(&self) -> Health {
        self.health
    }

    /// Whether it finishes what it has and takes nothing new.
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// Attempts in flight on it.
    pub const fn requests(&self) -> u32 {
        self.requests
    }

    /// Estimated tokens of the attempts in flight on it.
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// When it last got an attempt, as a count of the fleet's starts; zero for never.
    pub const fn started_last(&self) -> u64 {
        self.started_last
    }

    /// The models it listed when it last answered a probe.
    pub fn models(&self) -> &[String] {
        &self.models
    }
}

/// The workers and what is in flight on them.
#[derive(Debug, Default)]
pub struct Fleet {
    workers: Vec<Worker>,
    /// Who serves what; kept for workers that are down, so that "unknown" and "down" differ.
    catalogue: BTreeMap<String, Vec<WorkerId>>,
    active: u32,
    retrying: u32,
    starts: u64,
}

impl Fleet {
    /// A fleet of nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a worker of which nothing is known yet; `None` when there are [`WORKERS_MAX`].
    pub fn join(&mut self) -> Option<WorkerId> {
        if self.workers.len() == WORKERS_MAX {
            return None;
        }
        let id = WorkerId(u16::try_from(self.workers.len()).ok()?);
        self.workers.push(Worker {
            health: Health::Unproven,
            draining: false,
            models: Vec::new(),
            requests: 0,
            tokens: 0,
            started_last: 0,
        });
        Some(id)
    }

    /// Books an attempt on `worker`, expected to hold `tokens` of its cache.
    pub fn start(&mut self, worker: WorkerId, tokens: Tokens, turn: Turn) -> Attempt {
        self.starts += 1;
        self.active += 1;
        self.retrying += u32::from(turn == Turn::Again);
        let booked = &mut self.workers[worker.index()];
        booked.requests += 1;
        booked.tokens += u64::from(tokens.get());
        booked.started_last = self.starts;
        Attempt { worker, tokens, turn }
    }

    /// Books an attempt back and learns from how it ended.
    #[expect(clippy::needless_pass_by_value, reason = "taking it is what makes it end once")]
    pub fn end(&mut self, attempt: Attempt, ending: Ending, now: Instant) -> Option<Change> {
        let Attempt { worker, tokens, turn } = attempt;
        self.active -= 1;
        self.retrying -= u32::from(turn == Turn::Again);
        let booked = &mut self.workers[worker.index()];
        booked.requests -= 1;
        booked.tokens -= u64::from(tokens.get());
        self.signal(worker, signal_of(ending)?, now)
    }

    /// Takes in what a probe of `worker` saw.
    pub fn probed(&mut self, worker: WorkerId, probe: Probe<'_>, now: Instant) -> Option<Change> {
        let mut remodelled = false;
        let signal = match probe {
            Probe::Ready(models) => {
                remodelled = self.serve(worker, models);
                Signal::Ready
            }
            Probe::Unready => Signal::Unready,
            Probe::Silent => Signal::Missed,
            Probe::Unreachable => Signal::Gone,
        };
        let changed = self.signal(worker, signal, now);
        changed.or(remodelled.then_some(Change::ModelsChanged(worker)))
    }

    /// Sends `worker` nothing new from now on; what it has may finish.
    pub fn drain(&mut self, worker: WorkerId) {
        self.workers[worker.index()].draining = true;
    }

    /// Ends a drain that was called off.
    pub fn rejoin(&mut self, worker: WorkerId) {
        self.workers[worker.index()].draining = false;
    }

    /// The workers in the order they joined.
    pub fn workers(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        (0u16..).map(WorkerId).zip(&self.workers)
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

    /// Whether at least one worker may be chosen.
    pub fn can_serve(&self) -> bool {
        self.workers.iter().any(|worker| worker.health.is_up() && !worker.draining)
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
        let worker = &mut self.workers[id.index()];
        let before = worker.health;
        worker.health = before.after(signal, now);
        match (before.is_up(), worker.health) {
            (false, Health::Up { .. }) => Some(Change::CameUp(id)),
            (true, Health::Failing { cause, .. }) => Some(Change::WentDown(id, cause)),
            _ => None,
        }
    }

    /// Notes which models a worker serves; whether that differs from before.
    fn serve(&mut self, id: WorkerId, models: &[String]) -> bool {
        let models = &models[..models.len().min(WORKER_MODELS_MAX)];
        let worker = &mut self.workers[id.index()];
        if worker.models == models {
            return false;
        }
        worker.models = models.to_vec();
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
        true
    }
}

/// What an ending says about the worker, if anything.
const fn signal_of(ending: Ending) -> Option<Signal> {
    match ending {
        Ending::Answered => Some(Signal::Answered),
        Ending::Failed(Failure::Unreachable) => Some(Signal::Gone),
        Ending::Failed(Failure::Broken | Failure::Silent | Failure::Faulty) => Some(Signal::Strike),
        // A full worker is a healthy one: taking it out would push its load onto the others.
        Ending::Failed(Failure::Saturated) | Ending::Abandoned => None,
    }
}
