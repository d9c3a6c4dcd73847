//! A request to `/v1/chat/completions`.
//!
//! Tools and response formats are kept as they came: whether they can be served depends on the
//! worker. **Invariant:** there is at least one message, and the prompt ends in exactly one way.

use serde_json::{Map, Value};

use super::fields::{Fields, parse_body};
use super::message::Message;
use super::options::{LOGPROBS_MAX, Options};
use super::tokenize_ask::merge_template_fields;
use crate::error::ApiError;

/// A checked chat request.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// What it has in common with completions.
    pub options: Options,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// How it becomes a prompt.
    pub rendering: Rendering,
    /// With `Some(k)`: log probabilities of the chosen tokens and of the `k` likeliest.
    pub logprobs: Option<u32>,
    /// Whether the answer begins with the last message's text.
    pub echo: bool,
    /// Functions the model may call, as they came.
    pub tools: Vec<Value>,
    /// Which of them it must call, as it came.
    pub tool_choice: Option<Value>,
    /// The form the answer must have, as it came.
    pub response_format: Option<Value>,
}

/// How messages become a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendering {
    /// How the prompt ends.
    pub ending: PromptEnding,
    /// Whether the tokenizer adds its own control tokens to what the template wrote.
    pub add_special_tokens: bool,
    /// Variables for the template.
    pub kwargs: Map<String, Value>,
}

/// How the prompt ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptEnding {
    /// With the head of an assistant's message (`add_generation_prompt`).
    #[default]
    Assistant,
    /// Within the last message, to be continued (`continue_final_message`).
    Continue,
    /// After the last message.
    Closed,
}

impl ChatRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// 400 that names the field at fault.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = parse_body(body)?;
        let messages = Message::take_all(&mut fields)?;
        let options = Options::take(&mut fields)?;
        at_least_one(options.ending.max_tokens)?;
        Ok(Self {
            messages,
            rendering: Rendering::take(&mut fields, false)?,
            logprobs: logprobs(&mut fields)?,
            echo: fields.flag("echo")?.unwrap_or(false),
            tools: fields.array("tools")?.unwrap_or_default(),
            tool_choice: fields.take("tool_choice"),
            response_format: fields.take("response_format"),
            options,
        })
    }
}

impl Rendering {
    /// Reads the fields; `add_special_tokens` is the default of the field of that name.
    pub(super) fn take(fields: &mut Fields, add_special_tokens: bool) -> Result<Self, ApiError> {
        let asked = fields.flag("add_generation_prompt")?;
        let continued = fields.flag("continue_final_message")?.unwrap_or(false);
        let ending = match (asked, continued) {
            (Some(true), true) => {
                let message = "`continue_final_message` and `add_generation_prompt` are both true; \
                               expected at most one, a prompt ends in one way";
                return Err(ApiError::invalid(fields.path("continue_final_message"), message));
            }
            (_, true) => PromptEnding::Continue,
            (Some(false), false) => PromptEnding::Closed,
            (Some(true) | None, false) => PromptEnding::Assistant,
        };
        let added = fields.flag("add_special_tokens")?.unwrap_or(add_special_tokens);
        let kwargs = fields.object("chat_template_kwargs")?.map(Fields::rest);
        let mut kwargs = kwargs.unwrap_or_default();
        merge_template_fields(&mut kwargs, |name| fields.take(name));
        Ok(Self { ending, add_special_tokens: added, kwargs })
    }
}

fn at_least_one(max_tokens: Option<u32>) -> Result<(), ApiError> {
    if max_tokens == Some(0) {
        let message = "`0` is out of range for `max_tokens`; expected an integer, one or more";
        return Err(ApiError::invalid("max_tokens", message));
    }
    Ok(())
}

fn logprobs(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let wanted = fields.flag("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", LOGPROBS_MAX)?;
    if !wanted && top.is_some_and(|top| top > 0) {
        let message = "`top_logprobs` is set but `logprobs` is not true; expected both";
        return Err(ApiError::invalid(fields.path("top_logprobs"), message));
    }
    Ok(wanted.then_some(top.unwrap_or(0)))
}
