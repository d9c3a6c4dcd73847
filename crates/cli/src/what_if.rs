//! `overdraft simulate --access-log`: replays logged requests under another fleet, policy or price.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use overdraft_core::cost::Prices;
use overdraft_core::route::Policy;
use overdraft_gpu_model::Profile;
use overdraft_sim::fleet::Pool;
use overdraft_sim::report::{Groups, Origin, Report, Run};
use overdraft_sim::what_if::{self, Kept, Recorded, Work};
use overdraft_sim::workload::{AccessLog, Pacing, Sessions, similar};
use overdraft_units::Instant;
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::parallel::in_parallel;
use crate::pool_options;
use crate::simulate::{self, Arguments};
use crate::workload_options::{Load, Opened, check_answered};

/// The column of what was recorded.
const RECORDED: &str = "recorded";

/// Width of the titles of rows.
const TITLE: usize = 38;

/// Width of a column of dollars.
const COLUMN: usize = 14;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "What if")]
pub(crate) struct WhatIfOptions {
    /// Replays the load that a gateway wrote into its access log (`serve --log-format json
    /// --log-prefixes`) and sets what it would cost beside what it did
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "request_rate", "users"])]
    pub(crate) access_log: Option<PathBuf>,
    /// The model whose requests are replayed, where the log has several
    #[arg(long, value_name = "NAME", requires = "access_log")]
    model: Option<String>,
    /// Sends to the simulated fleet what this mechanism answered when the log was written, with commas between
    /// several; otherwise such requests end as they did
    #[arg(long, value_name = "MECHANISM", value_delimiter = ',', requires = "access_log")]
    without: Vec<Mechanism>,
    /// Workers that were there when the log was recorded; by default those it names
    #[arg(long, value_name = "COUNT", requires = "access_log",
          value_parser = clap::value_parser!(u32).range(1..))]
    recorded_workers: Option<u32>,
    /// GPUs and model of the recorded workers; by default those of `--profile` or the first `--pool`
    #[arg(long, value_name = "PROFILE", requires = "access_log")]
    recorded_profile: Option<String>,
    /// Dollars an hour of each recorded worker; by default the price of its profile's hardware
    #[arg(long, value_name = "DOLLARS", value_parser = simulate::dollars, requires = "access_log")]
    recorded_price: Option<f64>,
}

/// What may have answered instead of a worker of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mechanism {
    /// The response cache
    Cache,
    /// A small model that was asked first
    Cascade,
}

/// One column: what a load cost.
#[derive(Clone, Debug)]
struct Column {
    label: String,
    work: Work,
    /// Workers of each pool, and dollars an hour for each of them.
    pools: Vec<(u32, f64)>,
    /// From the first request to the last answer.
    hours: f64,
}

/// Replays and tells.
pub(crate) fn run(arguments: &Arguments, file: &Path) -> Result<(), Fault> {
    let options = &arguments.what_if;
    let load = arguments.workload.of_log(file)?;
    let log = AccessLog::read(file).map_err(|error| Fault::input(error.to_string()))?;
    let log = Arc::new(log.of_model(&model(&log, options.model.as_deref())?));
    note(&log);
    let part = Part::of(&log, &load)?;
    let policies = simulate::policies(&arguments.policy)?;
    let pools = pool_options::pools(arguments)?;
    let mut fleet = Recorded::of(&part.counted);
    // Who answered nothing of the part was there all the same.
    fleet.workers = options.recorded_workers.unwrap_or(Recorded::of(&log).workers);
    // Without a word on it, what was there is what the (first) pool is.
    let before = match &options.recorded_profile {
        Some(name) => simulate::listed(arguments, name)?,
        None => simulate::listed(arguments, &pools[0].profile.name())?,
    };
    let price = options.recorded_price.unwrap_or_else(|| before.price_per_hour());
    let mut columns = vec![recorded(&part.counted, &fleet, &before, price)];
    let mut runs = vec![Run {
        cost: Some(columns[0].fleet()),
        groups: Groups { tenants: log.tenants(), ..Groups::default() },
        ..Run::new(RECORDED.to_owned(), arguments.seed, what_if::recorded(&part.counted))
    }];
    let priced = |pool: &Pool| fleet.prices(&pool.profile, pool.profile.price_per_hour());
    let prices: Vec<Prices> = pools.iter().map(priced).collect();
    let an_hour = |pool: &Pool| f64::from(pool.workers) * pool.profile.price_per_hour();
    let an_hour: f64 = pools.iter().map(an_hour).sum();
    let bar = simulate::bar(&load, policies.len(), arguments.seeds);
    let jobs: Vec<_> = policies.iter().flat_map(|&policy| arguments.each_seed(policy)).collect();
    let done = in_parallel(jobs.len(), |place| {
        let (policy, seed) = jobs[place];
        let scenario = simulate::scenario(arguments, &load, &pools, policy)?;
        let (left, sessions) = part.split(&load, options.kept(), seed);
        let opened = Opened { sessions, tenants: log.tenants(), stages: Vec::new() };
        let mut run = simulate::one(&scenario, opened, policy.name(), seed, &bar)?;
        let (work, hours) = again(&part.asked, &mut run, &left, &prices);
        // The fleet costs as well while it waits for what ends as it did.
        run.cost = Some(an_hour * hours);
        Ok(((work, hours), run))
    })?;
    bar.finish_and_clear();
    let (works, replayed): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    runs.extend(replayed);
    let seeds = usize::try_from(arguments.seeds).unwrap_or(1);
    for (policy, works) in policies.into_iter().zip(works.chunks(seeds)) {
        columns.push(Column::of(policy, works, &pools));
    }
    let mut settings = simulate::settings(arguments, &load, &pools);
    settings.push(("model of the log".to_owned(), log.entries()[0].model.to_string()));
    settings.extend(columns.iter().map(Column::setting));
    let report = Report {
        title: format!("What if: {}", pool_options::told(&pools)),
        origin: Origin::Simulated,
        settings,
        objectives: load.objectives,
        runs,
    };
    let told: serde_json::Map<String, Value> =
        columns.iter().map(|column| (column.label.clone(), column.json())).collect();
    arguments.report.tell_with(&report, &table(&columns), "what_if", told.into())?;
    if arguments.digest {
        arguments.report.tell_digests(&report)?;
    }
    check_answered(report.runs.iter().filter(|run| run.label != RECORDED))
}

impl WhatIfOptions {
    fn kept(&self) -> Kept {
        Kept {
            cache: !self.without.contains(&Mechanism::Cache),
            cascade: !self.without.contains(&Mechanism::Cascade),
        }
    }
}

/// The one model that is replayed.
fn model(log: &AccessLog, asked: Option<&str>) -> Result<String, Fault> {
    let models = log.models();
    match (asked, models.as_slice()) {
        (None, [one]) => Ok((*one).to_owned()),
        (Some(asked), _) if log.asks_for(asked) => Ok(asked.to_owned()),
        (Some(asked), _) => {
            let near = similar(asked, models.iter().copied());
            let known = models.join("`, `");
            let why = format!("the log has no request for `{asked}`{near}; expected `{known}`");
            Err(Fault::input(why))
        }
        (None, _) => {
            let known = models.join("`, `");
            Err(Fault::input(format!("the log has requests for several models: `{known}`"))
                .hint("choose one of them with `--model`"))
        }
    }
}

#[expect(clippy::print_stderr, reason = "what a log lacks is for the person at the terminal")]
fn note(log: &AccessLog) {
    if !log.names_prefixes() {
        eprintln!(
            "warning: the log does not say what prompts share, so routing can save nothing; record it \
             with `overdraft serve --log-prefixes`"
        );
    }
    if 0 < log.unanswered() {
        eprintln!(
            "warning: {} requests of the log got no answer; they are left out",
            log.unanswered()
        );
    }
}

/// Requests that end as they did and count: their places in what is replayed, and when they begin now.
type Left = Arc<Mutex<Vec<(usize, Instant)>>>;

/// The requests of a log that are replayed, and those of them that count: all but those of the warm-up.
struct Part {
    asked: Arc<AccessLog>,
    counted: AccessLog,
}

impl Part {
    /// What `--num-prompts`, `--from`, `--duration` and `--warm-up` leave of a log. Both columns are of it: less
    /// work than that of the whole log would look like savings.
    ///
    /// # Errors
    /// Nothing that counts is left.
    fn of(log: &Arc<AccessLog>, load: &Load) -> Result<Self, Fault> {
        let (mut first, mut asked, mut warm) = (None, 0, 0);
        // The log's own times draw nothing, so every seed leaves the same requests, one behind the other.
        let paced = load.pacing.apply(Arc::clone(log).sessions(), 0);
        for session in paced.filter_map(Result::ok) {
            first = first.or(Some(session.name));
            asked += 1;
            warm += usize::from(session.at.since(Instant::ORIGIN) < load.warm_up);
        }
        let first = first.and_then(|name| usize::try_from(name).ok()).unwrap_or(0);
        let counted = log.part(first + warm..first + asked);
        if counted.entries().is_empty() {
            return Err(load.nothing_asked());
        }
        Ok(Self { asked: Arc::new(log.part(first..first + asked)), counted })
    }

    /// What the simulated fleet is asked, and what it is not.
    fn split(&self, load: &Load, kept: Kept, seed: u64) -> (Left, Sessions) {
        let left = Left::default();
        let (notes, sources) = (Arc::clone(&left), Arc::clone(&self.asked));
        // All that remains of the log is asked.
        let pacing = Pacing { requests_max: None, span: None, ..load.pacing };
        let warm_up = load.warm_up;
        let paced = pacing.apply(Arc::clone(&self.asked).sessions(), seed);
        let asked = paced.filter(move |session| {
            let Ok(session) = session else { return true };
            let place = usize::try_from(session.name).unwrap_or(usize::MAX);
            let keeps = sources.entries().get(place).is_some_and(|entry| kept.keeps(entry.source));
            if keeps && warm_up <= session.at.since(Instant::ORIGIN) {
                notes.lock().unwrap_or_else(PoisonError::into_inner).push((place, session.at));
            }
            !keeps
        });
        (left, Box::new(asked))
    }
}

/// Puts what ended as it did to what was simulated; the work of both, and the hours.
fn again(log: &AccessLog, run: &mut Run, left: &Left, prices: &[Prices]) -> (Work, f64) {
    let mut work = Work::default();
    work.simulated(prices, &run.recorder);
    for (place, at) in left.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let entry = &log.entries()[*place];
        work.recorded(&prices[0], entry);
        run.recorder.sample(what_if::sample(entry, *at));
    }
    let seconds = run.summary(&overdraft_sim::report::Objectives::default()).duration;
    (work, seconds / 3_600.0)
}

fn recorded(log: &AccessLog, fleet: &Recorded, profile: &Profile, price: f64) -> Column {
    let prices = fleet.prices(profile, price);
    let mut work = Work::default();
    for entry in log.entries() {
        work.recorded(&prices, entry);
    }
    Column {
        label: RECORDED.to_owned(),
        work,
        pools: vec![(fleet.workers, price)],
        hours: fleet.seconds / 3_600.0,
    }
}

impl Column {
    /// The mean over the seeds.
    fn of(policy: Policy, seeds: &[(Work, f64)], pools: &[Pool]) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a hundred seeds at most")]
        let count = seeds.len().max(1) as f64;
        let mean = |of: fn(&(Work, f64)) -> f64| seeds.iter().map(of).sum::<f64>() / count;
        Self {
            label: policy.name().to_owned(),
            work: Work {
                whole: mean(|(work, _)| work.whole),
                routing: mean(|(work, _)| work.routing),
                cache: mean(|(work, _)| work.cache),
                cascade: mean(|(work, _)| work.cascade),
                cascaded_unpriced: seeds.first().map_or(0, |(work, _)| work.cascaded_unpriced),
            },
            pools: pools.iter().map(|one| (one.workers, one.profile.price_per_hour())).collect(),
            hours: mean(|(_, hours)| *hours),
        }
    }

    /// Dollars for all workers, whatever they did.
    fn fleet(&self) -> f64 {
        self.dollars_an_hour() * self.hours
    }

    fn workers(&self) -> u32 {
        self.pools.iter().map(|(workers, _)| workers).sum()
    }

    fn dollars_an_hour(&self) -> f64 {
        self.pools.iter().map(|(workers, price)| f64::from(*workers) * price).sum()
    }

    /// Of one worker, on average.
    fn price(&self) -> f64 {
        self.dollars_an_hour() / f64::from(self.workers().max(1))
    }

    fn json(&self) -> Value {
        let work = &self.work;
        json!({
            "work_dollars": {
                "whole": work.whole,
                "saved_by_routing": work.routing,
                "saved_by_cache": work.cache,
                "saved_by_cascade": work.cascade,
                "cascaded_without_prices": work.cascaded_unpriced,
                "remaining": work.paid(),
            },
            "fleet": {
                "workers": self.workers(),
                "dollars_per_hour": self.price(),
                "pools": self.pools.iter().map(|(workers, price)| json!({
                    "workers": workers,
                    "dollars_per_hour": price,
                })).collect::<Vec<_>>(),
                "hours": self.hours,
                "dollars": self.fleet(),
            },
        })
    }

    fn setting(&self) -> (String, String) {
        let Self { label, work, hours, .. } = self;
        let each = |(workers, price): &(u32, f64)| format!("{workers} × ${price:.2}/h");
        let fleet = self.pools.iter().map(each).collect::<Vec<_>>().join(" + ");
        let Work { whole, routing, cache, cascade, .. } = work;
        let value = format!(
            "work ${whole:.4} - routing ${routing:.4} - response cache ${cache:.4} - cascade \
             ${cascade:.4} = ${:.4}; fleet {fleet}, {hours:.3} h = ${:.4}",
            work.paid(),
            self.fleet()
        );
        (format!("cost, {label}"), value)
    }
}

/// What everything costs, a column each.
fn table(columns: &[Column]) -> String {
    use std::fmt::Write as _;
    let mut text = String::from(
        "\n`recorded` is what the log says; what stands beside it is simulated.\n\
         The work, by the time that a GPU takes for a token ($):\n",
    );
    let mut row = |title: &str, cell: &dyn Fn(&Column) -> String| {
        let _written = write!(text, "{title:<TITLE$}");
        for column in columns {
            let _written = write!(text, "{:>COLUMN$}", cell(column));
        }
        text.push('\n');
    };
    let dollars = |value: f64| format!("{value:.4}");
    // A zero that is subtracted would show a sign.
    let spared = |value: f64| dollars(0.0 - value);
    row("", &|column| column.label.clone());
    row("all by the target, nothing reused", &|column| dollars(column.work.whole));
    row("routing: prefixes found in caches", &|column| spared(column.work.routing));
    row("response cache: answers given again", &|column| spared(column.work.cache));
    row("cascade: small models first", &|column| spared(column.work.cascade));
    row("speculation", &|_| "not told".to_owned());
    row("what remains", &|column| dollars(column.work.paid()));
    let first = columns.first().map_or(0.0, |column| column.work.paid());
    row("against what was recorded", &|column| {
        let times = column.work.paid() / first;
        if times.is_finite() { format!("{:+.1} %", (times - 1.0) * 100.0) } else { "-".to_owned() }
    });
    row("the fleet by the hour", &|column| dollars(column.fleet()));
    row("  workers", &|column| column.workers().to_string());
    row("  $ an hour for each, on average", &|column| format!("{:.2}", column.price()));
    row("  hours", &|column| format!("{:.4}", column.hours));
    text
}
