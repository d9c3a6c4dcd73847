//! Resume abilities: what a worker is known to understand of what resuming needs.
//!
//! An engine's kind is told by its metrics; that it refuses a member is learnt from its first refusal.
//! Silence is no proof: a server that ignores a flag begins anew, with the same status and shape (R3).

use super::profile::PromptForm;

/// The engine a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// vLLM, and our own worker.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// llama.cpp's server.
    LlamaServer,
}

/// A member that only the gateway adds to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// `return_token_ids`.
    Ids,
    /// `stream_options.continuous_usage_stats`.
    Counts,
    /// `continue_final_message`.
    Continue,
}

/// What is known of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ability {
    engine: Option<Engine>,
    /// Members that it has refused.
    refused: u8,
    /// Whether it told ids when it was asked for them last.
    tells_ids: Option<bool>,
}

impl Ability {
    /// A worker that runs this engine. Another engine than before is another process.
    pub fn runs(&mut self, engine: Engine) {
        if self.engine != Some(engine) {
            *self = Self { engine: Some(engine), ..Self::default() };
        }
    }

    /// It has refused a request for this member.
    pub const fn refuses(&mut self, extra: Extra) {
        self.refused |= 1 << extra as u8;
    }

    /// Whether it told ids that it was asked for.
    pub const fn told_ids(&mut self, told: bool) {
        self.tells_ids = Some(told);
    }

    const fn has_refused(self, extra: Extra) -> bool {
        self.refused & (1 << extra as u8) != 0
    }

    /// Its engine, where that is known.
    pub const fn engine(self) -> Option<Engine> {
        self.engine
    }

    /// Whether it should be asked for the ids of an answer.
    pub fn is_asked_for_ids(self, prompt: PromptForm) -> bool {
        let knows = match self.engine {
            Some(Engine::Vllm) => true,
            // Its chats answer with 400 when they are streamed.
            Some(Engine::Sglang) => prompt != PromptForm::Messages,
            Some(Engine::LlamaServer) | None => false,
        };
        knows && !self.has_refused(Extra::Ids)
    }

    /// Whether it should be asked to count with every chunk: where ids, if they are asked for, do not tell.
    pub fn is_asked_for_counts(self, prompt: PromptForm, wants_ids: bool) -> bool {
        let has_ids = wants_ids && self.is_asked_for_ids(prompt) && self.tells_ids == Some(true);
        self.engine.is_some() && !has_ids && !self.has_refused(Extra::Counts)
    }

    /// Whether it takes a prompt as ids.
    pub const fn takes_ids(self) -> bool {
        self.engine.is_some()
    }

    /// Whether it goes on with the text of an answer.
    pub fn continues(self, prompt: PromptForm) -> bool {
        match prompt {
            PromptForm::Messages => self.engine.is_some() && !self.has_refused(Extra::Continue),
            PromptForm::Text => true,
            PromptForm::Ids => false,
        }
    }
}
