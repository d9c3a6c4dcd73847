//! Adversarial comparison: the default decisions against switching them off, on drawn loads.
//!
//! Everything is simulated and marked as such: time comes from a model of the GPUs, the decisions
//! from the code that runs live. Each comparison runs two sets of decisions before one fleet under
//! one load.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]
#![expect(clippy::print_stderr, reason = "a bench says how far it is beside its report")]

mod book;
mod burst;
mod capacity;
mod cases;
mod draw;
mod figures;
mod flags;
mod jobs;
mod judge;
mod kept;
mod known;
mod load;
mod overload;
mod rules;
mod search;
mod show;
mod table;
mod times;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use overdraft_claims::{Claim, judge, save};
use serde_json::Value;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The default decisions beside switching them off, over fleets and loads that are drawn.
#[derive(Parser)]
#[command(name = "adversary")]
pub(crate) struct Arguments {
    /// Fewer draws, requests and seeds; figures are rougher
    #[arg(long)]
    pub(crate) quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// Only these parts, with commas between them: cases, overload, burst, kept, search
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    part: Vec<String>,
    /// Only these cases: `full_fleet`, crowd, big, shared, far, lengths, common
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    pub(crate) case: Vec<String>,
    /// Seeds of cases, overload and burst, as `1-10`
    #[arg(long, value_name = "RANGE")]
    pub(crate) seeds: Option<String>,
    /// Worlds that are drawn
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) draws: Option<u64>,
    /// What decides the draws
    #[arg(long, default_value_t = 1, value_name = "SEED")]
    pub(crate) seed: u64,
    /// Runs of a draw that is no tie, each with other dice: the medians of their figures are judged
    #[arg(long, default_value_t = 3, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=99))]
    pub(crate) repeats: u64,
    /// Only the draw of this number, with all that is known of it
    #[arg(long, value_name = "NUMBER")]
    pub(crate) only: Option<u64>,
    /// Only this world, as flags of `overdraft simulate`, with all that is known of it
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, conflicts_with = "only")]
    pub(crate) world: Option<String>,
    /// Threads
    #[arg(long, default_value_t = jobs::available(), value_name = "COUNT")]
    pub(crate) jobs: usize,
    /// Folder of traces; without it the generators are all there is
    #[arg(
        long,
        env = "OVERDRAFT_TRACES",
        default_value = "../shared/traces",
        value_name = "FOLDER"
    )]
    pub(crate) traces: PathBuf,
}

/// Seeds that are run where nobody says.
const SEEDS: &str = "1-2";
const SEEDS_QUICK: &str = "1";
/// Seeds at most.
const SEEDS_MAX: u64 = 100;

impl Arguments {
    /// `3` or `1-10`.
    pub(crate) fn seeds(&self) -> Result<Vec<u64>> {
        let text = self.seeds.as_deref();
        let text = text.unwrap_or(if self.quick { SEEDS_QUICK } else { SEEDS });
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| {
            let told = || format!("`{text}` is no seed; expected `1-10`");
            text.trim().parse::<u64>().with_context(told)
        };
        let (first, last) = (number(first)?, number(last)?);
        if last < first || SEEDS_MAX <= last - first {
            bail!("`{first}-{last}`: expected 1 to {SEEDS_MAX} seeds, the first one first");
        }
        Ok((first..=last).collect())
    }
}

/// What a part has to say at the end.
pub(crate) struct Told {
    pub(crate) raw: Value,
    pub(crate) claims: Vec<Claim>,
}

/// Name, and how it is made.
type Maker = (&'static str, fn(&Arguments) -> Result<Told>);

/// All parts, in the order in which they are told.
const PARTS: &[Maker] = &[
    ("cases", known::part),
    ("overload", overload::part),
    ("burst", burst::part),
    ("kept", kept::part),
    ("search", search::part),
];

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    if let Some(name) = arguments.part.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("`{name}` is not a part; expected one of {}", known.join(", "));
    }
    println!("SIMULATED: figures of a model, nothing was measured on a GPU\n");
    let (mut raw, mut claims) = (serde_json::Map::new(), Vec::new());
    for (name, make) in PARTS {
        if arguments.part.is_empty() || arguments.part.iter().any(|wanted| wanted == name) {
            let told = make(&arguments)?;
            raw.insert((*name).to_owned(), told.raw);
            claims.extend(told.claims);
        }
    }
    if arguments.save {
        println!("raw results: {}", save("adversary", &raw)?);
    }
    Ok(judge(&claims))
}
