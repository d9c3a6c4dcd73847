//! Simulated workers in real time beside the same in virtual time. (S5)
//!
//! Each scene is run twice: `overdraft bench` sends its load to real servers at a GPU's pace, and
//! `overdraft simulate` lets the same load pass through the discrete-event simulation. Load and seed are the same, so
//! arrivals and lengths are; what differs is all that only a real server has: sockets, text that is
//! tokenised, threads that are woken late.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use overdraft_claims::median;
use serde::Serialize;
use serde_json::Value;

use crate::server::{Server, figure, told};

/// What is simulated.
pub(crate) const PROFILE: &str = "h100-tp2/llama-3-70b-fp8";

/// Requests by which the network is measured, one at each worker at any time. No prompt computes beside another
/// one, and the machine is as awake as under a load: before single requests to an idle fleet it had gone to sleep.
const NETWORK_LOAD: &str = "unique:question=1500,output=20,spread=0.3,think=0";

/// How many of them each worker gets.
const NETWORK_REQUESTS: u32 = 24;

/// What both reports tell of a run, under the names of the JSON; how late requests were sent has no counterpart.
const FIGURES: [&str; 33] = [
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "duration",
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "max_output_tokens_per_s",
    "max_concurrent_requests",
    "mean_ttft_ms",
    "median_ttft_ms",
    "std_ttft_ms",
    "p90_ttft_ms",
    "p95_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "std_tpot_ms",
    "p90_tpot_ms",
    "p95_tpot_ms",
    "p99_tpot_ms",
    "mean_itl_ms",
    "median_itl_ms",
    "std_itl_ms",
    "p90_itl_ms",
    "p95_itl_ms",
    "p99_itl_ms",
    "mean_e2el_ms",
    "median_e2el_ms",
    "std_e2el_ms",
    "p90_e2el_ms",
    "p95_e2el_ms",
    "p99_e2el_ms",
];

/// Shares of a report, as the names of a part and of a whole.
const SHARES: [(&str, &str, &str); 2] = [
    ("cached_share", "total_cached_tokens", "total_input_tokens"),
    ("answered_share", "completed", "num_prompts"),
];

/// Microseconds for each prompt token before a worker has it, one for each simulated history of a fleet. Where a
/// request comes 15 µs later, another worker may be the better one for it, and all that follows is another history
/// of the same load; what is compared is the median over them.
const HISTORIES: [&str; 9] = ["0", "0.01", "0.02", "0.03", "0.04", "0.05", "0.06", "0.07", "0.08"];

/// A load and who bears it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    workload: &'static str,
    workers: u16,
    /// Users of a closed loop; an open loop otherwise.
    users: Option<u32>,
    /// Seconds at the start that are sent and not counted.
    warm_up: u32,
    requests: u32,
    requests_quick: u32,
}

/// One worker by itself in an open and in a closed loop, and a fleet behind the live gateway.
pub(crate) const SCENES: [Scene; 3] = [
    Scene {
        name: "open",
        workload: "unique:question=1000,output=80,spread=0.3,rate=4",
        workers: 1,
        users: None,
        warm_up: 0,
        requests: 300,
        requests_quick: 40,
    },
    Scene {
        name: "closed",
        // Lengths are spread: equal ones end in lockstep, and medians then tell who came first in a wave.
        workload: "tenants:groups=8,prefix=2000,question=200,output=80,spread=0.5",
        workers: 1,
        users: Some(12),
        warm_up: 0,
        requests: 480,
        requests_quick: 96,
    },
    Scene {
        name: "fleet",
        // One gap in six between tokens has a prompt in it, and questions differ little: no percentile lies where
        // a gap more or less with a prompt changes it by half.
        workload: "tenants:groups=4,prefix=1000,question=500,output=60,spread=0.3,rate=24",
        workers: 4,
        users: None,
        // Which worker computes which prefix first is chance.
        warm_up: 20,
        requests: 5_600,
        requests_quick: 1_200,
    },
];

/// What was found of a scene.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) scene: &'static str,
    /// Whether all figures are judged.
    pub(crate) is_fleet: bool,
    /// What the scene's network takes one way, in milliseconds.
    pub(crate) network_ms: String,
    pub(crate) real: Figures,
    /// Of a fleet the medians over its histories.
    pub(crate) simulated: Figures,
    /// Each of them.
    pub(crate) histories: Vec<Figures>,
}

/// Of one run, by their names in the report; shares in percent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures(pub(crate) BTreeMap<&'static str, f64>);

impl Figures {
    fn of(report: &Value) -> Result<Self> {
        let of = |name: &str| figure(report, &["runs", "0", name]);
        let mut all = BTreeMap::new();
        for name in FIGURES {
            all.insert(name, of(name)?);
        }
        for (name, part, whole) in SHARES {
            // An endpoint without a cache tells nothing of it.
            if let Ok(part) = of(part) {
                all.insert(name, part / of(whole)? * 100.0);
            }
        }
        Ok(Self(all))
    }

    /// Each figure's median over several histories.
    fn median(histories: &[Self]) -> Self {
        let names = histories.first().into_iter().flat_map(|first| first.0.keys());
        let each = |name| median(histories.iter().map(|history| history.get(name)).collect());
        Self(names.map(|&name| (name, each(name))).collect())
    }

    /// One of them; not a number where it was not told.
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(f64::NAN)
    }
}

impl Scene {
    /// Runs it in both times.
    pub(crate) async fn measure(&self, binary: &Path, quick: bool) -> Result<Pair> {
        let requests = if quick { self.requests_quick } else { self.requests };
        let count = self.workers.to_string();
        let crowd = ["--simulate", PROFILE, "--workers", &count];
        let workers = Server::workers(binary, &crowd, self.workers.into()).await?;
        let gateway = match self.workers {
            1 => None,
            _ => Some(Server::gateway(binary, &workers).await?),
        };
        let url = gateway.as_ref().unwrap_or(&workers).url();
        let network = self.network_ms(binary, &url).await?;
        let simulate = [self.load("simulate", requests), self.fleet(&network)].concat();
        let delays = if self.workers == 1 { &HISTORIES[..1] } else { &HISTORIES[..] };
        let mut histories = Vec::new();
        for delay in delays {
            let arguments = [&simulate[..], &words(&["--ingest-us-per-token", delay])].concat();
            histories.push(Figures::of(&told(binary, &arguments).await?)?);
        }
        let simulated = Figures::median(&histories);
        let bench = [self.load("bench", requests), words(&[&url, "--ignore-eos"])].concat();
        let real = Figures::of(&told(binary, &bench).await?)?;
        let is_fleet = gateway.is_some();
        for figures in [&simulated, &real] {
            let answered = figures.get("answered_share");
            // Of a fleet it is one of the figures that are judged.
            ensure!(is_fleet || 100.0 <= answered, "only {answered:.1} % were answered");
        }
        Ok(Pair { scene: self.name, is_fleet, network_ms: network, real, simulated, histories })
    }

    /// The command and the load, which both times share.
    fn load(&self, command: &str, requests: u32) -> Vec<String> {
        let mut load = words(&[command, "--workload", self.workload, "--output", "json"]);
        load.extend(words(&["--num-prompts", &requests.to_string(), "--seed", "1"]));
        if let Some(users) = self.users {
            load.extend(words(&["--users", &users.to_string()]));
        }
        if self.warm_up != 0 {
            load.extend(words(&["--warm-up", &self.warm_up.to_string()]));
        }
        load
    }

    /// What is simulated: what the live gateway does by default; a worker by itself admits all.
    fn fleet(&self, network_ms: &str) -> Vec<String> {
        let admission = if self.workers == 1 { "off" } else { "peak" };
        let count = self.workers.to_string();
        let mut fleet = words(&["--profile", PROFILE, "--policy", "cost", "--workers", &count]);
        fleet.extend(words(&["--admission", admission, "--network-ms", network_ms]));
        fleet
    }

    /// What a request takes one way besides its computing, in milliseconds: sockets, the gateway and reading the
    /// prompt. It is half of what first tokens take longer than without a network, with one request at each worker.
    async fn network_ms(&self, binary: &Path, url: &str) -> Result<String> {
        let count = self.workers.to_string();
        let requests = (u32::from(self.workers) * NETWORK_REQUESTS).to_string();
        let load = ["--workload", NETWORK_LOAD, "--num-prompts", &requests, "--users", &count];
        let load = [words(&load), words(&["--seed", "1", "--output", "json"])].concat();
        let simulate = [words(&["simulate"]), load.clone(), self.fleet("0")].concat();
        let simulated = told(binary, &simulate).await?;
        let real = told(binary, &[words(&["bench", url, "--ignore-eos"]), load].concat()).await?;
        let first_token = |report: &Value| figure(report, &["runs", "0", "mean_ttft_ms"]);
        let longer = first_token(&real)? - first_token(&simulated)?;
        Ok(format!("{:.3}", (longer / 2.0).max(0.0)))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
