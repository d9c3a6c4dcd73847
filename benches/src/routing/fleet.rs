//! The simulated fleet: real servers and schedulers, over a model that only takes its time.
//!
//! A worker is the one that ships, with the embedded engine, its scheduler and its paged cache; in
//! place of a model stands the echo, which sleeps for as long as a GPU would compute. So what is
//! cached really is fast, what queues really waits, and four of them fit two cores.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use overdraft_core::route::Policy;
use overdraft_engine::echo::{self, ECHO_TEMPLATE};
use overdraft_engine::{
    Backend as _, ChatTemplate, EchoBackend, EchoSettings, Engine, EngineSettings, TextCodec,
};
use overdraft_gateway::{GatewaySettings, WorkerSettings};
use overdraft_telemetry::Clock;
use overdraft_tokenizer::TokenizerDocument;
use overdraft_units::{Blocks, Micros, Tokens};
use overdraft_worker::{EngineMetrics, MetricNames, Served, Settings};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client;

/// The model that clients name.
pub(crate) const MODEL: &str = "simulated";
/// Workers in the fleet.
pub(crate) const WORKERS: usize = 4;
/// Tokens that a worker's cache has room for; a token of the echo is a byte.
pub(crate) const CACHE_TOKENS: u32 = 32_768;
/// Prompt tokens that a worker computes in a second: a large model on a fast GPU.
pub(crate) const PREFILL_PER_SECOND: u32 = 10_000;
/// One decode step.
pub(crate) const STEP: Duration = Duration::from_millis(5);

/// Prompt tokens computed in one step, decodes of others riding along.
const STEP_TOKENS: Tokens = Tokens::new(512);
/// Sequences that one worker computes together.
const RUNNING_MAX: u32 = 64;
/// Bytes to a chunk of a prompt: bytes are tokens here, and 64 of them are four pages.
const TEXT_CHUNK: std::num::NonZeroU32 = std::num::NonZeroU32::new(64).expect("64 is not zero");
/// How long a fleet may take to come up, and a ledger to empty.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What may differ between fleets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make {
    pub(crate) policy: Policy,
    /// Between two scrapes of a worker.
    pub(crate) scrape: Duration,
    /// Whether the workers take their time.
    pub(crate) pace: Pace,
}

/// How long the workers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As a GPU would.
    Simulated,
    /// As long as the processor does.
    Instant,
}

impl Make {
    /// Simulated workers, scraped as often as is usual.
    pub(crate) fn of(policy: Policy) -> Self {
        Self { policy, scrape: Duration::from_millis(200), pace: Pace::Simulated }
    }
}

/// Four workers behind a gateway, all in this process and all over sockets.
pub(crate) struct Fleet {
    pub(crate) gateway: SocketAddr,
    engines: Vec<Engine>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// One worker as the gateway lists it.
#[derive(Debug, Deserialize)]
pub(crate) struct Listed {
    health: String,
    requests: u32,
    tokens_inflight: u64,
    tokens_queued: u64,
    kv_capacity_tokens: Option<u32>,
}

impl Listed {
    /// Whether nothing is booked on it.
    pub(crate) const fn is_idle(&self) -> bool {
        self.requests == 0 && self.tokens_inflight == 0 && self.tokens_queued == 0
    }
}

impl Fleet {
    /// A fleet with empty caches, ready to be asked.
    pub(crate) async fn start(make: Make) -> Result<Self> {
        let (stop, _) = watch::channel(false);
        let (mut tasks, mut engines, mut workers) = (JoinSet::new(), Vec::new(), Vec::new());
        for number in 0..WORKERS {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let mut worker = WorkerSettings::new(format!("http://{}", listener.local_addr()?));
            worker.name = format!("worker-{number}");
            workers.push(worker);
            let clock = Clock::start();
            let (engine, served) = simulated(clock, make.pace)?;
            engines.push(engine);
            let stopped = stopped(&stop);
            tasks.spawn(async move {
                overdraft_worker::run(listener, served, Settings::new(clock), stopped).await;
            });
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let gateway = listener.local_addr()?;
        let (settings, stopped) = (settings(workers, make), stopped(&stop));
        tasks.spawn(async move {
            let drained = overdraft_gateway::run(listener, settings, stopped).await;
            drained.expect("settings with four workers can work");
        });
        let fleet = Self { gateway, engines, stop, tasks };
        fleet
            .until("all workers are up and known", |workers| {
                let known = |one: &Listed| one.health == "up" && one.kv_capacity_tokens.is_some();
                workers.len() == WORKERS && workers.iter().all(known)
            })
            .await?;
        Ok(fleet)
    }

    /// The workers as the gateway lists them.
    pub(crate) async fn listed(&self) -> Result<Vec<Listed>> {
        #[derive(Deserialize)]
        struct List {
            workers: Vec<Listed>,
        }
        let list: List = serde_json::from_str(&client::get(self.gateway, "/admin/workers").await?)?;
        Ok(list.workers)
    }

    /// Waits until the list is so.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&[Listed]) -> bool) -> Result<()> {
        let begun = tokio::time::Instant::now();
        loop {
            let listed = self.listed().await?;
            if holds(&listed) {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "never came true: {what}: {listed:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Prompt tokens that the workers were sent, and those that they found in their caches.
    pub(crate) fn prefixes(&self) -> (u64, u64) {
        let stats = self.engines.iter().map(|engine| engine.handle().stats().batch);
        stats.fold((0, 0), |(asked, hit), batch| {
            (asked + batch.prefix_queried, hit + batch.prefix_hit)
        })
    }

    /// Sequences that the engines still have.
    pub(crate) fn sequences(&self) -> u32 {
        let stats = self.engines.iter().map(|engine| engine.handle().stats().batch);
        stats.map(|batch| batch.running + batch.waiting).sum()
    }

    /// Ends every part of it.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            ended?;
        }
        // Joining an engine's thread may take a step.
        tokio::task::spawn_blocking(move || drop(self.engines)).await?;
        Ok(())
    }
}

/// Resolves once the fleet is to end.
fn stopped(stop: &watch::Sender<bool>) -> impl Future<Output = ()> + Send + use<> {
    let mut told = stop.subscribe();
    async move {
        // A sender that is gone means the same as its word.
        let _ = told.wait_for(|stop| *stop).await;
    }
}

fn settings(workers: Vec<WorkerSettings>, make: Make) -> GatewaySettings {
    let mut settings = GatewaySettings::new(workers);
    settings.scrape.interval = make.scrape;
    settings.scrape.idle_interval = make.scrape.max(settings.scrape.idle_interval);
    settings.routing.text_chunk = TEXT_CHUNK;
    settings.routing.route.policy = make.policy;
    // All workers are as cold as each other.
    settings.routing.route.slow_start = Micros::ZERO;
    settings
}

fn simulated(clock: Clock, pace: Pace) -> Result<(Engine, Served)> {
    let mut shape = EchoSettings::default();
    shape.blocks = Blocks::new(CACHE_TOKENS / shape.block_size.get());
    if pace == Pace::Simulated {
        shape.step_delay = STEP;
        shape.token_delay = Duration::from_secs(1) / PREFILL_PER_SECOND;
    }
    let tokenizer = Arc::new(echo::tokenizer());
    let template = Arc::new(ChatTemplate::new(Some(ECHO_TEMPLATE), &tokenizer)?);
    let backend = EchoBackend::new(shape);
    let metrics = EngineMetrics::new(MODEL, backend.shape(), MetricNames::Current);
    let mut settings = EngineSettings::new(clock);
    settings.step_tokens = STEP_TOKENS;
    settings.running_max = RUNNING_MAX;
    let codec: Arc<dyn TextCodec> = tokenizer.clone();
    let engine = Engine::start(Box::new(backend), codec, settings, metrics.observer())?;
    let served = Served {
        engine: engine.handle(),
        tokenizer,
        template,
        document: TokenizerDocument::new(&echo::tokenizer_source(), Some(ECHO_TEMPLATE)),
        names: vec![MODEL.to_owned()],
        root: None,
        metrics,
        // The gateway knows what it sent them and no more, as of most fleets.
        kv_events: None,
        kv_share: None,
    };
    Ok((engine, served))
}
