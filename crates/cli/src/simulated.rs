//! `overdraft worker --simulate`: a worker without a GPU, at a GPU's pace.

use std::io::Write as _;
use std::path::PathBuf;

use overdraft_engine::{CacheChanges, Observation, Observer, SimulatedSettings};
use overdraft_gpu_model::{AnswerLengths, Catalogue, Profile, ProfileError};
use overdraft_telemetry::Clock;
use overdraft_units::{BlockSize, Blocks, Tokens};
use overdraft_worker::FaultSettings;

use crate::fault::Fault;
use crate::fault_injection_options::FaultInjectionOptions;
use crate::simulated_engine::GpuEngineOptions;

/// What `--simulate` takes instead of a name to show all names.
const LIST: &str = "list";

/// Simulated workers of one process at most; each has a thread and a port.
const WORKERS_MAX: u16 = 256;

/// How an out-of-memory kill looks to whoever started the process: 128 and the signal's 9.
const KILLED: i32 = 137;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Simulated worker")]
pub(crate) struct SimulateOptions {
    /// Simulates a GPU and a model, as `h100-tp2/llama-3-70b-fp8`: takes the time that they would and answers
    /// with words of no meaning; `list` shows all profiles
    #[arg(long, value_name = "PROFILE", conflicts_with_all = ["model", "backend"])]
    pub(crate) simulate: Option<String>,
    /// A file with more profiles; may be given more than once
    #[arg(long, value_name = "FILE", requires = "simulate")]
    profile: Vec<PathBuf>,
    /// Tokens that the simulated cache holds; as many as the GPU has room for by default
    #[arg(long, value_name = "COUNT", requires = "simulate")]
    kv_tokens: Option<u32>,
    #[command(flatten)]
    gpu_engine: GpuEngineOptions,
    /// Simulated seconds in each real one; all times, those in metrics too, are shorter by this factor
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed, requires = "simulate")]
    speed: f64,
    /// Tokens of an answer where the prompt does not say `[answer:COUNT]`: a number, or
    /// `lognormal:MEDIAN:SIGMA`; never more than the request's `max_tokens`
    #[arg(long, value_name = "LENGTH", default_value_t, requires = "simulate")]
    answer_tokens: AnswerLengths,
    /// Seed of those lengths
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "simulate")]
    seed: u64,
    /// Dies with exit code 137 where a running request needs cache and there is none, instead of
    /// preempting another
    #[arg(long, requires = "simulate")]
    pub(crate) crash_on_oom: bool,
    /// Simulated workers in this process. Each has a port of its own, from that of `--listen` on, and its
    /// KV events have ports as much higher; a fault that kills one kills all
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "simulate",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(WORKERS_MAX)))]
    pub(crate) workers: u16,
    #[command(flatten)]
    fault_injection: FaultInjectionOptions,
}

/// A worker to simulate.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    pub(crate) profile: Profile,
    kv_tokens: Option<u32>,
    speed: f64,
    lengths: AnswerLengths,
    seed: u64,
}

/// What was asked for.
pub(crate) enum Asked {
    /// To see what there is.
    List(Catalogue),
    /// One of them.
    Worker(Box<Simulated>),
}

impl SimulateOptions {
    /// What the worker `place` of this process does wrong on purpose.
    ///
    /// # Errors
    /// Shares that are more than all requests together.
    pub(crate) fn fault_injection(&self, place: u16) -> Result<Option<FaultSettings>, Fault> {
        self.fault_injection.settings(self.seed.wrapping_add(place.into()))
    }

    /// What `--simulate` asks for, if it is there.
    ///
    /// # Errors
    /// A file that cannot be read, or a profile that is unknown or impossible.
    pub(crate) fn asked(&self) -> Result<Option<Asked>, Fault> {
        let Some(name) = &self.simulate else {
            self.gpu_engine.refuse_without_simulation()?;
            return Ok(None);
        };
        let mut catalogue = Catalogue::builtin();
        for file in &self.profile {
            let shown = format!("`{}`", file.display());
            let text = std::fs::read_to_string(file)
                .map_err(|error| Fault::input(format!("{shown} cannot be read: {error}")))?;
            catalogue.add(&shown, &text).map_err(|error| refused(&error))?;
        }
        if name == LIST {
            return Ok(Some(Asked::List(catalogue)));
        }
        let profile = self.gpu_engine.apply(catalogue.find(name).map_err(|error| refused(&error))?);
        Ok(Some(Asked::Worker(Box::new(Simulated {
            profile,
            kv_tokens: self.kv_tokens,
            speed: self.speed,
            lengths: self.answer_tokens,
            seed: self.seed,
        }))))
    }
}

impl Simulated {
    /// The model's name, as clients use it.
    pub(crate) fn name(&self) -> &str {
        &self.profile.model.name
    }

    /// The settings of the backend. `blocks` overrules what fits, `context` what the model is
    /// usually served with.
    ///
    /// # Errors
    /// A cache of no page.
    pub(crate) fn settings(
        &self,
        block_size: BlockSize,
        blocks: Option<Blocks>,
        context: Option<Tokens>,
        clock: Clock,
    ) -> Result<SimulatedSettings, Fault> {
        let blocks = match (self.kv_tokens, blocks) {
            (Some(tokens), _) => Blocks::new(tokens / block_size.get()),
            (None, Some(blocks)) => blocks,
            (None, None) => self.profile.kv_blocks(block_size).map_err(|error| refused(&error))?,
        };
        if blocks == Blocks::ZERO {
            let (tokens, page) = (self.kv_tokens.unwrap_or(0), block_size.get());
            return Err(Fault::input(format!(
                "`--kv-tokens {tokens}` is less than a block; expected at least `{page}`"
            )));
        }
        Ok(SimulatedSettings {
            profile: self.profile.clone(),
            blocks,
            block_size,
            context: context.unwrap_or(Tokens::new(self.profile.model.context)),
            speed: self.speed,
            lengths: self.lengths,
            seed: self.seed,
            clock,
        })
    }

    /// One line for a person.
    pub(crate) fn about(&self, settings: &SimulatedSettings) -> String {
        let tokens = u64::from(settings.blocks.get()) * u64::from(settings.block_size.get());
        let (name, speed, price) = (self.profile.name(), self.speed, self.profile.price_per_hour());
        let confidence = self.profile.confidence;
        format!(
            "simulated {name}, cache of {tokens} tokens, speed {speed}, ${price:.2}/h, \
             confidence {confidence}"
        )
    }
}

/// Shows all profiles.
pub(crate) fn show(catalogue: &Catalogue) -> Result<(), Fault> {
    use std::fmt::Write as _;
    let mut text = String::new();
    let (profile, tokens, price) = ("profile", "cache tokens", "$ an hour");
    let _written = writeln!(text, "{profile:<36} {tokens:>12} {price:>9}  confidence: source");
    for line in catalogue.list() {
        let (name, tokens, price, trust) =
            (line.name, line.kv_tokens.get(), line.price_per_hour, line.trust);
        let _written = writeln!(text, "{name:<36} {tokens:>12} {price:>9.2}  {trust}");
    }
    crate::config::print(&text)
}

fn refused(error: &ProfileError) -> Fault {
    Fault::input(error.to_string()).hint(error.hint())
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.01..=1_000.0).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.01 to 1000, as in `10`".to_owned()),
    }
}

/// Ends the process where an engine that cannot preempt would be killed.
pub(crate) struct Mortal(pub(crate) Box<dyn Observer>);

impl Observer for Mortal {
    fn observe(&mut self, observation: &Observation) {
        if let Observation::Overdrawn(overdraft) = observation {
            let preempted = overdraft.preempted;
            die(&format!(
                "out of memory: the cache has no block for a running request; `{preempted}` would \
                 be preempted, and --crash-on-oom is given"
            ));
        }
        self.0.observe(observation);
    }

    fn watches_cache(&self) -> bool {
        self.0.watches_cache()
    }

    fn observe_cache(&mut self, changes: CacheChanges) {
        self.0.observe_cache(changes);
    }
}

/// At once, as the kernel's killer would: no stream is ended, no connection closed in order.
#[expect(clippy::disallowed_methods, reason = "that is what is simulated")]
fn die(reason: &str) -> ! {
    // Nothing can be done about a terminal that is gone.
    let _ = writeln!(std::io::stderr(), "overdraft worker died: {reason}");
    std::process::exit(KILLED)
}
