//! When does a placed request become part of what is remembered?
//!
//! Once it is on its way: remembering takes time for each chunk of a prompt, for which nobody has to
//! wait (`docs/design/prefix.md`, R8). **Invariant:** until then, and no longer, a note answers for it.

use overdraft_units::Instant;

use super::placed::Placed;
use super::router::{Prompt, Router};
use crate::admit::Chain;

impl Router {
    /// Remembers the prompt of a placed request where it went; call it once, as soon as the request
    /// has been handed over. Of what is remembered already, nothing changes.
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

    /// Takes the note of a placed request back, if it was not remembered yet.
    pub(super) fn forget_note(&mut self, placed: &mut Placed) {
        if let Some(announced) = placed.announced.take() {
            self.prefixes.take_back(announced);
        }
    }
}
