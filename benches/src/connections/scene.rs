//! A gateway before slow workers, and all its clients at once.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::crowd::Client;
use super::process::{processor_seconds, resident_kib};
use crate::binary::free_address;
use crate::server::{Server, figure, told};

const WORKERS: u32 = 8;
const TOKENS_PER_SECOND: u32 = 5;
const STARTS_PER_SECOND: u32 = 400;
const HEALTH_EVERY: Duration = Duration::from_millis(100);
/// What fleets have beside those that are asked for.
const SPARE: u32 = 1_000;

/// How many of each, and for how long.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Scene {
    pub(super) streams: u32,
    pub(super) idle: u32,
    /// For which all streams are there.
    pub(super) seconds: u32,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    /// Streams that were answered to their end.
    pub(super) whole: u32,
    /// Between two tokens of a stream.
    pub(super) token_ms: f64,
    pub(super) token_p99_ms: f64,
    /// Memory of the gateway at first, with the idle connections, and the most with the streams beside.
    pub(super) kib: [f64; 3],
    /// Processors of the gateway while there were streams.
    pub(super) cores: f64,
    /// Each answer about health meanwhile, at the operators' listener, where probes should ask.
    pub(super) health_ms: Vec<f64>,
    /// The same where clients ask.
    pub(super) door_health_ms: Vec<f64>,
}

impl Scene {
    /// Opens the idle connections, then the streams, and looks on.
    ///
    /// # Errors
    /// When a server does not start, or a connection that should be open is not.
    pub(super) async fn measure(self, binary: &Path) -> Result<Measured> {
        let folder = tempfile::tempdir()?;
        let workers = self.workers(binary, &folder).await?;
        let operators = free_address().await?;
        let gateway = self.gateway(binary, &folder, &workers, operators).await?;
        let (id, address) = (gateway.id()?, *gateway.addresses.first().context("an address")?);
        let first = resident_kib(id)?;
        let mut idle = Vec::new();
        for _ in 0..self.idle {
            let mut client = Client::connect(address).await?;
            client.health().await?;
            idle.push(client);
        }
        let with_idle = resident_kib(id)?;
        let load = self.load(&gateway);
        let (begun, before) = (Instant::now(), processor_seconds(id)?);
        let mut watch = Watch::new(id, operators, address).await?;
        let report = tokio::select! {
            report = told(binary, &load) => report?,
            failed = watch.look() => match failed? {},
        };
        let cores = (processor_seconds(id)? - before) / begun.elapsed().as_secs_f64();
        for client in &mut idle {
            client.health().await?;
        }
        let of = |name: &str| figure(&report, &["runs", "0", name]);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of streams"
        )]
        let whole = of("completed")? as u32;
        Ok(Measured {
            whole,
            token_ms: of("mean_tpot_ms")?,
            token_p99_ms: of("p99_tpot_ms")?,
            kib: [first, with_idle, watch.busiest_kib],
            cores,
            health_ms: watch.health_ms,
            door_health_ms: watch.door_health_ms,
        })
    }

    async fn workers(self, binary: &Path, folder: &TempDir) -> Result<Server> {
        let seats = self.streams / WORKERS + SPARE;
        let milliseconds = 1_000 / TOKENS_PER_SECOND;
        // A step of this model takes 7 ms beside what the host adds.
        let host = milliseconds - 7;
        let profile = folder.path().join("slow.toml");
        let content = format!(
            "[[profile]]\nlike = \"h100-tp1/llama-3-8b-bf16\"\nhardware = \"h100\"\ntensor_parallel = 1\nmodel = \"llama-3-8b\"\n\
             weights = \"slow\"\nhost_ms = {host}\nengine = \"vllm-0.10\"\nrunning_max = {seats}\nconfidence = \"D\"\n\
             source = \"a step takes {milliseconds} ms\"\n"
        );
        std::fs::write(&profile, content)?;
        let (profile, count) = (profile.display().to_string(), WORKERS.to_string());
        let arguments = [
            "--simulate",
            "h100/llama-3-8b-slow",
            "--profile",
            &profile,
            "--kv-tokens",
            "4000000",
            "--workers",
            &count,
        ];
        let workers = usize::try_from(WORKERS)?;
        Server::workers(
            binary,
            &[&arguments[..], &["--max-num-seqs", &seats.to_string()]].concat(),
            workers,
        )
        .await
    }

    async fn gateway(
        self,
        binary: &Path,
        folder: &TempDir,
        workers: &Server,
        operators: SocketAddr,
    ) -> Result<Server> {
        let named =
            workers.addresses.iter().map(|address| json!({"url": format!("http://{address}")}));
        let config = json!({
            "workers": named.collect::<Vec<_>>(),
            "limits": {
                "requests": self.streams + SPARE,
                "streams": self.streams + SPARE,
                "connections": self.streams + self.idle + SPARE,
            },
            "admin": {"listen": operators},
            "admission": {"mode": "off"},
            "timeouts": {"client_idle": "1h"},
        });
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, config.to_string())?;
        Server::gateway_with(
            binary,
            &["--config", &file.display().to_string()],
            workers.addresses.len(),
        )
        .await
    }

    /// As many requests as streams, started one after the other and so long that all are there together for a while.
    fn load(self, gateway: &Server) -> Vec<String> {
        let tokens = (self.streams / STARTS_PER_SECOND + self.seconds) * TOKENS_PER_SECOND;
        let workload = format!("unique:question=20,output={tokens},spread=0");
        let (count, rate) = (self.streams.to_string(), STARTS_PER_SECOND.to_string());
        let url = gateway.url();
        let words = [
            "bench",
            &url,
            "--workload",
            &workload,
            "--num-prompts",
            &count,
            "--request-rate",
            &rate,
            "--output",
            "json",
        ];
        words.map(str::to_owned).to_vec()
    }
}

/// Who asks for health, and looks at the memory of the gateway, while others ask for streams.
struct Watch {
    id: u32,
    probe: Client,
    health_ms: Vec<f64>,
    door: Client,
    door_health_ms: Vec<f64>,
    busiest_kib: f64,
}

impl Watch {
    async fn new(id: u32, operators: SocketAddr, door: SocketAddr) -> Result<Self> {
        let (probe, door) = (Client::connect(operators).await?, Client::connect(door).await?);
        let (health_ms, door_health_ms) = (Vec::new(), Vec::new());
        Ok(Self { id, probe, health_ms, door, door_health_ms, busiest_kib: 0.0 })
    }

    /// Looks until it is stopped or the gateway fails.
    async fn look(&mut self) -> Result<Infallible> {
        let mut ticks = interval(HEALTH_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.health_ms.push(self.probe.health().await?.as_secs_f64() * 1_000.0);
            self.door_health_ms.push(self.door.health().await?.as_secs_f64() * 1_000.0);
            self.busiest_kib = self.busiest_kib.max(resident_kib(self.id)?);
        }
    }
}
