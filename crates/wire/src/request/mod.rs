//! Requests as the worker takes them: every field read, checked and named by its path when wrong.
//!
//! A body becomes a tree first and then a checked value; what a type can hold is what the engine can
//! do. Fields that are unknown are ignored, because clients of other servers send them; fields that
//! are known but not served are refused, because ignoring them would change the answer.
//! **Invariant:** a parsed request is within every bound named here.

mod chat;
mod completion;
mod fields;
mod media;
mod message;
mod options;
#[cfg(test)]
mod tests;
mod tokenize;
mod tokenize_ask;
mod truncation;

pub use self::chat::{ChatRequest, PromptEnding, Rendering};
pub use self::completion::{CompletionRequest, PROMPTS_MAX, Prompt};
pub(crate) use self::fields::as_integer;
pub use self::media::{Media, file_tokens, media};
pub use self::message::{Content, Message, ROLE_CHARS_MAX};
pub use self::options::{
    CACHE_SALT_CHARS_MAX, CHOICES_MAX, Delivery, Ending, LOGIT_BIAS_MAX, LOGPROBS_MAX, Options,
    Output, STOP_BYTES_MAX, STOPS_MAX, Sampling, Scheduling, Speculation, StreamUsage,
    TokenIdsOutput,
};
pub use self::tokenize::{DetokenizeRequest, TokenizeInput, TokenizeRequest};
pub use self::tokenize_ask::TokenizeAsk;
pub use self::truncation::Truncation;
