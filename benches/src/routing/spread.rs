//! Load spread without metrics: where requests go, and whether the in-flight ledger returns to
//! zero.

use std::time::Duration;

use crate::Dice;
use anyhow::Result;
use overdraft_claims::as_float;
use overdraft_core::route::Policy;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client;
use super::fleet::{Fleet, Listed, Make, Pace, WORKERS};
use super::load::{body, place, words};

/// Requests one after the other on an idle fleet.
const SEQUENTIAL: usize = 10;
/// Requests at once between two scrapes.
const BURST: usize = 200;
/// Long enough that none is scraped twice.
const NO_SCRAPE: Duration = Duration::from_mins(10);
/// Bytes of these prompts.
const PROMPT_BYTES: usize = 300;
/// Clients at a time while half of the requests are cancelled.
const CLIENTS: usize = 32;
/// A cancelled request lives shorter than this, about as long as an answer takes.
const LIFE_MAX: Duration = Duration::from_millis(6);

/// What was seen.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Spread {
    /// Who got the sequential requests.
    pub(crate) sequential: [usize; WORKERS],
    /// Who got the burst.
    pub(crate) burst: [usize; WORKERS],
    /// Requests of which half were to be cancelled.
    pub(crate) sent: usize,
    /// Those that were cancelled before their answer's end.
    pub(crate) cancelled: usize,
    /// Requests that were not to be cancelled and failed.
    pub(crate) failed: usize,
    /// Workers that still had something on the books, and sequences that engines still had.
    pub(crate) left: usize,
}

impl Spread {
    /// Workers that got any of the sequential requests.
    pub(crate) fn reached(&self) -> f64 {
        as_float(self.sequential.iter().filter(|&&requests| 0 < requests).count())
    }

    /// The burst's largest share over the mean.
    pub(crate) fn skew(&self) -> f64 {
        let most = self.burst.iter().copied().max().unwrap_or(0);
        as_float(most * WORKERS) / as_float(self.burst.iter().sum())
    }
}

/// Measures all three.
pub(crate) async fn measure(requests: usize) -> Result<Spread> {
    let mut spread = Spread { sent: requests, ..Spread::default() };
    let mut dice = Dice::new(4);
    let fleet = Fleet::start(Make::of(Policy::Cost)).await?;
    for _ in 0..SEQUENTIAL {
        let answer = client::chat(fleet.gateway, &prompt(&mut dice)).await?;
        spread.sequential[place(&answer)?] += 1;
    }
    fleet.end().await?;
    let fleet = Fleet::start(Make { scrape: NO_SCRAPE, ..Make::of(Policy::Cost) }).await?;
    let mut flying = JoinSet::new();
    for _ in 0..BURST {
        let (to, body) = (fleet.gateway, prompt(&mut dice));
        flying.spawn(async move { client::chat(to, &body).await });
    }
    while let Some(done) = flying.join_next().await {
        spread.burst[place(&done??)?] += 1;
    }
    fleet.end().await?;
    cancel_half(requests, &mut spread).await?;
    Ok(spread)
}

fn prompt(dice: &mut Dice) -> String {
    body(&words(dice, PROMPT_BYTES), "and now?")
}

/// Sends requests of which every other one is dropped at a point of its life that the seed draws.
async fn cancel_half(requests: usize, spread: &mut Spread) -> Result<()> {
    let fleet = Fleet::start(Make { pace: Pace::Instant, ..Make::of(Policy::Cost) }).await?;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let to = fleet.gateway;
        let mine = (number..requests).step_by(CLIENTS).count();
        clients.spawn(async move {
            let mut dice = Dice::new(u64::try_from(number).unwrap_or(0));
            let (mut cancelled, mut failed) = (0, 0);
            for turn in 0..mine {
                let asking_body = prompt(&mut dice);
                let asking = client::chat(to, &asking_body);
                if turn % 2 == 0 {
                    failed += usize::from(asking.await.is_err());
                } else {
                    let life = LIFE_MAX.mul_f64(dice.share());
                    cancelled += usize::from(timeout(life, asking).await.is_err());
                }
            }
            (cancelled, failed)
        });
    }
    while let Some(client) = clients.join_next().await {
        let (cancelled, failed) = client?;
        spread.cancelled += cancelled;
        spread.failed += failed;
    }
    // Those that were dropped last may still be on their way out.
    let settled = fleet.until("the ledger is empty", |all| all.iter().all(Listed::is_idle)).await;
    let busy = fleet.listed().await?.iter().filter(|one| !one.is_idle()).count();
    spread.left = busy + usize::try_from(fleet.sequences())? + usize::from(settled.is_err());
    fleet.end().await
}
