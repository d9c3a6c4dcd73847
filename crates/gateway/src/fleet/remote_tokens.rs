//! Remote tokenization: the tokens of a prompt by the worker's own `/tokenize`.
//!
//! A stock engine does not hand its tokenizer out, but tokenizes whatever it is asked to, with its own
//! template, defaults and control tokens. That costs a round trip and some of the worker's time for each
//! prompt, so it is done only where a worker reports its cache and no tokenizer is known here.
//!
//! **Invariant:** prompts under way and bytes of tokens that are remembered have bounds; a worker that fails
//! to answer is left alone for [`REST`]; tokens are remembered under the salt that they were asked for with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use overdraft_units::TokenId;
use overdraft_wire::request::TokenizeAsk;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

use crate::upstream::Upstream;
use crate::upstream::fetch::post;

/// How long a request waits for its tokens.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long nobody is asked after a worker has failed to answer.
const REST: Duration = Duration::from_secs(5);

/// Prompts that are with workers at once; the next one is routed by its text.
const ASKING_MAX: usize = 32;

/// Bytes of an answer: half a million tokens with their commas.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Bytes of tokens in each of two generations of prompts.
const GENERATION_BYTES_MAX: usize = 8 << 20;

/// Bytes that an entry takes besides its tokens.
const ENTRY_BYTES: usize = 64;

const TOKENIZE: &str = "/tokenize";

/// Tokens that workers made of prompts, and who is asked for more.
#[derive(Debug)]
pub(crate) struct RemoteTokens {
    places: Semaphore,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    rests_until: Option<Instant>,
    young: Generation,
    old: Generation,
    hits: u64,
    made: u64,
    failed: u64,
}

/// Prompts by the hash of what was asked.
#[derive(Debug, Default)]
struct Generation {
    prompts: BTreeMap<u128, Arc<[TokenId]>>,
    bytes: usize,
}

impl Default for RemoteTokens {
    fn default() -> Self {
        Self { places: Semaphore::new(ASKING_MAX), inner: Mutex::default() }
    }
}

impl RemoteTokens {
    /// The tokens of a prompt, as `upstream` makes them.
    pub(crate) async fn of(
        &self,
        upstream: &Arc<Upstream>,
        ask: TokenizeAsk,
        salt: Option<&str>,
    ) -> Option<Arc<[TokenId]>> {
        let body = match ask {
            TokenizeAsk::Tokens(tokens) => return Some(tokens.into()),
            TokenizeAsk::Body(body) => body,
        };
        let key = xxh3_128_with_seed(&body, salt.map_or(0, |salt| xxh3_64(salt.as_bytes())));
        if let Some(tokens) = self.inner().find(key) {
            return Some(tokens);
        }
        let made = self.make(upstream, body.into()).await;
        let mut inner = self.inner();
        match &made {
            Some(tokens) => inner.keep(key, Arc::clone(tokens)),
            None => inner.failed += 1,
        }
        made
    }

    async fn make(&self, upstream: &Arc<Upstream>, body: Bytes) -> Option<Arc<[TokenId]>> {
        #[derive(Deserialize)]
        struct Answer {
            tokens: Vec<u32>,
        }
        if self.inner().rests_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let _place = self.places.try_acquire().ok()?;
        let asking = post(upstream, TOKENIZE, body, ANSWER_BYTES_MAX);
        match timeout(PATIENCE, asking).await {
            Ok(Ok((StatusCode::OK, answer))) => {
                let answer: Answer = serde_json::from_slice(&answer).ok()?;
                Some(answer.tokens.into_iter().map(TokenId).collect())
            }
            // It blames the prompt, and will do so again when it is asked for the answer.
            Ok(Ok((status, _))) if status.is_client_error() && status != StatusCode::NOT_FOUND => {
                None
            }
            _ => {
                self.inner().rests_until = Some(Instant::now() + REST);
                None
            }
        }
    }

    /// Prompts so far: remembered, made by a worker, and not had for no room, no time or a refusal.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let inner = self.inner();
        [inner.hits, inner.made, inner.failed]
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn find(&mut self, key: u128) -> Option<Arc<[TokenId]>> {
        if let Some(tokens) = self.young.prompts.get(&key) {
            self.hits += 1;
            return Some(Arc::clone(tokens));
        }
        let tokens = self.old.prompts.remove(&key)?;
        self.hits += 1;
        self.old.bytes = self.old.bytes.saturating_sub(bytes(&tokens));
        self.enter(key, Arc::clone(&tokens));
        Some(tokens)
    }

    fn keep(&mut self, key: u128, tokens: Arc<[TokenId]>) {
        self.made += 1;
        self.enter(key, tokens);
    }

    fn enter(&mut self, key: u128, tokens: Arc<[TokenId]>) {
        let more = bytes(&tokens);
        if GENERATION_BYTES_MAX < more {
            return;
        }
        if GENERATION_BYTES_MAX < self.young.bytes + more {
            self.old = std::mem::take(&mut self.young);
        }
        if self.young.prompts.insert(key, tokens).is_none() {
            self.young.bytes += more;
        }
    }
}

fn bytes(tokens: &[TokenId]) -> usize {
    size_of_val(tokens) + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_has_a_bound_and_what_is_used_stays() {
        let mut inner = Inner::default();
        let prompt: Arc<[TokenId]> = vec![TokenId(7); 1 << 16].into();
        let prompts = GENERATION_BYTES_MAX / bytes(&prompt);
        for key in 0..10 * prompts as u128 {
            inner.keep(key, Arc::clone(&prompt));
            assert!(inner.find(0).is_some(), "it is used all the time");
            assert!(inner.young.bytes <= GENERATION_BYTES_MAX);
            assert!(inner.old.bytes <= GENERATION_BYTES_MAX);
        }
        assert!(inner.find(1).is_none());
    }
}
