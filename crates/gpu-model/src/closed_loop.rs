//! Closed-loop simulation: latency and throughput of one worker at a fixed concurrency.
//!
//! The engine's own scheduler runs in virtual time: [`Scheduler`] plans, the profile gives the time
//! of the step, and the clock advances by it. Published end-to-end measurements were taken in a
//! closed loop with a fixed concurrency, so this simulation compares the model with them.

use std::collections::BTreeSet;

use overdraft_scheduler::batch::{
    Arrival, BatchLimits, Logits, Outcome, PrefixReuse, Progress, Scheduler, Verdict,
};
use overdraft_units::{
    BlockSize, CacheSalt, Instant, Micros, Priority, SequenceId, TokenId, Tokens, split_mix,
};

use crate::batch::{Batch, Chunk};
use crate::error::ProfileError;
use crate::lengths::share;
use crate::profile::{Profile, Scheduling, whole};

/// Tokens per page, as vLLM's.
const PAGE: BlockSize = BlockSize::new(16).expect("sixteen is not zero");

/// Clients that send one request after the other.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// How many there are.
    pub clients: u32,
    /// Requests of all of them together.
    pub requests: u32,
    /// Lengths of prompts.
    pub prompt: Lengths,
    /// Lengths of answers.
    pub output: Lengths,
    /// From a client to the scheduler. Zero means that who sends when a step ends takes part in the next; any other
    /// time means that the next step has begun without it.
    pub front_end: Micros,
    /// Decides what is drawn.
    pub seed: u64,
}

/// Lengths, evenly spread.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// The least, in tokens.
    pub least: u32,
    /// The most, in tokens.
    pub most: u32,
}

/// What the clients saw; times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoopResult {
    /// Mean time to the first token.
    pub ttft_ms: f64,
    /// Mean over requests of the time per token after the first.
    pub tpot_ms: f64,
    /// Completion tokens a second.
    pub tokens_per_second: f64,
    /// Times a sequence lost its pages.
    pub preemptions: u64,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct Flight {
    sent: Instant,
    first: Option<Instant>,
    prompt: u32,
    wanted: u32,
    said: u32,
}

/// The loop as it runs.
struct Running<'a> {
    profile: &'a Profile,
    load: &'a ClosedLoop,
    scheduler: Scheduler,
    flights: Vec<Flight>,
    /// Requests on their way to the scheduler: when they are there, and their numbers.
    coming: BTreeSet<(Instant, usize)>,
    now: Instant,
    /// When the step before began.
    before: Instant,
    sums: Sums,
}

#[derive(Default)]
struct Sums {
    ttft_ms: f64,
    tpot_ms: f64,
    ended: f64,
    with_gaps: f64,
    tokens: f64,
}

impl Profile {
    /// Runs the loop to its end, in virtual time.
    ///
    /// # Errors
    /// [`ProfileError::TooLarge`] for a profile without room.
    pub fn closed_loop(&self, load: &ClosedLoop) -> Result<LoopResult, ProfileError> {
        let limits = BatchLimits {
            step_tokens: self.step_tokens,
            running_max: self.running_max,
            waiting_max: load.clients.max(1),
            blocks: self.kv_blocks(PAGE)?,
            block_size: PAGE,
            context: self.kv_tokens()?,
            batching: self.batching,
        };
        let mut running = Running {
            profile: self,
            load,
            scheduler: Scheduler::new(limits),
            flights: Vec::new(),
            coming: BTreeSet::new(),
            now: Instant::ORIGIN,
            before: Instant::ORIGIN,
            sums: Sums::default(),
        };
        (0..load.clients).for_each(|_| running.send());
        while running.take_in() {
            running.step();
        }
        Ok(running.result())
    }
}

impl Lengths {
    /// All the same.
    pub const fn exactly(tokens: u32) -> Self {
        Self { least: tokens, most: tokens }
    }

    fn draw(self, number: u64) -> u32 {
        let span = f64::from(self.most.saturating_sub(self.least)) + 1.0;
        self.least + whole(share(split_mix(number)) * span)
    }
}

impl Running<'_> {
    /// A client sends the next request, if there are any left.
    fn send(&mut self) {
        let number = self.flights.len();
        let name = u64::try_from(number).unwrap_or(u64::MAX);
        if u64::from(self.load.requests) <= name {
            return;
        }
        let seed = split_mix(self.load.seed ^ (name << 1));
        let prompt = self.load.prompt.draw(seed).max(1);
        let wanted = self.load.output.draw(seed ^ 1).max(1);
        self.coming.insert((self.now + self.load.front_end, number));
        self.flights.push(Flight { sent: self.now, first: None, prompt, wanted, said: 0 });
    }

    /// The scheduler takes in who has come before the next step was planned. False if there is nothing left to do.
    fn take_in(&mut self) -> bool {
        loop {
            let planned = match self.profile.scheduling {
                Scheduling::Asynchronous if !self.scheduler.is_idle() => self.before,
                _ => self.now,
            };
            while let Some(&(at, number)) = self.coming.first().filter(|(at, _)| *at <= planned) {
                self.coming.remove(&(at, number));
                self.arrive(number);
            }
            if !self.scheduler.is_idle() {
                return true;
            }
            let Some(&(next, _)) = self.coming.first() else { return false };
            self.now = self.now.max(next);
        }
    }

    /// A request is at the scheduler.
    fn arrive(&mut self, number: usize) {
        let Flight { prompt, wanted, .. } = self.flights[number];
        let mut tokens = vec![TokenId(0); usize::try_from(prompt).unwrap_or(1)];
        // The first token tells prompts apart, so none shares a page with another.
        tokens[0] = TokenId(u32::try_from(number).unwrap_or(u32::MAX));
        let arrival = Arrival {
            sequence: SequenceId(u64::try_from(number).unwrap_or(u64::MAX)),
            prompt: tokens,
            output_max: Tokens::new(wanted),
            salt: CacheSalt(0),
            priority: Priority(0),
            reuse: PrefixReuse::Allowed,
            logits: Logits::Last,
        };
        if matches!(self.scheduler.handle_arrival(self.now, arrival), Verdict::Refused(_)) {
            // It can never fit; the client goes on with its next.
            self.send();
        }
    }

    fn step(&mut self) {
        let plan = self.scheduler.plan(self.now);
        let batch: Batch = plan
            .slots
            .iter()
            .map(|slot| Chunk {
                before: slot.start,
                length: slot.length,
                samples: slot.logits == Logits::Last,
            })
            .collect();
        let micros = u64::try_from(self.profile.step(&batch).as_micros()).unwrap_or(u64::MAX);
        self.before = self.now;
        self.now = self.now + Micros::new(micros);
        let mut outcomes = Vec::with_capacity(plan.slots.len());
        let mut ended = 0;
        for slot in plan.slots.iter().filter(|slot| slot.logits == Logits::Last) {
            let progress = self.say(slot.sequence);
            ended += u32::from(progress == Progress::Finished);
            let appended = vec![TokenId(1)];
            outcomes.push(Outcome { sequence: slot.sequence, appended, progress });
        }
        self.scheduler.handle_step(self.now, &outcomes);
        (0..ended).for_each(|_| self.send());
    }

    /// Books a token.
    fn say(&mut self, sequence: SequenceId) -> Progress {
        let number = usize::try_from(sequence.0).expect("numbers of flights are indices");
        let flight = &mut self.flights[number];
        let first = *flight.first.get_or_insert(self.now);
        flight.said += 1;
        if flight.said < flight.wanted {
            return Progress::Continues;
        }
        self.sums.ttft_ms += milliseconds(first.since(flight.sent));
        self.sums.ended += 1.0;
        self.sums.tokens += f64::from(flight.said);
        if 1 < flight.said {
            let gaps = f64::from(flight.said - 1);
            self.sums.tpot_ms += milliseconds(self.now.since(first)) / gaps;
            self.sums.with_gaps += 1.0;
        }
        Progress::Finished
    }

    fn result(&self) -> LoopResult {
        let sums = &self.sums;
        let seconds = milliseconds(self.now.since(Instant::ORIGIN)) / 1e3;
        LoopResult {
            ttft_ms: sums.ttft_ms / sums.ended,
            tpot_ms: sums.tpot_ms / sums.with_gaps,
            tokens_per_second: sums.tokens / seconds,
            preemptions: self.scheduler.stats().preemptions,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "virtual times are far below 2^52 microseconds")]
fn milliseconds(span: Micros) -> f64 {
    span.get() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalogue;

    fn run(name: &str, clients: u32, prompt: u32, output: u32) -> LoopResult {
        let load = load(clients, prompt, output);
        Catalogue::builtin().find(name).unwrap().closed_loop(&load).unwrap()
    }

    fn load(clients: u32, prompt: u32, output: u32) -> ClosedLoop {
        ClosedLoop {
            clients,
            requests: clients * 4,
            prompt: Lengths::exactly(prompt),
            output: Lengths::exactly(output),
            front_end: Micros::ZERO,
            seed: 1,
        }
    }

    #[test]
    fn a_closed_loop_gives_the_published_rates() {
        // Llama 3.1 8B BF16 on one H100, 1024 in and 128 out: 13.19 ms for 32 clients (public data).
        let seen = run("h100-tp1/llama-3-8b-bf16", 32, 1024, 128);
        assert!((12.3..14.0).contains(&seen.tpot_ms), "{seen:?}");
        assert_eq!(seen.preemptions, 0);
    }

    #[test]
    fn too_many_for_the_cache_are_preempted_and_all_end() {
        let seen = run("h100-tp1/llama-3-70b-fp8", 16, 256, 512);
        assert!(0 < seen.preemptions, "{seen:?}");
        assert!(0.0 < seen.tokens_per_second, "{seen:?}");
    }

    #[test]
    fn the_same_seed_sees_the_same() {
        let first = run("l4-tp1/llama-3-8b-int4", 8, 300, 40);
        assert_eq!(first, run("l4-tp1/llama-3-8b-int4", 8, 300, 40));
    }

    #[test]
    fn who_sends_at_the_end_of_a_step_misses_those_that_are_planned() {
        let profile = Catalogue::builtin().find("h100-tp2/llama-3-70b-fp8").unwrap();
        let lengths = |most: u32| Lengths { least: most / 5 * 4, most };
        let at_once = ClosedLoop {
            requests: 160,
            prompt: lengths(1_024),
            output: lengths(256),
            ..load(4, 1_024, 256)
        };
        let front_end = ClosedLoop { front_end: Micros::new(1_000), ..at_once };
        let times = |profile: &Profile, load: &ClosedLoop| {
            let LoopResult { ttft_ms, tpot_ms, .. } = profile.closed_loop(load).unwrap();
            (ttft_ms, tpot_ms)
        };
        let ((none, step), (some, _)) = (times(&profile, &at_once), times(&profile, &front_end));
        assert!((0.8..1.3).contains(&((some - none) / step)), "{none} {some} {step}");
        // One that plans a step ahead has planned one more.
        let ahead = Profile { scheduling: Scheduling::Asynchronous, ..profile };
        let (two, step) = times(&ahead, &front_end);
        assert!((1.5..2.6).contains(&((two - none) / step)), "{none} {two} {step}");
    }
}
