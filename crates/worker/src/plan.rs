//! Plan: a request in the engine's terms, independent of the endpoint.
//!
//! Both kinds of request come down to the same thing: some prompts as tokens, each to be completed
//! `n` times in the same way, and a form in which the answer is told. **Invariant:** choice
//! `prompt * n + i` is the `i`-th completion of that prompt, and its seed is the request's plus `i`.

use std::sync::{Arc, OnceLock};

use overdraft_engine::{Drafter, Guessing, PositionLogprobs, Request, Sampling};
use overdraft_units::{CacheSalt, Priority, TokenId, Tokens};
use overdraft_wire::json::Object;
use overdraft_wire::request::{Delivery, Options, Speculation, TokenIdsOutput};
use overdraft_wire::{ApiError, Generation};

use crate::worker::Worker;

/// Log probabilities of one request with several completions at most: an answer that tells them
/// takes some 300 bytes for each, 300 MiB in all. One completion alone is bounded by the context.
const LOGPROBS_MAX: u64 = 1024 * 1024;

/// A request, ready to be computed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) generation: Generation,
    pub(crate) prompts: Vec<Arc<PromptPlan>>,
    /// Completions per prompt.
    pub(crate) n: u32,
    pub(crate) sampling: Sampling,
    pub(crate) salt: CacheSalt,
    pub(crate) priority: Priority,
    /// What the engine is asked about the prompt.
    pub(crate) prompt_logprobs: Option<u32>,
    pub(crate) form: Form,
    pub(crate) delivery: Delivery,
}

/// One prompt.
#[derive(Clone, Debug, Default)]
pub(crate) struct PromptPlan {
    pub(crate) tokens: Vec<TokenId>,
    /// What the answer begins with.
    pub(crate) echo: Option<String>,
    /// Its log probabilities, if the engine was asked for them: the first completion brings them,
    /// and all tell them.
    pub(crate) logprobs: OnceLock<Vec<Option<PositionLogprobs>>>,
}

impl PromptPlan {
    pub(crate) fn new(tokens: Vec<TokenId>, echo: Option<String>) -> Self {
        Self { tokens, echo, logprobs: OnceLock::new() }
    }
}

/// What the answer tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// Log probabilities of the completion, with that many rivals.
    pub(crate) logprobs: Option<u32>,
    /// Log probabilities of the prompt, in vLLM's form.
    pub(crate) prompt_logprobs: Option<u32>,
    pub(crate) token_ids: TokenIdsOutput,
    pub(crate) completion: Told,
}

/// Whether the completion is told. `max_tokens` zero with `echo` asks for the prompt alone; the
/// engine still computes one token, as vLLM's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Yes,
    No,
}

impl Plan {
    /// How many completions there will be.
    pub(crate) fn choices(&self) -> usize {
        self.prompts.len() * self.per_prompt()
    }

    /// Completions of each prompt.
    pub(crate) fn per_prompt(&self) -> usize {
        usize::try_from(self.n).expect("usize holds 32 bits")
    }

    /// Which prompt a choice completes.
    pub(crate) fn prompt_of(&self, choice: usize) -> &Arc<PromptPlan> {
        &self.prompts[choice / self.per_prompt()]
    }

    /// What the engine is asked, choice by choice.
    pub(crate) fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        self.prompts.iter().flat_map(move |prompt| {
            (0..self.n).map(move |index| {
                let mut sampling = self.sampling.clone();
                sampling.seed = sampling.seed.map(|seed| seed.wrapping_add(u64::from(index)));
                if 1 < self.n {
                    // Completions of one prompt fill a batch by themselves.
                    sampling.guessing = Guessing::Never;
                }
                Request {
                    prompt: prompt.tokens.clone(),
                    sampling,
                    salt: self.salt,
                    priority: self.priority,
                    // They are the prompt's: one completion of it computes them.
                    prompt_logprobs: self.prompt_logprobs.filter(|_| index == 0),
                }
            })
        })
    }

    /// Refuses more completions than the engine's queue, which takes them all at once, can ever hold.
    pub(crate) fn check_queue(&self, waiting_max: u32) -> Result<(), ApiError> {
        let choices = self.choices();
        if choices <= usize::try_from(waiting_max).unwrap_or(usize::MAX) {
            return Ok(());
        }
        let message = format!(
            "`{choices}` completions do not fit this worker's queue; expected at most \
             {waiting_max} in one request: send fewer prompts or lower `n`"
        );
        Err(ApiError::invalid(if 1 < self.n { "n" } else { "prompt" }, message))
    }

    /// Refuses more log probabilities than an answer may tell.
    pub(crate) fn check_logprobs(&self) -> Result<(), ApiError> {
        let each = |rivals: Option<u32>| rivals.map_or(0, |rivals| u64::from(rivals) + 1);
        let prompts = u64::try_from(self.prompts.len()).unwrap_or(u64::MAX);
        let prompted = u64::from(self.prompt_tokens().get()) * each(self.prompt_logprobs);
        let completed = u64::from(self.sampling.max_tokens.get()) * each(self.sampling.logprobs);
        let told = prompted.saturating_add(completed.saturating_mul(prompts));
        let told = told.saturating_mul(u64::from(self.n));
        let choices = self.choices();
        if choices <= 1 || told <= LOGPROBS_MAX {
            return Ok(());
        }
        let message = format!(
            "`{choices}` completions may tell `{told}` log probabilities; expected at most \
             {LOGPROBS_MAX} in one request: lower `n`, `max_tokens`, `prompt_logprobs` or \
             `logprobs` (`top_logprobs` in chats)"
        );
        Err(ApiError::invalid("n", message))
    }

    /// Tokens of all prompts.
    pub(crate) fn prompt_tokens(&self) -> Tokens {
        let total = self.prompts.iter().map(|prompt| prompt.tokens.len()).sum::<usize>();
        Tokens::new(u32::try_from(total).unwrap_or(u32::MAX))
    }
}

/// The engine's sampling for a request whose longest prompt has `prompt` tokens. `field` names the
/// prompt's field.
pub(crate) fn sampling(
    worker: &Worker,
    options: &Options,
    prompt: usize,
    field: &'static str,
) -> Result<Sampling, ApiError> {
    let context = worker.context();
    let prompt = Tokens::new(u32::try_from(prompt).unwrap_or(u32::MAX));
    let room = context.checked_sub(prompt).unwrap_or(Tokens::ZERO);
    let asked = options.ending.max_tokens.map(Tokens::new);
    if room == Tokens::ZERO || asked.is_some_and(|asked| asked > room) {
        let completion = asked.unwrap_or(Tokens::new(1)).max(Tokens::new(1));
        let error = ApiError::context_length_exceeded(prompt, completion, context);
        return Err(error.with_param(field));
    }
    let (chosen, ending) = (&options.sampling, &options.ending);
    check_bias(worker, &chosen.logit_bias)?;
    Ok(Sampling {
        temperature: chosen.temperature,
        top_k: chosen.top_k,
        top_p: chosen.top_p,
        min_p: chosen.min_p,
        presence_penalty: chosen.presence_penalty,
        frequency_penalty: chosen.frequency_penalty,
        repetition_penalty: chosen.repetition_penalty,
        logit_bias: chosen.logit_bias.clone(),
        seed: chosen.seed,
        stop: ending.stop.clone(),
        stop_tokens: ending.stop_token_ids.clone(),
        include_stop: ending.include_stop,
        max_tokens: asked.unwrap_or(room).max(Tokens::new(1)),
        min_tokens: Tokens::new(ending.min_tokens),
        ignore_eos: ending.ignore_eos,
        logprobs: None,
        skip_special_tokens: options.output.skip_special_tokens,
        guessing: match options.scheduling.speculation {
            Speculation::Auto => Guessing::Any,
            Speculation::Off => Guessing::Never,
            Speculation::Ngram => Guessing::Only(Drafter::Lookup),
            Speculation::DraftModel => Guessing::Only(Drafter::Model),
        },
    })
}

/// The engine does not tell a bias from a prompt when a token is unknown; the client should know.
fn check_bias(worker: &Worker, biases: &[(TokenId, f32)]) -> Result<(), ApiError> {
    let vocabulary = worker.engine.shape().vocabulary;
    let known = |token: TokenId| usize::try_from(token.0).is_ok_and(|place| place < vocabulary);
    match biases.iter().find(|(token, _)| !known(*token)) {
        None => Ok(()),
        Some((token, _)) => {
            let message = format!(
                "`{}` is not a token of this model; expected less than {vocabulary}",
                token.0
            );
            Err(ApiError::invalid("logit_bias", message))
        }
    }
}

/// The fields by which clients ask for answers that fit a schema, a grammar or a list.
const GUIDES: [&str; 6] = [
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "structural_tag",
    "structured_outputs",
];

/// Refuses a request whose answer would have to be guided: to ignore that would change the answer.
pub(crate) fn check_unguided(body: &[u8]) -> Result<(), ApiError> {
    let Ok(object) = Object::parse(body) else { return Ok(()) };
    let is_asked = |name: &&str| object.raw(name).is_some_and(|value| value.trim() != "null");
    match GUIDES.into_iter().find(|name| is_asked(name)) {
        Some(name) => {
            let message = format!("`{name}` is not served; expected no guide for the answer");
            Err(ApiError::invalid(name, message))
        }
        None => Ok(()),
    }
}

/// Only plain text can be promised: nothing here constrains what a model says.
pub(crate) fn check_format(format: Option<&serde_json::Value>) -> Result<(), ApiError> {
    let Some(format) = format else {
        return Ok(());
    };
    match format.get("type").and_then(serde_json::Value::as_str) {
        Some("text") => Ok(()),
        kind => {
            let kind = kind.unwrap_or("an object without a type");
            let message = format!("`{kind}` is not served as `response_format`; expected `text`");
            Err(ApiError::invalid("response_format", message))
        }
    }
}
