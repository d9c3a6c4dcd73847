//! Timings of llama.cpp for the same work, by a Python process or `llama-bench`.
//!
//! A Python process keeps the model loaded and answers one line for each measurement. Where it
//! cannot start, `llama-bench` replaces it; without either, the bench goes on without a peer and
//! says why.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;

use super::llama_bench::LlamaBench;
use super::{CONTEXT, Case, SEQUENCES};

/// llama.cpp, in one way or another.
pub(crate) enum Peer {
    /// In a process that answers.
    Running(Running),
    /// As measured once.
    Measured(LlamaBench),
    /// Not there, and why.
    Missing(String),
}

pub(crate) struct Running {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    version: String,
}

/// A line from `llama_peer.py`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ready(String),
    Missing(String),
    Seconds(f64),
}

impl Peer {
    pub(crate) fn start(
        python: &Path,
        model: &Path,
        threads: NonZeroUsize,
        vocabulary: usize,
    ) -> Self {
        let why =
            match Running::start(python, model, [threads.get(), CONTEXT, SEQUENCES, vocabulary]) {
                Ok(running) => return Self::Running(running),
                Err(why) => why,
            };
        match LlamaBench::run(model, threads) {
            Ok(measured) => Self::Measured(measured),
            Err(neither) => Self::Missing(format!("{why}; {neither}")),
        }
    }

    /// Seconds for one step; `None` without a peer that measures this.
    pub(crate) fn measure(&mut self, case: Case) -> Option<f64> {
        let running = match self {
            Self::Running(running) => running,
            Self::Measured(measured) => return measured.seconds(case),
            Self::Missing(_) => return None,
        };
        let request = match case {
            Case::Decode { sequences, tokens } => format!("decode {sequences} {tokens}"),
            Case::Prefill { tokens } => format!("prefill {tokens}"),
            Case::Shared { .. } => return None,
        };
        match running.ask(&request) {
            Ok(seconds) => Some(seconds),
            Err(why) => {
                *self = Self::Missing(why);
                None
            }
        }
    }

    /// Its version, or why there is none.
    pub(crate) fn describe(&self) -> Result<String, String> {
        match self {
            Self::Running(running) => Ok(running.version.clone()),
            Self::Measured(_) => Ok("llama.cpp (llama-bench, before the turns)".to_owned()),
            Self::Missing(why) => Err(why.clone()),
        }
    }
}

impl Running {
    fn start(python: &Path, model: &Path, numbers: [usize; 4]) -> Result<Self, String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("llama_peer.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(model)
            .args(numbers.map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("`{}` does not start: {error}", python.display()))?;
        let requests = child.stdin.take().expect("it was piped");
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut running = Self { child, requests, answers, version: String::new() };
        match running.answer()? {
            Answer::Ready(version) => {
                running.version = version;
                Ok(running)
            }
            Answer::Missing(why) => Err(why),
            Answer::Seconds(_) => Err("it answered before it was asked".to_owned()),
        }
    }

    fn ask(&mut self, request: &str) -> Result<f64, String> {
        writeln!(self.requests, "{request}").map_err(|error| format!("it ended: {error}"))?;
        match self.answer()? {
            Answer::Seconds(seconds) => Ok(seconds),
            Answer::Ready(_) | Answer::Missing(_) => Err("it answered out of turn".to_owned()),
        }
    }

    fn answer(&mut self) -> Result<Answer, String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| format!("it ended: {error}"))?;
        serde_json::from_str(&line).map_err(|_| "it ended without an answer".to_owned())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has nothing to save; a failure means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
