//! Workload flags: source, rate and size of a load, shared by `bench` and `simulate`.

use std::path::Path;

use overdraft_sim::report::Objectives;
use overdraft_sim::workload::{Arrivals, Kind, Pacing, Sessions, Source, Times};
use overdraft_units::Micros;

use crate::fault::Fault;

/// Requests of a workload that has no end, where nobody says how many.
const REQUESTS_DEFAULT: u64 = 1_000;

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
pub(crate) struct WorkloadOptions {
    /// What is asked: `KIND:PATH` for a trace, `KIND` or `KIND:name=value,…` for a generator; `--list`
    /// shows all
    #[arg(long, default_value = "chat", value_name = "WORKLOAD")]
    workload: String,
    /// Requests at most; by default a whole trace, or 1000 of a generator
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    num_prompts: Option<u64>,
    /// Requests a second at random, instead of as the workload says; `inf` sends all at once
    #[arg(long, value_name = "RATE")]
    request_rate: Option<f64>,
    /// How even random arrivals are: 1 is Poisson, less is burstier, more is more even
    #[arg(long, default_value_t = 1.0, value_name = "SHAPE", requires = "request_rate")]
    burstiness: f64,
    /// Factor by which the workload's own times run faster; lengths stay
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", conflicts_with = "request_rate")]
    speed: f64,
    /// Seconds at the workload's beginning that are left out
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    from: f64,
    /// Seconds after the start from which on nothing new begins
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Closed loop with this many users; each begins a session when its last one has ended
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["request_rate", "speed"],
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) users: Option<u32>,
    /// Limits in milliseconds that a good request keeps, as `ttft:500 tpot:50 e2el:10000`
    #[arg(long, value_name = "OBJECTIVE", num_args = 1..)]
    goodput: Vec<String>,
}

/// A load that was asked for and can be begun.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) source: Source,
    pub(crate) pacing: Pacing,
    pub(crate) objectives: Objectives,
    pub(crate) users: Option<u32>,
}

impl WorkloadOptions {
    /// Reads what was typed.
    pub(crate) fn load(&self) -> Result<Load, Fault> {
        let source = Source::parse(&self.workload).map_err(|error| {
            Fault::input(error.to_string()).hint("`--list` shows all workloads")
        })?;
        let mut objectives = Objectives::default();
        for text in &self.goodput {
            objectives.add(text).map_err(|error| Fault::input(error.to_string()))?;
        }
        let positive = |name: &str, value: f64| {
            (0.0 < value && value.is_finite()).then_some(value).ok_or_else(|| {
                Fault::input(format!("`--{name} {value}`: expected a number above zero"))
            })
        };
        let arrivals = match self.request_rate {
            Some(rate) if rate.is_infinite() && 0.0 < rate => Arrivals::AtOnce,
            Some(rate) => Arrivals::Rate {
                per_second: positive("request-rate", rate)?,
                burstiness: positive("burstiness", self.burstiness)?,
            },
            None => Arrivals::Own { speed: positive("speed", self.speed)? },
        };
        let endless = source.kind() == Kind::Generator && self.duration.is_none();
        let pacing = Pacing {
            arrivals,
            from: micros("from", self.from)?,
            requests_max: self.num_prompts.or(endless.then_some(REQUESTS_DEFAULT)),
            span: self.duration.map(|seconds| micros("duration", seconds)).transpose()?,
        };
        Ok(Load { source, pacing, objectives, users: self.users })
    }
}

impl WorkloadOptions {
    /// The load of an access log, at the pace that was typed.
    pub(crate) fn of_log(&self, file: &Path) -> Result<Load, Fault> {
        Self { workload: format!("access:{}", file.display()), ..self.clone() }.load()
    }
}

impl Load {
    /// The sessions of a seed.
    pub(crate) fn open(&self, seed: u64) -> Result<Sessions, Fault> {
        let workload = self.source.open(seed).map_err(|error| Fault::input(error.to_string()))?;
        let own = matches!(self.pacing.arrivals, Arrivals::Own { .. });
        if workload.times == Times::Untold && own && self.users.is_none() {
            let why = format!("`{}` does not tell when requests come", self.source);
            return Err(Fault::input(why).hint("say so with `--request-rate` or `--users`"));
        }
        Ok(self.pacing.apply(workload.sessions, seed))
    }

    /// What of it belongs into a report.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let arrivals = match (self.users, self.pacing.arrivals) {
            (Some(users), _) => format!("closed loop of {users} users"),
            (None, Arrivals::AtOnce) => "all at once".to_owned(),
            (None, Arrivals::Own { speed: 1.0 }) => "open loop, the workload's own".to_owned(),
            (None, Arrivals::Own { speed }) => format!("open loop, the workload's own × {speed}"),
            (None, Arrivals::Rate { per_second, burstiness }) => {
                format!("open loop, {per_second} requests/s, burstiness {burstiness}")
            }
        };
        let mut settings = vec![
            ("workload".to_owned(), self.source.to_string()),
            ("arrivals".to_owned(), arrivals),
        ];
        if let Some(requests) = self.pacing.requests_max {
            settings.push(("requests at most".to_owned(), requests.to_string()));
        }
        settings
    }
}

/// Seconds as a user types them.
pub(crate) fn micros(name: &str, seconds: f64) -> Result<Micros, Fault> {
    scaled(name, seconds, "seconds", 1.0)
}

/// Thousandths as a user types them: of `unit`, which are milliseconds, or microseconds where nanoseconds are
/// counted.
pub(crate) fn thousandths(name: &str, value: f64, unit: &str) -> Result<Micros, Fault> {
    scaled(name, value, unit, 1e3)
}

fn scaled(name: &str, value: f64, unit: &str, scale: f64) -> Result<Micros, Fault> {
    let span = std::time::Duration::try_from_secs_f64(value / scale).map_err(|_| {
        Fault::input(format!("`--{name} {value}`: expected {unit}, not below zero"))
    })?;
    Ok(Micros::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
}
