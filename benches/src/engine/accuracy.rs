//! Accuracy on a real model: likeliest tokens and perplexity, beside a float reference and llama.cpp.
//!
//! Two kinds of text: prose that the model does not know, where it often hesitates between tokens that
//! are equally likely, and its own answers, which it is surer about.
//! The reference widens the very weights of the file to single precision, so that what differs is
//! arithmetic: rounded activations, half-precision keys and values, the order of sums.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use overdraft_claims::{Aim, Claim};
use overdraft_engine::gguf::Gguf;
use overdraft_engine::model::ModelSettings;
use serde_json::{Value, json};

use super::answers;
use super::requantize::{DERIVED, derive};
use super::score::{self, Scores};

/// Positions of a hundred with the same likeliest token as the reference, at least.
const SAME_PERCENT_MIN: f64 = 99.0;
/// How far the perplexity may be from the reference's, in percent.
const PERPLEXITY_PERCENT_MAX: f64 = 1.0;

/// English prose that no model was trained to recite: this project's own.
pub(crate) const TEXTS: [&str; 4] = [
    include_str!("../../../ARCHITECTURE.md"),
    include_str!("../../../STYLE.md"),
    include_str!("../../../docs/design/routing.md"),
    include_str!("../../../docs/benchmarks/README.md"),
];

/// How one weight format is computed for one kind of text.
struct Encoding {
    name: String,
    kind: &'static str,
    ours: Scores,
    /// The float reference, or why there is none.
    reference: Result<Scores, String>,
    peer: Result<Scores, String>,
}

/// All formats.
pub(crate) struct Accuracy {
    encodings: Vec<Encoding>,
}

impl Accuracy {
    /// Scores the file as it is, and in the formats derived from it.
    pub(crate) fn measure(file: &Path, python: &Path, settings: &ModelSettings) -> Result<Self> {
        let prose = score::tokens(file, &TEXTS)?;
        let answers = answers::answers(file, settings)?;
        let own = Gguf::open(file)?.file_type()?;
        let mut files: Vec<(String, PathBuf)> = vec![(own.clone(), file.to_owned())];
        for format in DERIVED.into_iter().filter(|format| format.name != own) {
            files.push((format.name.to_owned(), derive(file, format)?));
        }
        let mut encodings = Vec::new();
        for (name, file) in files {
            for (kind, texts) in [("prose", &prose), ("answers", &answers)] {
                let ours = score::ours(&file, texts, settings)?;
                let reference = score::theirs(python, "numpy", &file, texts)?;
                let peer = score::theirs(python, "llama_cpp", &file, texts)?;
                encodings.push(Encoding { name: name.clone(), kind, ours, reference, peer });
            }
        }
        Ok(Self { encodings })
    }

    /// What is promised of each format.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.encodings.iter().flat_map(Encoding::claims).collect()
    }

    /// The figures, for the raw results.
    pub(crate) fn json(&self) -> Value {
        let rows = self.encodings.iter().flat_map(Encoding::rows).map(|row| {
            json!({ "encoding": row.encoding, "text": row.kind, "positions": row.positions, "name": row.name, "perplexity": row.perplexity,
                    "same_percent": row.same_percent, "perplexity_percent": row.perplexity_percent })
        });
        rows.collect()
    }
}

/// A line of the table.
struct Row<'a> {
    encoding: &'a str,
    kind: &'static str,
    positions: usize,
    name: &'a str,
    perplexity: f64,
    /// Both beside the reference.
    same_percent: Option<f64>,
    perplexity_percent: Option<f64>,
}

impl Encoding {
    fn claims(&self) -> [Claim; 2] {
        let name = self.name.to_lowercase();
        let beside = |figure: fn(&Scores, &Scores) -> f64| {
            let reference = self.reference.as_ref();
            reference
                .map(|it| figure(&self.ours, it))
                .map_err(|why| format!("no reference ({why})"))
        };
        let claim = |figure: &str, measured, aim| Claim {
            demonstration: "S8",
            figure: format!("{name}_{}_{figure}", self.kind),
            measured,
            aim,
        };
        [
            claim(
                "same_token_percent",
                beside(Scores::same_percent),
                Aim::AtLeast(SAME_PERCENT_MIN),
            ),
            claim(
                "perplexity_off_percent",
                beside(off_percent).map(f64::abs),
                Aim::AtMost(PERPLEXITY_PERCENT_MAX),
            ),
        ]
    }

    fn rows<'a>(&'a self) -> Vec<Row<'a>> {
        let reference = self.reference.as_ref().ok();
        let all = [Some(&self.ours), self.peer.as_ref().ok(), reference];
        let row = |scores: &'a Scores| Row {
            encoding: &self.name,
            kind: self.kind,
            positions: scores.positions(),
            name: &scores.name,
            perplexity: scores.perplexity(),
            same_percent: reference.map(|reference| scores.same_percent(reference)),
            perplexity_percent: reference.map(|reference| off_percent(scores, reference)),
        };
        all.into_iter().flatten().map(row).collect()
    }
}

/// How much greater the perplexity is, in percent.
fn off_percent(scores: &Scores, reference: &Scores) -> f64 {
    100.0 * (scores.perplexity() / reference.perplexity() - 1.0)
}

impl fmt::Display for Accuracy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:<6}{:<9}{:>9}  {:<40}{:>11}{:>8}{:>15}",
            "", "text", "positions", "", "perplexity", "off, %", "same token, %"
        )?;
        for row in self.encodings.iter().flat_map(Encoding::rows) {
            let shown = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
            let (off, same) = (shown(row.perplexity_percent), shown(row.same_percent));
            writeln!(
                out,
                "{:<6}{:<9}{:>9}  {:<40}{:>11.3}{off:>8}{same:>15}",
                row.encoding, row.kind, row.positions, row.name, row.perplexity
            )?;
        }
        for encoding in &self.encodings {
            for (what, scores) in
                [("reference", &encoding.reference), ("llama.cpp", &encoding.peer)]
            {
                if let Err(why) = scores {
                    writeln!(out, "{} has no {what}: {why}", encoding.name)?;
                }
            }
        }
        Ok(())
    }
}
