//! `overdraft calibrate`: measures a worker's steps and writes a profile that `overdraft simulate` reads.
//!
//! An idle worker is asked for prompts of several lengths, for answers in batches of several sizes, with short and
//! long contexts, and for prompts beside such answers, in several rounds. The terms of a profile are fitted to the
//! times. A load with both at once, which the fit has not seen, is sent and simulated: how far the two are apart stands
//! in the file and on the terminal.

mod check;
mod rounds;
mod seats;
mod steps;
mod wake;

use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use overdraft_gpu_model::{Measured, OBSERVED_MIN, Observed, StepFit};
use overdraft_load::{Asking, Interface, Target, Trust};
use overdraft_sim::workload::Wording;
use overdraft_units::Tokens;
use overdraft_wire::prometheus::PAGE_BYTES_MAX;
use overdraft_wire::prometheus::engine::{WorkerReport, report};
use serde_json::{Map, Value};
use tokio::time::MissedTickBehavior;

use self::rounds::Rounds;
use self::seats::Seats;
use self::steps::{Endpoint, Extent, PATIENCE, Step};
use crate::ask::{Address, Want, get};
use crate::fault::Fault;
use crate::url_option::UrlOption;

/// Tokens of a step where nobody says, as vLLM's API server has it by default.
const STEP_TOKENS: u32 = 8_192;

/// Sequences at once where neither anybody says nor a queue was seen, as vLLM's default on small GPUs.
const RUNNING_MAX: u32 = 256;

/// Looks at a worker that is not idle before it is said to be busy.
const LOOKS_IDLE: u32 = 8;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The worker: vLLM, `SGLang`, llama-server or one of ours, itself and no gateway before it
    #[arg(value_name = "URL", required_unless_present = "url_flag")]
    url: Option<String>,
    #[command(flatten)]
    url_option: UrlOption,
    /// The model; by default the first that the worker lists
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The profile's file; its folder must exist
    #[arg(long, value_name = "FILE", default_value = "measured.toml")]
    write: PathBuf,
    /// The name of the hardware in the profile
    #[arg(long, value_name = "NAME", default_value = "measured", value_parser = name)]
    hardware: String,
    /// Fewer lengths, smaller batches, fewer repetitions
    #[arg(long)]
    quick: bool,
    /// The longest prompt to send, in tokens [default: 4096, or 1024 with `--quick`]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(64..=131_072))]
    prompt_max: Option<u32>,
    /// The largest batch to send [default: 32, or 8 with `--quick`]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..=512))]
    batch_max: Option<u32>,
    /// The worker's `--max-num-seqs`; by default as many as several looks in a row saw run while others
    /// waited, or 256 where none did
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: Option<u32>,
    /// The worker's `--max-num-batched-tokens`; no metric tells it
    #[arg(long, value_name = "TOKENS", default_value_t = STEP_TOKENS,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_num_batched_tokens: u32,
    /// Tokens that the worker's cache holds, where its metrics do not say
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(64..))]
    kv_tokens: Option<u32>,
    /// Dollars an hour that the worker costs
    #[arg(long, value_name = "DOLLARS", default_value_t = 1.0)]
    price_per_hour: f64,
    /// Seed of texts: other seeds send other prompts, so that none is in the cache from the time before
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// The API key
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  overdraft calibrate http://10.0.0.5:8000 --hardware l40s --write l40s.toml
  overdraft simulate --profiles l40s.toml --profile l40s/qwen2.5-7b-measured --workers 4
  overdraft calibrate http://127.0.0.1:8080 --quick
  overdraft calibrate URL --max-num-seqs 128 --max-num-batched-tokens 2048

The worker must be idle: its metrics are read before and after. It should have served for a
while, as an engine takes longer for what it meets for the first time. Two to ten minutes of its
time are taken, less with `--quick`. What cannot be measured from outside
(`--max-num-batched-tokens`) is as you say or as vLLM has it.

Exit codes: 0 the profile is written, 1 the worker cannot be read, is busy or fails, 2 the input
cannot be used.";

/// Measures, fits, checks and writes.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    let folder = arguments.write.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        let shown = arguments.write.display();
        return Err(Fault::input(format!("`--write {shown}`: its folder does not exist")));
    }
    if !(arguments.price_per_hour.is_finite() && 0.0 < arguments.price_per_hour) {
        let why =
            format!("`--price-per-hour {}`: expected dollars above zero", arguments.price_per_hour);
        return Err(Fault::input(why));
    }
    crate::runtime::runtime()?.block_on(calibrate(arguments))
}

async fn calibrate(arguments: &Arguments) -> Result<(), Fault> {
    let address =
        Address::of_url(arguments.url()).map_err(|why| wrong_url(arguments.url(), &why))?;
    let before = idle(&address).await?;
    let kv_tokens = kv_tokens(arguments, &before)?;
    let endpoint = endpoint(arguments).await?;
    let extent = arguments.extent(kv_tokens);
    let bar = bar(&extent, steps::plan(&extent).len());
    let (rounds, seats) = measure_all(&endpoint, &address, &extent, &bar).await?;
    let (observed, wake) = wake::split(rounds.medians());
    let paces = rounds.paces();
    let fit = StepFit::of(&observed).ok_or_else(|| {
        let why =
            format!("`{}` steps were measured; expected {OBSERVED_MIN} or more", observed.len());
        Fault::running(why).hint(
            "give `--prompt-max` or `--batch-max` a larger value; answers of one token tell no step of a batch",
        )
    })?;
    let seats = arguments.max_num_seqs.or_else(|| seats.seen());
    let mut measured = Measured {
        hardware: arguments.hardware.clone(),
        model: plain(&endpoint.asking.model),
        fit,
        kv_tokens,
        step_tokens: Tokens::new(arguments.max_num_batched_tokens),
        running_max: seats.unwrap_or(RUNNING_MAX),
        wake,
        price_per_hour: arguments.price_per_hour,
        source: String::new(),
    };
    bar.set_message("a load of both");
    let checked = check::check(&endpoint, &measured, &extent).await?;
    bar.finish_and_clear();
    idle(&address).await?;
    measured.source = format!(
        "{} steps of {}, off by {:.1} % on average; {paces}; {checked}",
        observed.len(),
        endpoint.asking.model,
        fit.error * 100.0
    );
    write(&arguments.write, &measured)?;
    let known = if seats.is_some() { "" } else { " (not seen; `--max-num-seqs` says)" };
    let seats = format!("{}{known}", measured.running_max);
    let worker = format!("{seats} sequences at once; {paces}");
    crate::config::print(&told(arguments, &measured, &observed, &worker, &checked))?;
    warn(paces.warning());
    Ok(())
}

#[expect(clippy::print_stderr, reason = "what a profile is worth belongs beside its report")]
fn warn(warning: Option<String>) {
    if let Some(warning) = warning {
        eprintln!("warning: {warning}");
    }
}

/// Measures every step once in each round.
async fn measure_all(
    endpoint: &Endpoint,
    address: &Address,
    extent: &Extent,
    bar: &ProgressBar,
) -> Result<(Rounds, Seats), Fault> {
    let mut rounds = Rounds::over(steps::plan(extent));
    let mut seats = Seats::default();
    for round in 0..extent.rounds {
        for place in 0..rounds.steps().len() {
            let step = rounds.steps()[place];
            bar.set_message(format!("round {} of {}: {step}", round + 1, extent.rounds));
            let number = rounds.number(round, place);
            let taken = measure(endpoint, address, &step, number, &mut seats).await?;
            rounds.take(place, taken);
            bar.inc(1);
        }
    }
    Ok((rounds, seats))
}

/// What the worker says of itself, if it has nothing to do.
///
/// # Errors
/// It cannot be read, or somebody uses it.
async fn idle(address: &Address) -> Result<WorkerReport, Fault> {
    let mut clock = tokio::time::interval(steps::LOOK_EVERY);
    let mut said = look(address).await?;
    // Gauges may lag behind the last answer.
    for _ in 0..LOOKS_IDLE {
        if said.running + said.waiting == 0 {
            return Ok(said);
        }
        clock.tick().await;
        said = look(address).await?;
    }
    let (running, waiting) = (said.running, said.waiting);
    let why = format!(
        "the worker is not idle: `{running}` requests run and `{waiting}` wait; expected none"
    );
    Err(Fault::running(why)
        .hint("take it out of the fleet first: others' requests would be measured too"))
}

/// What the worker's metrics say.
async fn look(address: &Address) -> Result<WorkerReport, Fault> {
    let unread = |why: String| {
        Fault::running(format!("the worker's metrics cannot be read: {why}"))
            .hint("llama-server has them with `--metrics`, SGLang with `--enable-metrics`")
    };
    let (status, page) =
        get(address, "/metrics", Want::Body(PAGE_BYTES_MAX)).await.map_err(|error| {
            Fault::running(format!("the worker was not reached: {error}"))
                .hint("is it running, and does it listen on that address? `curl URL/metrics` tells")
        })?;
    if !status.is_success() {
        return Err(unread(format!("`/metrics` answers {status}")));
    }
    report(&page).map_err(|error| unread(error.to_string()))
}

/// Tokens that its cache holds.
fn kv_tokens(arguments: &Arguments, said: &WorkerReport) -> Result<Tokens, Fault> {
    arguments.kv_tokens.map(Tokens::new).or(said.kv_capacity).ok_or_else(|| {
        Fault::input("the worker's metrics do not say how many tokens its cache holds")
            .hint("say so with `--kv-tokens`: for llama-server that is `--ctx-size`")
    })
}

async fn endpoint(arguments: &Arguments) -> Result<Endpoint, Fault> {
    let input = |error: overdraft_load::TargetError| Fault::input(error.to_string());
    let mut target = Target::parse(arguments.url(), &Trust::System).map_err(input)?;
    if let Some(key) = &arguments.api_key {
        target.key(key).map_err(input)?;
    }
    let running = |error: overdraft_load::CalibrateError| {
        Fault::running(error.to_string()).hint("is the worker there, and is the model right?")
    };
    let model = match &arguments.model {
        Some(model) => model.clone(),
        None => overdraft_load::first_model(&target, PATIENCE).await.map_err(running)?,
    };
    let mut extra = Map::new();
    extra.insert("ignore_eos".to_owned(), Value::Bool(true));
    let (interface, wording) = (Interface::Completions, Wording::default());
    let mut asking = Asking { interface, model, wording, extra };
    let calibrated = overdraft_load::calibrate(&target, &asking, PATIENCE).await;
    asking.wording = calibrated.map_err(running)?;
    let seed = arguments.seed.unwrap_or_else(overdraft_telemetry::unix_seconds);
    let step_tokens = arguments.max_num_batched_tokens;
    Ok(Endpoint { target, asking, seed, step_tokens })
}

/// Measures a step, and looks at the worker's metrics meanwhile.
async fn measure(
    endpoint: &Endpoint,
    address: &Address,
    step: &Step,
    number: u64,
    seats: &mut Seats,
) -> Result<Option<Observed>, Fault> {
    let taking = endpoint.take(step, number);
    // A look costs the worker time, and a prompt that is alone shows no seats.
    if matches!(step, Step::Prefill { .. }) {
        return taking.await;
    }
    let mut taking = std::pin::pin!(taking);
    let mut clock = tokio::time::interval(steps::LOOK_EVERY);
    // Looks that are made up for, one right after the other, would agree without a reason.
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            taken = &mut taking => return taken,
            _ = clock.tick() => {
                if let Ok(said) = look(address).await {
                    *seats = seats.and((&said).into());
                }
            }
        }
    }
}

impl Arguments {
    fn url(&self) -> &str {
        self.url_option.or(self.url.as_deref().unwrap_or_default())
    }

    fn extent(&self, kv_tokens: Tokens) -> Extent {
        let (prompt, batch, rounds) = if self.quick { (1_024, 8, 3) } else { (4_096, 32, 5) };
        Extent {
            prompt_max: self.prompt_max.unwrap_or(prompt).min(kv_tokens.get() / 2),
            batch_max: self.batch_max.unwrap_or(batch),
            rounds,
            kv_tokens: kv_tokens.get(),
            step_tokens: self.max_num_batched_tokens,
            seats: self.max_num_seqs,
        }
    }
}

fn write(path: &Path, measured: &Measured) -> Result<(), Fault> {
    std::fs::write(path, measured.toml())
        .map_err(|error| Fault::running(format!("`{}` not written: {error}", path.display())))
}

/// What a person is told: the terms, each step beside the fit, and how to go on.
fn told(
    arguments: &Arguments,
    measured: &Measured,
    observed: &[Observed],
    worker: &str,
    checked: &check::Checked,
) -> String {
    use std::fmt::Write as _;
    let fit = &measured.fit;
    let mut text = String::from("measured and fitted, in milliseconds:\n");
    for one in observed {
        let (taken, fitted) = (one.seconds * 1e3, fit.seconds(one) * 1e3);
        let off = (fitted / taken - 1.0) * 100.0;
        let what = steps::told(one);
        let _written = writeln!(text, "  {what:<44} {taken:>10.3} {fitted:>10.3} {off:>+7.1} %");
    }
    if fit.per_context_beside.is_none() {
        text.push_str("  how much slower answers get beside prompts was not measured\n");
    }
    if 0.0 < measured.wake {
        let ms = measured.wake * 1e3;
        let _written = writeln!(
            text,
            "  after a tenth of a second with nothing to do a step takes {ms:.2} longer"
        );
    }
    let file = arguments.write.display();
    let cache = measured.kv_tokens.get();
    let _written = write!(
        text,
        "mean absolute error {:.1} %; cache of {cache} tokens, {worker}; {:.2} ms a request besides\n\
         a load that was not fitted: {checked}\n\
         `{file}` is written: overdraft simulate --profiles {file} --profile {} --network-ms {:.2}\n",
        fit.error * 100.0,
        fit.per_request * 1e3,
        measured.name(),
        // Half of it on each way, as the check above has it.
        fit.per_request * 1e3 / 2.0
    );
    text
}

/// Over all steps of all rounds, and the check.
fn bar(extent: &Extent, steps: usize) -> ProgressBar {
    let steps = u64::try_from(steps).unwrap_or(u64::MAX);
    let bar = ProgressBar::new(u64::from(extent.rounds).saturating_mul(steps).saturating_add(1));
    match ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}, {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn wrong_url(url: &str, why: &str) -> Fault {
    Fault::input(format!("`{url}`: {why}"))
}

/// A model's name as a profile may have it: what stands behind the last slash, in small letters.
fn plain(model: &str) -> String {
    let last = model.rsplit('/').next().unwrap_or(model);
    let kept = |letter: char| {
        let is_plain = letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
        if is_plain { letter.to_ascii_lowercase() } else { '-' }
    };
    let name: String = last.chars().map(kept).collect();
    if name.is_empty() { "model".to_owned() } else { name }
}

fn name(text: &str) -> Result<String, String> {
    let is_plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    if text.is_empty() || !text.chars().all(is_plain) {
        return Err("expected letters, digits, dots and dashes, as in `l40s`".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models_become_names_of_profiles() {
        assert_eq!(plain("HuggingFaceTB/SmolLM2-135M"), "smollm2-135m");
        assert_eq!(plain("my model:latest"), "my-model-latest");
        assert_eq!(plain(""), "model");
        assert_eq!(name("L40S").unwrap(), "l40s");
        assert!(name("a/b").unwrap_err().contains("as in `l40s`"));
    }
}
