//! Chat template: renders a conversation with the model's Jinja template.
//!
//! Templates are rendered as Hugging Face renders them, within bounds of time and depth. What clients
//! wrote is *guarded* first: where their text spells a control token, a character that no text
//! contains is put behind its first one, found again in the output, and taken out. The tokenizer is
//! told these places. **Invariant:** a control token in the prompt was written by the template.

mod calendar;
mod content_loops;
mod environment;
mod guard;
mod habits;
mod indent;
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
use self::habits::{CallForm, Habits};
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
    parsed: Option<Parsed>,
    /// That of requests with tools, if it is another one.
    of_tools: Option<Parsed>,
    markup: Arc<Markup>,
    /// `bos_token` and its like, for the template.
    names: Map<String, Value>,
}

/// A template that is valid.
#[derive(Debug)]
struct Parsed {
    environment: Environment<'static>,
    habits: Habits,
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

impl Parsed {
    fn new(source: &str) -> Result<Self, TemplateError> {
        let environment = environment::parse(source)?;
        Ok(Self { habits: Habits::of(source, &environment), environment })
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
        let parsed = source.or_else(chatml).map(Parsed::new).transpose()?;
        let name = |token: Option<TokenId>| {
            token.map_or(Value::String(String::new()), |token| {
                Value::String(tokenizer.token_text(token).into_owned())
            })
        };
        let names = [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())]
            .map(|(key, token)| (key.to_owned(), name(token)));
        Ok(Self {
            parsed,
            of_tools: None,
            markup: tokenizer.markup(),
            names: names.into_iter().collect(),
        })
    }

    /// The same with another template for requests with tools, if the model has one (`tool_use`). The usual one of such
    /// a model does not show tools.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`].
    pub fn with_tools(self, source: Option<&str>) -> Result<Self, TemplateError> {
        let of_tools = source.map(Parsed::new).transpose()?;
        Ok(Self { of_tools, ..self })
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// [`TemplateError`], a sentence for the client.
    pub fn render(&self, input: &ChatInput<'_>) -> Result<Rendered, TemplateError> {
        let of_tools = self.of_tools.as_ref().filter(|_| !input.tools.is_empty());
        let parsed = of_tools.or(self.parsed.as_ref()).ok_or(TemplateError::Missing)?;
        let [first, others @ ..] = CallForm::ALL;
        let result = self.render_with(parsed, input, first);
        let has_forms =
            |message: &Message| message.content.is_none() || !message.tool_calls.is_empty();
        match result {
            // A template may add arguments to text, which fails on an object.
            Err(error) if input.messages.iter().any(has_forms) => {
                let render = |form| self.render_with(parsed, input, form).ok();
                others.into_iter().find_map(render).ok_or(error)
            }
            result => result,
        }
    }

    fn render_with(
        &self,
        parsed: &Parsed,
        input: &ChatInput<'_>,
        form: CallForm,
    ) -> Result<Rendered, TemplateError> {
        let message = |message| parsed.habits.message(message, form);
        let mut messages: Vec<Value> = input.messages.iter().map(message).collect();
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
        let text = environment::render(&parsed.environment, &context)
            .map_err(|error| guard.clean_error(error))?;
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
            ("add_generation_prompt", Value::Bool(generation)),
            (environment::NOW, json!(input.unix_seconds)),
        ];
        context.entry("documents").or_insert(Value::Null);
        context.extend(fixed.map(|(key, value)| (key.to_owned(), value)));
        minijinja::Value::from(Serde(&context))
    }
}
