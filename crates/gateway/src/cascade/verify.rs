//! How much of a window would the target have said itself?
//!
//! The target scores prompt and draft in one pass over them (`prompt_logprobs`, which every vLLM has and
//! our own worker). Any of its workers may be asked; one that fails is not asked again. What the target
//! would not have said is never shown.

use overdraft_core::cascade::{Finish, Resume, Rule, verify};
use overdraft_core::fleet::Failure;
use overdraft_core::route::{Tried, Verdict};
use overdraft_telemetry::Delivery;
use overdraft_units::TokenId;
use overdraft_wire::Object;

use super::ask::{self, Score};
use super::call::{Matter, Unheard};
use super::driver::{Driver, Heard, Turned};
use crate::forward::COMPLETIONS;
use crate::shared::Strictness;

impl Driver {
    /// Listens to the next window and has it scored; refuses a draft of which nothing was accepted.
    pub(super) async fn verify_window(&mut self) -> Result<(), Turned> {
        let before = self.kept;
        let ended = self.fill_window(before).await?;
        if !self.agrees() {
            return Err(Turned::down("other_prompt"));
        }
        let ids = self.speech.ids().ok_or(Turned::down("no_tokens"))?.to_vec();
        let drafted = &ids[before.min(ids.len())..];
        if drafted.is_empty() {
            return Err(Turned::down("empty"));
        }
        let score = self.score(&ids, drafted).await?;
        let tokens: Vec<TokenId> = drafted.iter().map(|&id| TokenId(id)).collect();
        let finish = if ended { self.speech.finish() } else { Finish::Running };
        let verified = verify(&tokens, &score.rows, Rule::Greedy, finish)
            .map_err(|_| Turned::broken("strange"))?;
        let ties = u64::try_from(verified.ties).unwrap_or(u64::MAX);
        self.outset.shared.cascade.tied(&self.plan.course.name, ties);
        let all = verified.accepted == drafted.len();
        let whole = match verified.resume {
            Resume::Nowhere => self.speech.ends_with_its_end_token() || score.ends,
            // It was cut where the target would have been cut as well.
            Resume::Behind => finish == Finish::Length && self.most <= self.speech.count().get(),
            Resume::With(_) | Resume::Rest(_) => false,
        };
        let accepted = before + verified.accepted;
        // Within a character nothing can be shown, and the target says those tokens again.
        self.kept = if all { accepted } else { self.speech.mark(accepted).tokens };
        if !all || (ended && !whole) {
            self.kept = self.speech.mark(accepted).tokens;
            self.goes_on = true;
            self.talk = None;
        }
        if all && ended || self.goes_on {
            let course = self.course();
            course.verified(accepted, ids.len());
            let accepted = u32::try_from(accepted).unwrap_or(u32::MAX);
            self.outset.shared.cascade.accepted(&course.name, accepted);
        }
        if self.kept == 0 { Err(Turned::down("refused")) } else { Ok(()) }
    }

    /// Listens until a window is full; whether the draft has ended.
    async fn fill_window(&mut self, before: usize) -> Result<bool, Turned> {
        let settings = &self.course().settings;
        let window = if before == 0 { settings.first_window } else { settings.next_window };
        let full = before + usize::try_from(window).unwrap_or(usize::MAX);
        let streamed = self.print.delivery == Delivery::Streamed;
        loop {
            if self.listen().await? == Heard::End {
                return Ok(true);
            }
            let said = self.speech.ids().map_or(0, <[u32]>::len);
            // Only at a mark: what is not told yet cannot be shown.
            if streamed && full <= said && self.speech.mark(said).tokens == said {
                return Ok(false);
            }
        }
    }

    /// Has the target score what the draft said.
    async fn score(&mut self, ids: &[u32], drafted: &[u32]) -> Result<Score, Turned> {
        let object = Object::parse(&self.body).expect("it was parsed when it was looked into");
        let prompt = self.prompt.as_deref().unwrap_or_default();
        let tokens: Vec<u32> = prompt.iter().chain(ids).copied().collect();
        let mut print = self.print.clone();
        (print.limit, print.delivery) = (Some(1), Delivery::Whole);
        let body = ask::score(&object, &self.course().settings.target, &tokens);
        let matter = Matter { print, path: COMPLETIONS, body };
        let mut tried = Tried::default();
        let mut strictness = Strictness::Judged;
        loop {
            let lease = self
                .outset
                .place(&matter, &tried, strictness)
                .map_err(|unheard| Turned::broken(unheard.name()))?;
            let worker = lease.worker();
            self.ledger.scored(tokens.len());
            match self.outset.whole(lease, &matter).await {
                Ok(answer) => {
                    return ask::read_score(&answer, drafted).ok_or(Turned::broken("strange"));
                }
                Err(Unheard::Failed(failed)) => {
                    tried.add(worker);
                    if failed.failure != Failure::Saturated {
                        strictness = Strictness::Waived;
                    }
                    if let Verdict::GiveUp(_) = self.outset.shared.retry(&tried) {
                        return Err(Turned::broken("unscored"));
                    }
                }
                Err(unheard) => return Err(Turned::broken(unheard.name())),
            }
        }
    }
}
