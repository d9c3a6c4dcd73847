//! Requests to `/tokenize` and `/detokenize`, in vLLM's form.
//!
//! **Invariant:** a text to be tokenized is a prompt or a chat, never both.

use overdraft_units::TokenId;
use serde_json::Value;

use super::chat::Rendering;
use super::fields::{Fields, parse_body};
use super::message::Message;
use super::options::token_ids;
use crate::error::ApiError;

/// What becomes tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizeRequest {
    /// Which model's tokenizer; absent means the server's own.
    pub model: Option<String>,
    /// The text.
    pub input: TokenizeInput,
    /// How messages become text, and whether control tokens are added: by default to a prompt, not
    /// to a chat.
    pub rendering: Rendering,
    /// Whether the tokens' texts are told besides their ids.
    pub return_token_strs: bool,
}

/// A text to be tokenized.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenizeInput {
    /// As it is.
    Prompt(String),
    /// Rendered by the model's template.
    Messages {
        /// The conversation.
        messages: Vec<Message>,
        /// Functions the model may call, as they came.
        tools: Vec<Value>,
    },
}

impl TokenizeRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// 400 that names the field at fault.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = parse_body(body)?;
        let model = fields.text("model")?;
        let input = match fields.text("prompt")? {
            Some(prompt) => TokenizeInput::Prompt(prompt),
            None => messages(&mut fields)?,
        };
        let plain = matches!(input, TokenizeInput::Prompt(_));
        Ok(Self {
            model,
            input,
            rendering: Rendering::take(&mut fields, plain)?,
            return_token_strs: fields.flag("return_token_strs")?.unwrap_or(false),
        })
    }
}

fn messages(fields: &mut Fields) -> Result<TokenizeInput, ApiError> {
    if !fields.has("messages") {
        let message = "`prompt` and `messages` are missing; expected one of them";
        return Err(ApiError::invalid("prompt", message));
    }
    let messages = Message::take_all(fields)?;
    Ok(TokenizeInput::Messages { messages, tools: fields.array("tools")?.unwrap_or_default() })
}

/// What becomes text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetokenizeRequest {
    /// Which model's tokenizer; absent means the server's own.
    pub model: Option<String>,
    /// The tokens; whether they exist is for the tokenizer to say.
    pub tokens: Vec<TokenId>,
}

impl DetokenizeRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// 400 that names the field at fault.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = parse_body(body)?;
        let model = fields.text("model")?;
        let Some(items) = fields.array("tokens")? else {
            let message = "`tokens` is missing; expected an array of token ids";
            return Err(ApiError::invalid("tokens", message));
        };
        Ok(Self { model, tokens: token_ids("tokens", &items)? })
    }
}
