//! Adaptive depth against every fixed depth, while load and text change (S3, S5).
//!
//! Each rule has an engine and goes through all phases with it, so it has to notice every change. In a
//! phase all have the same load, and compute in turns of ten steps to a few dozen. The order is drawn anew each time, so
//! that a machine that is slow for a while is so for all. A run is one pass through the phases with fresh engines; a figure is a mean over runs,
//! of ratios within a run.

use std::time::Duration;

use crate::Dice;
use anyhow::{Context, Result};
use overdraft_claims::{Aim, Claim};
use overdraft_engine::Policy;
use overdraft_scheduler::speculate::DepthTable;
use overdraft_telemetry::Clock;
use serde_json::{Value, json};

use super::estimate::Estimate;
use super::load::{Loader, Phase, Window};
use super::pair::Pair;
use super::rivals;
use super::steer::Text;

/// Load rises and falls, while the text gets harder and then repeats itself.
pub(crate) const PHASES: [Phase; 7] = [
    Phase { streams: 1, text: Text::Easy },
    Phase { streams: 4, text: Text::Easy },
    Phase { streams: 16, text: Text::Easy },
    Phase { streams: 16, text: Text::Hard },
    Phase { streams: 4, text: Text::Hard },
    Phase { streams: 4, text: Text::Copy },
    Phase { streams: 1, text: Text::Copy },
];
/// The same in short.
pub(crate) const PHASES_QUICK: [Phase; 4] = [PHASES[0], PHASES[2], PHASES[3], PHASES[6]];

/// Turns of each rule in a phase at most.
const TURNS: u32 = 64;

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) pair: Pair,
    pub(crate) phases: &'static [Phase],
    /// Fixed depths besides none.
    pub(crate) depths: &'static [usize],
    /// How long each rule has each phase.
    pub(crate) time: Duration,
    pub(crate) runs: u64,
}

/// A rule in all runs.
struct Column {
    name: String,
    fixed: bool,
    /// By run, then by phase.
    windows: Vec<Vec<Window>>,
}

/// What was measured.
pub(crate) struct Adaptive {
    plan: Plan,
    columns: Vec<Column>,
}

pub(crate) fn measure(plan: Plan, loader: &Loader, clock: Clock) -> Result<Adaptive> {
    let questions = plan.pair.questions()?;
    let mut columns: Vec<Column> = Vec::new();
    for run in 0..plan.runs {
        let rivals = rivals::all(plan.pair, plan.depths, clock)?;
        if columns.is_empty() {
            columns.extend(rivals.iter().map(|rival| Column {
                name: rival.name.clone(),
                fixed: rival.is_fixed(),
                windows: Vec::new(),
            }));
        }
        for column in &mut columns {
            column.windows.push(Vec::with_capacity(plan.phases.len()));
        }
        let mut dice = Dice::new(run + 1);
        let turns = plan.turns();
        for (number, phase) in (0..).zip(plan.phases) {
            // All are asked the same, one after the other, as far as they come.
            let source = || questions.source(1_000 * (run + 1) + number);
            let loads = rivals.iter().map(|rival| loader.begin(rival, *phase, source()));
            let mut loads = loads.collect::<Result<Vec<_>>>()?;
            for _ in 0..turns {
                for place in shuffled(&mut dice, loads.len()) {
                    loader.turn(&mut loads[place], plan.time / turns)?;
                }
            }
            for (column, load) in columns.iter_mut().zip(loads) {
                let windows = column.windows.last_mut().context("a run was begun")?;
                windows.push(loader.end(load)?);
            }
        }
        eprintln!("{}: run {} of {} is done", plan.pair.name(), run + 1, plan.runs);
    }
    Ok(Adaptive { plan, columns })
}

impl Plan {
    fn turns(&self) -> u32 {
        let turns = self.time.as_millis() / self.pair.turn().as_millis();
        u32::try_from(turns).unwrap_or(TURNS).clamp(1, TURNS)
    }
}

/// The places below `count`, in any order.
fn shuffled(dice: &mut Dice, count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        places.swap(place, dice.below(place + 1));
    }
    places
}

impl Column {
    /// Tokens a second of one run: of a phase, or of all.
    fn rate(&self, run: usize, phase: Option<usize>) -> f64 {
        let windows = &self.windows[run];
        match phase {
            Some(phase) => windows[phase].rate(),
            // Each phase is as long for everybody.
            None => windows.iter().map(Window::rate).sum::<f64>(),
        }
    }

    fn mean(&self, phase: Option<usize>) -> f64 {
        let rates: Vec<f64> = (0..self.windows.len()).map(|run| self.rate(run, phase)).collect();
        Estimate::of(&rates).mean
    }

    /// How much of another's it brings for a second of processor time, run by run.
    fn over_by_cpu(&self, other: &Self, phase: usize) -> Estimate {
        let pairs = self.windows.iter().zip(&other.windows);
        let ratios: Vec<f64> =
            pairs.map(|(one, other)| one[phase].cpu_rate() / other[phase].cpu_rate()).collect();
        Estimate::of(&ratios)
    }

    /// How much of another's it brings, run by run.
    fn over(&self, other: &Self, phase: Option<usize>) -> Estimate {
        let runs = 0..self.windows.len();
        let ratios: Vec<f64> =
            runs.map(|run| self.rate(run, phase) / other.rate(run, phase)).collect();
        Estimate::of(&ratios)
    }
}

impl Adaptive {
    fn column(&self, name: &str) -> &Column {
        let found = self.columns.iter().find(|column| column.name == name);
        found.expect("all rules were measured")
    }

    fn goodput(&self) -> &Column {
        self.column(Policy::Goodput.name())
    }

    /// The fixed depth with the highest mean, none included.
    fn best_fixed(&self, phase: Option<usize>) -> &Column {
        let fixed = self.columns.iter().filter(|column| column.fixed);
        let best = fixed.max_by(|one, other| one.mean(phase).total_cmp(&other.mean(phase)));
        best.expect("off is always measured")
    }

    /// What one depth for each phase, each the best of those that were measured, would bring over all: on this machine no
    /// rule without depths of its own for each sequence brings much more. As the best of means it is a little too high.
    fn best_of_each(&self) -> f64 {
        let phases = (0..self.plan.phases.len()).map(Some);
        phases.map(|phase| self.best_fixed(phase).mean(phase)).sum()
    }

    pub(crate) fn print(&self) {
        let Plan { pair, time, runs, .. } = &self.plan;
        println!("\n{}", pair.about());
        println!("tokens a second, {:.1} s a phase and rule, means of {runs}", time.as_secs_f64());
        print!("{:<10}", "phase");
        for column in &self.columns {
            print!(" {:>11}", column.name);
        }
        println!("   goodput over the best fixed");
        let phases = 0..self.plan.phases.len();
        for phase in phases.map(Some).chain([None]) {
            let name = phase.map_or("all".to_owned(), |at| self.plan.phases[at].name());
            print!("{name:<10}");
            for column in &self.columns {
                print!(" {:>11.0}", column.mean(phase));
            }
            let best = self.best_fixed(phase);
            print!("   {} ({})", self.goodput().over(best, phase), best.name);
            match phase {
                Some(at) => {
                    println!(", by processor time {}", self.goodput().over_by_cpu(best, at));
                }
                None => println!(),
            }
        }
        let (each, stays) = (self.best_of_each(), self.best_fixed(None).mean(None));
        println!(
            "the best fixed depth of each phase: {each:.0}, {:.3} times the one that stays; goodput brings {:.3} of that",
            each / stays,
            self.goodput().mean(None) / each
        );
        println!("tokens a step of a sequence under goodput, deepest guess at the end of a phase:");
        for (at, phase) in self.plan.phases.iter().enumerate() {
            let windows = self.goodput().windows.iter().map(|run| run[at].speculation);
            let told: Vec<String> = windows
                .map(|seen| format!("{:.2}/{}", seen.tokens_per_step(), seen.depth))
                .collect();
            println!("  {} {}", phase.name(), told.join("  "));
        }
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let (goodput, pair) = (self.goodput(), self.plan.pair.name());
        let claim = |demonstration, figure: &str, measured: f64, least| Claim {
            demonstration,
            figure: format!("{pair}-{figure}"),
            measured: Ok(measured),
            aim: Aim::AtLeast(least),
        };
        let phases = 0..self.plan.phases.len();
        let ratios = phases.map(|at| goodput.over(self.best_fixed(Some(at)), Some(at)).mean);
        let worst = ratios.fold(f64::INFINITY, f64::min);
        let table = self.column(Policy::BatchTable(DepthTable::default()).name());
        let crowd = self
            .plan
            .phases
            .iter()
            .position(|phase| *phase == Phase { streams: 16, text: Text::Hard });
        let mut claims = vec![
            claim("S3", "over-best-fixed", goodput.over(self.best_fixed(None), None).mean, 1.03),
            claim("S3", "over-best-fixed-in-worst-phase", worst, 0.97),
            claim("S3", "over-batch-table", goodput.over(table, None).mean, 1.0),
        ];
        let off = self.column(Policy::Off.name());
        claims.extend(
            crowd.map(|at| {
                claim("S5", "over-off-at-16-hard", goodput.over(off, Some(at)).mean, 0.98)
            }),
        );
        claims
    }

    /// As it is kept with the raw results: tokens, seconds, processor time and the tokens of a step.
    pub(crate) fn told(&self) -> Value {
        let window = |window: &Window| {
            let per_step = window.speculation.tokens_per_step();
            json!([window.tokens, window.seconds, window.cpu, per_step, window.speculation.depth])
        };
        let run = |run: &Vec<Window>| run.iter().map(window).collect::<Vec<_>>();
        let columns = self.columns.iter().map(|column| {
            json!({ "rule": column.name, "runs": column.windows.iter().map(run).collect::<Vec<_>>() })
        });
        json!({
            "pair": self.plan.pair.name(),
            "phases": self.plan.phases.iter().map(|phase| phase.name()).collect::<Vec<_>>(),
            "rules": columns.collect::<Vec<_>>(),
        })
    }
}
