//! Workload flags: source, rate and size of a load, shared by `bench` and `simulate`.

use std::path::Path;

use overdraft_sim::report::{Fate, Objectives, Report, Run};
use overdraft_sim::workload::{
    Arrivals, Kind, Ladder, LadderError, Pacing, Rung, Sessions, Source, Times,
};
use overdraft_units::Micros;

use crate::fault::Fault;

/// Requests of a workload that has no end, where nobody says how many.
const REQUESTS_DEFAULT: u64 = 1_000;

/// Seconds of a time at most, thirty years: sums of such times fit the clock.
const SECONDS_MAX: f64 = 1e9;

/// The slowest that requests come in a second, and that times of a workload run: a thousand requests still fit the
/// clock.
const SLOWEST: f64 = 1e-6;

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
    #[arg(long, default_value_t = 1.0, value_name = "SHAPE")]
    burstiness: f64,
    /// Factor by which the workload's own times run faster; lengths stay
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", conflicts_with = "request_rate")]
    speed: f64,
    /// Seconds at the workload's beginning that are left out
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    from: f64,
    /// Seconds after the start from which on nothing is asked: no session begins, and none goes on to
    /// another turn
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// A ladder of rates, one stage after the other, as RATE:SECONDS with commas between them; a rate
    /// without seconds has those of the next one that has some: `3,10,15:60s`
    #[arg(long, value_name = "STAGES", conflicts_with_all = ["request_rate", "speed", "duration"])]
    rates: Option<String>,
    /// Seconds without requests between two stages of `--rates`
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, requires = "rates")]
    stage_gap: f64,
    /// Seconds at the start whose requests are sent but not counted; RATE:SECONDS adds a stage of its
    /// own before those of `--rates`
    #[arg(long, value_name = "SECONDS")]
    warm_up: Option<String>,
    /// Closed loop with this many users; each begins a session when its last one has ended. Where a trace
    /// says when sessions begin, or `--request-rate` or `--rates` does, no user begins one earlier
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) users: Option<u32>,
    /// Seconds that a user of a closed loop waits after a refusal or a failure before beginning again
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", requires = "users")]
    refused_wait: f64,
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
    /// Stages with rates of their own.
    pub(crate) ladder: Option<Ladder>,
    /// Whether users of a closed loop begin sessions when the workload says, at the earliest.
    pub(crate) is_timed: bool,
    /// Requests that are due earlier are not counted.
    pub(crate) warm_up: Micros,
    /// When users begin no session and no session goes on to another turn.
    pub(crate) until: Option<Micros>,
    /// How long such users wait after a refusal.
    pub(crate) refused_wait: Micros,
}

/// A load of one seed.
pub(crate) struct Opened {
    pub(crate) sessions: Sessions,
    /// Names of tenants.
    pub(crate) tenants: Vec<String>,
    /// Names of stages.
    pub(crate) stages: Vec<String>,
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
        let arrivals = match self.request_rate {
            Some(rate) if rate.is_infinite() && 0.0 < rate => Arrivals::AtOnce,
            Some(rate) => Arrivals::Rate {
                per_second: not_slower("request-rate", rate)?,
                burstiness: positive("burstiness", self.burstiness)?,
            },
            None => Arrivals::Own { speed: not_slower("speed", self.speed)? },
        };
        let is_generated = source.kind() == Kind::Generator;
        self.refuse_without_effect(arrivals, is_generated)?;
        let is_endless = is_generated && self.duration.is_none() && self.rates.is_none();
        let is_timed = match arrivals {
            Arrivals::AtOnce => false,
            Arrivals::Rate { .. } => true,
            Arrivals::Own { .. } => !is_generated || self.rates.is_some(),
        };
        let span = self.duration.map(|seconds| positive("duration", seconds)).transpose()?;
        let span = span.map(|seconds| micros("duration", seconds)).transpose()?;
        let pacing = Pacing {
            arrivals,
            from: micros("from", self.from)?,
            requests_max: self.num_prompts.or(is_endless.then_some(REQUESTS_DEFAULT)),
            // When the workload means a session to begin says nothing of when a busy user begins it.
            span: span.filter(|_| self.users.is_none()),
        };
        let (ladder, warm_up) = self.stages()?;
        Ok(Load {
            source,
            pacing,
            objectives,
            users: self.users,
            ladder,
            is_timed,
            warm_up,
            until: span,
            refused_wait: micros("refused-wait", self.refused_wait)?,
        })
    }

    /// Flags that would change nothing are mistakes.
    fn refuse_without_effect(&self, arrivals: Arrivals, is_generated: bool) -> Result<(), Fault> {
        let draws_arrivals = self.rates.is_some() || matches!(arrivals, Arrivals::Rate { .. });
        if !is_one(self.burstiness) && !draws_arrivals {
            let why = format!("`--burstiness {}`: no rate is given", self.burstiness);
            return Err(Fault::input(why).hint("give `--request-rate` or `--rates`"));
        }
        if is_generated && self.users.is_some() && !is_one(self.speed) {
            return Err(unread_speed(self.speed));
        }
        Ok(())
    }

    /// The ladder, where there is one, and how long nothing is counted where there is none.
    fn stages(&self) -> Result<(Option<Ladder>, Micros), Fault> {
        let wrong = |flag: &str, error: LadderError| Fault::input(format!("`--{flag}`: {error}"));
        let warm_up = self.warm_up.as_deref();
        let stage = warm_up.filter(|text| text.contains(':'));
        let Some(rates) = &self.rates else {
            if let Some(text) = stage {
                let why = format!("`--warm-up {text}`: expected seconds, as in `30`");
                return Err(Fault::input(why).hint("a rate of its own is for `--rates`"));
            }
            return Ok((None, self.warm_up_seconds()?));
        };
        let mut ladder = Ladder::parse(rates).map_err(|error| wrong("rates", error))?;
        ladder.warm_up =
            stage.map(Rung::warm_up).transpose().map_err(|error| wrong("warm-up", error))?;
        ladder.gap = micros("stage-gap", self.stage_gap)?;
        ladder.burstiness = positive("burstiness", self.burstiness)?;
        let seconds = if stage.is_some() { Micros::ZERO } else { self.warm_up_seconds()? };
        Ok((Some(ladder), seconds))
    }

    fn warm_up_seconds(&self) -> Result<Micros, Fault> {
        let Some(text) = &self.warm_up else { return Ok(Micros::ZERO) };
        let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
        let seconds = seconds.filter(|seconds| seconds.is_finite() && 0.0 <= *seconds);
        let why = || format!("`--warm-up {text}`: expected seconds, as in `30`");
        micros("warm-up", seconds.ok_or_else(|| Fault::input(why()))?)
    }
}

impl WorkloadOptions {
    /// The load of an access log, at the pace that was typed.
    ///
    /// # Errors
    /// Rates of its own: a log is replayed at its own times, so the two columns would be of different loads.
    pub(crate) fn of_log(&self, file: &Path) -> Result<Load, Fault> {
        if let Some(rates) = &self.rates {
            let why = format!("`--rates {rates}`: `--access-log` replays a log at its own times");
            let hint = format!(
                "`--speed 2` replays it twice as fast; `--workload access:{}` takes `--rates`",
                file.display()
            );
            return Err(Fault::input(why).hint(hint));
        }
        Self { workload: format!("access:{}", file.display()), ..self.clone() }.load()
    }
}

impl Load {
    /// The sessions of a seed.
    pub(crate) fn open(&self, seed: u64) -> Result<Opened, Fault> {
        let workload = self.source.open(seed).map_err(|error| Fault::input(error.to_string()))?;
        let own = match self.pacing.arrivals {
            Arrivals::Own { speed } if self.ladder.is_none() => Some(speed),
            _ => None,
        };
        if let (Times::Untold, Some(speed)) = (workload.times, own) {
            if self.users.is_none() {
                let why = format!("`{}` does not tell when requests come", self.source);
                let hint = "say so with `--request-rate`, `--rates` or `--users`";
                return Err(Fault::input(why).hint(hint));
            }
            if !is_one(speed) {
                return Err(unread_speed(speed));
            }
        }
        let sessions = self.pacing.apply(workload.sessions, seed);
        let sessions = match &self.ladder {
            Some(ladder) => ladder.apply(sessions, seed),
            None => sessions,
        };
        let stages = self.ladder.as_ref().map(Ladder::names).unwrap_or_default();
        Ok(Opened { sessions, tenants: workload.tenants, stages })
    }

    /// That nothing was asked, as a fault.
    ///
    /// # Errors
    /// Where no run has a request.
    pub(crate) fn check_asked(&self, report: &Report) -> Result<(), Fault> {
        if report.runs.iter().any(|run| !run.recorder.samples().is_empty()) {
            return Ok(());
        }
        Err(self.nothing_asked())
    }

    /// That no request is counted.
    pub(crate) fn nothing_asked(&self) -> Fault {
        let why = format!("nothing was asked: `{}` has no request that is counted", self.source);
        Fault::input(why).hint("give `--duration`, `--from` or `--warm-up` another value")
    }

    /// What of it belongs into a report.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let times = match (&self.ladder, self.pacing.arrivals) {
            (Some(ladder), _) => format!("stages of {}", ladder.names().join(", ")),
            (None, Arrivals::AtOnce) => "all at once".to_owned(),
            (None, Arrivals::Own { speed: 1.0 }) => "the workload's own".to_owned(),
            (None, Arrivals::Own { speed }) => format!("the workload's own × {speed}"),
            (None, Arrivals::Rate { per_second, burstiness }) => {
                format!("{per_second} requests/s, burstiness {burstiness}")
            }
        };
        let arrivals = match self.users {
            Some(users) if self.is_timed => format!("{times}, {users} users at most"),
            Some(users) => format!("closed loop of {users} users"),
            None if matches!(self.pacing.arrivals, Arrivals::AtOnce) => times,
            None => format!("open loop, {times}"),
        };
        let mut settings = vec![
            ("workload".to_owned(), self.source.to_string()),
            ("arrivals".to_owned(), arrivals),
        ];
        let mut tell = |name: &str, value: String| settings.push((name.to_owned(), value));
        let seconds = |span: Micros| std::time::Duration::from(span).as_secs_f64();
        if let Some(requests) = self.pacing.requests_max {
            tell("requests at most", requests.to_string());
        }
        if Micros::ZERO < self.pacing.from {
            tell("left out", format!("the workload's first {} s", seconds(self.pacing.from)));
        }
        if let Some(until) = self.until {
            tell("nothing is asked", format!("from {} s on", seconds(until)));
        }
        if Micros::ZERO < self.warm_up {
            tell("not counted", format!("the first {} s", seconds(self.warm_up)));
        }
        if let Some(rung) = self.ladder.as_ref().and_then(|ladder| ladder.warm_up) {
            let (rate, span) = (rung.per_second, seconds(rung.span));
            tell("not counted", format!("a warm-up of {rate}/s for {span} s"));
        }
        let gap = self.ladder.as_ref().map(|ladder| ladder.gap);
        if let Some(gap) = gap.filter(|gap| Micros::ZERO < *gap) {
            tell("between stages", format!("nothing for {} s", seconds(gap)));
        }
        settings
    }
}

/// That nothing has times which would run faster, as a fault.
fn unread_speed(speed: f64) -> Fault {
    let why = format!("`--speed {speed}`: no times of this load would run faster");
    Fault::input(why).hint(
        "users of a closed loop begin when they are free; `--request-rate` or `--rates` say when instead",
    )
}

/// Whether a factor changes nothing.
fn is_one(factor: f64) -> bool {
    factor.to_bits() == 1.0_f64.to_bits()
}

/// A rate or a speed as a user types it.
fn not_slower(name: &str, value: f64) -> Result<f64, Fault> {
    let value = positive(name, value)?;
    (SLOWEST <= value).then_some(value).ok_or_else(|| {
        Fault::input(format!("`--{name} {value}`: expected a number of {SLOWEST} or more"))
    })
}

/// A number as a user types it that has to be above zero.
fn positive(name: &str, value: f64) -> Result<f64, Fault> {
    (0.0 < value && value.is_finite())
        .then_some(value)
        .ok_or_else(|| Fault::input(format!("`--{name} {value}`: expected a number above zero")))
}

/// That nobody was answered, as a fault.
///
/// # Errors
/// Where none of the runs completed a request.
pub(crate) fn check_answered<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Result<(), Fault> {
    let mut samples = runs.into_iter().flat_map(|run| run.recorder.samples());
    if samples.any(|sample| sample.fate == Fate::Completed) {
        return Ok(());
    }
    Err(Fault::running("no request was answered").hint("the report says why"))
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
    let span = std::time::Duration::try_from_secs_f64(value / scale).ok();
    let span = span.filter(|span| span.as_secs_f64() <= SECONDS_MAX).ok_or_else(|| {
        let most = SECONDS_MAX * scale;
        Fault::input(format!("`--{name} {value}`: expected {unit}, not below zero, {most} at most"))
    })?;
    Ok(Micros::from(span))
}
