//! Refusal mapping: turns the engine's submit errors into OpenAI API errors.

use overdraft_engine::SubmitError;
use overdraft_units::Tokens;
use overdraft_wire::ApiError;

/// The one table from the engine's refusals to the client's errors. `prompt` names the field that
/// holds the prompt.
pub(crate) fn explain(error: &SubmitError, prompt: &'static str) -> ApiError {
    let sentence = error.to_string();
    match error {
        SubmitError::EmptyPrompt
        | SubmitError::LargerThanCache { .. }
        | SubmitError::UnknownToken { .. } => ApiError::invalid(prompt, sentence),
        SubmitError::LongerThanContext { asked, context } => {
            ApiError::context_length_exceeded(*asked, Tokens::new(1), *context).with_param(prompt)
        }
        SubmitError::Sampling(fault) => ApiError::invalid(fault.parameter(), sentence),
        SubmitError::PromptLogprobs { .. } => ApiError::invalid("prompt_logprobs", sentence),
        SubmitError::Overloaded { .. } | SubmitError::Draining | SubmitError::Broken => {
            ApiError::overloaded(sentence)
        }
        _ => ApiError::server_error(sentence),
    }
}
