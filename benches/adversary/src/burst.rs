//! Burst recovery: whether a fleet finds its prefixes again after half a minute of double load.
//!
//! The full fleet gets four fifths of its capacity, then twice that or twice its capacity for 30 s,
//! then as before. The figure is the cache hit rate of prompt tokens a minute later, compared with
//! before.

use anyhow::{Result, anyhow};
use overdraft_claims::{Aim, Claim};
use overdraft_core::route::Policy;
use overdraft_sim::report::{Fate, Sample};
use overdraft_sim::workload::Session;
use overdraft_units::{Instant, Micros};
use serde_json::{Value, json};

use crate::cases::full;
use crate::figures::{float, shown_ms, whole};
use crate::world::{Arm, Asks};
use crate::{Arguments, Told, jobs};

/// Four fifths of the fleet's capacity, in requests a second.
const RATE: f64 = 10.0;
/// The bursts, as multiples of that rate.
const TIMES: [f64; 2] = [2.0, 2.5];
/// Seconds before the burst, of it, until it is to be over, and that are looked at.
const BEFORE: f64 = 240.0;
const BURST: f64 = 30.0;
const RECOVERS: f64 = 60.0;
const LOOKED_AT: f64 = 60.0;

const POINTS_MAX: f64 = 3.0;

/// All bursts, with every seed.
pub(crate) fn part(arguments: &Arguments) -> Result<Told> {
    let seeds = arguments.seeds()?;
    let mut all = Vec::new();
    for &seed in &seeds {
        for times in TIMES {
            all.extend([Arm::off(Policy::Cost), Arm::DEFAULT].map(|arm| Job { seed, times, arm }));
        }
    }
    let run = |place: usize| all[place].run().map_err(|error| format!("{error:#}"));
    let results = jobs::run(all.len(), arguments.jobs, run, |through| {
        eprint!("\r{through} of {} runs ", all.len());
    });
    eprintln!();
    println!("burst: the full fleet at {RATE}/s, {BURST} s of more, and {RATE}/s again");
    println!("share of prompt tokens found in caches: before, in it, and {RECOVERS} s after\n");
    let (mut claims, mut raw) = (Vec::new(), Vec::new());
    for (job, result) in all.iter().zip(results) {
        let found = result.and_then(|inner| inner).map_err(|error| anyhow!(error))?;
        println!("  x{:.1}, seed {}, {:10} {found}", job.times, job.seed, job.arm.to_string());
        let lost = (found.before - found.after) * 100.0;
        raw.push(json!({
            "seed": job.seed,
            "times": job.times,
            "arm": job.arm.to_string(),
            "points_lost": lost,
            "unanswered": found.unanswered,
        }));
        if job.arm == Arm::DEFAULT {
            claims.push(Claim {
                demonstration: "S4",
                figure: format!("burst_{:.1}_points_lost_seed_{}", job.times, job.seed),
                measured: Ok(lost),
                aim: Aim::AtMost(POINTS_MAX),
            });
        }
    }
    println!();
    Ok(Told { raw: Value::Array(raw), claims })
}

#[derive(Clone, Copy, Debug)]
struct Job {
    seed: u64,
    times: f64,
    arm: Arm,
}

/// Shares found, and what became of requests.
#[derive(Clone, Copy, Debug)]
struct Found {
    before: f64,
    within: f64,
    after: f64,
    unanswered: f64,
    ttft_p95: f64,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { before, within, after, unanswered, ttft_p95 } = *self;
        write!(
            f,
            "{:5.1} %  {:5.1} %  {:5.1} %   {:4.1} % unanswered, TTFT p95 {:>6} ms",
            before * 100.0,
            within * 100.0,
            after * 100.0,
            unanswered * 100.0,
            shown_ms(ttft_p95)
        )
    }
}

impl Job {
    fn run(&self) -> Result<Found> {
        let own = BEFORE + BURST * self.times + RECOVERS + LOOKED_AT;
        let requests = u64::try_from(whole(own * RATE)).unwrap_or(1);
        let world = full(RATE, requests);
        let asks = self.quickened(&world.sessions(self.seed)?);
        let simulated = world.simulate(self.arm, self.seed, &asks)?;
        let samples = simulated.recorder.samples();
        let begins = BEFORE + BURST + RECOVERS;
        let figures = crate::figures::Figures::of(
            &simulated,
            asks.requests,
            world.scenario(self.arm)?.patience.default,
        );
        Ok(Found {
            before: share_found(samples, BEFORE - LOOKED_AT, BEFORE),
            within: share_found(samples, BEFORE, BEFORE + BURST),
            after: share_found(samples, begins, begins + LOOKED_AT),
            unanswered: figures.unanswered,
            ttft_p95: figures.ttft_p95,
        })
    }

    /// The same sessions, those of the burst so many times as fast.
    fn quickened(&self, asks: &Asks) -> Asks {
        let faster = |session: &Session| {
            let at = float(session.at.since(Instant::ORIGIN).get()) / 1e6;
            let into = (at - BEFORE).clamp(0.0, BURST * self.times);
            let at = at - into + into / self.times;
            let micros = u64::try_from(whole(at * 1e6)).unwrap_or(u64::MAX);
            Session { at: Instant::ORIGIN + Micros::new(micros), ..session.clone() }
        };
        Asks::new(asks.all().iter().map(faster).collect())
    }
}

/// Of the prompts that were to be sent in that time and were answered.
fn share_found(samples: &[Sample], from: f64, to: f64) -> f64 {
    let (mut prompt, mut cached) = (0_u64, 0_u64);
    for sample in samples.iter().filter(|sample| sample.fate == Fate::Completed) {
        let at = float(sample.intended.since(Instant::ORIGIN).get()) / 1e6;
        if from <= at && at < to {
            prompt += u64::from(sample.prompt.get());
            cached += sample.cached.map_or(0, |found| u64::from(found.get()));
        }
    }
    float(cached) / float(prompt.max(1))
}
