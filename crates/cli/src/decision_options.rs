//! Decision flags of the simulator: admission, response cache, speculation and cascade. Flags are
//! named as the live ones and the configuration.

use overdraft_config::{ByteSize, CascadeSlowdown, Share};
use overdraft_core::admit::{AdmitSettings, Mode, Priority, QueueSettings};
use overdraft_core::cascade::{self};
use overdraft_core::hedge::{self, HedgeSettings};
use overdraft_core::route::{ATTEMPTS_MAX, RetrySettings};
use overdraft_gpu_model::Catalogue;
use overdraft_scheduler::speculate::{DEPTH_MAX, Policy};
use overdraft_sim::fleet::{
    AnswerCache, CascadeScenario, GATEWAYS_MAX, KEPT_DEFAULT, LOOK_UP_DEFAULT, Mix, Overdraft,
    RESTART_DEFAULT, Refusing, RequestKind, Scenario, Speculation, Stall, all_alike,
};
use overdraft_sim::workload::similar;
use overdraft_units::Tokens;

use crate::fault::Fault;
use crate::workload_options::{micros, thousandths};

/// Attempts after the first at most, whatever is asked for.
#[expect(clippy::cast_possible_wrap, reason = "it is a handful")]
const RETRIES_MAX: i64 = ATTEMPTS_MAX as i64 - 1;

/// Seconds that a request may wait at the gateway where nobody says, as the gateway's own default.
const WAITING_SECONDS: f64 = 30.0;

/// The group of flags by which workers may come to guess: one that says how, and files that may say so too.
pub(crate) const SPECULATES: &str = "speculates";

#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Decisions")]
pub(crate) struct DecisionOptions {
    /// What the gateway lets in before a worker has room: peak, threshold, reserve, static:N, off
    /// [default: peak, as `serve` has it; off before it is added by `--decompose`]
    #[arg(long, value_name = "MODE")]
    admission: Option<String>,
    /// Gateways before the workers; requests are spread over them, and they tell each other what they have in flight
    #[arg(long, default_value_t = 1, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(GATEWAYS_MAX)))]
    gateways: u32,
    /// How often each priority comes, where the workload does not say: `flex:3,default:6,priority:1`
    #[arg(long, value_name = "NAME:WEIGHT", value_delimiter = ',', value_parser = priority)]
    priorities: Vec<(Priority, f64)>,
    /// Weight of each tenant's requests, where the workload does not say: `8,1,1`
    #[arg(long, value_name = "WEIGHT", value_delimiter = ',', value_parser = weight)]
    tenants: Vec<f64>,
    /// Requests that may wait at the gateway for a worker to have room, at most; one more is refused
    #[arg(long, value_name = "COUNT", default_value_t = QueueSettings::default().requests)]
    waiting_requests: usize,
    /// Tokens of the waiting requests, at most: prompts and expected answers
    #[arg(long, value_name = "TOKENS", default_value_t = QueueSettings::default().tokens)]
    waiting_tokens: u64,
    /// Seconds that a request may wait there before it is refused; up to twice as long while its line moves fast enough
    #[arg(long, value_name = "SECONDS", default_value_t = WAITING_SECONDS)]
    waiting_seconds: f64,
    /// Sequences that may wait at a worker before new ones are refused [default: 65536]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_num_queued_reqs: Option<u32>,
    /// Requests of one tenant that may wait for a worker to have room, at most
    #[arg(long, value_name = "COUNT", default_value_t = QueueSettings::default().per_tenant)]
    waiting_per_tenant: usize,
    /// Tokens that clients say an answer may have (`max_tokens`), where longer ones are cut; by default as many as
    /// it has
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// A worker dies where a running request needs cache and there is none, instead of preempting
    /// another, and an empty one is there two minutes later
    #[arg(long)]
    crash_on_oom: bool,
    /// A worker that turns requests away without computing them, as WORKER:MANNER:FROM-UNTIL: its number from 0,
    /// one of saturated, misconfigured, disputed, faulty, gone, and seconds, which may be left out; may be given
    /// several times
    #[arg(long, value_name = "WORKER:MANNER")]
    refusing: Vec<Refusing>,
    /// A worker that stands still now and then, as WORKER:EVERY:FOR: its number from 0, and seconds; may be given
    /// several times
    #[arg(long, value_name = "WORKER:EVERY:FOR")]
    stall: Vec<Stall>,
    /// Send a second attempt to another worker where a first token is late; all of them may compute this share of
    /// the tokens that were served
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "5%")]
    hedge: Option<Share>,
    /// Attempts after one that failed before its first token, at most; each is another worker's
    #[arg(long, default_value_t = RetrySettings::default().extra_attempts_max, value_name = "COUNT",
          value_parser = clap::value_parser!(u8).range(..=RETRIES_MAX))]
    retries: u8,
    /// Bytes of answers that the gateway keeps to give again, as in `256MiB`; none by default
    #[arg(long, value_name = "SIZE")]
    cache_memory: Option<ByteSize>,
    /// How deep workers guess: off, fixed:N, threshold, threshold-per-token, batch-table, goodput
    #[arg(long, default_value = "off", value_name = "POLICY")]
    speculation_policy: Policy,
    /// Tokens of a draft at most
    #[arg(long, default_value_t = DEPTH_MAX, value_name = "COUNT", requires = SPECULATES)]
    num_speculative_tokens: usize,
    /// Milliseconds of a draft model's pass over all sequences
    #[arg(long, default_value_t = 0.45, value_name = "MS", requires = SPECULATES)]
    draft_pass_ms: f64,
    /// The chance that a guess is right, given that those before it are, by position: `0.8` or
    /// `0.8,0.7,0.6`; given several times, one for each kind of text
    #[arg(long, default_value = "0.7", value_name = "CHANCES", requires = SPECULATES)]
    acceptance: Vec<String>,
    /// Whether a cheaper pool is asked first: off, gate, verify, shadow
    #[arg(long, default_value = "off", value_name = "MODE")]
    cascade: String,
    /// Each worker of the cheaper pool
    #[arg(
        long,
        default_value = "h100-tp1/llama-3-8b-fp8",
        value_name = "PROFILE",
        requires = "cascade"
    )]
    draft: String,
    /// Workers of the cheaper pool
    #[arg(long, default_value_t = 1, value_name = "COUNT", requires = "cascade")]
    draft_workers: u32,
    /// Tokens of the cheaper pool's answer before the first are shown, and before each further ones, as FIRST:NEXT
    /// [default: it is shown when it is whole]
    #[arg(long, value_name = "FIRST:NEXT", value_parser = windows, requires = "cascade")]
    draft_windows: Option<cascade::Windows>,
    /// The share of answers that may be worse than the target's
    #[arg(long, default_value = "1%", value_name = "SHARE", requires = "cascade")]
    loss: Share,
    /// How much longer than without the cheaper pool answers and their first tokens may take on average: a share, or any
    #[arg(long, default_value = "3%", value_name = "SHARE", requires = "cascade")]
    slowdown: CascadeSlowdown,
    /// A kind of requests, as WEIGHT:WORSE:SURPRISE: how often it comes, the chance that a draft is
    /// worse, nats that a draft's token surprises by; may be given several times [default: three
    /// assumed kinds]
    #[arg(long, value_name = "KIND", requires = "cascade")]
    request_kind: Vec<RequestKind>,
    /// Begins with the first policy alone and adds the second, then each of the decisions above that
    /// are not off, one after the other
    #[arg(long, conflicts_with = "access_log")]
    decompose: bool,
}

/// Decisions in the order in which `--decompose` adds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Admission,
    Cache,
    Speculation,
    Cascade,
}

impl Decision {
    const ALL: [Self; 4] = [Self::Admission, Self::Cache, Self::Speculation, Self::Cascade];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Cache => "cache",
            Self::Speculation => "speculation",
            Self::Cascade => "cascade",
        }
    }
}

impl DecisionOptions {
    pub(crate) const fn decomposes(&self) -> bool {
        self.decompose
    }

    /// Those that are not off.
    pub(crate) fn wanted(&self) -> Vec<Decision> {
        let is_on = |one: &Decision| match one {
            Decision::Admission => self.admission.as_deref().is_some_and(|mode| mode != "off"),
            Decision::Cache => self.cache_memory.is_some(),
            Decision::Speculation => self.speculation_policy != Policy::Off,
            Decision::Cascade => self.cascade != "off",
        };
        Decision::ALL.into_iter().filter(is_on).collect()
    }

    /// A log is replayed under another policy, fleet or price, and nothing else.
    ///
    /// # Errors
    /// When a decision was asked for.
    pub(crate) fn refuse_beside_a_log(&self) -> Result<(), Fault> {
        let Some(decision) = self.wanted().into_iter().next() else { return Ok(()) };
        let why = format!("`--access-log` replays no {} of its own", decision.name());
        Err(Fault::input(why).hint("leave out one of the two; `--workload access:FILE` takes both"))
    }

    /// What is no decision of the gateway's, and the admission that `serve` has where nobody asks for another.
    ///
    /// # Errors
    /// A time that is none, or a worker that the fleet does not have.
    pub(crate) fn set_world(&self, scenario: &mut Scenario) -> Result<(), Fault> {
        if self.admission.is_none() && !self.decompose {
            scenario.routing.admission.mode = AdmitSettings::default().mode;
        }
        scenario.queue.requests = self.waiting_requests;
        scenario.queue.tokens = self.waiting_tokens;
        scenario.patience = all_alike(micros("waiting-seconds", self.waiting_seconds)?);
        scenario.waiting_max = self.max_num_queued_reqs.unwrap_or(scenario.waiting_max);
        scenario.declared = self.max_tokens.map(Tokens::new);
        scenario.gateways = self.gateways;
        scenario.mix = Mix { priorities: self.priorities.clone(), tenants: self.tenants.clone() };
        scenario.queue.per_tenant = self.waiting_per_tenant;
        scenario.retry.extra_attempts_max = self.retries;
        self.check_workers(scenario)?;
        scenario.refusing.clone_from(&self.refusing);
        scenario.stalls.clone_from(&self.stall);
        if let Some(budget) = self.hedge {
            let budget_permille = budget.permille();
            scenario.hedging = HedgeSettings { mode: hedge::Mode::On, budget_permille };
        }
        if self.crash_on_oom {
            scenario.overdraft = Overdraft::Crash(RESTART_DEFAULT);
        }
        Ok(())
    }

    /// That workers which refuse or stand still are there: the fleet's, and behind them those of the cheaper pool.
    fn check_workers(&self, scenario: &Scenario) -> Result<(), Fault> {
        let has_drafts = self.wanted().contains(&Decision::Cascade);
        let drafts = if has_drafts { self.draft_workers } else { 0 };
        let others = scenario.others.iter().map(|pool| pool.workers);
        let all = others.fold(scenario.workers.saturating_add(drafts), u32::saturating_add);
        let refusing = self.refusing.iter().map(|one| ("refusing", one.worker));
        let stalls = self.stall.iter().map(|one| ("stall", one.worker));
        let missing = refusing.chain(stalls).find(|(_, worker)| all <= *worker);
        // That a fleet has no workers at all is told elsewhere.
        let (Some((flag, worker)), Some(last)) = (missing, all.checked_sub(1)) else {
            return Ok(());
        };
        let why = format!(
            "`--{flag}`: the fleet has no worker `{worker}`; expected a number from 0 to {last}"
        );
        Err(Fault::input(why).hint("`--workers` or `--pool` says how many there are"))
    }

    /// Adds a decision to a fleet.
    ///
    /// # Errors
    /// A mode or a chance that is none, a profile that cannot be found.
    pub(crate) fn add(
        &self,
        decision: Decision,
        scenario: &mut Scenario,
        profiles: &Catalogue,
    ) -> Result<(), Fault> {
        match decision {
            Decision::Admission => scenario.routing.admission.mode = self.mode()?,
            Decision::Cache => {
                let bytes = self.cache_memory.map_or(0, ByteSize::bytes);
                let (kept, takes) = (KEPT_DEFAULT, LOOK_UP_DEFAULT);
                scenario.cache = Some(AnswerCache { bytes, kept, takes });
            }
            Decision::Speculation => scenario.speculation = Some(self.speculation()?),
            Decision::Cascade => scenario.cascade = Some(self.cascading(profiles)?),
        }
        Ok(())
    }

    /// Adds a cheaper pool, where one is asked for.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) fn add_cascade(
        &self,
        scenario: &mut Scenario,
        profiles: &Catalogue,
    ) -> Result<(), Fault> {
        if self.wanted().contains(&Decision::Cascade) {
            self.add(Decision::Cascade, scenario, profiles)?;
        }
        Ok(())
    }

    /// How workers guess where a file names the rule, or by the flags where it does not.
    ///
    /// # Errors
    /// A depth or a chance that is none.
    pub(crate) fn guessing(&self, said: Option<Policy>) -> Result<Option<Speculation>, Fault> {
        let policy = said.unwrap_or_else(|| self.speculation_policy.clone());
        if policy == Policy::Off {
            return Ok(None);
        }
        Ok(Some(Speculation { policy, ..self.speculation()? }))
    }

    fn mode(&self) -> Result<Mode, Fault> {
        let admission = self.admission.as_deref().unwrap_or("off");
        admission.parse().map_err(|_| {
            let known = ["peak", "threshold", "reserve", "static", "off"];
            let near = similar(admission, known.into_iter());
            let why = format!("`--admission {admission}` is no mode{near}; expected ");
            Fault::input(why + "`peak`, `threshold`, `reserve`, `static:N` with N from 1, or `off`")
        })
    }

    fn speculation(&self) -> Result<Speculation, Fault> {
        let depth_max = self.num_speculative_tokens;
        if !(1..=DEPTH_MAX).contains(&depth_max) {
            let why = format!("`--num-speculative-tokens {depth_max}`: expected 1 to {DEPTH_MAX}");
            return Err(Fault::input(why));
        }
        let acceptance: Result<Vec<_>, _> =
            self.acceptance.iter().map(|text| chances(text)).collect();
        Ok(Speculation {
            policy: self.speculation_policy.clone(),
            depth_max,
            pass: thousandths("draft-pass-ms", self.draft_pass_ms, "milliseconds")?,
            acceptance: acceptance?,
        })
    }

    fn cascading(&self, profiles: &Catalogue) -> Result<CascadeScenario, Fault> {
        let mode = cascade::Mode::named(&self.cascade).ok_or_else(|| {
            let near = similar(&self.cascade, ["gate", "verify", "shadow", "off"].into_iter());
            let why = format!("`--cascade {}` cannot be simulated{near}; expected ", self.cascade);
            Fault::input(why + "`gate`, `verify`, `shadow` or `off`")
        })?;
        if self.draft_workers == 0 {
            return Err(Fault::input("`--draft-workers 0`: expected 1 or more"));
        }
        let draft = profiles.find(&self.draft).map_err(|error| {
            Fault::input(format!("`--draft`: {error}")).hint("`--list` shows all profiles")
        })?;
        let loss = self.loss.ratio();
        let kinds = if self.request_kind.is_empty() {
            RequestKind::ASSUMED.to_vec()
        } else {
            self.request_kind.clone()
        };
        let slowdown = match self.slowdown {
            CascadeSlowdown::Any => None,
            CascadeSlowdown::Share(share) => Some(share.ratio()),
        };
        let windows = self.draft_windows;
        let default = cascade::Settings::default();
        let first = windows.map_or(default.first, |windows| windows.first);
        let settings = cascade::Settings { mode, loss, first, slowdown, ..default };
        Ok(CascadeScenario { draft, workers: self.draft_workers, settings, windows, kinds })
    }

    /// What was set, for the report.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        let mut tell = |name: &str, value: String| settings.push((name.to_owned(), value));
        for decision in self.wanted() {
            match decision {
                Decision::Admission => {
                    tell("admission", self.admission.clone().unwrap_or_default());
                }
                Decision::Cache => {
                    let size = self.cache_memory.map(|size| size.to_string());
                    tell("answers kept", size.unwrap_or_default());
                }
                Decision::Speculation => tell(
                    "speculation",
                    format!(
                        "{}, {} ms a pass, guesses right by {}",
                        self.speculation_policy,
                        self.draft_pass_ms,
                        self.acceptance.join("; ")
                    ),
                ),
                Decision::Cascade => tell(
                    "cascade",
                    format!("{}, {} × {}", self.cascade, self.draft_workers, self.draft),
                ),
            }
        }
        if 1 < self.gateways {
            tell("gateways", self.gateways.to_string());
        }
        if !self.priorities.is_empty() {
            let one = |(priority, weight): &(Priority, f64)| format!("{priority}:{weight}");
            tell("priorities", self.priorities.iter().map(one).collect::<Vec<_>>().join(","));
        }
        if !self.tenants.is_empty() {
            let weights: Vec<String> = self.tenants.iter().map(ToString::to_string).collect();
            tell("tenants", weights.join(","));
        }
        if let Some(tokens) = self.max_tokens {
            tell("max_tokens declared", tokens.to_string());
        }
        if let Some(budget) = self.hedge {
            tell("hedging", format!("at most {budget} of all tokens"));
        }
        if self.crash_on_oom {
            tell("out of pages", "the worker dies".to_owned());
        }
        settings.extend(self.bounds());
        settings
    }

    /// Bounds of queues and of retries that are not the defaults, under the names of their flags.
    fn bounds(&self) -> Vec<(String, String)> {
        let queue = QueueSettings::default();
        let unlike = |value: &dyn ToString, default: &dyn ToString| {
            let (value, default) = (value.to_string(), default.to_string());
            (value != default).then_some(value)
        };
        let retries = RetrySettings::default().extra_attempts_max;
        let bounds = [
            ("waiting-requests", unlike(&self.waiting_requests, &queue.requests)),
            ("waiting-tokens", unlike(&self.waiting_tokens, &queue.tokens)),
            ("waiting-per-tenant", unlike(&self.waiting_per_tenant, &queue.per_tenant)),
            ("waiting-seconds", unlike(&self.waiting_seconds, &WAITING_SECONDS)),
            ("max-num-queued-reqs", self.max_num_queued_reqs.map(|count| count.to_string())),
            ("retries", unlike(&self.retries, &retries)),
        ];
        let told = |(name, value): (&str, Option<String>)| Some((name.to_owned(), value?));
        bounds.into_iter().filter_map(told).collect()
    }
}

/// `24:48`.
fn windows(text: &str) -> Result<cascade::Windows, String> {
    let tokens =
        |part: &str| part.trim().parse().ok().filter(|tokens| 0 < *tokens).map(Tokens::new);
    let parts = text.split_once(':').map(|(first, next)| (tokens(first), tokens(next)));
    match parts {
        Some((Some(first), Some(next))) => Ok(cascade::Windows { first, next }),
        _ => Err("expected FIRST:NEXT, tokens above zero, as in `24:48`".to_owned()),
    }
}

/// `flex:3`.
fn priority(text: &str) -> Result<(Priority, f64), String> {
    let (name, share) = text.split_once(':').ok_or("expected NAME:WEIGHT, as in `flex:3`")?;
    let priority = name.trim().parse().map_err(|_| {
        let known = Priority::ALL.map(Priority::name).join("`, `");
        format!("`{name}` is no priority; expected `{known}`")
    })?;
    Ok((priority, weight(share)?))
}

fn weight(text: &str) -> Result<f64, String> {
    let weight = text.trim().parse::<f64>().ok();
    let weight = weight.filter(|weight| weight.is_finite() && 0.0 < *weight);
    weight.ok_or_else(|| "expected a weight above zero, as in `3`".to_owned())
}

/// `0.8` or `0.8,0.7,0.6`.
fn chances(text: &str) -> Result<Vec<f64>, Fault> {
    let chance = |part: &str| {
        let chance = part.trim().parse::<f64>().ok();
        chance.filter(|chance| (0.0..=1.0).contains(chance)).ok_or_else(|| {
            let why = format!("`--acceptance {text}`: `{part}` is no chance; ");
            Fault::input(why + "expected numbers from 0 to 1 with commas between them")
        })
    };
    text.split(',').map(chance).collect()
}
