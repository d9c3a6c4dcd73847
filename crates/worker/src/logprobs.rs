//! Log probabilities as the two dialects and vLLM's prompt form tell them.

use overdraft_engine::{PositionLogprobs, TokenLogprob, Tokenizer};
use overdraft_units::TokenId;
use overdraft_wire::response::{
    ChatLogprobs, ChatTokenLogprob, ChatTopLogprob, CompletionLogprobs, Logprob, PromptLogprob,
    PromptLogprobs, PromptPosition, TopLogprobs,
};

use crate::piece::Position;
use crate::plan::Form;

/// How tokens are spelt in an answer.
#[derive(Clone, Copy)]
pub(crate) struct Speller<'a> {
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) form: Form,
}

impl Speller<'_> {
    fn spell(self, token: TokenId) -> String {
        if self.form.token_ids.as_text {
            return format!("token_id:{}", token.0);
        }
        self.tokenizer.token_text(token).into_owned()
    }

    fn bytes(self, token: TokenId) -> Option<Vec<u8>> {
        self.tokenizer.token_bytes(token).map(<[u8]>::to_vec)
    }

    /// How many rivals are told; the engine may have been asked for more.
    fn rivals(self, top: &[TokenLogprob]) -> &[TokenLogprob] {
        let wanted = self.form.logprobs.map_or(0, |wanted| usize::try_from(wanted).unwrap_or(0));
        &top[..wanted.min(top.len())]
    }

    /// Chat's form.
    pub(crate) fn chat(self, positions: &[Position]) -> Option<ChatLogprobs> {
        self.form.logprobs?;
        let content = positions
            .iter()
            .filter_map(|position| position.logprobs.as_ref())
            .map(|logprobs| ChatTokenLogprob {
                token: self.spell(logprobs.chosen.id),
                logprob: Logprob(logprobs.chosen.logprob),
                bytes: self.bytes(logprobs.chosen.id),
                top_logprobs: self
                    .rivals(&logprobs.top)
                    .iter()
                    .map(|rival| ChatTopLogprob {
                        token: self.spell(rival.id),
                        logprob: Logprob(rival.logprob),
                        bytes: self.bytes(rival.id),
                    })
                    .collect(),
            })
            .collect();
        Some(ChatLogprobs { content })
    }

    /// Completions' form, for tokens that begin `offset` characters into the text.
    pub(crate) fn completion(
        self,
        positions: &[Position],
        mut offset: u32,
    ) -> Option<CompletionLogprobs> {
        self.form.logprobs?;
        let mut told = CompletionLogprobs::default();
        for position in positions {
            told.text_offset.push(offset);
            offset += width(self.tokenizer, position.token);
            told.tokens.push(self.spell(position.token));
            let logprobs = position.logprobs.as_ref();
            told.token_logprobs.push(logprobs.map(|known| Logprob(known.chosen.logprob)));
            told.top_logprobs.push(logprobs.map(|known| self.top(known)));
        }
        Some(told)
    }

    /// The rivals, and the chosen token also if it is none of them.
    fn top(self, logprobs: &PositionLogprobs) -> TopLogprobs {
        let rivals = self.rivals(&logprobs.top);
        let chosen = logprobs.chosen;
        let missing = rivals.iter().all(|rival| rival.id != chosen.id).then_some(&chosen);
        let all = rivals.iter().chain(missing);
        TopLogprobs(all.map(|one| (self.spell(one.id), Logprob(one.logprob))).collect())
    }

    /// vLLM's form for prompts.
    pub(crate) fn prompt(self, positions: &[Option<PositionLogprobs>]) -> Option<PromptLogprobs> {
        let wanted = usize::try_from(self.form.prompt_logprobs?).unwrap_or(0);
        let entry = |one: &TokenLogprob| PromptLogprob {
            id: one.id.0,
            logprob: Logprob(one.logprob),
            rank: one.rank,
            decoded_token: self.spell(one.id),
        };
        let position = |known: &PositionLogprobs| {
            let rivals = &known.top[..wanted.min(known.top.len())];
            PromptPosition(std::iter::once(&known.chosen).chain(rivals).map(entry).collect())
        };
        Some(PromptLogprobs(positions.iter().map(|known| known.as_ref().map(position)).collect()))
    }
}

/// Characters that tokens take in the text.
pub(crate) fn characters(positions: &[Position], tokenizer: &Tokenizer) -> u32 {
    positions.iter().map(|position| width(tokenizer, position.token)).sum()
}

fn width(tokenizer: &Tokenizer, token: TokenId) -> u32 {
    u32::try_from(tokenizer.token_text(token).chars().count()).unwrap_or(u32::MAX)
}
