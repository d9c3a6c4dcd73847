//! Chat template: renders a conversation with the model's Jinja template.
//!
//! Templates are rendered as Hugging Face renders them, within bounds of time and depth. What clients
//! wrote is *guarded* first: where their text spells a control token, a character that no text
//! contains is put behind its first one, found again in the output, and taken out. The tokenizer is
//! told these places. **Invariant:** a control token in the prompt was written by the template.

mod calendar;
mod environment;
mod guard;
mod json;
mod methods;
#[cfg(test)]
mod parity;
mod python;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use minijinja::Environment;
use minijinja::value::Serde;
use overdraft_units::TokenId;
use overdraft_wire::ApiError;
use overdraft_wire::request::{Message, PromptEnding, Rendering};
use serde_json::{Map, Value, json};

use self::guard::Guard;
pub use crate::rendered::Rendered;
use crate::tokenizer::{Markup, Tokenizer};

/// What models without a template are given if they know `ChatML`'s tokens.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {{ message.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A model's chat template, ready to be rendered by any thread.
#[derive(Debug)]
pub struct ChatTemplate {
    /// `None` if the model cannot chat.
    environment: Option<Environment<'static>>,
    markup: Arc<Markup>,
    /// `bos_token` and its like, for the template.
    names: Map<String, Value>,
}

/// What a prompt is made of.
#[derive(Clone, Copy, Debug)]
pub struct ChatInput<'a> {
    /// The conversation.
    pub messages: &'a [Message],
    /// Functions the model may call, as the client described them.
    pub tools: &'a [Value],
    /// How the prompt ends, and variables for the template.
    pub rendering: &'a Rendering,
    /// Seconds since 1970, for templates that tell the model the date (in UTC).
    pub unix_seconds: u64,
}

/// A prompt cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The model's template is not valid.
    #[error("the model's chat template cannot be parsed: {0}")]
    Syntax(String),
    /// The model has no template.
    #[error("the model has no chat template; expected a request to /v1/completions")]
    Missing,
    /// The template refuses the conversation.
    #[error("the model's chat template refuses the messages: {0}")]
    Refused(String),
    /// The template fails, or needs more time than it is given.
    #[error("the model's chat template fails on these messages: {0}")]
    Failed(String),
    /// The template does not show the message that is to be continued.
    #[error("the final message cannot be continued: the model's chat template does not show it")]
    NotShown,
    /// The conversation uses every character that could guard it.
    #[error("the messages use all of the noncharacters U+FDD0 to U+FDEF; expected text")]
    Unguardable,
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        Self::invalid("messages", error.to_string())
    }
}

impl ChatTemplate {
    /// The template `source`. Without one, `ChatML` is assumed if the vocabulary has its tokens;
    /// otherwise every rendering is refused.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`].
    pub fn new(source: Option<&str>, tokenizer: &Tokenizer) -> Result<Self, TemplateError> {
        let chatml = || tokenizer.token_id("<|im_start|>").map(|_| CHATML);
        let environment = source.or_else(chatml).map(environment::parse).transpose()?;
        let name = |token: Option<TokenId>| {
            token.map_or(Value::String(String::new()), |token| {
                Value::String(tokenizer.token_text(token).into_owned())
            })
        };
        let names = [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())]
            .map(|(key, token)| (key.to_owned(), name(token)));
        Ok(Self { environment, markup: tokenizer.markup(), names: names.into_iter().collect() })
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// [`TemplateError`], a sentence for the client.
    pub fn render(&self, input: &ChatInput<'_>) -> Result<Rendered, TemplateError> {
        let environment = self.environment.as_ref().ok_or(TemplateError::Missing)?;
        let mut messages: Vec<Value> = input.messages.iter().map(message_value).collect();
        let mut tools = Value::Array(input.tools.to_vec());
        let mut kwargs = Value::Object(input.rendering.kwargs.clone());
        let all = messages.iter().chain([&tools, &kwargs]);
        let guard = Guard::new(&self.markup, all).ok_or(TemplateError::Unguardable)?;
        for value in messages.iter_mut().chain([&mut tools, &mut kwargs]) {
            guard.protect(value);
        }
        let continued = input.rendering.ending == PromptEnding::Continue;
        if continued && let Some(last) = messages.last_mut() {
            guard.mark_end(&mut last["content"]);
        }
        let context = self.context(messages, tools, kwargs, input);
        let text =
            environment::render(environment, &context).map_err(|error| guard.clean_error(error))?;
        let kept =
            if continued { guard.cut_at_end(&text).ok_or(TemplateError::NotShown)? } else { &text };
        Ok(guard.remove(kept))
    }

    /// The template's variables. What the server sets wins over what the client sets.
    fn context(
        &self,
        messages: Vec<Value>,
        tools: Value,
        kwargs: Value,
        input: &ChatInput<'_>,
    ) -> minijinja::Value {
        let Value::Object(mut context) = kwargs else { unreachable!("kwargs are an object") };
        context.extend(self.names.clone());
        let generation = input.rendering.ending == PromptEnding::Assistant;
        let fixed = [
            ("messages", Value::Array(messages)),
            ("tools", if input.tools.is_empty() { Value::Null } else { tools }),
            ("documents", Value::Null),
            ("add_generation_prompt", Value::Bool(generation)),
            (environment::NOW, json!(input.unix_seconds)),
        ];
        context.extend(fixed.map(|(key, value)| (key.to_owned(), value)));
        minijinja::Value::from(Serde(&context))
    }
}

/// A message as templates expect it: text content, and tool arguments as objects.
fn message_value(message: &Message) -> Value {
    let mut fields = Map::new();
    fields.insert("role".to_owned(), Value::String(message.role.clone()));
    let content = message.content.as_ref().map(|content| content.joined().into_owned());
    fields.insert("content".to_owned(), content.map_or(Value::Null, Value::String));
    if let Some(name) = &message.name {
        fields.insert("name".to_owned(), Value::String(name.clone()));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().cloned().map(with_parsed_arguments).collect();
        fields.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    if let Some(id) = &message.tool_call_id {
        fields.insert("tool_call_id".to_owned(), Value::String(id.clone()));
    }
    for (key, value) in &message.extra {
        fields.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Value::Object(fields)
}

/// OpenAI sends a call's arguments as a string of JSON; templates print them as an object.
fn with_parsed_arguments(mut call: Value) -> Value {
    let pointer = "/function/arguments";
    let text = call.pointer(pointer).and_then(Value::as_str);
    let parsed = text.and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(object) = parsed.filter(Value::is_object)
        && let Some(arguments) = call.pointer_mut(pointer)
    {
        *arguments = object;
    }
    call
}
