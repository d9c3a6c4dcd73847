//! Chat requests: renders the template, tokenizes the prompt and makes a plan.

use std::sync::Arc;

use overdraft_telemetry::unix_seconds;
use overdraft_tokenizer::Chat;
use overdraft_wire::Generation;
use overdraft_wire::json::Object;
use overdraft_wire::{ApiError, ChatRequest};
use serde_json::Value;

use crate::plan::{self, Form, Plan, PromptPlan, Told};
use crate::worker::Worker;

/// The field that holds the prompt.
const FIELD: &str = "messages";

/// Fields that an answer would depend on if anything here went by them, and what to send in their place.
const UNSERVED: [(&str, &str); 4] = [
    ("audio", "an answer of text"),
    ("function_call", "`tool_choice`"),
    ("functions", "`tools`"),
    ("web_search_options", "an answer of the model alone"),
];

/// Understands a body.
pub(crate) fn plan(worker: &Worker, body: &[u8]) -> Result<Plan, ApiError> {
    let request = ChatRequest::parse(body)?;
    let options = &request.options;
    worker.check_model(options.model.as_deref())?;
    plan::check_unguided(body)?;
    check_served(body)?;
    plan::check_format(request.response_format.as_ref())?;
    check_tool_choice(request.tool_choice.as_ref())?;
    let salt = worker.cache_salt(options.scheduling.cache_salt.as_deref());
    let chat =
        Chat { messages: &request.messages, tools: &request.tools, rendering: &request.rendering };
    let tokens = worker.prompter.chat(&chat, salt, unix_seconds())?;
    let mut sampling = plan::sampling(worker, options, tokens.len(), FIELD)?;
    sampling.logprobs = request.logprobs;
    let output = &options.output;
    Ok(Plan {
        generation: Generation::Chat,
        prompts: vec![Arc::new(PromptPlan::new(tokens, echo(&request)))],
        n: output.n,
        sampling,
        salt,
        priority: options.scheduling.priority,
        prompt_logprobs: output.prompt_logprobs,
        form: Form {
            logprobs: request.logprobs,
            prompt_logprobs: output.prompt_logprobs,
            token_ids: output.token_ids,
            completion: Told::Yes,
        },
        delivery: options.delivery,
    })
}

/// With `echo`, the answer begins with what the assistant had said already.
fn echo(request: &ChatRequest) -> Option<String> {
    let last = request.messages.last().filter(|last| request.echo && last.role == "assistant")?;
    last.content.as_ref().map(|content| content.joined().into_owned())
}

/// Refuses what would be ignored though it changes the answer.
fn check_served(body: &[u8]) -> Result<(), ApiError> {
    let Ok(object) = Object::parse(body) else { return Ok(()) };
    let says_nothing = |value: &str| matches!(value, "null" | "[]" | "\"none\"" | "\"auto\"");
    let is_asked = |name: &str| object.raw(name).is_some_and(|value| !says_nothing(value.trim()));
    match UNSERVED.into_iter().find(|(name, _)| is_asked(name)) {
        Some((name, instead)) => {
            let message = format!("`{name}` is not served; expected {instead}");
            Err(ApiError::invalid(name, message))
        }
        None => Ok(()),
    }
}

/// Tools are shown to the model, but its answer is not searched for calls: to promise one would be a
/// lie.
fn check_tool_choice(choice: Option<&Value>) -> Result<(), ApiError> {
    match choice {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(choice)) if choice == "none" || choice == "auto" => Ok(()),
        Some(choice) => {
            let choice = choice.as_str().unwrap_or("a named function");
            let message =
                format!("`{choice}` is not served as `tool_choice`; expected `none` or `auto`");
            Err(ApiError::invalid("tool_choice", message))
        }
    }
}
