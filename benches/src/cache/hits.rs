//! Latency of a response-cache hit, from the request's first byte to the answer's last.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use overdraft_claims::percentile;
use overdraft_gateway::{CacheMode, GatewaySettings, WorkerSettings, run};
use overdraft_store::Place;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::wire::{Answer, Client, worker};
use crate::redis::Redis;

/// Different requests.
const REQUESTS: usize = 200;

/// Bytes of each prompt.
const PROMPT_BYTES: usize = 4_000;

/// Times of hits.
#[derive(Debug, Serialize)]
pub(crate) struct Hits {
    pub(crate) memory_whole: Times,
    pub(crate) memory_stream: Times,
    pub(crate) redis_whole: Times,
    pub(crate) redis_stream: Times,
    /// Answers that were not, byte for byte, the worker's first.
    pub(crate) differ: usize,
}

/// Milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Times {
    p50_ms: f64,
    pub(crate) p99_ms: f64,
    hits: usize,
}

impl Times {
    fn of(millis: Vec<f64>) -> Self {
        let hits = millis.len();
        Self { p50_ms: percentile(millis.clone(), 50), p99_ms: percentile(millis, 99), hits }
    }
}

impl Hits {
    pub(crate) fn print(&self) {
        println!("{:<24}{:>10}{:>10}{:>10}", "hit, ms", "p50", "p99", "hits");
        for (what, times) in [
            ("memory, whole", &self.memory_whole),
            ("memory, streamed", &self.memory_stream),
            ("Redis, whole", &self.redis_whole),
            ("Redis, streamed", &self.redis_stream),
        ] {
            let Times { p50_ms, p99_ms, hits } = times;
            println!("{what:<24}{p50_ms:>10.3}{p99_ms:>10.3}{hits:>10}");
        }
    }
}

/// Measures about `count` hits of each kind.
pub(crate) async fn measure(count: usize) -> Result<Hits> {
    let worker = worker().await?;
    let mut differ = 0;
    let mut memory = Vec::new();
    let mut shared = Vec::new();
    for streamed in [false, true] {
        // Anew, for a stream is answered by what was kept whole.
        let redis = Redis::start(&[]);
        let first = gateway(worker, &redis.url()).await?;
        let mut client = Client::connect(first).await?;
        let mut answers = Vec::new();
        for number in 0..REQUESTS {
            answers.push(ask(&mut client, number, streamed, "MISS").await?.0);
        }
        let mut millis = Vec::new();
        while millis.len() < count {
            for (number, answer) in answers.iter().enumerate() {
                let (again, took) = ask(&mut client, number, streamed, "HIT").await?;
                differ += usize::from(again.body != answer.body);
                millis.push(took);
            }
        }
        memory.push(Times::of(millis));
        until_stored(&mut client, REQUESTS).await?;
        // Each gateway that comes new finds all of them at Redis, once.
        let mut millis = Vec::new();
        while millis.len() < count {
            let mut client = Client::connect(gateway(worker, &redis.url()).await?).await?;
            // The connection to Redis is made by the first look-up, which is none of those counted.
            ask(&mut client, 0, streamed, "").await?;
            for (number, answer) in answers.iter().enumerate().skip(1) {
                let (again, took) = ask(&mut client, number, streamed, "HIT").await?;
                differ += usize::from(again.body != answer.body);
                millis.push(took);
            }
        }
        shared.push(Times::of(millis));
    }
    let [Some(redis_stream), Some(redis_whole)] = [shared.pop(), shared.pop()] else {
        anyhow::bail!("two kinds were measured");
    };
    let [Some(memory_stream), Some(memory_whole)] = [memory.pop(), memory.pop()] else {
        anyhow::bail!("two kinds were measured");
    };
    Ok(Hits { memory_whole, memory_stream, redis_whole, redis_stream, differ })
}

/// Starts a gateway that shares what it keeps; it ends with the runtime.
async fn gateway(worker: SocketAddr, redis: &str) -> Result<SocketAddr> {
    let mut settings = GatewaySettings::new(vec![WorkerSettings::new(format!("http://{worker}"))]);
    settings.cache.mode = CacheMode::On;
    settings.store.place = Place::parse(redis)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(run(listener, settings, std::future::pending()));
    let mut client = Client::connect(address).await?;
    while client.ask("/healthz", "").await.is_err() {
        // A 503 leaves nothing to read on, so the next look is over a new connection.
        client = Client::connect(address).await?;
        tokio::task::yield_now().await;
    }
    Ok(address)
}

/// One request, how it was marked, and the milliseconds it took.
async fn ask(
    client: &mut Client,
    number: usize,
    streamed: bool,
    marked: &str,
) -> Result<(Answer, f64)> {
    let prompt = "prompt ".repeat(PROMPT_BYTES / 7);
    let body = format!(
        r#"{{"model":"m","temperature":0,"stream":{streamed},"messages":[{{"role":"user","content":"{number} {prompt}"}}]}}"#
    );
    let begun = Instant::now();
    let answer = client.ask("/v1/chat/completions", &body).await?;
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let is_marked = marked.is_empty() || answer.x_cache == marked;
    ensure!(is_marked, "marked `{}`, expected `{marked}`", answer.x_cache);
    Ok((answer, took))
}

/// Waits until a gateway has put so many answers at the store.
async fn until_stored(client: &mut Client, count: usize) -> Result<()> {
    let wanted = format!("overdraft_cache_stores_total{{result=\"stored\"}} {count}\n");
    loop {
        let page = client.ask("/metrics", "").await?;
        if String::from_utf8_lossy(&page.body).contains(&wanted) {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}
