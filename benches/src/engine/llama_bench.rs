//! `llama-bench` as the peer, where llama-cpp-python is not installed.
//!
//! It measures one sequence and prefill, not batches; it runs once, before the turns, so its ratios
//! do not share our minutes.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::{Case, PREFILL};

/// Tokens that it decodes.
const DECODED: usize = 32;

/// Its figures.
pub(crate) struct LlamaBench {
    prefill_seconds: f64,
    decode_seconds: f64,
}

/// One of its tests.
#[derive(Deserialize)]
struct Entry {
    n_prompt: usize,
    n_gen: usize,
    /// Tokens per second.
    avg_ts: f64,
}

impl LlamaBench {
    /// Runs it from the PATH.
    pub(crate) fn run(model: &Path, threads: NonZeroUsize) -> Result<Self, String> {
        let (prefill, decoded) = (PREFILL.to_string(), DECODED.to_string());
        let output = Command::new("llama-bench")
            .args(["-o", "json", "-p", &prefill, "-n", &decoded, "-t", &threads.to_string(), "-m"])
            .arg(model)
            .output()
            .map_err(|error| format!("`llama-bench` does not start: {error}"))?;
        Self::parse(&output.stdout)
    }

    #[expect(clippy::cast_precision_loss, reason = "a few hundred tokens")]
    fn parse(json: &[u8]) -> Result<Self, String> {
        let entries: Vec<Entry> = serde_json::from_slice(json)
            .map_err(|error| format!("`llama-bench` gave no figures: {error}"))?;
        let speed = |prompt, generated| {
            let found = entries.iter().find(|e| e.n_prompt == prompt && e.n_gen == generated);
            found.map(|entry| entry.avg_ts).ok_or("`llama-bench` left out a figure".to_owned())
        };
        let prefill_seconds = PREFILL as f64 / speed(PREFILL, 0)?;
        Ok(Self { prefill_seconds, decode_seconds: 1.0 / speed(0, DECODED)? })
    }

    /// Seconds for one step, where it measures that.
    pub(crate) fn seconds(&self, case: Case) -> Option<f64> {
        match case {
            Case::Prefill { tokens: PREFILL } => Some(self.prefill_seconds),
            Case::Decode { sequences: 1, tokens: 1 } => Some(self.decode_seconds),
            Case::Prefill { .. } | Case::Decode { .. } | Case::Shared { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Case, LlamaBench};

    #[test]
    fn reads_what_llama_bench_prints() {
        let json = br#"[{"n_prompt": 512, "n_gen": 0, "avg_ts": 256.0, "test_time": "x"},
                        {"n_prompt": 0, "n_gen": 32, "avg_ts": 50.0}]"#;
        let bench = LlamaBench::parse(json).unwrap();
        assert_eq!(bench.seconds(Case::Prefill { tokens: 512 }), Some(2.0));
        assert_eq!(bench.seconds(Case::Decode { sequences: 1, tokens: 1 }), Some(0.02));
        assert_eq!(bench.seconds(Case::Decode { sequences: 8, tokens: 1 }), None);
        assert!(LlamaBench::parse(b"usage: llama-bench").is_err());
    }
}
