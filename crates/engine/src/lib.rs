//! Embedded inference engine: a model, its tokenizer, and the loop that turns plans into tokens.
//!
//! The loop is `drain inbox; plan; run; learn`: [`overdraft_scheduler::batch`] decides, a
//! [`Backend`] computes, the sampler draws, and events go to the request's stream.

pub mod backend;
pub mod echo;
pub mod gguf;
pub mod model;
pub mod request;
pub mod runtime;
pub mod sample;
pub mod simulated;
pub mod stop;
pub mod tokenizer;

pub use self::backend::{Backend, BackendError, BatchSlot, BlockLayout, ModelShape};
pub use self::echo::{EchoBackend, EchoSettings};
pub use self::request::{
    Event, FinishReason, Guessing, PositionLogprobs, Request, Sampling, StopCause, TokenLogprob,
    TokenOut, Usage,
};
pub use self::runtime::{
    BYTES_AT_ONCE, BlockError, BlockPrefix, CacheChanges, Detokenize, DraftMismatch, End, Engine,
    EngineHandle, EngineSettings, EngineStats, GuessError, Health, Imported, Observation, Observer,
    RequestRecord, RequestStream, SpecialTokens, Speculation, SpeculationStats, StartError,
    SubmitError, TextCodec, Unobserved,
};
pub use self::sample::{LOGPROBS_MAX, SamplingError};
pub use self::simulated::{SimulatedBackend, SimulatedSettings};
pub use self::tokenizer::FileTokenizerError;
pub use overdraft_scheduler::speculate::{DEPTH_MAX, Drafter, Lookup, Policy, PolicyError, Reason};
pub use overdraft_tokenizer::{
    ChatInput, ChatTemplate, ControlTokens, Framing, Rendered, TemplateError, TokenKind, Tokenizer,
    TokenizerError, TokenizerSource,
};
