//! Circuit breaker propagation: how soon one gateway learns of another's ejection (S4).

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use overdraft_claims::{as_float, median};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::client::Client;
use super::fleet::{Fleet, LOOK_EVERY, PATIENCE, until};
use crate::redis::Redis;

const OPEN: &str = "\"breaker\":\"open\"";

/// From one gateway's breaker to the other's, for each round.
#[derive(Serialize)]
pub(crate) struct Spread {
    milliseconds: Vec<f64>,
}

impl Spread {
    pub(crate) fn median_ms(&self) -> f64 {
        median(self.milliseconds.clone())
    }

    pub(crate) fn longest_ms(&self) -> f64 {
        self.milliseconds.iter().copied().fold(f64::NAN, f64::max)
    }
}

/// Trials of a worker that keeps failing.
#[derive(Serialize)]
pub(crate) struct Windows {
    /// Times that it was due for one.
    pub(crate) windows: usize,
    /// Trials that were sent, by both.
    pub(crate) trials: usize,
}

impl Windows {
    pub(crate) fn trials_each(&self) -> f64 {
        as_float(self.trials) / as_float(self.windows)
    }
}

/// Lets a worker fail so many times.
pub(crate) async fn openings(rounds: usize) -> Result<Spread> {
    let redis = Redis::start(&[]);
    let mut milliseconds = Vec::new();
    // An open breaker stays so for as long as a round lasts; each round has gateways of its own.
    for _ in 0..rounds {
        let fleet = Fleet::start(&redis.url(), Duration::from_mins(1)).await?;
        fleet.workers[0].turn_to(500);
        let [one, other] = fleet.gateways[..] else { anyhow::bail!("there are two") };
        let watching = tokio::spawn(async move {
            until(other, "/admin/workers", OPEN).await?;
            Ok::<_, anyhow::Error>(Instant::now())
        });
        let opened = opened(one).await?;
        let heard = watching.await??;
        milliseconds.push(heard.saturating_duration_since(opened).as_secs_f64() * 1e3);
        fleet.end().await?;
    }
    Ok(Spread { milliseconds })
}

/// Asks until the gateway's own breaker is open, and says when.
async fn opened(gateway: SocketAddr) -> Result<Instant> {
    let mut client = Client::connect(gateway).await?;
    let begun = Instant::now();
    loop {
        // The last answer that a client waited for came after the breaker had opened.
        let asked = Instant::now();
        ensure!(client.chat().await? == 200, "the other worker answers");
        if client.page("/admin/workers").await?.contains(OPEN) {
            return Ok(asked);
        }
        ensure!(begun.elapsed() < PATIENCE, "the breaker never opened");
    }
}

/// Windows of one worker's failing; a breaker counts no more than 16 in a row.
const WINDOWS: u64 = 10;

/// Counts trials while a worker fails, so many times over.
pub(crate) async fn trials(failures: usize) -> Result<Windows> {
    let mut all = Windows { windows: 0, trials: 0 };
    for _ in 0..failures {
        let one = trials_of_one().await?;
        all = Windows { windows: all.windows + one.windows, trials: all.trials + one.trials };
    }
    Ok(all)
}

async fn trials_of_one() -> Result<Windows> {
    let redis = Redis::start(&[]);
    let fleet = Fleet::start(&redis.url(), Duration::from_millis(100)).await?;
    fleet.workers[0].turn_to(500);
    let mut clients = Vec::new();
    for &gateway in &fleet.gateways {
        clients.push(Client::connect(gateway).await?);
    }
    let begun = Instant::now();
    while figure(&clients[0].page("/admin/workers").await?, "\"breaker_streak\":")? <= WINDOWS {
        for client in &mut clients {
            ensure!(client.chat().await? == 200, "the other worker answers");
        }
        ensure!(begun.elapsed() < 4 * PATIENCE, "too few windows");
        sleep(LOOK_EVERY).await;
    }
    let mut trials = 0;
    for client in &mut clients {
        trials += figure(&client.page("/metrics").await?, "\noverdraft_breaker_trials_total ")?;
    }
    // The first opening was no trial's doing; every later one was.
    let windows = figure(&clients[0].page("/admin/workers").await?, "\"breaker_streak\":")?;
    fleet.end().await?;
    Ok(Windows { windows: usize::try_from(windows)?, trials: usize::try_from(trials)? })
}

/// The number that stands after `name` on a page for the first time.
fn figure(page: &str, name: &str) -> Result<u64> {
    let (_, rest) = page.split_once(name).with_context(|| format!("a page tells `{name}`"))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}
