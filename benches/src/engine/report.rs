//! Report of the engine bench: its table and claims.

use std::fmt;

use overdraft_claims::{Aim, Claim, median};
use overdraft_kernels::Instructions;
use overdraft_telemetry::unix_seconds;
use serde_json::{Value, json};

use super::{Case, SEQUENCES};

/// Weights from which a model counts as one of 1B.
const BILLION_MIN: u64 = 900_000_000;
/// Weights from which a real model is worth comparing: more than any cache holds.
const REAL_MIN: u64 = 100_000_000;

/// Where the model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Random weights, made for the bench.
    Random,
    /// The file that `--model` names.
    Named,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) case: Case,
    /// Seconds for one step, turn by turn.
    pub(crate) ours: Vec<f64>,
    /// The same of llama.cpp; empty without it.
    pub(crate) theirs: Vec<f64>,
}

/// Everything that was measured.
pub(crate) struct Report {
    pub(crate) model: String,
    pub(crate) source: Source,
    pub(crate) parameters: u64,
    pub(crate) step_bytes: u64,
    pub(crate) threads: usize,
    pub(crate) instructions: Instructions,
    pub(crate) peer: Result<String, String>,
    /// Bytes per second that all threads read.
    pub(crate) bandwidth: f64,
    pub(crate) rows: Vec<Row>,
}

impl Row {
    pub(crate) fn new(case: Case) -> Self {
        Self { case, ours: Vec::new(), theirs: Vec::new() }
    }

    #[expect(clippy::cast_precision_loss, reason = "a few hundred tokens")]
    fn tokens(&self) -> f64 {
        self.case.tokens() as f64
    }

    /// Our speed over theirs: the median over the turns.
    fn ratio(&self) -> Option<f64> {
        let ratios = self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| theirs / ours);
        over_turns(ratios.collect())
    }
}

impl Report {
    fn row(&self, case: Case) -> &Row {
        let row = self.rows.iter().find(|row| row.case == case);
        row.expect("every claim is about a case that is measured")
    }

    /// The promises of S5 and S8.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let decode = |sequences, tokens| Case::Decode { sequences, tokens };
        // One aim for batch 1, another for everything that is computed rather than read.
        let (one, many) = match self.instructions {
            Instructions::Avx512Vnni => (0.7, 1.5),
            Instructions::Avx2 | Instructions::Portable => (0.6, 1.0),
        };
        let beside = |figure: &str, case, least| Claim {
            demonstration: "S8",
            figure: figure.to_owned(),
            measured: self.beside_peer(case),
            aim: Aim::AtLeast(least),
        };
        vec![
            beside("batch1", decode(1, 1), one),
            beside("batch8", decode(8, 1), many),
            beside("five_tokens", decode(1, 5), many),
            beside("prefill", Case::Prefill { tokens: super::PREFILL }, many),
            Claim {
                demonstration: "S5",
                figure: "speedup".to_owned(),
                measured: self.sharing(),
                aim: Aim::AtLeast(4.0),
            },
        ]
    }

    /// Throughput of all sequences on one prefix over that of one of them: the median of the turns.
    fn sharing(&self) -> Result<f64, String> {
        self.large_enough()?;
        let alone = self.row(Case::Shared { sequences: 1 });
        let together = self.row(Case::Shared { sequences: SEQUENCES });
        let gain = together.tokens() / alone.tokens();
        let ratios = alone.ours.iter().zip(&together.ours).map(|(one, all)| gain * one / all);
        over_turns(ratios.collect()).ok_or_else(|| "no turns".to_owned())
    }

    /// A model that fits the caches leaves nothing to win by reading its weights once for all.
    fn large_enough(&self) -> Result<(), String> {
        if self.parameters < BILLION_MIN {
            return Err("the aim is for a model of 1B or more".to_owned());
        }
        Ok(())
    }

    fn beside_peer(&self, case: Case) -> Result<f64, String> {
        let peer = self.peer.as_ref().map_err(|why| format!("no llama.cpp ({why})"))?;
        if self.instructions == Instructions::Portable {
            return Err("the aim is for AVX2 or AVX-512".to_owned());
        }
        if self.source == Source::Random || self.parameters < REAL_MIN {
            self.large_enough()?;
        }
        self.row(case).ratio().ok_or_else(|| format!("{peer} does not measure it"))
    }

    /// The figures, for the raw results.
    pub(crate) fn json(&self) -> Value {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                let case = row.case.to_string();
                json!({ "case": case, "tokens": row.case.tokens(), "ours_seconds": row.ours,
                        "llama_cpp_seconds": row.theirs })
            })
            .collect();
        json!({
            "unix_seconds": unix_seconds(),
            "model": self.model,
            "parameters": self.parameters,
            "step_bytes": self.step_bytes,
            "threads": self.threads,
            "instructions": self.instructions.name(),
            "llama_cpp": self.peer.as_deref().unwrap_or("none"),
            "bandwidth_bytes_per_second": self.bandwidth,
            "rows": rows,
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { sequences, tokens: 1 } => write!(out, "decode, batch {sequences}"),
            Self::Decode { sequences: 1, tokens } => write!(out, "one sequence, {tokens} tokens"),
            Self::Decode { sequences, tokens } => {
                write!(out, "{sequences} sequences, {tokens} tokens each")
            }
            Self::Prefill { tokens } => write!(out, "prefill, {tokens} tokens"),
            Self::Shared { sequences: 1 } => write!(out, "1 stream on a prefix"),
            Self::Shared { sequences } => write!(out, "{sequences} streams sharing it"),
        }
    }
}

impl fmt::Display for Report {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.step_bytes as f64;
        writeln!(out, "model      {}", self.model)?;
        writeln!(out, "weights    {:.0} MB read each step", bytes / 1e6)?;
        writeln!(out, "machine    {} threads, {}", self.threads, self.instructions.name())?;
        writeln!(out, "memory     {:.1} GB/s, all threads reading", self.bandwidth / 1e9)?;
        match &self.peer {
            Ok(version) => writeln!(out, "peer       {version}")?,
            Err(why) => writeln!(out, "peer       none: {why}")?,
        }
        writeln!(
            out,
            "\n{:<24}{:>9}{:>10}{:>10}{:>10}{:>8}",
            "", "ms/step", "tok/s", "limit", "llama.cpp", "ratio"
        )?;
        for row in &self.rows {
            let time = over_turns(row.ours.clone()).unwrap_or(f64::NAN);
            let (speed, limit) = (row.tokens() / time, row.tokens() * self.bandwidth / bytes);
            write!(
                out,
                "{:<24}{:>9.2}{speed:>10.1}{limit:>10.1}",
                row.case.to_string(),
                time * 1e3
            )?;
            match (over_turns(row.theirs.clone()), row.ratio()) {
                (Some(time), Some(ratio)) => {
                    writeln!(out, "{:>10.1}{ratio:>8.2}", row.tokens() / time)?;
                }
                _ => writeln!(out, "{:>10}{:>8}", "-", "-")?,
            }
        }
        writeln!(
            out,
            "tok/s are medians of {} turns; limit: reading the weights at memory speed",
            self.rows[0].ours.len()
        )
    }
}

/// The median over turns; none where there were no turns.
fn over_turns(values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}
