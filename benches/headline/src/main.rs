//! Headline figures of the write-ups, simulated on the kinds of load that they describe.
//!
//! Everything is simulated and marked as such: time comes from a model of the GPUs, the decisions
//! from the code that runs live. Each part sets a plain fleet, the write-up's own rule and ours
//! side by side, over several seeds, with the write-up's figures next to them.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod guessing;
mod ladder;
mod llmd;
mod overdraw;
mod pace;
mod part;
mod prompts;
mod reuse;
mod routing;
mod scene;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use overdraft_claims::{judge, save};

use self::part::{Effort, Part};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates the write-ups' headline figures: a plain fleet, their rule, ours.
#[derive(Parser)]
#[command(name = "headline")]
struct Arguments {
    /// Fewer requests and seeds; figures are rougher
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
    /// Only these parts, with commas between them
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,
}

/// Name, what it shows, and how it is made.
type Maker = (&'static str, fn(Effort) -> Result<Part>);

/// All parts, in the order in which they are told.
const PARTS: &[Maker] = &[
    ("pace", pace::part),
    ("llm-d", llmd::part),
    ("ladder", ladder::part),
    ("tenants", routing::tenants),
    ("documents", routing::documents),
    ("control", routing::control),
    ("speculation", guessing::part),
    ("answers", reuse::part),
    ("burst", overdraw::burst),
    ("cost", overdraw::cost),
];

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    for name in &arguments.only {
        if !known.contains(&name.as_str()) {
            anyhow::bail!("`{name}` is not a part; expected one of {}", known.join(", "));
        }
    }
    let effort = if arguments.quick { Effort::Quick } else { Effort::Full };
    println!("SIMULATED: figures of a model, nothing was measured on a GPU\n");
    let mut parts = Vec::new();
    for (name, make) in PARTS {
        if arguments.only.is_empty() || arguments.only.iter().any(|wanted| wanted == name) {
            let part = make(effort)?;
            println!("{part}");
            parts.push(part);
        }
    }
    if arguments.save {
        println!("raw results: {}", save("headline", &parts)?);
    }
    Ok(judge(parts.iter().flat_map(|part| &part.claims)))
}
