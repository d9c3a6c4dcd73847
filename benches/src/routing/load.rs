//! Open-loop load: streamed chats that arrive whether the fleet keeps up or not.
//!
//! Arrivals are Poisson and decided by a seed, so every policy is sent the same. A first token's time
//! counts from the moment the request was meant to be sent: a client that falls behind cannot hide
//! what waits behind it (coordinated omission).

use std::net::SocketAddr;
use std::time::Duration;

use crate::Dice;
use anyhow::{Context, Result};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::client::{self, Answer};
use super::fleet::{MODEL, WORKERS};

/// Tenants, each with a system prompt of its own.
pub(crate) const TENANTS: usize = 48;
/// Bytes, and so tokens, of a system prompt.
pub(crate) const PREFIX_BYTES: usize = 1_500;
/// Bytes of what a user says: at least this, and less than so much more.
const SAID_BYTES: (usize, usize) = (40, 160);
/// Requests a second, at least, while caches are filled.
const WARM_UP_RATE: f64 = 14.0;
/// Tokens of an answer.
const ANSWER_TOKENS: u32 = 16;
/// An answer that takes longer is a fault.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the prompts have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prompts {
    /// Every tenant's share its system prompt.
    Tenants,
    /// None share anything.
    Unique,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) prompts: Prompts,
    /// Requests a second.
    pub(crate) rate: f64,
    /// Requests whose figures count.
    pub(crate) requests: usize,
    pub(crate) seed: u64,
}

/// What came back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Time to the first token in milliseconds, from the intended sending.
    pub(crate) ttft_ms: Vec<f64>,
    /// By place in the fleet.
    pub(crate) requests_by_worker: [usize; WORKERS],
}

/// A chat request.
pub(crate) fn body(system: &str, said: &str) -> String {
    let messages = json!([
        { "role": "system", "content": system },
        { "role": "user", "content": said },
    ]);
    json!({ "model": MODEL, "stream": true, "temperature": 0, "max_tokens": ANSWER_TOKENS,
            "messages": messages })
    .to_string()
}

/// So many bytes of words.
pub(crate) fn words(dice: &mut Dice, bytes: usize) -> String {
    const LETTERS: &[u8] = b"etaoinshrdlucmfwypvbgk";
    let mut text = String::with_capacity(bytes + 8);
    while text.len() < bytes {
        for _ in 0..2 + dice.below(6) {
            text.push(char::from(LETTERS[dice.below(LETTERS.len())]));
        }
        text.push(' ');
    }
    text.truncate(bytes);
    text
}

impl Load {
    /// Requests before those that count: they fill the caches.
    fn warm_up(&self) -> usize {
        match self.prompts {
            Prompts::Tenants => 2 * TENANTS,
            Prompts::Unique => 2 * WORKERS,
        }
    }

    /// When each request is to be sent, and what it says.
    fn arrivals(&self) -> Vec<(Duration, String)> {
        let mut dice = Dice::new(self.seed);
        // Tenants are the same whatever the seed.
        let mut own = Dice::new(0);
        let tenants: Vec<String> = (0..TENANTS).map(|_| words(&mut own, PREFIX_BYTES)).collect();
        let mut at = Duration::ZERO;
        let mut one = |number: usize| {
            let is_warm = self.warm_up() <= number;
            at += dice.gap(if is_warm { self.rate } else { self.rate.max(WARM_UP_RATE) });
            let said = SAID_BYTES.0 + dice.below(SAID_BYTES.1);
            let said = words(&mut dice, said);
            let text = match self.prompts {
                // Each has been there once before any counts.
                Prompts::Tenants if number < TENANTS => body(&tenants[number], &said),
                Prompts::Tenants => body(&tenants[dice.below(TENANTS)], &said),
                Prompts::Unique => body(&words(&mut dice, PREFIX_BYTES), &said),
            };
            (at, text)
        };
        (0..self.warm_up() + self.requests).map(&mut one).collect()
    }

    /// Sends all of it to the gateway.
    pub(crate) async fn send(&self, to: SocketAddr) -> Result<Seen> {
        let begun = Instant::now();
        let mut flying = JoinSet::new();
        for (number, (at, body)) in self.arrivals().into_iter().enumerate() {
            let intended = begun + at;
            sleep_until(intended).await;
            flying.spawn(async move {
                let answer = timeout(PATIENCE, client::chat(to, &body)).await;
                let answer = answer.context("an answer took two minutes")??;
                anyhow::Ok((number, intended, answer))
            });
        }
        let mut seen = Seen::default();
        while let Some(done) = flying.join_next().await {
            let (number, intended, answer) = done??;
            if self.warm_up() <= number {
                let took = answer.first_token.duration_since(intended);
                // A tenth of a millisecond is more than can be told.
                seen.ttft_ms.push((took.as_secs_f64() * 1e4).round() / 10.0);
                seen.requests_by_worker[place(&answer)?] += 1;
            }
        }
        Ok(seen)
    }
}

/// Which worker answered.
pub(crate) fn place(answer: &Answer) -> Result<usize> {
    let number = answer.worker.rsplit('-').next().and_then(|number| number.parse().ok());
    number.filter(|&number| number < WORKERS).context("a worker that is not of the fleet")
}
