//! Draft verification: the target scores a window of draft tokens and accepts the longest prefix.
//!
//! The target scores prompt and draft in one prefill (`score.rs`). Any of its workers may do so;
//! one that fails is not asked again. The client never sees a token that the target did not accept.

use overdraft_core::cascade::{Finish, Resume};
use overdraft_telemetry::Delivery;

use super::driver::{Driver, Listened, Rejected};

impl Driver {
    /// Listens to the next window and has it scored; refuses a draft of which nothing was accepted.
    pub(super) async fn verify_window(&mut self) -> Result<(), Rejected> {
        let before = self.kept;
        let ended = self.fill_window(before).await?;
        if !self.agrees() {
            return Err(Rejected::down("other_prompt"));
        }
        let said = self.transcript.ids().ok_or(Rejected::down("no_tokens"))?.len();
        let drafted = said.saturating_sub(before);
        if drafted == 0 {
            return Err(Rejected::down("empty"));
        }
        let finish = if ended { self.transcript.finish() } else { Finish::Running };
        let score = self.score(drafted, finish).await?;
        let verified = score.verified;
        let ties = u64::try_from(verified.ties).unwrap_or(u64::MAX);
        self.calls.layer.metrics.tied(&self.plan.state.name, ties);
        let all = verified.accepted == drafted;
        let whole = match verified.resume {
            Resume::Nowhere => self.transcript.ends_with_its_end_token() || score.ends,
            // It was cut where the target would have been cut as well.
            Resume::Behind => {
                finish == Finish::Length && self.most <= self.transcript.count().get()
            }
            Resume::With(_) | Resume::Rest(_) | Resume::Astray => false,
            Resume::Unproven => {
                self.calls.layer.metrics.unproven(&self.plan.state.name);
                false
            }
        };
        let accepted = before + verified.accepted;
        // Within a character nothing can be shown, and the target says those tokens again.
        self.kept = if all { accepted } else { self.transcript.mark(accepted).tokens };
        if !all || (ended && !whole) {
            self.kept = self.transcript.mark(accepted).tokens;
            self.goes_on = true;
            self.stream = None;
        }
        if all && ended || self.goes_on {
            let state = self.state();
            state.verified(accepted, said);
            let accepted = u32::try_from(accepted).unwrap_or(u32::MAX);
            self.calls.layer.metrics.accepted(&state.name, accepted);
        }
        if self.kept == 0 { Err(Rejected::down("refused")) } else { Ok(()) }
    }

    /// Listens until a window is full; whether the draft has ended.
    async fn fill_window(&mut self, before: usize) -> Result<bool, Rejected> {
        let settings = &self.state().settings;
        let window = if before == 0 { settings.first_window } else { settings.next_window };
        let full = before + usize::try_from(window).unwrap_or(usize::MAX);
        let streamed = self.info.delivery == Delivery::Streamed;
        loop {
            if self.listen().await? == Listened::End {
                return Ok(true);
            }
            let said = self.transcript.ids().map_or(0, <[u32]>::len);
            // Only at a mark: what is not told yet cannot be shown.
            if streamed && full <= said && self.transcript.mark(said).tokens == said {
                return Ok(false);
            }
        }
    }
}
