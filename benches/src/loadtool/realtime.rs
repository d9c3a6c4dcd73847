//! Simulated workers in real time beside the same in virtual time. (S5)
//!
//! Each scene is run twice: `overdraft bench` sends its load to real servers at a GPU's pace, and
//! `overdraft simulate` lets the same load pass through the discrete-event simulation. Load and seed are the same, so
//! arrivals and lengths are; what differs is all that only a real server has: sockets, text that is
//! tokenised, threads that are woken late.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::binary::{Server, figure, told};

/// What is simulated.
pub(crate) const PROFILE: &str = "h100-tp2/llama-3-70b-fp8";

/// What the loopback takes, one way, in milliseconds.
const NETWORK_MS: &str = "0.05";

/// A load and who bears it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    workload: &'static str,
    workers: u16,
    /// Users of a closed loop; an open loop otherwise.
    users: Option<u32>,
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
        requests: 300,
        requests_quick: 40,
    },
    Scene {
        name: "closed",
        // Lengths are spread: equal ones end in lockstep, and medians then tell who came first in a wave.
        workload: "tenants:groups=8,prefix=2000,question=200,output=80,spread=0.5",
        workers: 1,
        users: Some(12),
        requests: 480,
        requests_quick: 96,
    },
    Scene {
        name: "fleet",
        workload: "tenants:groups=12,prefix=3000,question=200,output=80,spread=0.5,rate=8",
        workers: 2,
        users: None,
        requests: 480,
        requests_quick: 80,
    },
];

/// What was found of a scene.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) scene: &'static str,
    pub(crate) real: Figures,
    pub(crate) simulated: Figures,
}

/// Of one run; milliseconds and tokens a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) ttft_p50: f64,
    pub(crate) ttft_mean: f64,
    pub(crate) tpot_p50: f64,
    pub(crate) tokens_per_second: f64,
}

impl Figures {
    fn of(report: &serde_json::Value, requests: u32) -> Result<Self> {
        let of = |name: &str| figure(report, &["runs", "0", name]);
        let completed = of("completed")?;
        ensure!(completed >= f64::from(requests), "{completed} of {requests} were answered");
        Ok(Self {
            ttft_p50: of("median_ttft_ms")?,
            ttft_mean: of("mean_ttft_ms")?,
            tpot_p50: of("median_tpot_ms")?,
            tokens_per_second: of("output_throughput")?,
        })
    }
}

impl Scene {
    /// Runs it in both times.
    pub(crate) async fn measure(&self, binary: &Path, quick: bool) -> Result<Pair> {
        let requests = if quick { self.requests_quick } else { self.requests };
        // What the live gateway does by default; a worker by itself admits all.
        let admission = if self.workers == 1 { "off" } else { "peak" };
        let simulate = [
            self.load("simulate", requests),
            words(&["--profile", PROFILE, "--policy", "cost", "--network-ms", NETWORK_MS]),
            words(&["--workers", &self.workers.to_string(), "--admission", admission]),
        ]
        .concat();
        let simulated = Figures::of(&told(binary, &simulate).await?, requests)?;
        let count = self.workers.to_string();
        let crowd = ["--simulate", PROFILE, "--workers", &count];
        let workers = Server::workers(binary, &crowd, self.workers.into()).await?;
        let gateway = match self.workers {
            1 => None,
            _ => Some(Server::gateway(binary, &workers).await?),
        };
        let url = gateway.as_ref().unwrap_or(&workers).url();
        let bench = [self.load("bench", requests), words(&[&url, "--ignore-eos"])].concat();
        let real = Figures::of(&told(binary, &bench).await?, requests)?;
        Ok(Pair { scene: self.name, real, simulated })
    }

    /// The command and the load, which both times share.
    fn load(&self, command: &str, requests: u32) -> Vec<String> {
        let mut load = words(&[command, "--workload", self.workload, "--output", "json"]);
        load.extend(words(&["--num-prompts", &requests.to_string(), "--seed", "1"]));
        if let Some(users) = self.users {
            load.extend(words(&["--users", &users.to_string()]));
        }
        load
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
