//! `aiperf` on the same endpoint: what it says of its medians.
//!
//! It counts tokens with a tokenizer of its own; a vocabulary of bytes is written for it, so that nothing is
//! downloaded. Its inter-token latency is what others call the time per output token.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use tokio::time::timeout;

use crate::endpoint::{ANSWER_TOKENS, MODEL};
use crate::{PROMPT_TOKENS, Told, figure};

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

/// Sends so many requests, so many at once, and reads its report.
pub(crate) async fn measure(
    peers: &Path,
    endpoint: SocketAddr,
    (requests, users): (u64, usize),
) -> Result<Told> {
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
        .args(["--url", &format!("http://{endpoint}"), "--ui", "none"])
        .args(["--concurrency", &users.to_string(), "--request-count", &requests.to_string()])
        .args(["--synthetic-input-tokens-mean", &PROMPT_TOKENS.to_string()])
        .args(["--synthetic-input-tokens-stddev", "0"])
        .args(["--output-tokens-mean", &ANSWER_TOKENS.to_string(), "--use-server-token-count"])
        .arg("--tokenizer")
        .arg(&tokenizer)
        .arg("--artifact-dir")
        .arg(&artifacts);
    run(&mut profile).await.context("aiperf")?;
    let report = artifacts.join("profile_export_aiperf.json");
    let text = std::fs::read_to_string(&report)
        .with_context(|| format!("aiperf wrote no `{}`", report.display()))?;
    let report = serde_json::from_str(&text)?;
    Ok(Told {
        tool: "aiperf".to_owned(),
        ttft_ms: figure(&report, ["time_to_first_token", "p50"])?,
        tpot_ms: figure(&report, ["inter_token_latency", "p50"])?,
    })
}

async fn run(command: &mut Command) -> Result<()> {
    command.stdin(Stdio::null()).kill_on_drop(true).env_remove("HF_HUB_OFFLINE");
    let out = timeout(PATIENCE, command.output()).await.context("it did not end in time")??;
    let errors = String::from_utf8_lossy(&out.stderr);
    let last = errors.lines().next_back().unwrap_or_default();
    ensure!(out.status.success(), "it ended with {}: {last}", out.status);
    Ok(())
}
