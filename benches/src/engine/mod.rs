//! Engine bench: decode and prefill speed, compared with memory bandwidth and llama.cpp.
//!
//! It uses one model and one number of threads, and measures both engines in turns within the same
//! minutes, because a shared machine drifts. Ratios are medians over the turns; each turn's figure
//! is the best of a few repeats.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

mod bandwidth;
mod llama_bench;
mod ours;
mod peer;
mod report;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::model::{Size, random};
use anyhow::Result;
use overdraft_claims::judge;
use overdraft_engine::model::ModelSettings;
use overdraft_kernels::Instructions;
use overdraft_telemetry::Clock;

use self::ours::Ours;
use self::peer::Peer;
use self::report::{Report, Row};

/// Context length of every sequence when a decode is measured.
const CONTEXT: usize = 128;
/// Sequences that are decoded together at most.
const SEQUENCES: usize = 16;
/// Turns of a full run and of a quick one.
const TURNS: [usize; 2] = [7, 3];
/// The length of the measured prompt.
const PREFILL: usize = 512;
/// The length of the prefix that sequences share.
const PREFIX: usize = 1_000;

/// Measures decode and prefill of the embedded engine.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Under a minute once built: a model of 110M, fewer turns
    #[arg(long)]
    quick: bool,
    /// The GGUF to measure with [default: random weights of 1B as `Q4_K_M`, made once]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// The Python that has llama-cpp-python
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Threads of both engines [default: one for each core]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Instructions of our kernels [default: the fastest that the machine has]
    #[arg(long, value_parser = instructions)]
    instructions: Option<Instructions>,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// One step of so many tokens for each of so many sequences.
    Decode { sequences: usize, tokens: usize },
    /// A prompt in one step.
    Prefill { tokens: usize },
    /// One token for each of so many sequences that share a prefix; ours alone.
    Shared { sequences: usize },
}

const CASES: [Case; 8] = [
    Case::Decode { sequences: 1, tokens: 1 },
    Case::Decode { sequences: 4, tokens: 1 },
    Case::Decode { sequences: 8, tokens: 1 },
    Case::Decode { sequences: 16, tokens: 1 },
    Case::Decode { sequences: 1, tokens: 5 },
    Case::Prefill { tokens: PREFILL },
    Case::Shared { sequences: 1 },
    Case::Shared { sequences: SEQUENCES },
];

impl Case {
    /// Tokens that it computes.
    fn tokens(self) -> usize {
        match self {
            Self::Decode { sequences, tokens } => sequences * tokens,
            Self::Prefill { tokens } => tokens,
            Self::Shared { sequences } => sequences,
        }
    }
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let size = if arguments.quick { Size::Small } else { Size::Large };
    let file = match &arguments.model {
        Some(file) => file.clone(),
        None => random(size)?,
    };
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = arguments.threads.unwrap_or(cores);
    let clock = Clock::start();
    let instructions = arguments.instructions.unwrap_or_else(Instructions::detect);
    let settings = ModelSettings {
        threads: Some(threads),
        instructions: Some(instructions),
        ..Default::default()
    };
    let mut ours = Ours::open(&file, &settings, clock)?;
    let mut peer = Peer::start(&arguments.python, &file, threads, ours.vocabulary());
    let mut rows = CASES.map(Row::new);
    let mut bandwidth: f64 = 0.0;
    for _ in 0..TURNS[usize::from(arguments.quick)] {
        bandwidth = bandwidth.max(bandwidth::measure(threads, &clock));
        for row in &mut rows {
            row.ours.push(ours.measure(row.case)?);
            row.theirs.extend(peer.measure(row.case));
        }
    }
    let report = Report {
        model: ours.describe(),
        parameters: ours.parameters(),
        step_bytes: ours.step_bytes(),
        threads: threads.get(),
        instructions,
        peer: peer.describe(),
        bandwidth,
        rows: rows.to_vec(),
    };
    println!("{report}");
    if arguments.save {
        println!("saved {}", report.save()?);
    }
    let claims = report.claims();
    Ok(judge(&claims))
}

/// Parses the name of an instruction set.
fn instructions(name: &str) -> Result<Instructions, String> {
    let known = Instructions::ALL.into_iter().find(|set| set.name() == name);
    known.ok_or_else(|| {
        format!("expected one of {}", Instructions::ALL.map(Instructions::name).join(", "))
    })
}
