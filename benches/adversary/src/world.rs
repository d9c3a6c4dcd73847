//! A world: a fleet under a load, as the simulator takes it and as `overdraft simulate` is told of it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use overdraft_core::admit::{Mode, Priority};
use overdraft_core::route::{Policy, RouteSettings};
use overdraft_gpu_model::Catalogue;
use overdraft_sim::fleet::{
    CacheKnowledge, Mix, Overdraft, Pace, Pool, RESTART_DEFAULT, Scenario, Simulated, simulate,
};
use overdraft_sim::workload::{Arrivals, Pacing, Session, Sessions, Source};
use overdraft_units::{Micros, Tokens};

use crate::figures::Figures;
use crate::flags::TRACES;
use crate::table::Rows;

/// Looks at a run at most, one for each 16,384 events: a run that goes on beyond does not end.
const LOOKS_MAX: u64 = 20_000;

/// Workers of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machines {
    pub(crate) count: u32,
    /// Name of the profile.
    pub(crate) profile: String,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    /// A generator or a trace, as `--workload` takes it.
    Named(String),
    /// Rows of our own, which become a file.
    Rows(Rows),
}

/// A fleet under a load.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct World {
    pub(crate) fleet: Vec<Machines>,
    pub(crate) kv_tokens: Option<u32>,
    pub(crate) knowledge: CacheKnowledge,
    pub(crate) network_ms: f64,
    pub(crate) scrape_ms: f64,
    pub(crate) gateways: u32,
    pub(crate) overdraft: Overdraft,
    /// Workers that turn requests away, as `--refusing` takes them.
    pub(crate) refusing: Vec<String>,
    pub(crate) priorities: Vec<(Priority, f64)>,
    pub(crate) tenants: Vec<f64>,
    pub(crate) asked: Asked,
    pub(crate) arrivals: Arrivals,
    pub(crate) users: Option<u32>,
    pub(crate) requests: u64,
    /// Whether it is told why prefixes were not found.
    pub(crate) tells_missed: bool,
}

/// A policy and what admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) policy: Policy,
    pub(crate) mode: Mode,
}

impl Arm {
    /// What a gateway does where nobody says otherwise.
    pub(crate) const DEFAULT: Self = Self { policy: Policy::Cost, mode: Mode::Peak };

    /// A policy that admits everything at once.
    pub(crate) const fn off(policy: Policy) -> Self {
        Self { policy, mode: Mode::Off }
    }
}

impl std::fmt::Display for Arm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.policy, self.mode)
    }
}

impl World {
    /// So many workers of one kind, with the delays of a data centre.
    pub(crate) fn new(count: u32, profile: &str, workload: &str, requests: u64) -> Self {
        Self {
            fleet: vec![Machines { count, profile: profile.to_owned() }],
            kv_tokens: None,
            knowledge: CacheKnowledge::Estimated,
            network_ms: 0.25,
            scrape_ms: 1_000.0,
            gateways: 1,
            overdraft: Overdraft::Preempt,
            refusing: Vec::new(),
            priorities: Vec::new(),
            tenants: Vec::new(),
            asked: Asked::Named(workload.to_owned()),
            arrivals: Arrivals::Own { speed: 1.0 },
            users: None,
            requests,
            tells_missed: false,
        }
    }

    /// As the simulator takes it.
    pub(crate) fn scenario(&self, arm: Arm) -> Result<Scenario> {
        let catalogue = Catalogue::builtin();
        let mut pools = Vec::new();
        for Machines { count, profile } in &self.fleet {
            pools.push(Pool { profile: catalogue.find(profile)?, workers: *count });
        }
        let refusing = self.refusing.iter().map(|text| text.parse());
        let refusing = refusing.collect::<Result<_, String>>().map_err(|why| anyhow!(why))?;
        let (first, others) = pools.split_first().context("a fleet has workers")?;
        let routing = RouteSettings { policy: arm.policy, ..RouteSettings::default() };
        let mut scenario = Scenario::new(first.profile.clone(), first.workers, routing);
        scenario.routing.admission.mode = arm.mode;
        Ok(Scenario {
            others: others.to_vec(),
            mix: Mix { priorities: self.priorities.clone(), tenants: self.tenants.clone() },
            kv_tokens: self.kv_tokens.map(Tokens::new),
            knowledge: self.knowledge,
            network: millis(self.network_ms),
            scrape_every: millis(self.scrape_ms),
            gateways: self.gateways,
            overdraft: self.overdraft,
            refusing,
            pace: self.users.map_or(Pace::Open, Pace::Closed),
            tells_missed: self.tells_missed,
            ..scenario
        })
    }

    /// What is asked, in the order in which it begins; the same for every arm.
    pub(crate) fn sessions(&self, seed: u64) -> Result<Asks> {
        let source = Source::parse(&self.workload()?)?;
        let pacing = Pacing {
            arrivals: self.arrivals,
            requests_max: Some(self.requests),
            ..Pacing::default()
        };
        let sessions = pacing.apply(source.open(seed)?.sessions, seed);
        let sessions: Result<Vec<Session>, _> = sessions.collect();
        Ok(Asks::new(sessions?))
    }

    /// As `--workload` takes it.
    fn workload(&self) -> Result<String> {
        match &self.asked {
            Asked::Named(text) => Ok(text.clone()),
            Asked::Rows(rows) => Ok(format!("csv:{}", rows.write()?.display())),
        }
    }

    /// Runs it under a policy, for its figures.
    pub(crate) fn run(&self, arm: Arm, seed: u64, asks: &Asks) -> Result<Figures> {
        let simulated = self.simulate(arm, seed, asks)?;
        Ok(Figures::of(&simulated, asks.requests, self.scenario(arm)?.patience.default))
    }

    /// Runs it under a policy.
    pub(crate) fn simulate(&self, arm: Arm, seed: u64, asks: &Asks) -> Result<Simulated> {
        let mut looks = 0;
        let simulated = simulate(&self.scenario(arm)?, asks.sessions(), seed, &mut |_| {
            looks += 1;
            assert!(looks < LOOKS_MAX, "the run does not end");
        })?;
        Ok(simulated)
    }

    /// The same at a terminal.
    pub(crate) fn command(&self, arm: Arm, seed: u64) -> String {
        let workload = match &self.asked {
            Asked::Named(text) => text.clone(),
            Asked::Rows(rows) => format!("csv:{}", rows.path().display()),
        };
        let Arm { policy, mode } = arm;
        let flags = self.told(seed, &workload);
        format!("overdraft simulate {flags} --policy {policy} --admission {mode}")
    }

    /// Flags that mean the same on every machine, whatever decides.
    pub(crate) fn flags(&self, seed: u64, traces: &Path) -> String {
        let workload = match &self.asked {
            Asked::Named(text) => text.replace(&traces.display().to_string(), TRACES),
            Asked::Rows(rows) => rows.to_string(),
        };
        self.told(seed, &workload)
    }

    fn told(&self, seed: u64, workload: &str) -> String {
        let mut told: Vec<String> = match &self.fleet[..] {
            [only] => vec![format!("--profile {} --workers {}", only.profile, only.count)],
            several => {
                let pool = |one: &Machines| format!("--pool {}x{}", one.count, one.profile);
                several.iter().map(pool).collect()
            }
        };
        told.extend(self.kv_tokens.map(|tokens| format!("--kv-tokens {tokens}")));
        let mut tell = |is: bool, text: String| told.extend(is.then_some(text));
        tell(self.knowledge == CacheKnowledge::Reported, "--kv-events".to_owned());
        let (network, scrape) = (self.network_ms, self.scrape_ms);
        tell(true, format!("--network-ms {network} --scrape-interval-ms {scrape}"));
        tell(1 < self.gateways, format!("--gateways {}", self.gateways));
        let crashes = self.overdraft == Overdraft::Crash(RESTART_DEFAULT);
        tell(crashes, "--crash-on-oom".to_owned());
        for one in &self.refusing {
            tell(true, format!("--refusing {one}"));
        }
        let one = |(name, weight): &(Priority, f64)| format!("{name}:{weight}");
        let priorities: Vec<String> = self.priorities.iter().map(one).collect();
        tell(!priorities.is_empty(), format!("--priorities {}", priorities.join(",")));
        let tenants: Vec<String> = self.tenants.iter().map(ToString::to_string).collect();
        tell(!tenants.is_empty(), format!("--tenants {}", tenants.join(",")));
        tell(true, format!("--workload {workload}"));
        match (self.users, self.arrivals) {
            (Some(users), _) => tell(true, format!("--users {users}")),
            (None, Arrivals::Own { speed: 1.0 }) => {}
            (None, Arrivals::Own { speed }) => tell(true, format!("--speed {speed}")),
            (None, Arrivals::AtOnce) => tell(true, "--request-rate inf".to_owned()),
            (None, Arrivals::Rate { per_second, burstiness }) => {
                let text = format!("--request-rate {per_second} --burstiness {burstiness}");
                tell(true, text);
            }
        }
        tell(true, format!("--num-prompts {} --seed {seed}", self.requests));
        told.join(" ")
    }
}

/// What is asked of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Asks {
    sessions: Arc<[Session]>,
    /// Turns of all sessions, whether or not those before them get an answer.
    pub(crate) requests: u64,
}

impl Asks {
    pub(crate) fn new(sessions: Vec<Session>) -> Self {
        let turns: usize = sessions.iter().map(|session| session.turns.len()).sum();
        Self { requests: u64::try_from(turns).unwrap_or(u64::MAX), sessions: sessions.into() }
    }

    pub(crate) fn all(&self) -> &[Session] {
        &self.sessions
    }

    /// For a run.
    pub(crate) fn sessions(&self) -> Sessions {
        let all = Arc::clone(&self.sessions);
        Box::new((0..all.len()).map(move |place| Ok(all[place].clone())))
    }
}

/// Milliseconds as the command line takes them.
fn millis(ms: f64) -> Micros {
    let span = std::time::Duration::from_secs_f64(ms / 1e3);
    Micros::from(span)
}
