//! The gateway in this process, before workers in processes of their own.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use overdraft_core::admit::Mode;
use overdraft_gateway::{GatewaySettings, WorkerSettings};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::client;
use super::worker::Worker;

/// Workers in the fleet.
pub(crate) const WORKERS: usize = 2;

/// Between two scrapes of a worker.
const SCRAPE_EVERY: Duration = Duration::from_millis(500);
/// How long a fleet may take to come up.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A fleet under one rule of admission.
pub(crate) struct Fleet {
    pub(crate) gateway: SocketAddr,
    workers: Vec<Worker>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Fleet {
    /// A fleet whose workers are up and known.
    pub(crate) async fn start(binary: &Path, mode: Mode) -> Result<Self> {
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            workers.push(Worker::start(binary).await?);
        }
        let named = workers.iter().enumerate().map(|(number, worker)| {
            let mut named = WorkerSettings::new(format!("http://{}", worker.address));
            named.name = format!("worker-{number}");
            named
        });
        let mut settings = GatewaySettings::new(named.collect());
        settings.scrape.interval = SCRAPE_EVERY;
        settings.scrape.idle_interval = SCRAPE_EVERY;
        settings.routing.route.admission.mode = mode;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let gateway = listener.local_addr()?;
        let (stop, mut told) = watch::channel(false);
        let serving = tokio::spawn(async move {
            let stopped = async move {
                // A sender that is gone means the same as its word.
                let _ = told.wait_for(|stop| *stop).await;
            };
            let drained = overdraft_gateway::run(listener, settings, stopped).await;
            drained.expect("settings with two workers can work");
        });
        let fleet = Self { gateway, workers, stop, serving };
        fleet.known().await?;
        Ok(fleet)
    }

    /// How often workers died so far.
    pub(crate) fn crashes(&self) -> u32 {
        self.workers.iter().map(Worker::crashes).sum()
    }

    /// How often workers say that they took pages away. Those of workers that died are not told any
    /// more; each death stands for one at least.
    pub(crate) async fn preemptions(&self) -> u32 {
        let mut count = 0.0;
        for worker in &self.workers {
            let page = client::get(worker.address, "/metrics").await.unwrap_or_default();
            let told = page.lines().filter(|line| line.starts_with("vllm:num_preemptions_total"));
            count +=
                told.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>();
        }
        format!("{count:.0}").parse().unwrap_or(u32::MAX)
    }

    /// Ends every part of it.
    pub(crate) async fn end(self) -> Result<()> {
        self.stop.send_replace(true);
        for worker in self.workers {
            worker.end().await?;
        }
        self.serving.await?;
        Ok(())
    }

    /// Waits until the gateway knows of all workers that they are up and how much they hold.
    async fn known(&self) -> Result<()> {
        #[derive(Deserialize)]
        struct List {
            workers: Vec<Listed>,
        }
        #[derive(Deserialize)]
        struct Listed {
            health: String,
            kv_capacity_tokens: Option<u32>,
        }
        let begun = Instant::now();
        loop {
            let list: List =
                serde_json::from_str(&client::get(self.gateway, "/admin/workers").await?)?;
            let known = |one: &Listed| one.health == "up" && one.kv_capacity_tokens.is_some();
            if list.workers.len() == WORKERS && list.workers.iter().all(known) {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "the workers never came up");
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
