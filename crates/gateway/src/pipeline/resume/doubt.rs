//! Doubt: an event of a stream was no JSON, and a token may have been lost with it.
//!
//! Another worker could say the answer from there, but the one that wrote it goes on, and its own count will tell whether
//! anything is missing. So what follows is held back until then. Where the count is that of what came, the event held
//! nothing, and all is told; else the stream is broken at that event, and goes on elsewhere from there.
//!
//! Invariant: nothing that follows the event is told before the count has come.

use overdraft_core::resume::LEDGER_BYTES_MAX;
use overdraft_wire::resume::{NotJson, Piece};
use overdraft_wire::sse::Event;

/// What has come since an event that was no JSON.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    held: Vec<Event>,
    bytes: usize,
    /// Tokens in what is held, at the least.
    tokens: u32,
    /// Tokens of the answer, as its worker counts them.
    counted: Option<u32>,
    has_finished: bool,
}

/// What is known by now.
#[derive(Debug)]
pub(super) enum Judgement {
    /// Nothing yet.
    Open,
    /// So many tokens have come since; with those before, these are all if they are so many.
    Counted { tokens: u32, all: Option<u32> },
}

impl Doubt {
    /// Holds an event back.
    ///
    /// # Errors
    /// [`NotJson`] where too much is held.
    pub(super) fn hold(&mut self, event: Event) -> Result<Judgement, NotJson> {
        let is_done = event.is_done();
        let mut is_counted = false;
        if let Some(data) = event.data().filter(|_| !is_done) {
            // One more that is no JSON is under the same doubt.
            let Ok(piece) = Piece::parse(&data) else { return Ok(Judgement::Open) };
            self.tokens = self.tokens.saturating_add(piece.tokens_least());
            self.has_finished |= piece.finish.is_some();
            is_counted = piece.usage.is_some();
            self.counted = piece.usage.map(|usage| usage.completion).or(self.counted);
        }
        self.bytes += event.raw().len();
        if LEDGER_BYTES_MAX < self.bytes {
            return Err(NotJson);
        }
        self.held.push(event);
        if is_done || self.has_finished && is_counted {
            return Ok(Judgement::Counted { tokens: self.tokens, all: self.counted });
        }
        Ok(Judgement::Open)
    }

    /// What was held back.
    pub(super) fn into_held(self) -> Vec<Event> {
        self.held
    }
}
