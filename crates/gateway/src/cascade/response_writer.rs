//! Response writer: encodes an answer that the gateway composed.
//!
//! The answer has the form of the client's endpoint and the target's model name, as the target's
//! own would.

use bytes::Bytes;
use overdraft_units::Tokens;
use overdraft_wire::Generation;
use overdraft_wire::request::StreamUsage;
use overdraft_wire::response::{
    AssistantMessage, ChatChoice, ChatChunk, ChatChunkChoice, ChatCompletion, CompletionChoice,
    CompletionResponse, Delta, FinishReason, Head, Usage, to_json,
};
use overdraft_wire::sse;

/// Tells one answer.
#[derive(Clone, Debug)]
pub(super) struct ResponseWriter {
    pub(super) generation: Generation,
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) usage: StreamUsage,
}

/// Tokens of prompt and answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) prompt: Tokens,
    pub(super) completion: Tokens,
}

impl ResponseWriter {
    fn head(&self) -> Head<'_> {
        Head { id: &self.id, created: self.created, model: &self.model }
    }

    fn so_far(&self, counts: Counts) -> Option<Usage> {
        (self.usage == StreamUsage::Every).then(|| usage(counts))
    }

    /// What a stream begins with.
    pub(super) fn opening(&self, counts: Counts) -> Bytes {
        match self.generation {
            Generation::Chat => self.chunk(Delta::opening(), None, counts),
            Generation::Completion => Bytes::new(),
        }
    }

    /// More text of a stream.
    pub(super) fn text(&self, text: &str, counts: Counts) -> Bytes {
        match self.generation {
            Generation::Chat => self.chunk(Delta::text(text), None, counts),
            Generation::Completion => self.piece(text, None, counts),
        }
    }

    /// The end of a stream.
    pub(super) fn end(&self, reason: FinishReason, note: Option<&str>, counts: Counts) -> Bytes {
        let mut out = match self.generation {
            Generation::Chat => self.chunk(Delta::default(), Some(reason), counts).to_vec(),
            Generation::Completion => self.piece("", Some(reason), counts).to_vec(),
        };
        if self.usage != StreamUsage::Never {
            match self.generation {
                Generation::Chat => {
                    sse::write_data(&mut out, &ChatChunk::usage(self.head(), usage(counts)));
                }
                Generation::Completion => {
                    let told = Some(usage(counts));
                    let answer = CompletionResponse::new(self.head(), Vec::new(), told);
                    sse::write_data(&mut out, &answer);
                }
            }
        }
        if let Some(note) = note {
            out.extend_from_slice(&sse::comment(note));
        }
        out.extend_from_slice(sse::DONE);
        out.into()
    }

    /// The whole answer.
    pub(super) fn whole(&self, text: String, reason: FinishReason, counts: Counts) -> Vec<u8> {
        match self.generation {
            Generation::Chat => {
                let choice = ChatChoice {
                    index: 0,
                    message: AssistantMessage::new(text),
                    logprobs: None,
                    finish_reason: Some(reason),
                    stop_reason: None,
                    token_ids: None,
                };
                to_json(&ChatCompletion::new(self.head(), vec![choice], usage(counts)))
            }
            Generation::Completion => {
                let choice =
                    CompletionChoice { text, finish_reason: Some(reason), ..Default::default() };
                to_json(&CompletionResponse::new(self.head(), vec![choice], Some(usage(counts))))
            }
        }
    }

    fn chunk(&self, delta: Delta, reason: Option<FinishReason>, counts: Counts) -> Bytes {
        let choice = ChatChunkChoice { delta, finish_reason: reason, ..Default::default() };
        let mut chunk = ChatChunk::new(self.head(), vec![choice]);
        chunk.usage = self.so_far(counts);
        sse::data(&chunk).into()
    }

    fn piece(&self, text: &str, reason: Option<FinishReason>, counts: Counts) -> Bytes {
        let text = text.to_owned();
        let choice = CompletionChoice { text, finish_reason: reason, ..Default::default() };
        sse::data(&CompletionResponse::new(self.head(), vec![choice], self.so_far(counts))).into()
    }
}

fn usage(counts: Counts) -> Usage {
    Usage::new(counts.prompt, None, counts.completion)
}
