//! `overdraft bench`: load generator that measures latency and throughput of an endpoint.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use indicatif::{ProgressBar, ProgressStyle};
use overdraft_load::{Asking, FLYING_MAX, Interface, Loop, Plan, Progress, Target, Trust};
use overdraft_sim::report::{Origin, Report, Run};
use overdraft_sim::workload::{Wording, catalogue};
use serde_json::{Map, Value};

use crate::fault::Fault;
use crate::report_options::ReportOptions;
use crate::url_option::UrlOption;
use crate::workload_options::{Load, WorkloadOptions, check_answered};

/// How often the progress bar is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Kinds of failures that are told.
const WRONG_TOLD_MAX: usize = 5;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Arguments {
    /// The endpoint: a gateway, a worker, or anything that speaks `OpenAI`'s API over HTTP/1.1, with or without TLS
    #[arg(default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,
    #[command(flatten)]
    url_option: UrlOption,
    /// The model; by default the first that the endpoint lists
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Chat completions or completions
    #[arg(long, default_value = "openai-chat", value_name = "WHICH")]
    backend: Backend,
    /// Requests under way at most; a request that waits for this counts from when it was due
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrency: Option<u32>,
    /// Seed of lengths, arrivals and texts
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    seed: u64,
    /// Asks workers to go on to the full length of the answer (vLLM's `ignore_eos`)
    #[arg(long)]
    ignore_eos: bool,
    /// More fields for every request, as a JSON object
    #[arg(long, value_name = "JSON")]
    extra_body: Option<String>,
    /// A header of every request, as `name: value`; may be given several times
    #[arg(long, short = 'H', value_name = "HEADER")]
    header: Vec<String>,
    /// A header that carries the session's number, such as `x-session-id`
    #[arg(long, value_name = "NAME")]
    session_header: Option<HeaderName>,
    /// The API key
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,
    /// PEM file of the authorities that may sign an `https` endpoint's certificate, instead of the system's
    #[arg(long, alias = "ca-file", value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Takes any certificate of an `https` endpoint, without checking who signed it
    #[arg(long, short = 'k', conflicts_with = "cacert")]
    insecure: bool,
    /// Tokens that the endpoint makes of a word; by default two short requests find out
    #[arg(long, value_name = "TOKENS")]
    tokens_per_word: Option<f64>,
    /// Seconds that a whole answer may take
    #[arg(long, default_value_t = 600, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..))]
    request_timeout: u64,
    /// Shows all workloads, and sends nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    report: ReportOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Backend {
    OpenaiChat,
    Openai,
}

const EXAMPLES: &str = "\
Examples:
  overdraft bench http://127.0.0.1:8080 --num-prompts 200 --request-rate 4
  overdraft bench http://gateway:8080 --workload tenants:groups=48,prefix=12000 --ignore-eos
  overdraft bench http://worker:8000 --workload mooncake:conversation_trace.jsonl --speed 2
  overdraft bench URL --rates 3,10,15:60s --warm-up 15:30 --requests-csv requests.csv
  overdraft bench URL --users 16 --duration 60 --goodput ttft:500 tpot:50 --html report.html
  overdraft bench https://gateway.example --cacert authority.pem
  overdraft bench --list                            # all workloads and what can be set about them

Times count from when a request was due: what waited for a connection, for `--max-concurrency` or
for this program shows in them. Goodput counts over all requests that were offered.

Exit codes: 0 measured, 1 nothing was answered or the run broke off, 2 the input cannot be used.";

impl Arguments {
    fn url(&self) -> &str {
        self.url_option.or(&self.url)
    }
}

/// Sends, waits and tells.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    if arguments.list {
        return crate::config::print(&catalogue());
    }
    arguments.report.check()?;
    let load = arguments.workload.load()?;
    check_users(&load)?;
    let target = target(arguments)?;
    let report = crate::runtime::runtime()?.block_on(measure(arguments, &load, target))?;
    load.check_asked(&report)?;
    arguments.report.tell(&report)?;
    check_answered(&report.runs)
}

/// Refuses more users than have room, rather than send fewer than the report would say.
fn check_users(load: &Load) -> Result<(), Fault> {
    match load.users {
        Some(users) if FLYING_MAX < usize::try_from(users).unwrap_or(usize::MAX) => {
            let why = format!("`--users {users}`: expected 1 to {FLYING_MAX}");
            Err(Fault::input(why).hint("start `overdraft bench` several times for more"))
        }
        _ => Ok(()),
    }
}

fn target(arguments: &Arguments) -> Result<Target, Fault> {
    let input = |error: overdraft_load::TargetError| Fault::input(error.to_string());
    let trust = match &arguments.cacert {
        _ if arguments.insecure => Trust::Anyone,
        Some(file) => Trust::Authorities(file.clone()),
        None => Trust::System,
    };
    let mut target = Target::parse(arguments.url(), &trust).map_err(input)?;
    for header in &arguments.header {
        target.header(header).map_err(input)?;
    }
    if let Some(key) = &arguments.api_key {
        target.key(key).map_err(input)?;
    }
    Ok(target)
}

/// What every body says beside the prompt.
fn extra(arguments: &Arguments) -> Result<Map<String, Value>, Fault> {
    let mut extra: Map<String, Value> = match &arguments.extra_body {
        None => Map::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Fault::input(format!("`--extra-body`: {error}; expected a JSON object"))
        })?,
    };
    if arguments.ignore_eos {
        extra.insert("ignore_eos".to_owned(), true.into());
    }
    Ok(extra)
}

async fn measure(arguments: &Arguments, load: &Load, target: Target) -> Result<Report, Fault> {
    let opened = load.open(arguments.seed)?;
    let patience = Duration::from_secs(arguments.request_timeout);
    let running = |error: overdraft_load::CalibrateError| {
        Fault::running(error.to_string()).hint("is the endpoint there, and is the model right?")
    };
    let model = match &arguments.model {
        Some(model) => model.clone(),
        None => overdraft_load::first_model(&target, patience).await.map_err(running)?,
    };
    let interface = match arguments.backend {
        Backend::OpenaiChat => Interface::Chat,
        Backend::Openai => Interface::Completions,
    };
    let wording = Wording::default();
    let mut asking = Asking { interface, model, wording, extra: extra(arguments)? };
    asking.wording = match arguments.tokens_per_word {
        Some(tokens_per_word) if 0.0 < tokens_per_word && tokens_per_word.is_finite() => {
            Wording { tokens_per_word }
        }
        Some(other) => {
            let why = format!("`--tokens-per-word {other}`: expected a number above zero");
            return Err(Fault::input(why));
        }
        None => overdraft_load::calibrate(&target, &asking, patience).await.map_err(running)?,
    };
    let settings = settings(arguments, load, &asking);
    let plan = Plan {
        target,
        asking,
        pace: load.users.map_or(Loop::Open, |users| Loop::Closed {
            users: usize::try_from(users).unwrap_or(usize::MAX),
            is_timed: load.is_timed,
            refused_wait: load.refused_wait,
        }),
        warm_up: load.warm_up,
        until: load.until,
        concurrency_max: arguments.max_concurrency.and_then(|most| usize::try_from(most).ok()),
        session_header: arguments.session_header.clone(),
        patience,
    };
    let progress = Arc::new(Progress::default());
    let bar = bar(load);
    let sending = overdraft_load::run(plan, opened.sessions, Arc::clone(&progress));
    let recorder = watched(sending, &progress, &bar).await;
    bar.finish_and_clear();
    tell_wrong(&progress);
    let recorder = recorder.map_err(|error| Fault::running(error.to_string()))?;
    let mut run = Run::new(arguments.url().to_owned(), arguments.seed, recorder);
    (run.groups.tenants, run.groups.stages) = (opened.tenants, opened.stages);
    Ok(Report {
        title: format!("Load on {}", arguments.url()),
        origin: Origin::Measured,
        settings,
        objectives: load.objectives,
        runs: vec![run],
    })
}

fn settings(arguments: &Arguments, load: &Load, asking: &Asking) -> Vec<(String, String)> {
    let mut settings = vec![
        ("endpoint".to_owned(), arguments.url().to_owned()),
        ("model".to_owned(), asking.model.clone()),
        ("tokens to a word".to_owned(), format!("{:.3}", asking.wording.tokens_per_word)),
        ("seed".to_owned(), arguments.seed.to_string()),
    ];
    settings.extend(load.settings());
    if let Some(most) = arguments.max_concurrency {
        settings.push(("concurrency at most".to_owned(), most.to_string()));
    }
    settings
}

/// Draws the bar while the requests are under way.
async fn watched<T>(work: impl Future<Output = T>, progress: &Progress, bar: &ProgressBar) -> T {
    let mut work = std::pin::pin!(work);
    let mut draw = tokio::time::interval(DRAW_EVERY);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = draw.tick() => {
                bar.set_position(progress.ended());
                bar.set_message(format!("{} under way", progress.flying()));
            }
        }
    }
}

fn bar(load: &Load) -> ProgressBar {
    let (bar, template) = match load.pacing.requests_max {
        Some(requests) => {
            (ProgressBar::new(requests), "{bar:30} {pos}/{len} answered, {msg}, {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {pos} answered, {msg}, {elapsed}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[expect(clippy::print_stderr, reason = "what went wrong is for the person at the terminal")]
fn tell_wrong(progress: &Progress) {
    let mut wrong = progress.wrong();
    wrong.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (kind, count) in wrong.iter().take(WRONG_TOLD_MAX) {
        eprintln!("warning: {count} × {kind}");
    }
    if WRONG_TOLD_MAX < wrong.len() {
        eprintln!("warning: and {} more kinds of failure", wrong.len() - WRONG_TOLD_MAX);
    }
}
