//! Completion requests: makes a plan of prompts in text or tokens.

use std::sync::Arc;

use overdraft_engine::runtime::INBOX_MAX;
use overdraft_engine::{Framing, SpecialTokens};
use overdraft_units::CacheSalt;
use overdraft_wire::Generation;
use overdraft_wire::request::Prompt;
use overdraft_wire::{ApiError, CompletionRequest};

use crate::plan::{self, Form, Plan, PromptPlan, Told};
use crate::worker::Worker;

/// The field that holds the prompt.
const FIELD: &str = "prompt";

/// Completions of one request at most, over all prompts.
const CHOICES_MAX: usize = 1024;
const _: () = assert!(CHOICES_MAX < INBOX_MAX, "an idle engine takes all of them");

/// Understands a body.
pub(crate) fn plan(worker: &Worker, body: &[u8]) -> Result<Plan, ApiError> {
    let mut request = CompletionRequest::parse(body)?;
    worker.check_model(request.options.model.as_deref())?;
    plan::check_unguided(body)?;
    plan::check_format(request.response_format.as_ref())?;
    let prompts = std::mem::take(&mut request.prompts);
    check_choices(prompts.len(), request.options.output.n)?;
    let salt = worker.cache_salt(request.options.scheduling.cache_salt.as_deref());
    let prompts = prompts
        .into_iter()
        .map(|prompt| prompt_plan(worker, &request, prompt, salt).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()?;
    let options = &request.options;
    let output = &options.output;
    let longest = prompts.iter().map(|prompt| prompt.tokens.len()).max().unwrap_or(0);
    let mut sampling = plan::sampling(worker, options, longest, FIELD)?;
    sampling.logprobs = request.logprobs;
    // An echoed prompt's log probabilities stand before the completion's.
    let echoed = request.logprobs.filter(|_| request.echo);
    let hidden = request.echo && options.ending.max_tokens == Some(0);
    Ok(Plan {
        generation: Generation::Completion,
        prompts,
        n: output.n,
        sampling,
        salt,
        priority: options.scheduling.priority,
        prompt_logprobs: output.prompt_logprobs.max(echoed),
        form: Form {
            logprobs: request.logprobs,
            prompt_logprobs: output.prompt_logprobs,
            token_ids: output.token_ids,
            completion: if hidden { Told::No } else { Told::Yes },
        },
        delivery: options.delivery,
    })
}

fn prompt_plan(
    worker: &Worker,
    request: &CompletionRequest,
    prompt: Prompt,
    salt: CacheSalt,
) -> Result<PromptPlan, ApiError> {
    match prompt {
        Prompt::Text(text) => {
            let framing = Framing::from_flag(request.add_special_tokens);
            let tokens = worker.prompter.prompt(&text, framing, salt);
            let tokens = tokens.map_err(|error| ApiError::from(error).with_param(FIELD))?;
            Ok(PromptPlan::new(tokens, request.echo.then_some(text)))
        }
        Prompt::Tokens(tokens) => {
            let echo = request.echo.then(|| worker.tokenizer.decode(&tokens, SpecialTokens::Keep));
            Ok(PromptPlan::new(tokens, echo))
        }
    }
}

fn check_choices(prompts: usize, n: u32) -> Result<(), ApiError> {
    let choices = prompts.saturating_mul(usize::try_from(n).unwrap_or(usize::MAX));
    if choices > CHOICES_MAX {
        let message = format!(
            "`{prompts}` prompts with `n` {n} make {choices} completions; expected at most \
             {CHOICES_MAX} in one request"
        );
        return Err(ApiError::invalid("n", message));
    }
    Ok(())
}
