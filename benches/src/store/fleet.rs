//! Two gateways in this process that share one Redis, before two workers.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::{Result, ensure};
use overdraft_gateway::{Budget, GatewaySettings, KeyDigest, KeySettings, WorkerSettings};
use overdraft_store::Place;
use overdraft_units::Micros;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::client::{Client, KEY};
use super::worker::Worker;

/// How long anything may take to come about.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Requests a minute that the key may send: counted, and never reached.
const BUDGET: NonZeroU32 = NonZeroU32::new(1_000_000_000).expect("it is not zero");

/// The gateways and their workers.
pub(crate) struct Fleet {
    pub(crate) gateways: Vec<SocketAddr>,
    pub(crate) workers: Vec<Worker>,
    stop: watch::Sender<bool>,
    serving: Vec<JoinHandle<()>>,
}

impl Fleet {
    /// Two gateways that know each other; an open breaker is due again after `open`.
    pub(crate) async fn start(redis: &str, open: Duration) -> Result<Self> {
        let workers = vec![Worker::start().await?, Worker::start().await?];
        let (stop, told) = watch::channel(false);
        let (mut gateways, mut serving) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let settings = settings(&workers, redis, open)?;
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            gateways.push(listener.local_addr()?);
            let mut told = told.clone();
            serving.push(tokio::spawn(async move {
                let stopped = async move {
                    // A sender that is gone means the same as its word.
                    let _ = told.wait_for(|stop| *stop).await;
                };
                let drained = overdraft_gateway::run(listener, settings, stopped).await;
                drained.expect("settings with two workers can work");
            }));
        }
        let fleet = Self { gateways, workers, stop, serving };
        for &gateway in &fleet.gateways {
            until(gateway, "/healthz", "\"workers_up\":2,").await?;
            until(gateway, "/metrics", "overdraft_store_gateways 2").await?;
        }
        Ok(fleet)
    }

    pub(crate) async fn end(self) -> Result<()> {
        self.stop.send_replace(true);
        for serving in self.serving {
            serving.await?;
        }
        Ok(())
    }
}

fn settings(workers: &[Worker], redis: &str, open: Duration) -> Result<GatewaySettings> {
    let named = workers.iter().enumerate().map(|(number, worker)| WorkerSettings {
        name: format!("worker-{number}"),
        ..WorkerSettings::new(format!("http://{}", worker.address))
    });
    let mut settings = GatewaySettings::new(named.collect());
    settings.store.place = Place::parse(redis)?;
    let open = Micros::new(u64::try_from(open.as_micros())?);
    settings.breaker.open_first = open;
    settings.breaker.open_max = open;
    let mut key = KeySettings::new(KeyDigest::of(KEY), "bench");
    key.budget = Budget { requests_per_minute: Some(BUDGET), ..Budget::default() };
    settings.keys.push(key);
    Ok(settings)
}

/// Waits until a page of a gateway says so; how long that took.
pub(crate) async fn until(gateway: SocketAddr, path: &str, wanted: &str) -> Result<Duration> {
    let begun = Instant::now();
    let mut client = Client::connect(gateway).await?;
    while !client.page(path).await?.contains(wanted) {
        ensure!(begun.elapsed() < PATIENCE, "`{path}` never said `{wanted}`");
        sleep(LOOK_EVERY).await;
    }
    Ok(begun.elapsed())
}
