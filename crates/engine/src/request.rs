//! Engine requests and events as plain values, without channels or protocol.

use overdraft_scheduler::speculate::Drafter;
use overdraft_units::{CacheSalt, Priority, TokenId, Tokens};

/// One sequence to complete.
#[derive(Clone, Debug)]
pub struct Request {
    /// The prompt as tokens, not empty.
    pub prompt: Vec<TokenId>,
    /// How to choose the completion's tokens and when to stop.
    pub sampling: Sampling,
    /// Whose cached prefixes may be shared.
    pub salt: CacheSalt,
    /// Lower goes first.
    pub priority: Priority,
    /// With `Some(n)`: the log probability of every prompt token and of the `n` likeliest.
    pub prompt_logprobs: Option<u32>,
}

/// How tokens are chosen and when the completion ends. Defaults are vLLM's.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "three request fields that do not interact")]
pub struct Sampling {
    /// Zero is greedy.
    pub temperature: f32,
    /// Only the `k` likeliest; `None` is all.
    pub top_k: Option<u32>,
    /// Only the smallest set whose probability reaches this; one is all.
    pub top_p: f32,
    /// Only tokens at least this likely, relative to the likeliest; zero is all.
    pub min_p: f32,
    /// Subtracted once from the logit of every token already generated.
    pub presence_penalty: f32,
    /// Subtracted from a logit once per occurrence among the generated tokens.
    pub frequency_penalty: f32,
    /// Divides (positive) or multiplies (negative) the logits of tokens in prompt or completion.
    pub repetition_penalty: f32,
    /// Added to the logits of single tokens, in `-100..=100`.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Fixes the draws; `None` draws a fresh seed.
    pub seed: Option<u64>,
    /// Strings that end the completion; not part of the answer.
    pub stop: Vec<String>,
    /// Tokens that end the completion, besides the model's own end tokens.
    pub stop_tokens: Vec<TokenId>,
    /// Keep the stop string in the answer.
    pub include_stop: bool,
    /// Completion tokens at most.
    pub max_tokens: Tokens,
    /// No end of any kind before this many completion tokens.
    pub min_tokens: Tokens,
    /// Go on past the model's end tokens.
    pub ignore_eos: bool,
    /// With `Some(n)`: the log probability of each chosen token and of the `n` likeliest.
    pub logprobs: Option<u32>,
    /// Leave control tokens out of the text.
    pub skip_special_tokens: bool,
    /// Who may guess ahead.
    pub guessing: Guessing,
}

/// Who may guess what a sequence says next, to be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guessing {
    /// Whoever the engine has and finds worth it.
    #[default]
    Any,
    /// Only this drafter.
    Only(Drafter),
    /// Nobody.
    Never,
}

impl Guessing {
    /// Whether this drafter may.
    pub fn allows(self, drafter: Drafter) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == drafter,
            Self::Never => false,
        }
    }
}

/// What the engine tells about a request, in this order:
/// `Started`, then any number of `Tokens`, then one of `Finished` and `Failed`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The prompt is computed.
    Started {
        /// Prompt tokens that were found in the prefix cache.
        cached: Tokens,
        /// One entry per prompt token, the first `None`, when they were asked for.
        prompt_logprobs: Option<Vec<Option<PositionLogprobs>>>,
    },
    /// More of the completion.
    Tokens(Vec<TokenOut>),
    /// The completion is whole.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// Text that was held back for a possible stop string and is now certain.
        tail: String,
        /// What it took.
        usage: Usage,
    },
    /// The completion is lost; a sentence for the client.
    Failed(String),
}

/// One completion token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenOut {
    /// Which.
    pub id: TokenId,
    /// Text that became certain with it; often the token's own, empty while a character is
    /// incomplete or a stop string may be forming.
    pub text: String,
    /// When asked for.
    pub logprobs: Option<PositionLogprobs>,
}

/// Log probabilities at one position, natural logarithm, of the model's own distribution (before
/// temperature, penalties and filters, as vLLM reports them).
#[derive(Clone, Debug, PartialEq)]
pub struct PositionLogprobs {
    /// The token that stands at the position.
    pub chosen: TokenLogprob,
    /// The likeliest tokens, best first.
    pub top: Vec<TokenLogprob>,
}

/// A token and how likely it was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenLogprob {
    /// Which.
    pub id: TokenId,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Its place among all tokens, the likeliest being one.
    pub rank: u32,
}

/// Why a completion ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model's end token, a stop token (its id) or a stop string (its text).
    Stop(Option<StopCause>),
    /// `max_tokens` or the context is used up.
    Length,
}

/// What stopped a completion other than the model's own end token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// A token of `stop_tokens`.
    Token(TokenId),
    /// A string of `stop`.
    Text(String),
}

/// What a completion took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub prompt: Tokens,
    /// Of those, found in the prefix cache.
    pub cached: Tokens,
    /// Completion tokens, the end token included.
    pub completion: Tokens,
    /// Of those, drafted tokens that were accepted; none where nobody guesses.
    pub accepted: Option<Tokens>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            logit_bias: Vec::new(),
            seed: None,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            include_stop: false,
            max_tokens: Tokens::new(16),
            min_tokens: Tokens::ZERO,
            ignore_eos: false,
            logprobs: None,
            skip_special_tokens: true,
            guessing: Guessing::Any,
        }
    }
}
