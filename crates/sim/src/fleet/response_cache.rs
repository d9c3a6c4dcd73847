//! Response cache of the simulated gateway.
//!
//! `core::response_cache` decides what is cacheable and what is evicted, as it does live. Here a prompt's
//! pieces stand for its text, and an answer's length for the answer. Equal concurrent requests of
//! the same priority are a single flight (`docs/design/cache.md`, 7): a follower waits for the
//! leader's answer.

use std::collections::BTreeMap;

use overdraft_core::admit::Priority;
use overdraft_core::response_cache::{
    Answered, Asked, Finish, Found, Key, Plan, Reuse, Shelf, Wish, plan, unkept,
};
use overdraft_units::{Instant, Tokens};

use super::event_queue::FlightId;
use super::scenario::AnswerCache;
use crate::workload::{Piece, named};

/// Bytes that an answer's token takes, as an event of a stream.
const TOKEN_BYTES: u64 = 16;

/// Answers that are larger are not kept, as the gateway's own default.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What is kept.
#[derive(Debug)]
pub(super) struct Answers {
    settings: AnswerCache,
    shelf: Shelf<Tokens>,
    /// What is being answered, and who waits for it besides who asked.
    asked: BTreeMap<Question, Vec<FlightId>>,
}

/// What equal requests have in common.
pub(super) type Question = (Key, Option<Priority>);

impl Answers {
    pub(super) fn new(settings: AnswerCache) -> Self {
        Self { settings, shelf: Shelf::new(settings.bytes), asked: BTreeMap::new() }
    }

    /// Whether a request for this is being answered.
    pub(super) fn is_asked(&self, question: &Question) -> bool {
        self.asked.contains_key(question)
    }

    /// A request is the first to ask this.
    pub(super) fn ask(&mut self, question: Question) {
        self.asked.insert(question, Vec::new());
    }

    /// Another waits for the answer to what is asked.
    pub(super) fn join(&mut self, question: &Question, flight: FlightId) {
        self.asked.entry(*question).or_default().push(flight);
    }

    /// It is answered, or will not be: who waited, first come first.
    pub(super) fn told(&mut self, question: &Question) -> Vec<FlightId> {
        self.asked.remove(question).unwrap_or_default()
    }

    /// What a request is kept under; nothing for one that is not looked up. No tenant is given another's
    /// answer (B3).
    pub(super) fn key(prompt: &[Piece], limit: Tokens, tenant: Option<u16>) -> Option<Key> {
        let asked = Asked { is_greedy: true, ..Asked::default() };
        if plan(Reuse::Deterministic, Wish::Unsaid, asked) != Plan::LookUp {
            return None;
        }
        let mut key = Key::default();
        for (salt, part) in (0_u64..).zip(key.chunks_exact_mut(8)) {
            let tenant = tenant.map_or(0, |place| u64::from(place) + 1);
            let start = named(&[salt, u64::from(limit.get()), tenant]);
            let name = prompt.iter().fold(start, |name, piece| {
                named(&[name, piece.content, u64::from(piece.tokens.get())])
            });
            part.copy_from_slice(&name.to_le_bytes());
        }
        Some(key)
    }

    /// The answer to a request that was asked before.
    pub(super) fn find(&mut self, key: &Key, now: Instant) -> Option<Tokens> {
        match self.shelf.get(key, now) {
            Found::Hit(tokens) => Some(*tokens),
            Found::Expired | Found::Missing => None,
        }
    }

    /// Keeps an answer that came whole.
    pub(super) fn keep(&mut self, key: Key, answer: Tokens, now: Instant) {
        let bytes = u64::from(answer.get()) * TOKEN_BYTES;
        let finish = Finish::Complete;
        let answered = Answered { finish, is_whole: true, is_success: true, bytes };
        if unkept(answered, ANSWER_BYTES_MAX).is_none() {
            let _evicted = self.shelf.insert(key, answer, bytes, now + self.settings.kept, now);
        }
    }
}
