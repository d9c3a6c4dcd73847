//! `overdraft bench` beside NVIDIA's `aiperf` on one endpoint. (S6)
//!
//! So many users, each asking when its last answer has come. `aiperf` counts tokens with a tokenizer of its own; a
//! vocabulary of bytes is written for it, which is how a simulated worker counts, so nothing is downloaded and
//! prompts are equally long. What it calls inter-token latency is what others call the time per output token.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::process::Command;
use tokio::time::timeout;

use super::realtime::PROFILE;
use crate::server::{Server, figure, told};

/// Tokens of an answer.
const ANSWER_TOKENS: &str = "32";
/// What the endpoint calls its model.
const MODEL: &str = "llama-3-70b";
/// It starts a dozen processes before it sends anything.
const PATIENCE: Duration = Duration::from_mins(8);

/// Writes a tokenizer whose tokens are bytes into the folder that it is given.
const TOKENIZER: &str = "
import json, os, sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
os.makedirs(sys.argv[1], exist_ok=True)
path = lambda name: os.path.join(sys.argv[1], name)
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
one = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
one.decoder = decoders.ByteLevel()
one.save(path('tokenizer.json'))
kind = {'tokenizer_class': 'PreTrainedTokenizerFast', 'model_max_length': 100000}
json.dump(kind, open(path('tokenizer_config.json'), 'w'))
json.dump({'model_type': 'llama'}, open(path('config.json'), 'w'))
";

/// A closed loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) users: u32,
    pub(crate) requests: u32,
    /// Tokens of a prompt.
    pub(crate) prompt: u32,
}

/// Medians in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Medians {
    pub(crate) ttft: f64,
    pub(crate) tpot: f64,
}

/// What both tools tell of the same endpoint.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Told {
    pub(crate) users: u32,
    pub(crate) ours: Medians,
    /// Or why there is nothing.
    pub(crate) theirs: Result<Medians, String>,
}

impl Round {
    /// Lets both tools ask, one after the other.
    pub(crate) async fn measure(self, binary: &Path, peers: &Path) -> Result<Told> {
        let simulate = ["--simulate", PROFILE, "--answer-tokens", ANSWER_TOKENS];
        let worker = Server::workers(binary, &simulate, 1).await?;
        let ours = self.ours(binary, &worker.url()).await?;
        let theirs = self.theirs(peers, &worker.url()).await.map_err(|error| format!("{error:#}"));
        Ok(Told { users: self.users, ours, theirs })
    }

    async fn ours(self, binary: &Path, url: &str) -> Result<Medians> {
        let workload = format!("unique:question={},output={ANSWER_TOKENS},spread=0", self.prompt);
        let (users, requests) = (self.users.to_string(), self.requests.to_string());
        let arguments = ["bench", url, "--workload", &workload, "--output", "json"];
        let load = ["--users", &users, "--num-prompts", &requests, "--seed", "1"];
        let words: Vec<String> =
            [&arguments[..], &load].concat().into_iter().map(str::to_owned).collect();
        let report = told(binary, &words).await?;
        let of = |name: &str| figure(&report, &["runs", "0", name]);
        let completed = of("completed")?;
        ensure!(completed >= f64::from(self.requests), "{completed} of {requests} were answered");
        Ok(Medians { ttft: of("median_ttft_ms")?, tpot: of("median_tpot_ms")? })
    }

    async fn theirs(self, peers: &Path, url: &str) -> Result<Medians> {
        let tool = peers.join("bin/aiperf");
        ensure!(tool.exists(), "`{}` is not there; pip install aiperf==0.13.0", tool.display());
        let work = peers.join("loadtool");
        let (tokenizer, artifacts) = (work.join("tokenizer"), work.join("artifacts"));
        let mut python = Command::new(peers.join("bin/python"));
        python.args(["-c", TOKENIZER]).arg(&tokenizer);
        run(&mut python).await.context("no tokenizer for aiperf")?;
        let mut profile = Command::new(&tool);
        profile
            .args(["profile", "--model", MODEL, "--endpoint-type", "chat", "--streaming"])
            .args(["--url", url, "--ui", "none", "--use-server-token-count"])
            .args(["--concurrency", &self.users.to_string()])
            .args(["--request-count", &self.requests.to_string()])
            .args(["--synthetic-input-tokens-mean", &self.prompt.to_string()])
            .args(["--synthetic-input-tokens-stddev", "0"])
            .args(["--output-tokens-mean", ANSWER_TOKENS])
            .arg("--tokenizer")
            .arg(&tokenizer)
            .arg("--artifact-dir")
            .arg(&artifacts);
        let report = artifacts.join("profile_export_aiperf.json");
        // What is read below must be of this run.
        if report.exists() {
            std::fs::remove_file(&report)?;
        }
        run(&mut profile).await.context("aiperf")?;
        let text = std::fs::read_to_string(&report)
            .with_context(|| format!("aiperf wrote no `{}`", report.display()))?;
        let report = serde_json::from_str(&text)?;
        Ok(Medians {
            ttft: figure(&report, &["time_to_first_token", "p50"])?,
            tpot: figure(&report, &["inter_token_latency", "p50"])?,
        })
    }
}

async fn run(command: &mut Command) -> Result<()> {
    // With it, no path is taken for a tokenizer.
    command.stdin(Stdio::null()).kill_on_drop(true).env_remove("HF_HUB_OFFLINE");
    let out = timeout(PATIENCE, command.output()).await.context("it did not end in time")??;
    let errors = String::from_utf8_lossy(&out.stderr);
    let last = errors.lines().next_back().unwrap_or_default();
    ensure!(out.status.success(), "it ended with {}: {last}", out.status);
    Ok(())
}
