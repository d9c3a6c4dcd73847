//! Draft verification: has the target score a window, and reports what it accepts.
//!
//! The target scores prompt and draft in one prefill (`score.rs`). Any of its workers may do so;
//! one that fails is not asked again. The client never sees a token that the target did not accept.

use overdraft_core::cascade::{Event, Finish, Resume, Scored};
use overdraft_units::Tokens;

use super::driver::Driver;

impl Driver {
    /// Has the draft's last `tokens` scored.
    pub(super) async fn score_window(&mut self, tokens: Tokens, finish: Finish) -> Event {
        let drafted = usize::try_from(tokens.get()).unwrap_or(usize::MAX);
        let score = match self.score(drafted, finish).await {
            Ok(score) => score,
            Err(rejected) => return Event::Failed(rejected, self.resumes()),
        };
        let (metrics, name) = (&self.calls.layer.metrics, &self.plan.state.name);
        metrics.tied(name, u64::try_from(score.verified.ties).unwrap_or(u64::MAX));
        if score.verified.resume == Resume::Unproven {
            metrics.unproven(name);
        }
        let accepted = self.protocol.kept() + score.verified.accepted;
        Event::Scored(Scored {
            verified: score.verified,
            ends: score.ends,
            is_end_token: self.transcript.ends_with_its_end_token(),
            is_full: self.most <= self.transcript.count().get(),
            marked: tokens_of(self.transcript.mark(accepted).tokens),
        })
    }
}

/// A count as the core has it.
pub(super) fn tokens_of(count: usize) -> Tokens {
    Tokens::new(u32::try_from(count).unwrap_or(u32::MAX))
}
