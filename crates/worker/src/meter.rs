//! Token usage meter: counts the tokens of an answer over its choices.

use overdraft_engine::Event;
use overdraft_units::Tokens;
use overdraft_wire::response::Usage;

use crate::plan::{Plan, Told};

/// Counts what an answer takes, choice by choice.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    prompt: Tokens,
    cached: Tokens,
    completions: Vec<Tokens>,
    /// Drafted tokens that were accepted, where there is a drafter.
    accepted: Option<Tokens>,
    per_prompt: usize,
    told: Told,
}

impl Meter {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            prompt: plan.prompt_tokens(),
            cached: Tokens::ZERO,
            completions: vec![Tokens::ZERO; plan.choices()],
            accepted: None,
            per_prompt: plan.per_prompt(),
            told: plan.form.completion,
        }
    }

    /// Takes note of a choice's event.
    pub(crate) fn note(&mut self, choice: usize, event: &Event) {
        match event {
            // The other completions of the prompt find what the first one computed.
            Event::Started { cached, .. } if choice.is_multiple_of(self.per_prompt) => {
                self.cached += *cached;
            }
            Event::Tokens(tokens) => {
                self.completions[choice] +=
                    Tokens::new(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
            }
            // The engine's own count includes an end token that has no text.
            Event::Finished { usage, .. } => {
                self.completions[choice] = usage.completion;
                if let Some(accepted) = usage.accepted {
                    *self.accepted.get_or_insert_default() += accepted;
                }
            }
            Event::Started { .. } | Event::Failed(_) => {}
        }
    }

    /// Tokens of all completions that are told.
    pub(crate) fn completion(&self) -> Tokens {
        match self.told {
            Told::Yes => self.completions.iter().fold(Tokens::ZERO, |sum, &one| sum + one),
            Told::No => Tokens::ZERO,
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::new(self.prompt, Some(self.cached), self.completion()).accepting(self.accepted)
    }
}
