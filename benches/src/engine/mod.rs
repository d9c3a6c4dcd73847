//! Engine bench: speed beside memory bandwidth and llama.cpp; of a real model also its accuracy
//! beside a float reference, and its tokens beside other tokenizers.
//!
//! It uses one model and one number of threads, and measures both engines in turns within the same
//! minutes, because a shared machine drifts. Ratios are medians over the turns; each turn's figure
//! is the best of a few repeats.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

mod accuracy;
mod answers;
mod bandwidth;
mod llama_bench;
mod ours;
mod peer;
mod reference;
mod report;
mod requantize;
mod score;
mod tokens;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::model::{Size, random};
use anyhow::Result;
use overdraft_claims::{judge, save};
use overdraft_engine::model::ModelSettings;
use overdraft_kernels::Instructions;
use overdraft_telemetry::Clock;
use serde_json::Value;

use self::accuracy::{Accuracy, TEXTS};
use self::ours::Ours;
use self::peer::Peer;
use self::report::{Report, Row, Source};
use self::tokens::TokenizerReport;

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
    /// The GGUF to measure with; of a real one, accuracy is measured too [default: random weights
    /// of 1B as `Q4_K_M`, made once]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Only this part
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// The Python that has llama-cpp-python, numpy, gguf, tokenizers and jinja2; what needs a missing
    /// one is left out
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

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Steps beside the memory's limit and llama.cpp
    Speed,
    /// Likeliest tokens and perplexity of `--model` beside a float reference
    Accuracy,
    /// Tokens of texts and conversations by the tokenizer of `--model`, beside other tokenizers
    Tokenizer,
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
    let instructions = arguments.instructions.unwrap_or_else(Instructions::detect);
    let settings = ModelSettings {
        threads: Some(threads),
        instructions: Some(instructions),
        ..Default::default()
    };
    let wanted = |part| arguments.part.is_none_or(|only| only == part);
    let mut results = Vec::new();
    let mut claims = Vec::new();
    if arguments.model.is_some() && wanted(Part::Tokenizer) {
        let report = TokenizerReport::measure(&file, &arguments.python, &TEXTS)?;
        println!("{report}");
        claims.extend(report.claims());
        results.push(("tokenizer", report.json()));
    }
    if arguments.model.is_some() && wanted(Part::Accuracy) {
        let accuracy = Accuracy::measure(&file, &arguments.python, &settings)?;
        println!("{accuracy}");
        claims.extend(accuracy.claims());
        results.push(("accuracy", accuracy.json()));
    }
    if wanted(Part::Speed) {
        let report = speed(arguments, &file, &settings, threads)?;
        println!("{report}");
        claims.extend(report.claims());
        results.push(("speed", report.json()));
    }
    if arguments.save {
        let judged: Vec<String> = claims.iter().map(ToString::to_string).collect();
        results.push(("claims", judged.into()));
        let results: BTreeMap<&str, Value> = results.into_iter().collect();
        println!("saved {}", save("engine", &results)?);
    }
    Ok(judge(&claims))
}

/// Measures both engines in turns.
fn speed(
    arguments: &Arguments,
    file: &Path,
    settings: &ModelSettings,
    threads: NonZeroUsize,
) -> Result<Report> {
    let clock = Clock::start();
    let mut ours = Ours::open(file, settings, clock)?;
    let mut peer = Peer::start(&arguments.python, file, threads, ours.vocabulary());
    let mut rows = CASES.map(Row::new);
    let mut bandwidth: f64 = 0.0;
    for _ in 0..TURNS[usize::from(arguments.quick)] {
        bandwidth = bandwidth.max(bandwidth::measure(threads, &clock));
        for row in &mut rows {
            row.ours.push(ours.measure(row.case)?);
            row.theirs.extend(peer.measure(row.case));
        }
    }
    Ok(Report {
        model: ours.describe(),
        source: if arguments.model.is_some() { Source::Named } else { Source::Random },
        parameters: ours.parameters(),
        step_bytes: ours.step_bytes(),
        threads: threads.get(),
        instructions: settings.instructions.unwrap_or_else(Instructions::detect),
        peer: peer.describe(),
        bandwidth,
        rows: rows.to_vec(),
    })
}

/// Parses the name of an instruction set.
fn instructions(name: &str) -> Result<Instructions, String> {
    let known = Instructions::ALL.into_iter().find(|set| set.name() == name);
    known.ok_or_else(|| {
        format!("expected one of {}", Instructions::ALL.map(Instructions::name).join(", "))
    })
}
