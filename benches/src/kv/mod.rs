//! KV sharing bench: fetching a prefix from a peer against recomputing it (S5).
//!
//! Three workers with the real engine on the same model, in this process and over sockets: a holder, one
//! that fetches from it, and one that fetches through a wire that flips a bit. Each prompt is computed
//! by the fetching worker itself first, under a salt of its own, which nobody else has blocks of;
//! then the holder computes it for a tenant and gets no more requests, and the others are asked for the
//! same tenant.
#![expect(clippy::print_stdout, reason = "a bench reports to its terminal")]

mod client;
mod report;
mod wire;
mod worker;

use std::process::ExitCode;

use crate::Dice;
use crate::model::{self, Size, VOCABULARY};
use crate::runtime;
use anyhow::{Result, ensure};
use overdraft_claims::judge;
use overdraft_worker::KvShareSettings;

use self::client::Answer;
use self::report::{Report, Round};
use self::worker::Worker;

/// Tokens of a prompt.
const PROMPT: usize = 2_000;
/// Tokens of an answer.
const ANSWER: usize = 24;
/// Where the wire flips a bit: some blocks into the answer of either model.
const FLIPPED_BYTE: usize = 2_000_000;
/// Tokens below this end nothing and begin nothing.
const FIRST_TOKEN: usize = 300;

/// Measures blocks that are fetched from another worker.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A smaller model; under a minute
    #[arg(long)]
    quick: bool,
    /// Writes the raw results under benches/runs/
    #[arg(long)]
    save: bool,
}

/// Runs the bench.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    runtime()?.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<ExitCode> {
    let (size, name, rounds) = if arguments.quick {
        (Size::Small, "random-110m", 3)
    } else {
        (Size::Large, "random-1b", 3)
    };
    let file = model::random(size)?;
    let settings = || KvShareSettings::new("the-benches-own-token");
    let holder = Worker::start(&file, settings()?.offering()).await?;
    let url = format!("http://{}", holder.address);
    let fetching = Worker::start(&file, settings()?.fetching_from([url.as_str()])?).await?;
    let flipping = wire::flipping(holder.address, FLIPPED_BYTE).await?;
    let url = format!("http://{}", flipping.address);
    let deceived = Worker::start(&file, settings()?.fetching_from([url.as_str()])?).await?;
    let mut measured = Vec::new();
    for number in 0..rounds {
        let prompt = prompt(number);
        measured.push(round(&prompt, [&holder, &fetching, &deceived]).await?);
    }
    let report = Report {
        model: name,
        prompt_tokens: PROMPT,
        rounds: measured,
        fetched_blocks: fetching.count("overdraft_kv_blocks_fetched_total").await?,
        bits_seen: deceived.count("overdraft_kv_blocks_rejected_total").await?,
        bits_flipped: flipping.flipped(),
        machine_load: overdraft_claims::machine_load(),
    };
    report.print();
    if arguments.save {
        println!("raw results: {}", overdraft_claims::save("kv", &report)?);
    }
    let claims = report.claims();
    Ok(judge(&claims))
}

/// One prompt on all three.
async fn round(prompt: &[usize], workers: [&Worker; 3]) -> Result<Round> {
    let [holder, fetching, deceived] = workers;
    let ask = async |worker: &Worker, salt: &str| -> Result<Answer> {
        client::complete(worker.address, prompt, ANSWER, salt).await
    };
    let computed = ask(fetching, "nobody else").await?;
    let held = ask(holder, "tenant").await?;
    let fetched = ask(fetching, "tenant").await?;
    let mended = ask(deceived, "tenant").await?;
    ensure!(computed.cached == 0, "the worker was to compute the prompt itself");
    let same = |answer: &Answer| answer.tokens == computed.tokens;
    Ok(Round {
        computed: computed.figures(),
        fetched: fetched.figures(),
        mended: mended.figures(),
        fetched_is_same: same(&fetched) && same(&held),
        mended_is_same: same(&mended),
    })
}

/// Tokens that nothing has said before.
fn prompt(number: u64) -> Vec<usize> {
    let mut dice = Dice::new(number);
    (0..PROMPT).map(|_| FIRST_TOKEN + dice.below(VOCABULARY - FIRST_TOKEN)).collect()
}
