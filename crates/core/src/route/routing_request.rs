//! Routing request: what decisions know of a request, its prompt and its expected answer.

use overdraft_units::Tokens;

use super::router::{Prompt, Request, Router};
use super::{Ask, Count};
use crate::admit::Prospect;
use crate::estimate::Class;
use crate::prefix::PrefixKey;

/// Tokens that an answer is taken to be declared with, where the request does not say.
const UNSAID_LIMIT: u32 = 4_096;

/// A request as decisions see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) ask: Ask<'a>,
    /// Keys of the prompt's beginnings.
    pub(super) chain: &'a [PrefixKey],
    /// Tokens to a chunk of it.
    pub(super) chunk: Tokens,
}

impl Router {
    /// The share of prompt tokens that are found in caches, in thousandths: how likely it is that what is pushed
    /// out is asked for again.
    pub(super) fn reuse(&self) -> u64 {
        let (found, all) = self.found.parts();
        (found * 1_000).checked_div(all).unwrap_or(0)
    }

    /// How long the answers to `request` may get.
    pub(super) fn prospect(&self, request: Request<'_>, prompt: Tokens) -> Prospect {
        let Request { model, limit, choices, kind, dice, .. } = request;
        let class = Class::new(model_number(model), kind, limit);
        let answers = choices.max(1);
        let each = u64::from(limit.unwrap_or(UNSAID_LIMIT));
        Prospect {
            answers,
            lengths: self.lengths.draw(class, limit, 0, dice),
            declared: u64::from(prompt.get()) + each * u64::from(answers),
            class,
            limit,
            dice,
        }
    }

    /// A request as decisions see it.
    pub(super) fn ask<'a>(&self, request: Request<'a>) -> Asked<'a> {
        let texts = self.texts.get(request.model).copied().unwrap_or_default();
        let (prompt, chain, chunk) = match request.prompt {
            Prompt::Counted { tokens, chain, block } => (tokens, chain, Tokens::new(block.get())),
            Prompt::Text { bytes, media, chain, chunk, .. } => {
                let each = texts.tokens_of(u64::from(chunk.get()));
                (texts.tokens_with(bytes, media), chain, each)
            }
        };
        let each = texts.completion_of(request.limit).get();
        let completion = Tokens::new(each.saturating_mul(request.choices.max(1)));
        let count = match request.prompt {
            Prompt::Counted { .. } => Count::Counted,
            Prompt::Text { words, .. } => Count::Estimated { least: texts.least_of(words) },
        };
        let Request { model, session, dice, priority, .. } = request;
        let prospect = self.prospect(request, prompt);
        let portion = self.portion(request);
        let ask =
            Ask { model, prompt, count, completion, priority, portion, prospect, session, dice };
        Asked { ask, chain, chunk }
    }
}

/// A model's name as a number (FNV-1a), by which the queue tells lines apart.
pub fn model_number(model: &str) -> u64 {
    model.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
