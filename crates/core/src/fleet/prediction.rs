//! Prediction: what a request is expected to take at a worker, by what was measured of that worker.
//!
//! It is what limits of time follow from (`core::deadline`), so it goes by the worker's own figures and never by its
//! fleet's: a slow worker beside fast ones must not be cut off.

use overdraft_units::{Instant, Micros, Tokens};

use super::attempt::Demand;
use super::worker::Worker;
use super::{Fleet, WorkerId};
use crate::deadline::{
    ANSWER_ASSUMED, Basis, PREFILL_ASSUMED, Prediction, STEP_ASSUMED, STEP_TOKENS,
};
use crate::estimate::{LENGTH_MAX, Pace};

/// Tokens that a stranger's waiting request is taken to have.
pub(crate) const FOREIGN_PROMPT_TOKENS: u64 = 512;

/// The percentile of lateness that limits go by.
const LATE_PERCENTILE: u32 = 99;

/// What an engine counts of its work, as far as it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Each step.
    Steps,
    /// Tokens alone: those of a prompt once the last of them has been computed.
    Tokens,
}

impl Fleet {
    /// What a request with this demand would take at `worker` if it were sent now.
    pub fn predict(&self, worker: WorkerId, demand: Demand, now: Instant) -> Prediction {
        let on = self.worker(worker);
        let (pace, prompts) = on.pace_known();
        let before = on.queued(pace, now).saturating_add(on.strangers_tokens());
        let slowest = on.step_time.slowest();
        let answers = slowest.map_or(Basis::Assumed, |_| Basis::Measured);
        let slowest = slowest.unwrap_or(STEP_ASSUMED);
        let times = |each: Micros, tokens: u64| Micros::new(each.get().saturating_mul(tokens));
        let shortest = demand.prospect.lengths.iter().min().copied().unwrap_or(0);
        Prediction {
            queue: pace.time_for(before),
            prefill: pace.time_for(u64::from(demand.prefill().get())),
            places: on.until_places(demand, slowest),
            late: on.lateness.percentile(LATE_PERCENTILE).unwrap_or_default(),
            decode: times(on.step_time.micros(), shortest.into()),
            decode_longest: times(slowest, on.longest_answer(demand).into()),
            prompts,
            answers,
        }
    }

    /// Until `worker` has computed the prompts that it has.
    pub fn prompts_left(&self, worker: WorkerId, now: Instant) -> Micros {
        let on = self.worker(worker);
        let (pace, _) = on.pace_known();
        pace.time_for(on.queued(pace, now).saturating_add(on.strangers_tokens()))
    }

    /// Until `worker` must have counted something, if it computes.
    pub fn step_at_most(&self, worker: WorkerId, counted: Progress, now: Instant) -> Micros {
        let left = self.prompts_left(worker, now);
        match counted {
            Progress::Steps => left.min(self.worker(worker).pace_known().0.time_for(STEP_TOKENS)),
            Progress::Tokens => left,
        }
    }
}

impl Worker {
    /// How fast it computes prompts, by its own measured pace, or by what is assumed of any.
    fn pace_known(&self) -> (Pace, Basis) {
        match self.prefill_rate.tokens_per_second() {
            Some(_) => (self.prefill_rate.pace(), Basis::Measured),
            None => (Pace::per_second(PREFILL_ASSUMED), Basis::Assumed),
        }
    }

    fn strangers_tokens(&self) -> u64 {
        u64::from(self.foreign_waiting()) * FOREIGN_PROMPT_TOKENS
    }

    /// Tokens that each answer to a request may get.
    fn longest_answer(&self, demand: Demand) -> u32 {
        let most = demand.prospect.limit.map_or(ANSWER_ASSUMED, |limit| limit.min(LENGTH_MAX));
        let room = self.kv_capacity().map(Tokens::get);
        room.map_or(most, |room| most.min(room.saturating_sub(demand.prompt.get())))
    }

    /// Until all answers under way have ended, where a request may have to wait for a seat or for room: as if it came
    /// last.
    fn until_places(&self, demand: Demand, step: Micros) -> Micros {
        let held = self.expected_use().saturating_add(u64::from(demand.fresh().get()));
        let has_room = self.kv_capacity().is_none_or(|capacity| held <= capacity.get().into());
        if has_room && !self.seats.may_wait(self.sequences_all()) {
            return Micros::ZERO;
        }
        let running = self.scraped().map(|scraped| scraped.running);
        let at_once = self.seats.count().or(running).unwrap_or(1).max(1);
        let steps = self.forecast.remaining() / u64::from(at_once);
        Micros::new(steps.saturating_mul(step.get()))
    }

    /// A first token came after `age`, with so many tokens before it.
    pub(super) fn note_lateness(&mut self, ahead: u64, age: Micros) {
        let (pace, basis) = self.pace_known();
        if basis == Basis::Measured {
            let expected = pace.time_for(ahead).get();
            self.lateness.note(Micros::new(age.get().saturating_sub(expected)));
        }
    }
}
