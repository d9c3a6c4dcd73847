//! Rendering: turns pieces into the client's JSON, for chat or completions.

use overdraft_engine::{FinishReason as Ended, StopCause, Tokenizer};
use overdraft_units::TokenId;
use overdraft_wire::Generation;
use overdraft_wire::response::{
    AssistantMessage, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, CompletionChoice,
    CompletionResponse, Delta, FinishReason, Head, StopReason, Usage, to_json,
};
use overdraft_wire::sse;

use crate::logprobs::Speller;
use crate::piece::Piece;
use crate::plan::Form;

/// What every part of one answer shares.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) generation: Generation,
    pub(crate) form: Form,
}

impl Heading {
    fn head(&self) -> Head<'_> {
        Head { id: &self.id, created: self.created, model: &self.model }
    }

    fn speller<'a>(&self, tokenizer: &'a Tokenizer) -> Speller<'a> {
        Speller { tokenizer, form: self.form }
    }

    /// A whole answer.
    pub(crate) fn whole(&self, choices: Vec<Piece>, usage: Usage, with: &Tokenizer) -> Vec<u8> {
        let speller = self.speller(with);
        match self.generation {
            Generation::Chat => {
                let opening = choices.first().and_then(|first| first.opening.as_ref());
                let prompt_logprobs = opening
                    .and_then(|prompt| prompt.logprobs.get())
                    .and_then(|known| speller.prompt(known));
                let prompt_token_ids = opening
                    .filter(|_| self.form.token_ids.returned)
                    .map(|prompt| raw(&prompt.tokens));
                let told = choices.into_iter().map(|piece| self.chat_choice(piece, speller));
                let mut answer = ChatCompletion::new(self.head(), told.collect(), usage);
                answer.prompt_logprobs = prompt_logprobs;
                answer.prompt_token_ids = prompt_token_ids;
                to_json(&answer)
            }
            Generation::Completion => {
                let told = choices.into_iter().map(|piece| self.completion_choice(piece, speller));
                to_json(&CompletionResponse::new(self.head(), told.collect(), Some(usage)))
            }
        }
    }

    /// A piece as an event of a stream, with the usage so far if that is told.
    pub(crate) fn event(
        &self,
        piece: Piece,
        usage: Option<Usage>,
        with: &Tokenizer,
        out: &mut Vec<u8>,
    ) {
        let speller = self.speller(with);
        match self.generation {
            Generation::Chat => self.chat_events(piece, usage, speller, out),
            Generation::Completion => {
                let choice = self.completion_choice(piece, speller);
                let answer = CompletionResponse::new(self.head(), vec![choice], usage);
                sse::write_data(out, &answer);
            }
        }
    }

    /// The event that tells what it took.
    pub(crate) fn usage_event(&self, usage: Usage, out: &mut Vec<u8>) {
        match self.generation {
            Generation::Chat => sse::write_data(out, &ChatChunk::usage(self.head(), usage)),
            Generation::Completion => {
                let answer = CompletionResponse::new(self.head(), Vec::new(), Some(usage));
                sse::write_data(out, &answer);
            }
        }
    }

    /// A chat's choice opens with a chunk of its own that names the role.
    fn chat_events(
        &self,
        mut piece: Piece,
        usage: Option<Usage>,
        speller: Speller<'_>,
        out: &mut Vec<u8>,
    ) {
        let returned = self.form.token_ids.returned;
        if let Some(prompt) = piece.opening.take() {
            let choice = ChatChunkChoice {
                index: piece.choice,
                delta: Delta::opening(),
                ..Default::default()
            };
            let mut chunk = ChatChunk::new(self.head(), vec![choice]);
            chunk.usage = usage;
            chunk.prompt_token_ids = (returned && piece.choice == 0).then(|| raw(&prompt.tokens));
            sse::write_data(out, &chunk);
            if piece.is_idle() {
                return;
            }
        }
        let silent = piece.text.is_empty() && piece.positions.is_empty() && piece.finish.is_some();
        let (finish_reason, stop_reason) = ending(piece.finish.as_ref());
        let choice = ChatChunkChoice {
            index: piece.choice,
            delta: if silent { Delta::default() } else { Delta::text(piece.text) },
            logprobs: speller.chat(&piece.positions).filter(|told| !told.content.is_empty()),
            finish_reason,
            stop_reason,
            token_ids: returned.then(|| raw(&piece.tokens)),
        };
        let mut chunk = ChatChunk::new(self.head(), vec![choice]);
        chunk.usage = usage;
        sse::write_data(out, &chunk);
    }

    fn chat_choice(&self, piece: Piece, speller: Speller<'_>) -> ChatChoice {
        let (finish_reason, stop_reason) = ending(piece.finish.as_ref());
        ChatChoice {
            index: piece.choice,
            logprobs: speller.chat(&piece.positions),
            message: AssistantMessage::new(piece.text),
            finish_reason,
            stop_reason,
            token_ids: self.form.token_ids.returned.then(|| raw(&piece.tokens)),
        }
    }

    fn completion_choice(&self, piece: Piece, speller: Speller<'_>) -> CompletionChoice {
        let (finish_reason, stop_reason) = ending(piece.finish.as_ref());
        let returned = self.form.token_ids.returned;
        let opening = piece.opening.as_ref();
        CompletionChoice {
            index: piece.choice,
            logprobs: speller.completion(&piece.positions, piece.offset),
            finish_reason,
            stop_reason,
            prompt_logprobs: opening
                .and_then(|prompt| prompt.logprobs.get())
                .and_then(|known| speller.prompt(known)),
            prompt_token_ids: opening.filter(|_| returned).map(|prompt| raw(&prompt.tokens)),
            token_ids: returned.then(|| raw(&piece.tokens)),
            text: piece.text,
        }
    }
}

/// Why a choice ended, and which of the client's stops did it.
fn ending(ended: Option<&Ended>) -> (Option<FinishReason>, Option<StopReason>) {
    match ended {
        None => (None, None),
        Some(Ended::Length) => (Some(FinishReason::Length), None),
        Some(Ended::Stop(cause)) => {
            let reason = cause.as_ref().map(|cause| match cause {
                StopCause::Token(token) => StopReason::Token(token.0),
                StopCause::Text(text) => StopReason::Text(text.clone()),
            });
            (Some(FinishReason::Stop), reason)
        }
    }
}

fn raw(tokens: &[TokenId]) -> Vec<u32> {
    tokens.iter().map(|token| token.0).collect()
}
