//! Answers that are given again.
//!
//! What may be given again and what makes room for what says `core::reuse`, as it does live. Here a
//! prompt's pieces stand for its text, and an answer's length for the answer.

use overdraft_core::reuse::{
    Answered, Asked, Finish, Found, Key, Plan, Reuse, Shelf, Wish, plan, unkept,
};
use overdraft_units::{Instant, Tokens};

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
}

impl Answers {
    pub(super) fn new(settings: AnswerCache) -> Self {
        Self { settings, shelf: Shelf::new(settings.bytes) }
    }

    /// What a request is kept under; nothing for one that is not looked up.
    pub(super) fn key(prompt: &[Piece], limit: Tokens) -> Option<Key> {
        let asked = Asked { is_greedy: true, ..Asked::default() };
        if plan(Reuse::Deterministic, Wish::Unsaid, asked) != Plan::LookUp {
            return None;
        }
        let mut key = Key::default();
        for (salt, part) in (0_u64..).zip(key.chunks_exact_mut(8)) {
            let start = named(&[salt, u64::from(limit.get())]);
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
            let _evicted = self.shelf.insert(key, answer, (bytes, now + self.settings.kept), now);
        }
    }
}
