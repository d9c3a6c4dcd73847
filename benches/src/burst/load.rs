//! Open-loop load: chats that arrive independently of the fleet's answers, and their outcomes.
//!
//! Arrivals are Poisson and decided by a seed, so every rule is offered the same. Clients do what
//! clients do: they declare four to ten times what their answers turn out to have. A first token's
//! time counts from the moment the request was meant to be sent.

use std::net::SocketAddr;
use std::time::Duration;

use crate::Dice;
use anyhow::Result;
use overdraft_core::admit::Priority;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::client::{self, Outcome};

/// The model that clients name.
const MODEL: &str = "llama-3-70b";
/// Tokens of short and of long answers, and how many of ten are short.
const SHORT_TOKENS: usize = 60;
const LONG_TOKENS: usize = 400;
const SHORT_OF_TEN: usize = 7;
/// `max_tokens` is so many times the answer's real length.
const DECLARED_TIMES: (usize, usize) = (4, 10);
/// Bytes, and so tokens, of what is said.
const SAID_BYTES: (usize, usize) = (100, 400);
/// Of ten requests so many are flex, and so many of default priority.
const FLEX_OF_TEN: usize = 4;
const DEFAULT_OF_TEN: usize = 4;
/// An answer that takes longer is lost.
const PATIENCE: Duration = Duration::from_mins(2);

/// Requests of one tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) tenant: &'static str,
    /// Requests a second.
    pub(crate) rate: f64,
    /// Whether priorities are mixed; else all are of default priority.
    pub(crate) mixed: bool,
    pub(crate) seed: u64,
}

/// One request and what became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) tenant: &'static str,
    pub(crate) priority: Priority,
    /// When it was to be sent.
    pub(crate) intended: Instant,
    pub(crate) outcome: Outcome,
}

/// A request to be sent.
struct Due {
    at: Duration,
    tenant: &'static str,
    priority: Priority,
    body: String,
}

impl Told {
    /// Whether its answer came to its end.
    pub(crate) const fn is_whole(&self) -> bool {
        self.outcome.status == 200 && self.outcome.done.is_some()
    }

    /// Whether it was told to come back later.
    pub(crate) const fn is_refused(&self) -> bool {
        matches!(self.outcome.status, 429 | 503)
    }

    /// Time to the first token.
    pub(crate) fn ttft_ms(&self) -> Option<f64> {
        let first = self.outcome.first_token?;
        Some(first.duration_since(self.intended).as_secs_f64() * 1e3)
    }
}

impl Stream {
    fn due(&self, lasts: Duration) -> Vec<Due> {
        let mut dice = Dice::new(self.seed);
        let mut at = dice.gap(self.rate);
        let mut due = Vec::new();
        while at < lasts {
            let priority = match dice.below(10) {
                _ if !self.mixed => Priority::Default,
                0..FLEX_OF_TEN => Priority::Flex,
                place if place < FLEX_OF_TEN + DEFAULT_OF_TEN => Priority::Default,
                _ => Priority::Priority,
            };
            let body = body(&mut dice, priority);
            due.push(Due { at, tenant: self.tenant, priority, body });
            at += dice.gap(self.rate);
        }
        due
    }
}

/// Sends all that is due in a span and waits for what becomes of it.
pub(crate) async fn send(to: SocketAddr, streams: &[Stream], lasts: Duration) -> Result<Vec<Told>> {
    let mut due: Vec<Due> = streams.iter().flat_map(|stream| stream.due(lasts)).collect();
    due.sort_by_key(|one| one.at);
    let begun = Instant::now();
    let mut flying = JoinSet::new();
    for Due { at, tenant, priority, body } in due {
        let intended = begun + at;
        sleep_until(intended).await;
        flying.spawn(async move {
            let asking = client::chat(to, tenant, &body);
            let lost =
                Outcome { status: 0, retry_after: None, first_token: None, done: None, tokens: 0 };
            let outcome = timeout(PATIENCE, asking).await.unwrap_or(lost);
            Told { tenant, priority, intended, outcome }
        });
    }
    let mut told = Vec::new();
    while let Some(done) = flying.join_next().await {
        told.push(done?);
    }
    Ok(told)
}

/// Keeps so many requests in flight for a span; requests that came to their end in it.
pub(crate) async fn saturate(to: SocketAddr, clients: u64, lasts: Duration) -> Result<usize> {
    let until = Instant::now() + lasts;
    let mut asking = JoinSet::new();
    for seed in 0..clients {
        asking.spawn(async move {
            let mut dice = Dice::new(seed);
            let mut whole = 0;
            loop {
                let outcome =
                    client::chat(to, "everyone", &body(&mut dice, Priority::Default)).await;
                match outcome.done {
                    Some(done) if until < done => return whole,
                    Some(_) => whole += usize::from(outcome.status == 200),
                    None if until < Instant::now() => return whole,
                    None => {}
                }
            }
        });
    }
    let mut whole = 0;
    while let Some(done) = asking.join_next().await {
        whole += done?;
    }
    Ok(whole)
}

fn body(dice: &mut Dice, priority: Priority) -> String {
    let answer = if dice.below(10) < SHORT_OF_TEN { SHORT_TOKENS } else { LONG_TOKENS };
    let times = DECLARED_TIMES.0 + dice.below(DECLARED_TIMES.1 - DECLARED_TIMES.0 + 1);
    let bytes = SAID_BYTES.0 + dice.below(SAID_BYTES.1 - SAID_BYTES.0);
    let said = words(dice, bytes);
    let messages = json!([{ "role": "user", "content": format!("{said} [answer:{answer}]") }]);
    json!({ "model": MODEL, "stream": true, "max_tokens": answer * times,
            "service_tier": priority.name(), "messages": messages })
    .to_string()
}

/// So many bytes that nobody else says.
fn words(dice: &mut Dice, bytes: usize) -> String {
    const LETTERS: &[u8] = b"etaoinshrdlucmfwypvbgk";
    (0..bytes).map(|_| char::from(LETTERS[dice.below(LETTERS.len())])).collect()
}
