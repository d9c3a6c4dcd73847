//! Engine handle: submits and cancels requests from any thread, without blocking the loop.
//!
//! A submission goes into a bounded inbox and its verdict comes back through a one-shot channel, so
//! the scheduler alone decides. The stream's channel has room for every event its request can have:
//! a slow reader never holds up the loop. Dropping the stream is the cancellation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use overdraft_scheduler::batch::{Arrival, Logits, PrefixReuse, Refusal};
use overdraft_scheduler::speculate::{DEPTH_MAX, Policy};
use overdraft_telemetry::Clock;
use overdraft_units::{Blocks, Instant, SequenceId, TokenId, Tokens};
use tokio::sync::{mpsc, oneshot};

use super::blocks::BlockOrder;
use super::live::{Live, Output};
use super::stats::{EngineStats, Health, Phase, Shared};
use super::text::TextOut;
use crate::backend::{BlockLayout, ModelShape};
use crate::request::{Event, Request};
use crate::sample::{LOGPROBS_MAX, Sampler, SamplingError};
use overdraft_tokenizer::TextCodec;

/// Maximum submissions in the inbox; the loop empties it before every step. Twice as many as one
/// request of a worker submits at once.
pub const INBOX_MAX: usize = 2048;
/// Events of a request beside one per token: its start and its end.
const EVENTS_BESIDE_TOKENS: usize = 2;

/// A handle of the engine; clones refer to the same one.
#[derive(Clone)]
pub struct EngineHandle {
    pub(super) inbox: SyncSender<Letter>,
    pub(super) shared: Arc<Shared>,
    pub(super) shape: ModelShape,
    /// What an exported page is like.
    pub(super) layout: Option<Arc<BlockLayout>>,
    pub(super) context: Tokens,
    pub(super) waiting_max: u32,
    pub(super) codec: Arc<dyn TextCodec>,
    pub(super) clock: Clock,
    pub(super) entropy: u64,
    /// Whether there is a drafter.
    pub(super) guesses: bool,
    pub(super) next: Arc<AtomicU64>,
}

/// The events of one request. Dropping it cancels the request.
#[derive(Debug)]
pub struct RequestStream {
    events: mpsc::Receiver<Event>,
}

/// What the loop finds in its inbox.
#[derive(Debug)]
pub(super) enum Letter {
    /// A request.
    Submission(Box<Submission>),
    /// Pages to be moved.
    Blocks(BlockOrder),
    /// Nothing but the wish that the phase be looked at.
    Wake,
    /// Another rule for guessing.
    Guess {
        /// The rule.
        policy: Option<Policy>,
        /// Tokens of a draft at most.
        depth_max: Option<usize>,
    },
}

/// A request, ready to be taken.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) arrival: Arrival,
    pub(super) live: Live,
    pub(super) verdict: oneshot::Sender<Result<(), SubmitError>>,
}

/// Why a request is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// There is nothing to complete.
    #[error("the prompt is empty; expected at least one token")]
    EmptyPrompt,
    /// The prompt leaves no room for a completion.
    #[error(
        "the prompt has `{}` tokens, but the model's context is {} tokens, completion included; \
         shorten the prompt", asked.get(), context.get()
    )]
    LongerThanContext {
        /// Prompt length.
        asked: Tokens,
        /// Context length.
        context: Tokens,
    },
    /// Prompt and completion would not fit even into an empty cache.
    #[error(
        "prompt and `max_tokens` need `{}` cache blocks, but there are {}; shorten the prompt or \
         lower `max_tokens`", asked.get(), blocks.get()
    )]
    LargerThanCache {
        /// Pages needed at the end.
        asked: Blocks,
        /// Pages that exist.
        blocks: Blocks,
    },
    /// A sampling parameter cannot be obeyed.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// More prompt log probabilities than the engine gives.
    #[error("`{asked}` is not a valid `prompt_logprobs`; expected at most {LOGPROBS_MAX}")]
    PromptLogprobs {
        /// Likeliest tokens asked for.
        asked: u32,
    },
    /// A token that the vocabulary lacks, in the prompt or in `logit_bias`.
    #[error("`{}` is not a token of this model; expected less than {vocabulary}", token.0)]
    UnknownToken {
        /// Which.
        token: TokenId,
        /// Entries of the vocabulary.
        vocabulary: usize,
    },
    /// Too many requests wait already.
    #[error("too many requests wait already, `{waiting_max}`; try again later")]
    Overloaded {
        /// The bound that was met.
        waiting_max: u32,
    },
    /// A reason that the engine rules out, such as a name used twice.
    #[error("the scheduler refused the request, `{refusal:?}`; this is a defect of the engine")]
    Refused {
        /// What the scheduler said.
        refusal: Refusal,
    },
    /// The engine takes no more requests because it is about to stop.
    #[error("the engine is shutting down; send the request elsewhere")]
    Draining,
    /// The backend or the engine's thread panicked.
    #[error("the engine has failed for good; restart the worker")]
    Broken,
}

/// Why the rule for guessing cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuessError {
    /// The engine was started without a drafter.
    #[error("this engine has no drafter; start it with a draft model or n-gram lookup")]
    NoDrafter,
    /// Deeper than any draft, or no draft at all.
    #[error("`{asked}` is not a valid depth; expected 1 to {DEPTH_MAX}")]
    Depth {
        /// What was asked.
        asked: usize,
    },
    /// The engine has ended, or too much lies in its inbox.
    #[error("the engine takes no more orders now; try again")]
    Busy,
}

impl EngineHandle {
    /// Asks for a completion and waits for the scheduler's verdict, at most one step. Dropping the
    /// future cancels the submission.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing was changed.
    pub async fn submit(&self, request: Request) -> Result<RequestStream, SubmitError> {
        self.submit_since(request, self.clock.now()).await
    }

    /// The same for a request that arrived before: it has the turn of one that arrived then, and its
    /// times count from there.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub async fn submit_since(
        &self,
        request: Request,
        arrived: Instant,
    ) -> Result<RequestStream, SubmitError> {
        self.check(&request)?;
        let (submission, verdict, stream) = self.prepare(request, arrived);
        let letter = Letter::Submission(Box::new(submission));
        self.inbox.try_send(letter).map_err(|error| match error {
            TrySendError::Full(_) => {
                let waiting_max = u32::try_from(INBOX_MAX).expect("the bound fits 32 bits");
                SubmitError::Overloaded { waiting_max }
            }
            TrySendError::Disconnected(_) => self.gone(),
        })?;
        // The loop answers every letter it takes; it drops them only when it ends.
        verdict.await.unwrap_or_else(|_| Err(self.gone()))?;
        Ok(stream)
    }

    /// The engine's counts as of its last step.
    pub fn stats(&self) -> EngineStats {
        self.shared.stats()
    }

    /// The model's dimensions.
    pub fn shape(&self) -> ModelShape {
        self.shape
    }

    /// Prompt and completion of one request at most: the model's context, or less if the settings or
    /// the cache say so.
    pub fn context(&self) -> Tokens {
        self.context
    }

    /// Requests that may wait at once: so many are taken together where nobody waits, and no more.
    pub fn waiting_max(&self) -> u32 {
        self.waiting_max
    }

    /// Whether requests are worth sending.
    pub fn health(&self) -> Health {
        self.stats().health
    }

    /// Has the next step and all after it guess by another rule, to another depth, or both; what is
    /// `None` stays.
    ///
    /// # Errors
    /// [`GuessError`]; nothing was changed.
    pub fn set_speculation(
        &self,
        policy: Option<Policy>,
        depth_max: Option<usize>,
    ) -> Result<(), GuessError> {
        if !self.guesses {
            return Err(GuessError::NoDrafter);
        }
        if let Some(asked) = depth_max.filter(|depth| *depth == 0 || DEPTH_MAX < *depth) {
            return Err(GuessError::Depth { asked });
        }
        let letter = Letter::Guess { policy, depth_max };
        self.inbox.try_send(letter).map_err(|_| GuessError::Busy)
    }

    /// Refuses requests from now on; those that are there go on.
    pub fn drain(&self) {
        self.enter(Phase::Draining);
    }

    /// Returns once the engine takes no more requests and has none left.
    pub async fn drained(&self) {
        self.shared.wait_empty().await;
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.shared.enter(phase);
        // A full inbox needs no wake-up call: the loop is awake.
        let _ = self.inbox.try_send(Letter::Wake);
    }

    /// Why the loop has ended.
    fn gone(&self) -> SubmitError {
        match self.health() {
            Health::Broken => SubmitError::Broken,
            Health::Ready | Health::Failing { .. } => SubmitError::Draining,
        }
    }

    fn check(&self, request: &Request) -> Result<(), SubmitError> {
        request.sampling.check()?;
        if let Some(asked) = request.prompt_logprobs.filter(|&asked| asked > LOGPROBS_MAX) {
            return Err(SubmitError::PromptLogprobs { asked });
        }
        let vocabulary = self.shape.vocabulary;
        let known = |token: TokenId| usize::try_from(token.0).is_ok_and(|place| place < vocabulary);
        let biased = request.sampling.logit_bias.iter().map(|&(token, _)| token);
        let mut tokens = request.prompt.iter().copied().chain(biased);
        if let Some(token) = tokens.find(|&token| !known(token)) {
            return Err(SubmitError::UnknownToken { token, vocabulary });
        }
        if self.shared.phase() > Phase::Serving {
            return Err(SubmitError::Draining);
        }
        Ok(())
    }

    /// Builds all that the loop needs here, on the caller's thread.
    fn prepare(
        &self,
        request: Request,
        arrived: Instant,
    ) -> (Submission, oneshot::Receiver<Result<(), SubmitError>>, RequestStream) {
        let sequence = SequenceId(self.next.fetch_add(1, Ordering::Relaxed));
        let sampling = &request.sampling;
        let length = Tokens::new(u32::try_from(request.prompt.len()).unwrap_or(u32::MAX));
        let room = self.context.checked_sub(length).unwrap_or(Tokens::ZERO);
        let output_max = sampling.max_tokens.min(room);
        // Unseeded requests differ by their number; equal ones get different draws.
        let seed = sampling.seed.unwrap_or_else(|| self.entropy.wrapping_add(sequence.0));
        let ends = self.codec.end_tokens();
        let sampler = Sampler::new(sampling, &request.prompt, ends, seed);
        let text = TextOut::new(self.codec.as_ref(), sampling);

        let capacity = usize::try_from(output_max.get()).expect("usize holds 32 bits");
        let (sender, events) = mpsc::channel(capacity + EVENTS_BESIDE_TOKENS);
        let (answer, verdict) = oneshot::channel();
        let output = Output { sampler, text, events: sender };
        let live = Live::new(&request, ends, output, output_max, arrived);
        let (reuse, logits) = if request.prompt_logprobs.is_some() {
            (PrefixReuse::Forbidden, Logits::Every)
        } else {
            (PrefixReuse::Allowed, Logits::Last)
        };
        let arrival = Arrival {
            sequence,
            prompt: request.prompt,
            output_max,
            salt: request.salt,
            priority: request.priority,
            reuse,
            logits,
        };
        (Submission { arrival, live, verdict: answer }, verdict, RequestStream { events })
    }
}

impl RequestStream {
    /// The next event; `None` after the last.
    pub async fn recv(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The next event if it is already there.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// The next event, for threads that may wait.
    ///
    /// # Panics
    /// Inside an asynchronous context.
    pub fn blocking_recv(&mut self) -> Option<Event> {
        self.events.blocking_recv()
    }
}

impl From<Refusal> for SubmitError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::EmptyPrompt => Self::EmptyPrompt,
            Refusal::LongerThanContext { asked, context } => {
                Self::LongerThanContext { asked, context }
            }
            Refusal::LargerThanCache { asked, blocks } => Self::LargerThanCache { asked, blocks },
            Refusal::QueueFull { waiting_max } => Self::Overloaded { waiting_max },
            refusal => Self::Refused { refusal },
        }
    }
}

impl core::fmt::Debug for EngineHandle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EngineHandle").field("shape", &self.shape).finish_non_exhaustive()
    }
}
