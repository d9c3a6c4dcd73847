//! Deferred prefix insertion: adds a placed request's prompt to the prefix index after sending.
//!
//! An insertion takes time for each chunk of a prompt, for which no request has to wait
//! (`docs/design/prefix.md`, R8). **Invariant:** until the insertion, and no longer, a note answers
//! for the prompt.

use overdraft_units::Instant;

use super::placed_request::Placed;
use super::router::{Prompt, Router};
use crate::admit::Chain;

impl Router {
    /// Inserts the prompt of a placed request for its worker; call it once, as soon as the request
    /// has been sent. Chunks that are in the index already do not change.
    pub fn remember(&mut self, placed: &mut Placed, prompt: Prompt<'_>, now: Instant) {
        self.forget_note(placed);
        let worker = placed.worker();
        if placed.receipt.is_some() || !self.fleet.is_member(worker) {
            return;
        }
        let (Prompt::Counted { chain, .. } | Prompt::Text { chain, .. }) = prompt;
        if chain.is_empty() {
            return;
        }
        let (chunk, matched) = (placed.chunk.get(), placed.matched);
        self.fleet.pin(&placed.attempt, Chain { keys: chain, chunk, matched });
        placed.receipt = Some(self.prefixes.record_routed(worker, chain, now));
        if let Some(last) = self.chunks.get_mut(worker.index()) {
            *last = placed.chunk;
        }
    }

    /// Removes the note of a placed request, if its prompt was not inserted yet.
    pub(super) fn forget_note(&mut self, placed: &mut Placed) {
        if let Some(announced) = placed.announced.take() {
            self.prefixes.take_back(announced);
        }
    }
}
