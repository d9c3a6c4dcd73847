//! The figures: CPU time per request and per chunk, latency, memory; ours, the least, and others'.

use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use overdraft_claims::{as_float, machine_load, median};
use overdraft_gateway::{GatewaySettings, WorkerSettings};
use overdraft_telemetry::logging::{self, LogSettings};
use serde::Serialize;
use tokio::net::TcpListener;

use super::child::Process;
use super::load::{self, Request, Volume};
use super::mock::CHUNKS;
use super::peer::{self, PEERS, Peer};

/// The gateway as it comes, but for what `adjust` changes: default settings, one worker, an access line per request.
pub(crate) async fn gateway(
    listener: TcpListener,
    worker: &str,
    adjust: impl FnOnce(&mut GatewaySettings),
) -> Result<()> {
    logging::install(&LogSettings::default())?;
    let workers = vec![WorkerSettings::new(format!("http://{worker}"))];
    let mut settings = GatewaySettings::new(workers);
    adjust(&mut settings);
    overdraft_gateway::run(listener, settings, pending()).await?;
    Ok(())
}

/// One prompt size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) prompt_bytes: usize,
    pub(crate) volume: Volume,
    /// Most that the gateway may cost, as a multiple of the bare proxy; from design's table.
    pub(crate) ratio_max: f64,
    /// The same of the cheapest peer.
    pub(crate) peer_ratio_max: f64,
}

/// How much is measured. Many small rounds rather than few large ones: whatever else the machine does
/// then falls on both sides of most rounds, or on neither.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    /// Leaves all else out.
    pub(crate) only: Option<&'a str>,
    pub(crate) rounds: usize,
    /// Divides the volumes.
    pub(crate) haste: usize,
    pub(crate) streams: usize,
    pub(crate) latency_requests: usize,
    /// Peers join only so many rounds: theirs take longer, and their figures are far from ours.
    pub(crate) peer_rounds: usize,
    /// For how long prompts are sent while memory is watched.
    pub(crate) memory_span: Duration,
}

impl Plan<'_> {
    pub(crate) const FULL: Self = Self {
        only: None,
        rounds: 21,
        haste: 4,
        streams: 64,
        latency_requests: 500,
        peer_rounds: 9,
        memory_span: Duration::from_secs(30),
    };
    pub(crate) const QUICK: Self = Self {
        rounds: 5,
        haste: 20,
        latency_requests: 200,
        peer_rounds: 1,
        memory_span: Duration::from_secs(2),
        ..Self::FULL
    };

    fn wants(&self, what: &str) -> bool {
        self.only.is_none_or(|only| only == what)
    }

    fn volume(&self, case: &Case) -> Volume {
        // Buffers grow over a connection's first requests; that is not what is asked.
        let least = case.volume.connections * REQUESTS_EACH_MIN;
        Volume { requests: (case.volume.requests / self.haste).max(least), ..case.volume }
    }
}

/// Requests over one connection at least.
const REQUESTS_EACH_MIN: usize = 30;

/// The prompt sizes. The ratios are those of the design's figures: 45/21, 60/33, and 450/229, where
/// 229 is the bare proxy of the same measurements; the design's floor of 379 is of a proxy that also
/// parses and hashes. Beside peers they are 45/152, 60/238 and 450/1217.
pub(crate) const CASES: [Case; 3] = [
    Case {
        name: "200b",
        prompt_bytes: 200,
        volume: Volume { requests: 19_200, connections: 64 },
        ratio_max: 2.14,
        peer_ratio_max: 0.30,
    },
    Case {
        name: "16k",
        prompt_bytes: 16 * 1024,
        volume: Volume { requests: 9_600, connections: 64 },
        ratio_max: 1.82,
        peer_ratio_max: 0.26,
    },
    Case {
        name: "400k",
        prompt_bytes: 400 * 1024,
        volume: Volume { requests: 960, connections: 8 },
        ratio_max: 1.97,
        peer_ratio_max: 0.37,
    },
];

/// Both sides of one comparison, a figure per round.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Pair {
    pub(crate) bare: Vec<f64>,
    pub(crate) gateway: Vec<f64>,
}

impl Pair {
    /// The ratio of the medians.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.gateway.clone()) / median(self.bare.clone())
    }
}

/// Everything measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// CPU-µs per request, by case.
    pub(crate) requests: Vec<(String, Pair)>,
    /// CPU-µs per chunk.
    pub(crate) chunks: Pair,
    /// Latency in ms at concurrency 1: median and 99th percentile of each round.
    pub(crate) direct_p50: Vec<f64>,
    pub(crate) direct_p99: Vec<f64>,
    pub(crate) p50: Pair,
    pub(crate) p99: Pair,
    /// Peak resident memory in MB.
    pub(crate) peak_bare: f64,
    pub(crate) peak_gateway: f64,
    /// The gateway by itself, as each peer is measured.
    pub(crate) alone: PeerFigures,
    pub(crate) peers: Vec<PeerFigures>,
    /// Peers that could not be measured, and why.
    pub(crate) missing: Vec<(String, String)>,
    pub(crate) machine_load: String,
}

/// What one peer cost.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct PeerFigures {
    pub(crate) name: String,
    /// CPU-µs per request, by case.
    pub(crate) requests: Vec<Vec<f64>>,
    /// CPU-µs per chunk.
    pub(crate) chunks: Vec<f64>,
    pub(crate) peak: f64,
}

/// The processes under measurement.
pub(crate) struct Bench {
    mock: Process,
    bare: Process,
    gateway: Process,
    peers: Vec<Peer>,
    missing: Vec<(String, String)>,
}

impl Bench {
    /// Starts all; no peers without a `python` that has them.
    pub(crate) async fn start(python: Option<&Path>) -> Result<Self> {
        let mock = Process::start(&["mock"]).await?;
        let worker = mock.address.to_string();
        let bare = Process::start(&["bare", &worker]).await?;
        let gateway = Process::start(&["proxied", &worker]).await?;
        until_ready(bare.address).await?;
        until_ready(gateway.address).await?;
        let (mut peers, mut missing) = (Vec::new(), Vec::new());
        for (python, which) in python.into_iter().flat_map(|it| PEERS.map(|which| (it, which))) {
            match Peer::start(python, which, &worker).await {
                Ok(peer) => peers.push(peer),
                Err(why) => missing.push((which.0.to_owned(), format!("{why:#}"))),
            }
        }
        Ok(Self { mock, bare, gateway, peers, missing })
    }

    pub(crate) async fn measure(&mut self, plan: Plan<'_>) -> Result<Figures> {
        let mut figures = Figures {
            requests: CASES.iter().map(|case| (case.name.to_owned(), Pair::default())).collect(),
            missing: self.missing.clone(),
            machine_load: machine_load(),
            ..Figures::default()
        };
        figures.alone = PeerFigures::new("gateway alone".to_owned());
        figures.peers = self.peers.iter().map(|peer| PeerFigures::new(peer.name.clone())).collect();
        for round in 0..=plan.rounds {
            // The first round fills pools and caches and is forgotten.
            let mut fresh = figures.clone();
            self.round(plan, &mut fresh).await?;
            if round <= plan.peer_rounds {
                self.peer_round(plan, &mut fresh).await?;
            }
            if round > 0 {
                figures = fresh;
            }
        }
        if plan.wants("memory") {
            let worker = self.mock.address.to_string();
            figures.peak_bare = peak(&["bare", &worker], plan).await?;
            figures.peak_gateway = peak(&["proxied", &worker], plan).await?;
            figures.alone.peak = figures.peak_gateway;
            for (peer, figures) in self.peers.iter().zip(&mut figures.peers) {
                let request = load::whole(CASES[1].prompt_bytes);
                let connections = CASES[1].volume.connections;
                load::run_for(peer.address, &request, (connections, plan.memory_span)).await?;
                figures.peak = peer.peak_mb()?;
            }
        }
        Ok(figures)
    }

    /// Ends the processes that were started.
    pub(crate) async fn finish(self) -> Result<()> {
        for process in [self.gateway, self.bare, self.mock] {
            process.finish().await?;
        }
        Ok(())
    }

    async fn round(&mut self, plan: Plan<'_>, figures: &mut Figures) -> Result<()> {
        for (case, (_, pair)) in CASES.iter().zip(&mut figures.requests) {
            if !plan.wants(case.name) {
                continue;
            }
            let request = load::whole(case.prompt_bytes);
            let volume = plan.volume(case);
            self.at_once(&request, volume, 1, pair).await?;
        }
        if plan.wants("chunks") {
            let request = load::streamed();
            let volume = Volume { requests: plan.streams, connections: plan.streams };
            self.at_once(&request, volume, CHUNKS, &mut figures.chunks).await?;
        }
        if plan.wants("latency") {
            self.latency(plan, figures).await?;
        }
        Ok(())
    }

    /// Sends the same load through each peer, and through the gateway by itself: who shares the machine with
    /// another is woken for more events at a time, and each costs less.
    async fn peer_round(&mut self, plan: Plan<'_>, figures: &mut Figures) -> Result<()> {
        let id = self.gateway.id()?;
        let alone = Subject { name: "gateway", address: self.gateway.address, id };
        alone.round(plan, &mut figures.alone).await?;
        for (peer, figures) in self.peers.iter().zip(&mut figures.peers) {
            let subject = Subject { name: &peer.name, address: peer.address, id: peer.id()? };
            subject.round(plan, figures).await?;
        }
        Ok(())
    }

    /// Sends the same load through both at the same time: what else the machine does, and what one
    /// does to the other, then falls on both alike.
    async fn at_once(
        &mut self,
        request: &Arc<Request>,
        volume: Volume,
        parts: usize,
        pair: &mut Pair,
    ) -> Result<()> {
        let before = (self.bare.cpu_us().await?, self.gateway.cpu_us().await?);
        tokio::try_join!(
            load::run(self.bare.address, request, volume),
            load::run(self.gateway.address, request, volume),
        )?;
        let after = (self.bare.cpu_us().await?, self.gateway.cpu_us().await?);
        let all = as_float(volume.requests * parts);
        pair.bare.push((after.0 - before.0) / all);
        pair.gateway.push((after.1 - before.1) / all);
        Ok(())
    }

    async fn latency(&mut self, plan: Plan<'_>, figures: &mut Figures) -> Result<()> {
        let request = load::whole(200);
        let sides = [
            (self.mock.address, &mut figures.direct_p50, &mut figures.direct_p99),
            (self.bare.address, &mut figures.p50.bare, &mut figures.p99.bare),
            (self.gateway.address, &mut figures.p50.gateway, &mut figures.p99.gateway),
        ];
        for (address, p50, p99) in sides {
            let mut taken = load::latencies(address, &request, plan.latency_requests).await?;
            taken.sort_unstable();
            let at = |percent: usize| taken[taken.len() * percent / 100].as_secs_f64() * 1e3;
            p50.push(at(50));
            p99.push(at(99));
        }
        Ok(())
    }
}

/// The peak memory of a process of its own that is sent 16 KB prompts.
async fn peak(role: &[&str], plan: Plan<'_>) -> Result<f64> {
    let process = Process::start(role).await?;
    let case = CASES[1];
    until_ready(process.address).await?;
    let (request, connections) = (load::whole(case.prompt_bytes), case.volume.connections);
    load::run_for(process.address, &request, (connections, plan.memory_span)).await?;
    let peak = process.peak_mb()?;
    process.finish().await?;
    Ok(peak)
}

/// Who is measured by itself.
struct Subject<'a> {
    name: &'a str,
    address: SocketAddr,
    id: u32,
}

impl Subject<'_> {
    async fn round(&self, plan: Plan<'_>, figures: &mut PeerFigures) -> Result<()> {
        for (case, times) in CASES.iter().zip(&mut figures.requests) {
            if plan.wants(case.name) {
                let request = load::whole(case.prompt_bytes);
                times.push(self.cpu_each(&request, plan.volume(case), 1).await?);
            }
        }
        if plan.wants("chunks") {
            let request = load::streamed();
            let volume = Volume { requests: plan.streams, connections: plan.streams };
            figures.chunks.push(self.cpu_each(&request, volume, CHUNKS).await?);
        }
        Ok(())
    }

    /// CPU-µs for each part of each request, as the kernel charges it.
    async fn cpu_each(&self, request: &Arc<Request>, volume: Volume, parts: usize) -> Result<f64> {
        let before = peer::cpu_us(self.id)?;
        load::run(self.address, request, volume).await.with_context(|| self.name.to_owned())?;
        Ok((peer::cpu_us(self.id)? - before) / as_float(volume.requests * parts))
    }
}

impl PeerFigures {
    fn new(name: String) -> Self {
        let requests = CASES.iter().map(|_| Vec::new()).collect();
        Self { name, requests, ..Self::default() }
    }
}

/// Waits for a first answer: the gateway serves once its first probe has come back.
pub(crate) async fn until_ready(address: SocketAddr) -> Result<()> {
    let request = load::whole(200);
    let once = Volume { requests: 1, connections: 1 };
    for _ in 0..100 {
        if load::run(address, &request, once).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    load::run(address, &request, once).await.context("nothing was ever answered")
}
