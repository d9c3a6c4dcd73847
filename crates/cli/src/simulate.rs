//! `overdraft simulate`: discrete-event simulation of a fleet under a workload.
//!
//! Policies and seeds run in virtual time, as many at once as there are cores; all output is marked as
//! simulated.

use std::path::PathBuf;

use clap::ArgGroup;
use indicatif::{ProgressBar, ProgressStyle};
use overdraft_core::route::{Policy, RouteSettings};
use overdraft_gpu_model::{Catalogue, Profile, ProfileError};
use overdraft_sim::fleet::{CacheKnowledge, Pace, Pool, Scenario, simulate};
use overdraft_sim::report::{Groups, Origin, Report, Run};
use overdraft_sim::workload::{catalogue, similar};
use overdraft_units::{Micros, Tokens};

use crate::decision_options::{DecisionOptions, SPECULATES};
use crate::fault::Fault;
use crate::parallel::in_parallel;
use crate::pool_options::{self, PoolOption};
use crate::report_options::ReportOptions;
use crate::simulate_config;
use crate::simulated_engine::SimulatedEngineOptions;
use crate::what_if::{self, WhatIfOptions};
use crate::workload_options::{Load, Opened, WorkloadOptions, check_answered, thousandths};

/// Seeds at most.
const SEEDS_MAX: u64 = 100;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new(SPECULATES).args(["speculation_policy", "config"]).multiple(true)))]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Arguments {
    /// Each worker's GPUs and model, as HARDWARE-tpN/MODEL-WEIGHTS; `--list` shows all
    #[arg(long, default_value = "h100-tp1/llama-3-8b-bf16", value_name = "PROFILE")]
    pub(crate) profile: String,
    /// A file with more profiles; may be given several times
    #[arg(long, value_name = "FILE")]
    profiles: Vec<PathBuf>,
    /// Workers of the fleet
    #[arg(long, default_value_t = 4, value_name = "COUNT")]
    pub(crate) workers: u32,
    /// Workers of one kind, as `COUNTxPROFILE` or `COUNTxPROFILE@DOLLARS` (an hour for each); given
    /// several times, a fleet of several pools that answer for one model
    #[arg(long, value_name = "POOL", conflicts_with_all = ["profile", "workers", "price_per_hour"])]
    pub(crate) pool: Vec<PoolOption>,
    /// Policies to compare, with commas between them, or `all`; none by default where `--config` is given
    #[arg(
        long,
        default_value = "cost,round-robin",
        value_name = "POLICY",
        value_delimiter = ',',
        default_value_if("config", clap::builder::ArgPredicate::IsPresent, None)
    )]
    pub(crate) policy: Vec<String>,
    /// A configuration file to compare as well: what it says of routing, admission, waiting, retries,
    /// hedging, scrapes, KV events, answers given again and guessing; may be given several times
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["access_log", "decompose"])]
    config: Vec<PathBuf>,
    /// Seeds to run each policy with, as many at once as there are cores; more than one give confidence
    /// intervals and tell which differences may be chance
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    pub(crate) seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0, value_name = "SEED")]
    pub(crate) seed: u64,
    /// Workers report their caches to the gateway, as with KV events; otherwise it goes by what it sent
    #[arg(long)]
    kv_events: bool,
    /// Tokens that a worker's cache holds, instead of what the profile leaves room for
    #[arg(long, value_name = "TOKENS")]
    kv_tokens: Option<u32>,
    /// Tokens of prompt and answer together at most; by default all that a cache holds
    #[arg(long, value_name = "TOKENS")]
    max_model_len: Option<u32>,
    /// Milliseconds between two scrapes of a worker
    #[arg(long, default_value_t = 200.0, value_name = "MS")]
    scrape_interval_ms: f64,
    /// Milliseconds from gateway to worker, and the same back
    #[arg(long, default_value_t = 0.25, value_name = "MS")]
    network_ms: f64,
    /// Microseconds that a worker's front end takes for each prompt token before it is queued
    #[arg(long, default_value_t = 0.0, value_name = "US")]
    ingest_us_per_token: f64,
    /// Dollars an hour that a worker costs, instead of what the profile's hardware does
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) price_per_hour: Option<f64>,
    /// Shows all profiles, workloads and policies, and simulates nothing
    #[arg(long)]
    list: bool,
    /// Prints a number that is equal only for equal histories, for each run; JSON always has it
    #[arg(long)]
    pub(crate) digest: bool,
    #[command(flatten)]
    pub(crate) engine: SimulatedEngineOptions,
    #[command(flatten)]
    pub(crate) what_if: WhatIfOptions,
    #[command(flatten)]
    pub(crate) decisions: DecisionOptions,
    #[command(flatten)]
    pub(crate) workload: WorkloadOptions,
    #[command(flatten)]
    pub(crate) report: ReportOptions,
}

const EXAMPLES: &str = "\
Examples:
  overdraft simulate --workload tenants:groups=48,prefix=12000,rate=20
  overdraft simulate --policy all --seeds 5 --workload documents:rate=30 --goodput ttft:500 tpot:50
  overdraft simulate --rates 3,10,15:60s --warm-up 15:50 --workload documents:questions=5
  overdraft simulate --workload coding:rate=2,parallel=2 --duration 1200 --kv-events
  overdraft simulate --profile h100-tp4/llama-3-70b-bf16 --workload mooncake:trace.jsonl
  overdraft simulate --profiles measured.toml --profile measured/qwen2.5-7b-measured
  overdraft simulate --access-log gateway.log --workers 6 --price-per-hour 2.5 --html out.html
  overdraft simulate --access-log gateway.log --pool 2xh100/llama-3-8b-bf16
  overdraft simulate --workload bursts:rate=30 --admission peak --crash-on-oom
  overdraft simulate --admission peak --priorities flex:3,default:6,priority:1
  overdraft simulate --users 200 --workload tenants:repeat=0.3 --cache-memory 256MiB --decompose
  overdraft config write-up > write-up.yaml
  overdraft simulate --workload bursts:rate=30 --policy cost --admission peak --config write-up.yaml
  overdraft simulate --list

The gateway's decisions and the worker's scheduler are those that run live. How long a GPU takes is
a model (docs/design/gpu-model.md). Nothing is sent anywhere.

Exit codes: 0 simulated, 1 nothing was answered or a trace broke off, 2 the input cannot be used.";

/// Simulates and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Fault> {
    if arguments.list {
        return crate::config::print(&list(&profiles(arguments)?));
    }
    arguments.report.check()?;
    if !(1..=SEEDS_MAX).contains(&arguments.seeds) {
        let why = format!("`--seeds {}`: expected 1 to {SEEDS_MAX}", arguments.seeds);
        return Err(Fault::input(why));
    }
    if arguments.seed.checked_add(arguments.seeds).is_none() {
        let (first, most) = (arguments.seed, u64::MAX - arguments.seeds);
        let why = format!("`--seed {first}` leaves no room for so many; expected up to {most}");
        return Err(Fault::input(why));
    }
    if let Some(log) = &arguments.what_if.access_log {
        arguments.decisions.refuse_beside_a_log()?;
        return what_if::run(arguments, log);
    }
    let load = arguments.workload.load()?;
    let policies = policies(&arguments.policy)?;
    let pools = pool_options::pools(arguments)?;
    let fleets = fleets(arguments, &load, &pools, &policies)?;
    let bar = bar(&load, fleets.len(), arguments.seeds);
    let jobs: Vec<_> = fleets.iter().flat_map(|fleet| arguments.each_seed(fleet)).collect();
    let runs = in_parallel(jobs.len(), |place| {
        let ((label, scenario), seed) = jobs[place];
        one(scenario, load.open(seed)?, label, seed, &bar)
    })?;
    bar.finish_and_clear();
    let report = Report {
        title: format!("Simulated: {}", pool_options::told(&pools)),
        origin: Origin::Simulated,
        settings: settings(arguments, &load, &pools),
        objectives: load.objectives,
        runs,
    };
    load.check_asked(&report)?;
    arguments.report.tell(&report)?;
    if arguments.digest {
        arguments.report.tell_digests(&report)?;
    }
    check_answered(&report.runs)
}

impl Arguments {
    /// Something once for each seed.
    pub(crate) fn each_seed<T: Copy>(&self, thing: T) -> impl Iterator<Item = (T, u64)> + use<T> {
        (self.seed..self.seed + self.seeds).map(move |seed| (thing, seed))
    }
}

/// A fleet with all decisions that were asked for.
fn decided(
    arguments: &Arguments,
    load: &Load,
    pools: &[Pool],
    policy: Policy,
) -> Result<Scenario, Fault> {
    let mut scenario = scenario(arguments, load, pools, policy)?;
    let profiles = profiles(arguments)?;
    for decision in arguments.decisions.wanted() {
        arguments.decisions.add(decision, &mut scenario, &profiles)?;
    }
    Ok(scenario)
}

/// What is compared: policies side by side, or one decision after the other.
fn fleets(
    arguments: &Arguments,
    load: &Load,
    pools: &[Pool],
    policies: &[Policy],
) -> Result<Vec<(String, Scenario)>, Fault> {
    let (wanted, profiles) = (arguments.decisions.wanted(), profiles(arguments)?);
    let mut fleets = Vec::new();
    for (place, &policy) in policies.iter().enumerate() {
        let decomposes = arguments.decisions.decomposes();
        let make = if decomposes { scenario } else { decided };
        let is_added = decomposes && 0 < place;
        let label = if is_added { format!("+ {policy}") } else { policy.name().to_owned() };
        fleets.push((label, make(arguments, load, pools, policy)?));
    }
    for (path, label) in arguments.config.iter().zip(simulate_config::labels(&arguments.config)?) {
        fleets.push((label, simulate_config::fleet(arguments, path, load, pools, &profiles)?));
    }
    if let Some((_, last)) = fleets.last().filter(|_| arguments.decisions.decomposes()) {
        let mut scenario = last.clone();
        for decision in wanted {
            arguments.decisions.add(decision, &mut scenario, &profiles)?;
            fleets.push((format!("+ {}", decision.name()), scenario.clone()));
        }
    }
    Ok(fleets)
}

/// One fleet with one seed.
pub(crate) fn one(
    scenario: &Scenario,
    load: Opened,
    label: &str,
    seed: u64,
    bar: &ProgressBar,
) -> Result<Run, Fault> {
    bar.set_message(format!("{label}, seed {seed}"));
    let mut shown = 0;
    let mut show = |ended: u64| {
        bar.inc(ended.saturating_sub(shown));
        shown = ended;
    };
    let told = simulate(scenario, load.sessions, seed, &mut show);
    let told = told.map_err(|error| Fault::input(error.to_string()))?;
    show(u64::try_from(told.recorder.samples().len()).unwrap_or(u64::MAX));
    let counts = Some(told.counts());
    Ok(Run {
        series: told.series,
        cost: Some(told.cost),
        counts,
        groups: Groups { tenants: load.tenants, stages: load.stages, ..told.groups },
        ..Run::new(label.to_owned(), seed, told.recorder)
    })
}

/// The profile of a name, at the price that a flag says, if it does.
pub(crate) fn priced(
    arguments: &Arguments,
    name: &str,
    flag: &str,
    price: Option<f64>,
) -> Result<Profile, Fault> {
    let mut profile = arguments.engine.apply(listed(arguments, name)?);
    if let Some(price) = price {
        // Told for all GPUs of a worker, kept for one.
        profile.hardware.price_per_hour = price / f64::from(profile.tensor_parallel);
        profile.hardware.price_source = format!("`{flag}`");
    }
    Ok(profile)
}

/// The profile of a name, as it is listed.
pub(crate) fn listed(arguments: &Arguments, name: &str) -> Result<Profile, Fault> {
    profiles(arguments)?.find(name).map_err(|error| {
        let hint = match &error {
            ProfileError::TooLarge { .. } => error.hint(),
            _ => "`--list` shows all profiles; `--profiles FILE` adds your own",
        };
        Fault::input(error.to_string()).hint(hint)
    })
}

fn profiles(arguments: &Arguments) -> Result<Catalogue, Fault> {
    let mut profiles = Catalogue::builtin();
    for path in &arguments.profiles {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Fault::input(format!("`{shown}` cannot be read: {error}")))?;
        profiles
            .add(&shown, &text)
            .map_err(|error| Fault::input(error.to_string()).hint(error.hint()))?;
    }
    Ok(profiles)
}

pub(crate) fn policies(names: &[String]) -> Result<Vec<Policy>, Fault> {
    let mut policies = Vec::new();
    for name in names {
        if name == "all" {
            policies.extend(Policy::ALL);
            continue;
        }
        let policy: Policy = name.parse().map_err(|_| {
            let known: Vec<&str> = Policy::ALL.iter().map(|policy| policy.name()).collect();
            let near = similar(name, known.iter().copied());
            let known = known.join(", ");
            Fault::input(format!("`{name}` is no policy{near}; expected `all` or some of {known}"))
        })?;
        policies.push(policy);
    }
    // Runs of one label count as seeds of one fleet, so a policy that is named again is not run again.
    let mut distinct: Vec<Policy> = Vec::new();
    for policy in policies {
        if !distinct.contains(&policy) {
            distinct.push(policy);
        }
    }
    Ok(distinct)
}

pub(crate) fn scenario(
    arguments: &Arguments,
    load: &Load,
    pools: &[Pool],
    policy: Policy,
) -> Result<Scenario, Fault> {
    let routing = RouteSettings { policy, ..RouteSettings::default() };
    let (first, others) = pools.split_first().expect("a fleet has a pool");
    let mut base = Scenario::new(first.profile.clone(), first.workers, routing);
    base.others = others.to_vec();
    arguments.decisions.set_world(&mut base)?;
    let millis = |name, value| thousandths(name, value, "milliseconds");
    let scrape_every = millis("scrape-interval-ms", arguments.scrape_interval_ms)?;
    // Thousandths of a microsecond are nanoseconds.
    let ingest = thousandths("ingest-us-per-token", arguments.ingest_us_per_token, "microseconds")?;
    Ok(Scenario {
        kv_tokens: arguments.kv_tokens.map(Tokens::new),
        page: arguments.engine.page()?,
        context: arguments.max_model_len.map(Tokens::new),
        knowledge: if arguments.kv_events {
            CacheKnowledge::Reported
        } else {
            CacheKnowledge::Estimated
        },
        // A scrape without an interval would never let time pass.
        scrape_every: scrape_every.max(Micros::new(1_000)),
        network: millis("network-ms", arguments.network_ms)?,
        ingest_ns_per_token: ingest.get(),
        pace: match load.users {
            None => Pace::Open,
            Some(users) if load.is_timed => Pace::Timed(users),
            Some(users) => Pace::Closed(users),
        },
        refused_wait: load.refused_wait,
        until: load.until,
        warm_up: load.warm_up,
        tells_missed: true,
        ..base
    })
}

pub(crate) fn settings(
    arguments: &Arguments,
    load: &Load,
    pools: &[Pool],
) -> Vec<(String, String)> {
    let knowledge = if arguments.kv_events { "reported by workers" } else { "what was sent" };
    let mut settings = pool_options::settings(pools);
    settings.extend([
        ("known of caches".to_owned(), knowledge.to_owned()),
        ("scrapes every".to_owned(), format!("{} ms", arguments.scrape_interval_ms)),
        ("network".to_owned(), format!("{} ms each way", arguments.network_ms)),
        ("ingest".to_owned(), format!("{} µs a prompt token", arguments.ingest_us_per_token)),
        ("seeds".to_owned(), format!("{} from {}", arguments.seeds, arguments.seed)),
    ]);
    if let Some(tokens) = arguments.kv_tokens {
        settings.push(("cache".to_owned(), format!("{tokens} tokens a worker")));
    }
    if let Some(tokens) = arguments.max_model_len {
        settings.push(("max-model-len".to_owned(), tokens.to_string()));
    }
    settings.extend(arguments.engine.settings());
    settings.extend(arguments.decisions.settings());
    settings.extend(load.settings());
    settings
}

fn list(profiles: &Catalogue) -> String {
    use std::fmt::Write as _;
    let mut text = String::from("Profiles:\n");
    for one in profiles.list() {
        let _written = writeln!(
            text,
            "  {:<34} {:>9} tokens of cache  ${:>6.2}/h  {}",
            one.name,
            one.kv_tokens.get(),
            one.price_per_hour,
            one.trust
        );
    }
    let names: Vec<&str> = Policy::ALL.iter().map(|policy| policy.name()).collect();
    let _written = writeln!(text, "\nPolicies: {}\n", names.join(", "));
    text.push_str(&catalogue());
    text
}

/// An amount of dollars, above zero.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    let dollars = text.parse::<f64>().ok().filter(|dollars| 0.0 < *dollars && *dollars < 1e6);
    dollars.ok_or_else(|| "expected dollars above zero, as in `2.5`".to_owned())
}

pub(crate) fn bar(load: &Load, policies: usize, seeds: u64) -> ProgressBar {
    let runs = u64::try_from(policies).unwrap_or(1) * seeds;
    let (bar, template) = match load.pacing.requests_max {
        Some(requests) => {
            (ProgressBar::new(requests * runs), "{bar:30} {pos}/{len} requests, {msg}, {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {pos} requests, {msg}, {elapsed}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
