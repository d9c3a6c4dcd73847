//! Speculative decoding bench: speed-up and unchanged answers (S1, S3, S4, S5).
//!
//! All through the real engine: real forward passes, real scheduling, real sampling. The shipped pair
//! answers held-out questions. The larger pairs have random weights, so which token they say is steered:
//! that is where their acceptance comes from, and nothing else is. Rules take turns within the same
//! seconds, because a shared machine drifts.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
#![expect(clippy::print_stderr, reason = "a long bench tells how far it is")]

mod adaptive;
mod estimate;
mod gate;
mod identity;
mod load;
mod pair;
mod peer;
mod rivals;
mod single;
mod steer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use overdraft_claims::{Aim, Claim, judge, machine_load, save};
use overdraft_telemetry::Clock;
use serde_json::{Value, json};

use self::adaptive::{PHASES, PHASES_QUICK, Plan};
use self::load::Loader;
use self::pair::{Drafters, Pair};
use self::single::{COPY, EVEN, Question};

/// Fixed depths that are measured besides none.
const DEPTHS: &[usize] = &[1, 2, 3, 4, 6, 8];
/// The same in short.
const DEPTHS_QUICK: &[usize] = &[2, 4, 8];
/// Questions whose answers are compared.
const PROMPTS: usize = 200;
/// The same in short.
const PROMPTS_QUICK: usize = 24;
/// The chance of a guess in the text that [`EVEN`] names.
const EVEN_CHANCE: f64 = 0.8;

/// Measures guessing ahead.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute; figures are rougher, phases too short to adapt in, and nothing is said of 1B
    #[arg(long)]
    quick: bool,
    /// Runs of the adaptive part; each takes some four minutes
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    runs: u64,
    /// Seconds of each phase and rule in the adaptive parts, instead of 3, or of 0.5 with `--quick`
    #[arg(long, value_name = "SECONDS")]
    phase_seconds: Option<f64>,
    /// Only this part; may be given several times
    #[arg(long, value_name = "PART")]
    part: Vec<Part>,
    /// The llama-server to answer the same questions; without it the one on the PATH, if there is one
    #[arg(long, value_name = "FILE")]
    llama_server: Option<PathBuf>,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Answers token for token (S1).
    Identity,
    /// The shipped pair while load and text change (S3, S5).
    Shipped,
    /// Steered random weights of 110M while load and text change (S3, S5).
    Steered,
    /// One stream on 1B with a chance of 0.8 (S3).
    Large,
    /// Lookups where text repeats itself (S4).
    Lookup,
    /// The shipped pair's files through llama-server (S3).
    Peer,
}

/// What has come together so far.
#[derive(Default)]
struct Results {
    claims: Vec<Claim>,
    raw: Vec<Value>,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let clock = Clock::start();
    let loader = Loader::new(clock)?;
    let mut results = Results::default();
    let wanted = |part: Part| arguments.part.is_empty() || arguments.part.contains(&part);
    println!("machine load over 1, 5, 15 minutes: {}", machine_load());
    if wanted(Part::Identity) {
        let prompts = if arguments.quick { PROMPTS_QUICK } else { PROMPTS };
        let identity = identity::measure(prompts, &loader, clock)?;
        identity.print();
        results.claims.extend(identity.claims());
    }
    for (part, pair) in [(Part::Shipped, Pair::Shipped), (Part::Steered, Pair::Small)] {
        if wanted(part) {
            results.adaptive(pair, arguments, &loader, clock)?;
        }
    }
    if wanted(Part::Lookup) {
        results.lookups(arguments.quick, &loader, clock)?;
    }
    if wanted(Part::Peer) {
        results.beside(arguments, &loader, clock)?;
    }
    if wanted(Part::Large) {
        results.large(arguments.quick, &loader, clock)?;
    }
    results.end(arguments.save)
}

impl Arguments {
    /// How long each rule has each phase.
    fn phase_time(&self) -> Result<Duration> {
        let seconds = self.phase_seconds.unwrap_or(if self.quick { 0.5 } else { 3.0 });
        let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
        time.with_context(|| {
            format!("`{seconds}` is no time for a phase; expected seconds, as in `3`")
        })
    }
}

impl Results {
    fn adaptive(
        &mut self,
        pair: Pair,
        arguments: &Arguments,
        loader: &Loader,
        clock: Clock,
    ) -> Result<()> {
        let costs = single::costs(pair, clock)?;
        costs.print();
        let time = arguments.phase_time()?;
        let plan = if arguments.quick {
            Plan { pair, phases: &PHASES_QUICK, depths: DEPTHS_QUICK, time, runs: 1 }
        } else {
            Plan { pair, phases: &PHASES, depths: DEPTHS, time, runs: arguments.runs }
        };
        let adaptive = adaptive::measure(plan, loader, clock)?;
        adaptive.print();
        self.claims.extend(adaptive.claims());
        self.raw.extend([costs.told(), adaptive.told()]);
        Ok(())
    }

    /// Lookups alone, on text that says again what was said.
    fn lookups(&mut self, quick: bool, loader: &Loader, clock: Clock) -> Result<()> {
        println!();
        let (time, turns) = if quick { (800, 2) } else { (3_000, 5) };
        let time = Duration::from_millis(time);
        for (pair, least) in [(Pair::Shipped, 1.0), (Pair::Small, 1.5)] {
            let question = Question { pair, phase: COPY, drafters: Drafters::Lookup, time, turns };
            let gain = single::gain(question, loader, clock)?;
            gain.print();
            self.claims.push(gain.claim("S4", least));
            self.raw.push(gain.told());
        }
        Ok(())
    }

    /// The same questions, of whoever else runs these files.
    fn beside(&mut self, arguments: &Arguments, loader: &Loader, clock: Clock) -> Result<()> {
        let Some(program) = peer::find(arguments.llama_server.as_deref()) else {
            ensure!(
                arguments.llama_server.is_none(),
                "`{}` of `--llama-server` is not there; expected the program, or its name on the PATH",
                arguments.llama_server.as_deref().unwrap_or(Path::new("")).display()
            );
            println!(
                "\nleft out: llama-server is not on the PATH; `--llama-server FILE` names one"
            );
            return Ok(());
        };
        let beside = peer::measure(&program, arguments.quick, loader, clock)?;
        beside.print();
        self.claims.extend(beside.claims());
        self.raw.push(beside.told());
        Ok(())
    }

    /// One stream on a model of 1B, with a draft model of a twentieth that is right four times in five.
    fn large(&mut self, quick: bool, loader: &Loader, clock: Clock) -> Result<()> {
        if quick {
            self.claims.push(Claim {
                demonstration: "S3",
                figure: "random-1b-1-even-over-off".to_owned(),
                measured: Err("a model of 1B takes longer than `--quick` allows".to_owned()),
                aim: Aim::AtLeast(2.0),
            });
            return Ok(());
        }
        let costs = single::costs(Pair::Large, clock)?;
        costs.print();
        let (pair, drafters) = (Pair::Large, Drafters::Model);
        let time = Duration::from_secs(6);
        let question = Question { pair, phase: EVEN, drafters, time, turns: 5 };
        let gain = single::gain(question, loader, clock)?;
        gain.print();
        let (allowed, depth) = costs.allow(EVEN_CHANCE);
        let share = 100.0 * gain.estimate().mean / allowed;
        println!("{share:.0} % of the {allowed:.2} that depth {depth} allows");
        self.claims.push(gain.claim("S3", 2.0));
        self.raw.extend([costs.told(), gain.told()]);
        Ok(())
    }

    fn end(self, keep: bool) -> Result<ExitCode> {
        if keep {
            println!("\nraw results: {}", save("speculation", &json!({ "parts": self.raw }))?);
        }
        println!();
        Ok(judge(&self.claims))
    }
}
