//! Workload selector: parses `KIND:PATH` and `KIND:name=value,…` into a trace or a generator.
//!
//! `KIND:PATH` names a trace, `KIND` or `KIND:name=value,…` a generator. The error for an unknown
//! name suggests similar ones.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Sessions;
use super::access::AccessLog;
use super::claude::Claude;
use super::error::WorkloadError;
use super::generate::{Generator, PRESETS};
use super::knobs::{self, KNOBS, Values};
use super::mooncake::Mooncake;
use super::servegen::ServeGen;
use super::table::{Notation, Table};

/// Minimum similarity of a suggestion.
const SIMILARITY_MIN: f64 = 0.6;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Mooncake,
    Azure,
    ServeGen,
    Claude,
    BurstGpt,
    Csv,
    JsonLines,
    Access,
}

const FORMATS: [(&str, Format, &str); 8] = [
    ("mooncake", Format::Mooncake, "Mooncake's JSON lines: lengths and names of prefix blocks"),
    ("azure", Format::Azure, "Azure's CSV: TIMESTAMP,ContextTokens,GeneratedTokens"),
    ("servegen", Format::ServeGen, "a folder of ServeGen's clients: rates and lengths by window"),
    (
        "claude",
        Format::Claude,
        "a folder of coding sessions as JSON: long prompts that grow by little",
    ),
    (
        "burstgpt",
        Format::BurstGpt,
        "BurstGPT's CSV: Timestamp,Model,Request tokens,Response tokens,…",
    ),
    ("csv", Format::Csv, "a table: at,prompt_tokens,output_tokens[,prefix,prefix_tokens]"),
    ("jsonl", Format::JsonLines, "the same, an object a line"),
    ("access", Format::Access, "an access log of `overdraft serve --log-format json`"),
];

/// A workload that was selected and not opened yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    name: &'static str,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Trace(Format, PathBuf),
    Generator(Values),
}

/// Whether a workload ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was recorded, and ends.
    Trace,
    /// It is made up, and goes on.
    Generator,
}

/// Whether a workload says when its sessions begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// It does.
    Told,
    /// It does not: a replay has to.
    Untold,
}

/// An opened workload.
pub struct Workload {
    /// What is asked.
    pub sessions: Sessions,
    /// Whether the sessions' beginnings mean anything.
    pub times: Times,
    /// Names of tenants, where it has any.
    pub tenants: Vec<String>,
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").field("times", &self.times).finish_non_exhaustive()
    }
}

/// Why a text names no workload.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SourceError {
    /// Nobody is called that.
    #[error("`{name}` is no workload{hint}; expected one of {known}")]
    UnknownName {
        /// What was typed.
        name: String,
        /// What comes near.
        hint: String,
        /// All there are.
        known: String,
    },
    /// A trace without a file.
    #[error("`{name}` names no file; expected `{name}:PATH`")]
    NoPath {
        /// The format.
        name: &'static str,
    },
    /// Not `name=value`.
    #[error("`{0}` sets nothing; expected `name=value`")]
    Pair(String),
    /// Nothing is called that.
    #[error("`{name}` cannot be set{hint}; see `--list`")]
    UnknownKnob {
        /// What was typed.
        name: String,
        /// What comes near.
        hint: String,
    },
    /// Out of range.
    #[error(
        "`{value}` cannot be the `{name}` ({meaning}); expected a number from {least} to {most}"
    )]
    Value {
        /// What is set.
        name: &'static str,
        /// To what.
        value: String,
        /// The least that it may be.
        least: f64,
        /// The most.
        most: f64,
        /// What it means.
        meaning: &'static str,
    },
}

impl Source {
    /// Reads `mooncake:trace.jsonl`, `chat`, `tenants:groups=48,prefix=12000`.
    ///
    /// # Errors
    /// When there is no such workload or nothing of the name can be set.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if let Some((name, format, _)) = FORMATS.iter().find(|(known, ..)| *known == name) {
            if rest.is_empty() {
                return Err(SourceError::NoPath { name });
            }
            return Ok(Self { name, what: What::Trace(*format, PathBuf::from(rest)) });
        }
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) {
            let mut values = preset.values;
            values.set(rest)?;
            return Ok(Self { name: preset.name, what: What::Generator(values) });
        }
        let known = || FORMATS.iter().map(|(name, ..)| *name).chain(PRESETS.map(|one| one.name));
        Err(SourceError::UnknownName {
            name: name.to_owned(),
            hint: similar(name, known()),
            known: known().collect::<Vec<_>>().join(", "),
        })
    }

    /// Whether it ends.
    pub const fn kind(&self) -> Kind {
        match self.what {
            What::Trace(..) => Kind::Trace,
            What::Generator(_) => Kind::Generator,
        }
    }

    /// Opens it; equal seeds give equal sessions.
    ///
    /// # Errors
    /// When a trace cannot be read or is not what its format says.
    pub fn open(&self, seed: u64) -> Result<Workload, WorkloadError> {
        let (format, path) = match &self.what {
            What::Generator(values) => {
                let sessions = Box::new(Generator::new(*values, seed));
                return Ok(Workload { sessions, times: Times::Told, tenants: Vec::new() });
            }
            What::Trace(format, path) => (*format, path.as_path()),
        };
        let told = |sessions| Workload { sessions, times: Times::Told, tenants: Vec::new() };
        match format {
            Format::Mooncake => Ok(told(Box::new(Mooncake::open(path, seed)?))),
            Format::ServeGen => Ok(told(Box::new(ServeGen::open(path, seed)?))),
            Format::Claude => {
                let sessions = Box::new(Claude::open(path)?);
                Ok(Workload { sessions, times: Times::Untold, tenants: Vec::new() })
            }
            Format::Azure | Format::BurstGpt | Format::Csv => table(path, Notation::Csv),
            Format::JsonLines => table(path, Notation::JsonLines),
            Format::Access => {
                let log = Arc::new(AccessLog::read(path)?);
                let tenants = log.tenants();
                Ok(Workload { tenants, ..told(log.sessions()) })
            }
        }
    }
}

fn table(path: &Path, notation: Notation) -> Result<Workload, WorkloadError> {
    let table = Table::open(path, notation)?;
    let times = if table.has_times() { Times::Told } else { Times::Untold };
    Ok(Workload { sessions: Box::new(table), times, tenants: Vec::new() })
}

/// As it would be typed, with everything that is set.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Trace(_, path) => write!(f, "{}:{}", self.name, path.display()),
            What::Generator(values) => write!(f, "{}:{}", self.name, knobs::told(values)),
        }
    }
}

/// All workloads and all that can be set about them, for a terminal.
pub fn catalogue() -> String {
    use std::fmt::Write as _;
    let mut text = String::from("Traces, as `NAME:PATH`:\n");
    for (name, _, meaning) in FORMATS {
        let _written = writeln!(text, "  {name:<10} {meaning}");
    }
    text.push_str("\nGenerators, as `NAME` or `NAME:setting=value,setting=value`:\n");
    for preset in &PRESETS {
        let _written = writeln!(text, "  {:<10} {}", preset.name, preset.meaning);
        let _written = writeln!(text, "             {}", knobs::told(&preset.values));
    }
    text.push_str("\nSettings of generators:\n");
    for knob in &KNOBS {
        let _written = writeln!(text, "  {:<10} {}", knob.name, knob.meaning);
    }
    text
}

/// ` (did you mean …?)` where a name comes near; nothing otherwise.
pub fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = |known: &&str| strsim::jaro_winkler(name, known) >= SIMILARITY_MIN;
    let best = known.filter(near).max_by(|one, other| {
        strsim::jaro_winkler(name, one).total_cmp(&strsim::jaro_winkler(name, other))
    });
    best.map_or_else(String::new, |best| format!(" (did you mean `{best}`?)"))
}
