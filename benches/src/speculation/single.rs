//! Single-stream speed-up, and the machine's upper bound (S3, S4).
//!
//! Two rules take turns on the same load. What the machine allows follows from what it takes to compute
//! one row of a sequence and several: with a chance `a` of every guess, depth `k` yields
//! `1 + a + … + a^k` tokens in `verify(k + 1) + k draft(1)`.

use std::time::Duration;

use anyhow::Result;
use overdraft_claims::{Aim, Claim, as_float, median};
use overdraft_engine::{Backend, BatchSlot, Policy};
use overdraft_scheduler::batch::Logits;
use overdraft_telemetry::Clock;
use overdraft_units::{BlockId, TokenId};
use serde_json::{Value, json};

use super::estimate::Estimate;
use super::load::{Loader, Phase};
use super::pair::{DEPTH, Drafters, Pair};
use super::rivals::{self, Rival};
use super::steer::Text;

/// Positions before those that are timed.
const BEHIND: u32 = 160;
/// Each number of rows is timed so often, and the median counts.
const TIMES: usize = 9;

/// What steps take, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    pair: Pair,
    /// The target over 1, 2, … rows of one sequence.
    verify: Vec<f64>,
    /// The draft over one row.
    draft: f64,
}

/// One rule over another on one load.
pub(crate) struct Gain {
    pair: Pair,
    phase: Phase,
    drafters: Drafters,
    /// By turn.
    ratios: Vec<f64>,
    cpu_ratios: Vec<f64>,
    tokens_per_step: f64,
    depth: u32,
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) pair: Pair,
    pub(crate) phase: Phase,
    pub(crate) drafters: Drafters,
    pub(crate) time: Duration,
    pub(crate) turns: u64,
}

/// Times the rows of one sequence.
pub(crate) fn costs(pair: Pair, clock: Clock) -> Result<Costs> {
    let mut opened = pair.open()?;
    let timed = |backend: &mut dyn Backend, rows: usize| -> Result<f64> {
        let pages = backend.shape().block_size.pages_for(overdraft_units::Tokens::new(BEHIND + 16));
        let table: Vec<BlockId> = (0..pages.get()).map(BlockId).collect();
        let tokens = vec![TokenId(0); rows];
        let slot =
            BatchSlot { tokens: &tokens, start: BEHIND, table: &table, logits: Logits::Every };
        let mut logits = Vec::new();
        let mut times = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let began = clock.now();
            backend.forward(&[slot], &mut logits)?;
            times.push(as_float(usize::try_from(clock.now().since(began).get())?) / 1e3);
        }
        Ok(median(times))
    };
    let verify = (1..=DEPTH + 1).map(|rows| timed(opened.target.as_mut(), rows));
    let verify = verify.collect::<Result<_>>()?;
    Ok(Costs { pair, verify, draft: timed(opened.draft.as_mut(), 1)? })
}

impl Costs {
    /// The most that guesses with this chance can bring, and the depth that does.
    pub(crate) fn allow(&self, chance: f64) -> (f64, usize) {
        let (mut best, mut tokens, mut survival) = ((1.0, 0), 1.0, 1.0);
        for (depth, verify) in self.verify.iter().enumerate().skip(1) {
            survival *= chance;
            tokens += survival;
            let gain = tokens * self.verify[0] / (verify + as_float(depth) * self.draft);
            if best.0 < gain {
                best = (gain, depth);
            }
        }
        best
    }

    pub(crate) fn print(&self) {
        println!("\n{}", self.pair.about());
        let times: Vec<String> = self.verify.iter().map(|time| format!("{time:.2}")).collect();
        println!("ms for 1 to {} rows of a sequence: {}", times.len(), times.join(" "));
        let ratios: Vec<String> =
            self.verify.iter().map(|time| format!("{:.2}", time / self.verify[0])).collect();
        println!("beside one row:                  {}", ratios.join(" "));
        println!("ms for a row of the draft:       {:.2}", self.draft);
        for chance in [0.9, 0.8, 0.6, 0.35] {
            let (gain, depth) = self.allow(chance);
            println!("  chance {chance:.2}: at most {gain:.2} times, at depth {depth}");
        }
    }

    pub(crate) fn told(&self) -> Value {
        json!({ "pair": self.pair.name(), "verify_ms": self.verify, "draft_ms": self.draft })
    }
}

/// Goodput beside no guesses, in turns.
pub(crate) fn gain(question: Question, loader: &Loader, clock: Clock) -> Result<Gain> {
    let Question { pair, phase, drafters, time, turns } = question;
    let off = rivals::one(pair, Policy::Off, drafters, clock)?;
    let goodput = rivals::one(pair, Policy::Goodput, drafters, clock)?;
    let questions = pair.questions()?;
    let (mut ratios, mut cpu_ratios) = (Vec::new(), Vec::new());
    // The first turn is for the rule to get to know the text.
    for turn in 0..=turns {
        let window = |rival: &Rival| loader.window(rival, phase, questions.source(turn + 1), time);
        let (one, other) = if turn % 2 == 0 {
            let one = window(&goodput)?;
            (one, window(&off)?)
        } else {
            let other = window(&off)?;
            (window(&goodput)?, other)
        };
        if 0 < turn {
            ratios.push(one.rate() / other.rate());
            cpu_ratios.push(one.cpu_rate() / other.cpu_rate());
        }
    }
    let stats = goodput.engine.handle().stats().speculation;
    let (tokens_per_step, depth) = (stats.tokens_per_step(), stats.depth);
    Ok(Gain { pair, phase, drafters, ratios, cpu_ratios, tokens_per_step, depth })
}

impl Gain {
    /// Over no guesses.
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate::of(&self.ratios)
    }

    pub(crate) fn print(&self) {
        let Self { pair, phase, drafters, tokens_per_step, depth, .. } = self;
        let who = match drafters {
            Drafters::Lookup => "lookups",
            Drafters::Model => "a draft model",
            Drafters::Both => "both",
        };
        println!(
            "{:<12} {:<8} by {who:<13}: {} times off (processor time {}), {tokens_per_step:.2} tokens a step, depth {depth}",
            pair.name(),
            phase.name(),
            self.estimate(),
            Estimate::of(&self.cpu_ratios),
        );
    }

    pub(crate) fn claim(&self, demonstration: &'static str, least: f64) -> Claim {
        Claim {
            demonstration,
            figure: format!(
                "{}-{}-over-off",
                self.pair.name(),
                self.phase.name().trim().replace(' ', "-")
            ),
            measured: Ok(self.estimate().mean),
            aim: Aim::AtLeast(least),
        }
    }

    pub(crate) fn told(&self) -> Value {
        json!({
            "pair": self.pair.name(), "phase": self.phase.name(), "ratios": self.ratios,
            "cpu_ratios": self.cpu_ratios, "tokens_per_step": self.tokens_per_step,
        })
    }
}

/// The text whose guesses are right four times in five, for one stream.
pub(crate) const EVEN: Phase = Phase { streams: 1, text: Text::Even };
/// A copy, for one stream.
pub(crate) const COPY: Phase = Phase { streams: 1, text: Text::Copy };
