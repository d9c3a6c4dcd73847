//! Overload: the full fleet at 16 and 24 requests a second, by one tenant and by several.
//!
//! Answered tokens, preemptions and first tokens beside admitting everything; what a tenant that asks ten times as
//! much as each of nine others costs those; how evenly tenants are served that all ask for more than their share.

use anyhow::{Result, anyhow};
use overdraft_claims::{Aim, Claim, as_float};
use overdraft_core::admit::KEPT_TIMES;
use overdraft_core::route::Policy;
use overdraft_sim::Draws;
use overdraft_sim::fleet::Simulated;
use overdraft_sim::report::{Fate, Sample};
use overdraft_sim::workload::Session;
use serde_json::{Value, json};

use crate::cases::{FULL_REQUESTS, full};
use crate::figures::{Figures, float, quantile, wait_ms};
use crate::world::{Arm, Asks};
use crate::{Arguments, Told, jobs};

/// Rates, in requests a second; the fleet can answer about twelve.
const RATES: [f64; 2] = [16.0, 24.0];
/// The rate at which tenants are told apart.
const RATE_TENANTS: f64 = 24.0;

const TOKENS_LEAST: f64 = 1.05;
const PREEMPTED_PERCENT_MAX: f64 = 0.5;
/// The queue's patience, in milliseconds.
const PATIENCE_MS: f64 = 30_000.0;
const MODEST_LATER_MAX: f64 = 1.3;
const JAIN_LEAST: f64 = 0.95;

/// One tenant asks ten times as much as each of nine others.
const LARGE: [f64; 10] = [10.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Five tenants ask for more than their share, in different measure; five do not.
const UNEVEN: [f64; 10] = [10.0, 8.0, 6.0, 5.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Off(f64),
    On(f64),
    /// The modest tenants alone, and all of them.
    Modest,
    Large,
    Uneven,
}

const JOBS: [Job; 7] = [
    Job::Off(RATES[0]),
    Job::On(RATES[0]),
    Job::Off(RATES[1]),
    Job::On(RATES[1]),
    Job::Modest,
    Job::Large,
    Job::Uneven,
];

/// All of it, with every seed.
pub(crate) fn part(arguments: &Arguments) -> Result<Told> {
    let seeds = arguments.seeds()?;
    let all: Vec<(u64, Job)> = seeds.iter().flat_map(|&seed| JOBS.map(|job| (seed, job))).collect();
    let run = |place: usize| {
        let (seed, job) = all[place];
        run(job, seed).map_err(|error| format!("{error:#}"))
    };
    let results = jobs::run(all.len(), arguments.jobs, run, |through| {
        eprint!("\r{through} of {} runs ", all.len());
    });
    eprintln!();
    let mut runs = Vec::new();
    for result in results {
        runs.push(result.and_then(|inner| inner).map_err(|error| anyhow!(error))?);
    }
    println!("overload: the full fleet, {FULL_REQUESTS} requests, cost\n");
    let (mut claims, mut raw) = (Vec::new(), Vec::new());
    for (seed, runs) in seeds.iter().zip(runs.chunks(JOBS.len())) {
        let told = tell(*seed, runs);
        raw.push(told.raw);
        claims.extend(told.claims);
    }
    println!();
    Ok(Told { raw: Value::Array(raw), claims })
}

/// What a run came to.
struct Ran {
    simulated: Simulated,
    asks: Asks,
    figures: Figures,
}

fn run(job: Job, seed: u64) -> Result<Ran> {
    let (rate, arm) = match job {
        Job::Off(rate) => (rate, Arm::off(Policy::Cost)),
        Job::On(rate) => (rate, Arm::DEFAULT),
        Job::Modest | Job::Large | Job::Uneven => (RATE_TENANTS, Arm::DEFAULT),
    };
    let world = full(rate, FULL_REQUESTS);
    let mut asks = world.sessions(seed)?;
    match job {
        Job::Off(_) | Job::On(_) => {}
        Job::Large => asks = shared_out(&asks, &LARGE, seed, |_| true),
        Job::Modest => asks = shared_out(&asks, &LARGE, seed, |tenant| tenant != 0),
        Job::Uneven => asks = shared_out(&asks, &UNEVEN, seed, |_| true),
    }
    let simulated = world.simulate(arm, seed, &asks)?;
    let figures = Figures::of(&simulated, asks.requests, world.scenario(arm)?.patience.default);
    Ok(Ran { simulated, asks, figures })
}

/// The same sessions by tenants, those that are kept.
fn shared_out(asks: &Asks, weights: &[f64], seed: u64, keeps: impl Fn(u16) -> bool) -> Asks {
    let mut dice = Draws::new(seed, 0x7465_6e61);
    let all: f64 = weights.iter().sum();
    let mut kept: Vec<Session> = Vec::new();
    for session in asks.all() {
        let mut left = dice.share() * all;
        let place = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let tenant = u16::try_from(place.unwrap_or(0)).unwrap_or(0);
        if keeps(tenant) {
            let mut session = session.clone();
            session.sender.tenant = Some(tenant);
            kept.push(session);
        }
    }
    Asks::new(kept)
}

fn tell(seed: u64, runs: &[Ran]) -> Told {
    let bound_ms = PATIENCE_MS * float(KEPT_TIMES);
    let mut claims = Vec::new();
    let mut claim = |figure: String, measured: f64, aim| {
        claims.push(Claim { demonstration: "S3", figure, measured: Ok(measured), aim });
    };
    for (rate, pair) in RATES.iter().zip(runs.chunks(2)) {
        let (off, on) = (&pair[0].figures, &pair[1].figures);
        println!("{rate}/s, seed {seed}\n      {:12} {off}\n      {:12} {on}", "off", "peak");
        let name = |what: &str| format!("overload_{rate}_{what}_seed_{seed}");
        claim(name("tokens_times_off"), on.tokens / off.tokens, Aim::AtLeast(TOKENS_LEAST));
        let preempted = float(on.preempted) / float(on.asked) * 100.0;
        claim(name("preempted_percent"), preempted, Aim::AtMost(PREEMPTED_PERCENT_MAX));
        claim(name("ttft_p99_ms"), on.ttft_p99, Aim::AtMost(bound_ms));
    }
    let (alone, beside) = (modest_p95(&runs[4]), modest_p95(&runs[5]));
    println!(
        "nine modest tenants and one that asks ten times as much, {RATE_TENANTS}/s, seed {seed}"
    );
    println!("      {:12} p95 {alone:6.0} ms  {}", "alone", runs[4].figures);
    println!("      {:12} p95 {beside:6.0} ms  {}", "beside it", runs[5].figures);
    let times = beside / alone;
    claim(format!("modest_ttft_p95_times_alone_seed_{seed}"), times, Aim::AtMost(MODEST_LATER_MAX));
    let (jain, served) = evenness(&runs[6]);
    println!("ten tenants, five of them above their share, {RATE_TENANTS}/s, seed {seed}");
    println!("      {:12} {jain:.3}  {}", "Jain", runs[6].figures);
    println!("      {:12} {served}", "served/asked");
    claim(format!("jain_seed_{seed}"), jain, Aim::AtLeast(JAIN_LEAST));
    let figures: Vec<&Figures> = runs.iter().map(|run| &run.figures).collect();
    let raw = json!({
        "seed": seed,
        "figures": figures,
        "modest_p95_alone_ms": alone,
        "modest_p95_beside_ms": beside,
        "jain": jain,
    });
    Told { raw, claims }
}

/// The p95 of first tokens of all tenants but the large one; who got none waited for the queue's patience.
fn modest_p95(ran: &Ran) -> f64 {
    let samples = ran.simulated.recorder.samples().iter();
    let modest = samples.filter(|sample| sample.belongs.tenant != Some(0));
    let mut waits: Vec<f64> = modest.map(|sample| wait_ms(sample, PATIENCE_MS)).collect();
    waits.sort_unstable_by(f64::total_cmp);
    quantile(&waits, 0.95)
}

/// Jain's index of the tokens that tenants are served who ask for more than their share, while requests come.
fn evenness(ran: &Ran) -> (f64, String) {
    let Some(over) = ran.asks.all().last().map(|session| session.at) else {
        return (f64::NAN, String::new());
    };
    let (mut asked, mut served) = ([0.0; UNEVEN.len()], [0.0; UNEVEN.len()]);
    let tokens = |sample: &Sample| {
        float(u64::from(sample.prompt.get())) + float(u64::from(sample.output.get()))
    };
    for session in ran.asks.all() {
        let tenant = usize::from(session.sender.tenant.unwrap_or(0));
        for turn in &session.turns {
            let all = u64::from(turn.prompt_tokens().get()) + u64::from(turn.answer.tokens.get());
            asked[tenant] += float(all);
        }
    }
    for sample in ran.simulated.recorder.samples() {
        if sample.fate == Fate::Completed && sample.ended <= over {
            served[usize::from(sample.belongs.tenant.unwrap_or(0))] += tokens(sample);
        }
    }
    let level = fair_level(&asked, served.iter().sum());
    let above: Vec<f64> = asked
        .iter()
        .zip(&served)
        .filter(|(asked, _)| level < **asked)
        .map(|(_, served)| *served)
        .collect();
    let (sum, squares) =
        (above.iter().sum::<f64>(), above.iter().map(|one| one * one).sum::<f64>());
    let jain = sum * sum / (as_float(above.len()) * squares);
    let told = asked
        .iter()
        .zip(&served)
        .map(|(asked, served)| format!("{:.2}/{:.2}", served / 1e6, asked / 1e6));
    (jain, told.collect::<Vec<_>>().join("  ") + " million tokens")
}

/// What each may have at most so that all is shared out: max-min fairness.
fn fair_level(asked: &[f64], all: f64) -> f64 {
    let mut sorted = asked.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut left = all;
    for (place, asked) in sorted.iter().enumerate() {
        let level = left / as_float(sorted.len() - place);
        if level < *asked {
            return level;
        }
        left -= asked;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_level_leaves_small_ones_what_they_ask() {
        assert!((fair_level(&[1.0, 10.0, 10.0], 9.0) - 4.0).abs() < 1e-9);
        assert!(fair_level(&[1.0, 2.0], 9.0).is_infinite());
    }
}
