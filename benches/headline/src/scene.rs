//! A fleet under a load, several times: seeds, warm-up, and the highest rate that holds the objectives.

use anyhow::Result;
use overdraft_core::route::{Policy, RouteSettings};
use overdraft_gpu_model::Catalogue;
use overdraft_sim::fleet::{CacheKnowledge, Scenario, Simulated, simulate};
pub(crate) use overdraft_sim::float_conversion::float;
use overdraft_sim::report::{Estimate, Objectives, Run, Summary};
use overdraft_sim::workload::{Pacing, Sessions, Source};
use overdraft_units::{Instant, Micros};

/// What a request has to meet: the p95 of all must, for a rate to be held.
pub(crate) const TTFT_MS_MAX: f64 = 500.0;
pub(crate) const TPOT_MS_MAX: f64 = 50.0;

/// Doublings when a rate that is too high is looked for, at most.
const DOUBLINGS_MAX: u32 = 10;
/// Where that begins, and where looking for a lower one ends, in requests a second.
const RATE_FIRST: f64 = 4.0;
const RATE_LEAST: f64 = 0.05;

/// Something that is compared.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    pub(crate) label: &'static str,
    pub(crate) scenario: Scenario,
}

/// What comes, for how long, and how much of the beginning is not counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    /// A generator's name and values, without its rate.
    pub(crate) workload: &'a str,
    /// Seconds that are not counted, and those that are.
    pub(crate) warm: u64,
    pub(crate) span: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Of the requests after the warm-up.
    pub(crate) summary: Summary,
    /// Of the whole run.
    pub(crate) simulated: Simulated,
}

impl Arm {
    /// A policy before so many workers of a profile.
    pub(crate) fn new(
        label: &'static str,
        (profile, workers): (&str, u32),
        policy: Policy,
        knowledge: CacheKnowledge,
    ) -> Result<Self> {
        let profile = Catalogue::builtin().find(profile)?;
        let routing = RouteSettings { policy, ..RouteSettings::default() };
        let scenario = Scenario { knowledge, ..Scenario::new(profile, workers, routing) };
        Ok(Self { label, scenario })
    }

    /// Runs it at so many requests a second.
    pub(crate) fn run(&self, load: Load<'_>, rate: f64, seed: u64) -> Result<Seen> {
        let comma = if load.workload.contains(':') { ',' } else { ':' };
        let source = Source::parse(&format!("{}{comma}rate={rate}", load.workload))?;
        let span = Some(seconds(load.warm + load.span));
        let pacing = Pacing { span, ..Pacing::default() };
        let sessions = pacing.apply(source.open(seed)?.sessions, seed);
        self.serve(sessions, seconds(load.warm), seed)
    }

    /// Runs any sessions; what was to be sent before `warm` is not counted.
    pub(crate) fn serve(&self, sessions: Sessions, warm: Micros, seed: u64) -> Result<Seen> {
        let simulated = simulate(&self.scenario, sessions, seed, &mut |_| {})?;
        let recorder = simulated.recorder.intended_from(Instant::ORIGIN + warm);
        let summary = Run::new(self.label.to_owned(), seed, recorder).summary(&objectives());
        Ok(Seen { summary, simulated })
    }

    /// The highest rate whose p95 meets the objectives, to so many hundredths.
    pub(crate) fn capacity(&self, load: Load<'_>, seed: u64, hundredths: u32) -> Result<f64> {
        self.highest(load, seed, hundredths, Seen::meets_objectives)
    }

    /// The highest rate of which that holds, to so many hundredths; nothing where it never does.
    pub(crate) fn highest(
        &self,
        load: Load<'_>,
        seed: u64,
        hundredths: u32,
        holds: impl Fn(&Seen) -> bool,
    ) -> Result<f64> {
        let (mut held, mut missed) = (0.0, RATE_FIRST);
        for _ in 0..DOUBLINGS_MAX {
            if !holds(&self.run(load, missed, seed)?) {
                break;
            }
            (held, missed) = (missed, missed * 2.0);
        }
        while missed - held > f64::from(hundredths) / 100.0 * missed && RATE_LEAST < missed {
            let middle = f64::midpoint(held, missed);
            if holds(&self.run(load, middle, seed)?) {
                held = middle;
            } else {
                missed = middle;
            }
        }
        Ok(held)
    }
}

impl Seen {
    /// Whether all were answered and the p95 meets the objectives.
    pub(crate) fn meets_objectives(&self) -> bool {
        let Summary { ttft, tpot, offered, completed, .. } = &self.summary;
        // Where nothing was asked in the span, nothing missed a bound.
        let within = |p95: f64, most: f64| p95.is_nan() || p95 <= most;
        offered == completed && within(ttft.p95, TTFT_MS_MAX) && within(tpot.p95, TPOT_MS_MAX)
    }
}

/// The objectives, for goodput.
pub(crate) fn objectives() -> Objectives {
    Objectives { ttft_ms: Some(TTFT_MS_MAX), tpot_ms: Some(TPOT_MS_MAX), e2el_ms: None }
}

/// So many seconds.
pub(crate) const fn seconds(seconds: u64) -> Micros {
    Micros::new(seconds * 1_000_000)
}

/// A figure of all seeds, with its interval.
pub(crate) fn estimate(seen: &[Seen], of: impl Fn(&Seen) -> f64) -> Estimate {
    Estimate::of(&seen.iter().map(of).collect::<Vec<_>>())
}
