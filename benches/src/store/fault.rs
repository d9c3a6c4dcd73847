//! Redis faults: their effect on requests (S5).

use std::net::SocketAddr;
use std::time::Duration;

use crate::Dice;
use anyhow::Result;
use overdraft_claims::percentile;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::client::Client;
use super::fleet::{Fleet, until};
use crate::redis::Redis;

/// Requests a second, through both gateways.
const RATE: f64 = 200.0;
/// Connections to each gateway; each carries one request at a time.
const CONNECTIONS: usize = 16;
/// Requests that wait for a connection, at most.
const WAITING_MAX: usize = 4_096;
/// How long a fault may go unnoticed before requests must not feel it: a few commands' timeouts.
const NOTICED: Duration = Duration::from_millis(500);
/// A breaker that nothing here opens.
const OPEN: Duration = Duration::from_secs(10);

/// What happens to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Killed,
    Frozen,
    Filled,
    Password,
    Wiped,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] =
        [Self::Killed, Self::Frozen, Self::Filled, Self::Password, Self::Wiped];

    const fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Frozen => "frozen",
            Self::Filled => "filled",
            Self::Password => "password",
            Self::Wiped => "wiped",
        }
    }
}

/// What one fault did.
#[derive(Serialize)]
pub(crate) struct Strike {
    pub(crate) fault: &'static str,
    pub(crate) requests: usize,
    /// Requests that were not answered as they should be.
    pub(crate) errors: usize,
    pub(crate) p99_before_ms: f64,
    /// Once the fault is known, for as long as it lasts.
    pub(crate) p99_after_ms: f64,
    /// From the server's recovery until both gateways shared again.
    pub(crate) mended_ms: f64,
}

/// One request: when it was to be sent, how long it took from then, and its status.
#[derive(Clone, Copy)]
struct Sent {
    at: Instant,
    took: Duration,
    status: u16,
}

/// Strikes in the middle of a load, `seconds` after its beginning and for as long.
pub(crate) async fn strike(fault: Fault, seconds: u64) -> Result<Strike> {
    let mut redis = Redis::start(&[]);
    let fleet = Fleet::start(&redis.url(), OPEN).await?;
    let span = Duration::from_secs(seconds);
    let begun = Instant::now();
    let (struck, mended) = (begun + span, begun + 2 * span);
    let load = tokio::spawn(load(fleet.gateways.clone(), (begun, 3 * span)));
    sleep_until(struck).await;
    redis = begin(fault, redis).await?;
    sleep_until(mended).await;
    redis = end(fault, redis).await?;
    let back = Instant::now();
    for &gateway in &fleet.gateways {
        until(gateway, "/healthz", "\"store\":\"ok\"").await?;
        until(gateway, "/metrics", "overdraft_store_gateways 2").await?;
    }
    let mended_ms = back.elapsed().as_secs_f64() * 1e3;
    let all = load.await??;
    fleet.end().await?;
    drop(redis);
    let p99 = |from: Instant, to: Instant| {
        let of = all.iter().filter(|one| (from..to).contains(&one.at));
        percentile(of.map(|one| one.took.as_secs_f64() * 1e3).collect(), 99)
    };
    Ok(Strike {
        fault: fault.name(),
        requests: all.len(),
        errors: all.iter().filter(|one| one.status != 200).count(),
        p99_before_ms: p99(begun + NOTICED, struck),
        p99_after_ms: p99(struck + NOTICED, mended),
        mended_ms,
    })
}

/// Sends when it is time, whatever became of what was sent before.
async fn load(gateways: Vec<SocketAddr>, (begun, lasts): (Instant, Duration)) -> Result<Vec<Sent>> {
    let (tell, mut told) = mpsc::channel(WAITING_MAX);
    let mut lines = Vec::new();
    let mut senders = JoinSet::new();
    for gateway in gateways {
        let (line, waiting) = async_channel(WAITING_MAX);
        lines.push(line);
        for _ in 0..CONNECTIONS {
            senders.spawn(carry(gateway, waiting.clone(), tell.clone()));
        }
    }
    drop(tell);
    let collecting = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(sent) = told.recv().await {
            all.push(sent);
        }
        all
    });
    let mut dice = Dice::new(7);
    let mut at = begun;
    for line in lines.iter().cycle() {
        at += dice.gap(RATE);
        if begun + lasts <= at {
            break;
        }
        sleep_until(at).await;
        line.send(at).await?;
    }
    drop(lines);
    while let Some(ended) = senders.join_next().await {
        ended??;
    }
    Ok(collecting.await?)
}

type Waiting = std::sync::Arc<tokio::sync::Mutex<mpsc::Receiver<Instant>>>;

/// A channel that several may receive from.
fn async_channel(bound: usize) -> (mpsc::Sender<Instant>, Waiting) {
    let (send, receive) = mpsc::channel(bound);
    (send, std::sync::Arc::new(tokio::sync::Mutex::new(receive)))
}

async fn carry(to: SocketAddr, waiting: Waiting, tell: mpsc::Sender<Sent>) -> Result<()> {
    let mut client = Client::connect(to).await?;
    loop {
        let next = waiting.lock().await.recv().await;
        let Some(at) = next else { return Ok(()) };
        // A connection that broke counts as an error, and another is made.
        let status = if let Ok(status) = client.chat().await {
            status
        } else {
            client = Client::connect(to).await?;
            0
        };
        tell.send(Sent { at, took: at.elapsed(), status }).await?;
    }
}

async fn begin(fault: Fault, mut redis: Redis) -> Result<Redis> {
    match fault {
        Fault::Killed => redis.kill(),
        Fault::Frozen => redis.freeze(),
        Fault::Filled => command(&redis, &["CONFIG SET maxmemory 1"]).await?,
        // Who is in, stays in; so all are thrown out.
        Fault::Password => {
            let change = ["CONFIG SET requirepass changed", "CLIENT KILL TYPE normal"];
            command(&redis, &change).await?;
        }
        Fault::Wiped => command(&redis, &["FLUSHALL"]).await?,
    }
    Ok(redis)
}

async fn end(fault: Fault, redis: Redis) -> Result<Redis> {
    match fault {
        Fault::Killed => {
            let port = redis.port;
            drop(redis);
            return Redis::start_at(port, &[])
                .ok_or_else(|| anyhow::anyhow!("port {port} is taken"));
        }
        Fault::Frozen => redis.thaw(),
        Fault::Filled => command(&redis, &["CONFIG SET maxmemory 0"]).await?,
        Fault::Password => {
            command(&redis, &["AUTH changed", "CONFIG SET requirepass \"\""]).await?;
        }
        Fault::Wiped => {}
    }
    Ok(redis)
}

/// Inline commands, each of which must be answered with `+OK` or a count.
async fn command(redis: &Redis, lines: &[&str]) -> Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port)).await?;
    for line in lines {
        stream.write_all(format!("{line}\r\n").as_bytes()).await?;
        let mut answer = [0; 256];
        let length = stream.read(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        anyhow::ensure!(answer.starts_with(['+', ':']), "`{line}`: {answer}");
    }
    Ok(())
}
