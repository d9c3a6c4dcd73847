//! Responses request: its fields as those of a chat completion, and what of it is kept.

use serde_json::json;
use serde_json::value::RawValue;

use super::Seal;
use super::echo::{Course, Echo, Keeping, Reasoning, default_of, message};
use super::items::Reader;
use super::kept_item::kept;
use super::tools::{Naming, Tools};
use crate::dialect::Prompt;
use crate::dialect::chat::{Chat, ChatBody, ChatMessage, JsonSchema, LeftOut};
use crate::dialect::conversation::Conversation;
use crate::dialect::fields::{
    Fields, is_text, list_of, missing, mistyped, patched, text_of, unknown,
};
use crate::dialect::steps::word_of;
use crate::error::ApiError;
use crate::json::Patch;

/// Fields that say nothing of the answer's text.
const HINTS: [&str; 6] = [
    "stream_options",
    "client_metadata",
    "context_management",
    "personality",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// What `include` may name though nothing here makes it.
const NEVER_MADE: [&str; 6] = [
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
];

/// A request, read.
#[derive(Debug)]
pub struct Request<'a> {
    /// The model that was asked for, if one was.
    pub model: Option<String>,
    /// Whether the answer is to be streamed.
    pub streams: bool,
    /// Whether the answer is kept.
    pub keeping: Keeping,
    /// Whether somebody waits for it.
    pub course: Course,
    /// The response that this one follows.
    pub previous: Option<String>,
    input: Input<'a>,
    pub(super) tools: Tools<'a>,
    tool_choice: Option<&'a RawValue>,
    parallel: Option<bool>,
    pub(super) chat: ChatBody,
    pub(super) left_out: LeftOut,
    pub(super) echo: Echo,
    /// What `include` asks for.
    pub(super) included: Included,
}

/// What is told only where it is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Included {
    pub(super) seals: bool,
    pub(super) logprobs: bool,
}

#[derive(Debug)]
enum Input<'a> {
    Text(&'a RawValue),
    Items(Vec<&'a RawValue>),
}

/// A request in its translation.
#[derive(Debug)]
pub struct Translated {
    /// As a chat completion.
    pub chat: Chat,
    pub(super) naming: Naming,
    pub(super) echo: Echo,
    pub(super) included: Included,
}

impl<'a> Request<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// [`ApiError`] that names what cannot be translated.
    pub fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::of_body(body)?;
        let (mut chat, mut left_out) = (ChatBody::default(), LeftOut::default());
        let model = fields.text("model")?;
        chat.set_some("model", model.as_ref());
        let previous = fields.text("previous_response_id")?;
        let input = input(&mut fields, previous.as_deref())?;
        let tools = Tools::read(&mut fields, &mut left_out)?;
        let (tool_choice, parallel) =
            (fields.take("tool_choice"), fields.flag("parallel_tool_calls")?);
        let keeping = match fields.flag("store")? {
            Some(false) => Keeping::Forgotten,
            _ => Keeping::Stored,
        };
        let course = match fields.flag("background")? {
            Some(true) => Course::Background,
            _ => Course::Foreground,
        };
        if (course, keeping) == (Course::Background, Keeping::Forgotten) {
            let message = "`background` needs `store`: nobody could ask for the answer later";
            return Err(ApiError::invalid("background", message));
        }
        let streams = fields.flag("stream")?.unwrap_or(false);
        let included = included(&mut fields)?;
        let mut echo = Echo {
            background: course,
            instructions: instructions(&mut fields)?,
            max_output_tokens: fields.count("max_output_tokens", 1)?,
            max_tool_calls: fields.count("max_tool_calls", 0)?,
            metadata: metadata(&mut fields)?,
            parallel_tool_calls: parallel.unwrap_or(true),
            previous_response_id: previous.clone(),
            prompt_cache_key: fields.text("prompt_cache_key")?,
            reasoning: Reasoning::default(),
            safety_identifier: fields.text("safety_identifier")?,
            service_tier: fields.text("service_tier")?,
            store: keeping,
            temperature: fields.number("temperature")?.map(RawValue::to_owned),
            text: default_of(&json!({"format": {"type": "text"}})),
            tool_choice: tool_choice.map_or_else(|| default_of(&json!("auto")), RawValue::to_owned),
            tools: tools.given.iter().map(|raw| (*raw).to_owned()).collect(),
            top_logprobs: fields.count("top_logprobs", 0)?,
            top_p: fields.number("top_p")?.map(RawValue::to_owned),
            truncation: fields.text("truncation")?.unwrap_or_else(|| "disabled".to_owned()),
            user: fields.text("user")?,
        };
        reasoning(&mut fields, &mut chat, &mut echo, &mut left_out)?;
        format(&mut fields, &mut chat, &mut echo)?;
        parameters(&echo, included, &mut chat);
        fields.skip(&HINTS);
        fields.finish()?;
        Ok(Self {
            model,
            streams,
            keeping,
            course,
            previous,
            input,
            tools,
            tool_choice,
            parallel,
            chat,
            left_out,
            echo,
            included,
        })
    }

    /// The input as items that clients can read back; made-up ids follow from `seed`.
    pub fn input_items(&self, seed: &str) -> Vec<Box<RawValue>> {
        let item = |(at, raw): (usize, &&RawValue)| kept(raw, &format!("{seed}/input"), at);
        match &self.input {
            Input::Text(text) => {
                let id = format!("msg_{}", word_of(&format!("{seed}/input"), 0));
                vec![message(Some(&id), "user", text)]
            }
            Input::Items(items) => items.iter().enumerate().map(item).collect(),
        }
    }

    /// As a chat completion that goes on from the items of `history`.
    ///
    /// # Errors
    /// [`ApiError`] that names the item that cannot be translated.
    pub fn translate(
        mut self,
        history: &[Box<RawValue>],
        seal: &dyn Seal,
    ) -> Result<Translated, ApiError> {
        let messages = self.messages(history, seal)?;
        self.chat.set("messages", &messages);
        let (chat, left_out) = (&mut self.chat, &mut self.left_out);
        let naming = self.tools.translate(self.tool_choice, self.parallel, chat, left_out)?;
        if self.streams || self.course == Course::Background {
            self.chat.set("stream", &true);
            self.chat.set("stream_options", &json!({"include_usage": true}));
        }
        let chat = Chat { body: self.chat.into_bytes(), left_out: self.left_out.into_names() };
        Ok(Translated { chat, naming, echo: self.echo, included: self.included })
    }

    /// The prompt of what [`Request::translate`] makes.
    ///
    /// # Errors
    /// [`ApiError`] that names the item that cannot be translated.
    pub fn prompt(
        mut self,
        history: &[Box<RawValue>],
        seal: &dyn Seal,
    ) -> Result<Prompt, ApiError> {
        let mut messages = self.messages(history, seal)?;
        let images = messages.iter_mut().map(ChatMessage::take_images).sum();
        self.chat.set("messages", &messages);
        let (chat, left_out) = (&mut self.chat, &mut self.left_out);
        self.tools.translate(self.tool_choice, self.parallel, chat, left_out)?;
        self.chat.keep_prompt();
        self.chat.set("add_generation_prompt", &true);
        let chat = Chat { body: self.chat.into_bytes(), left_out: self.left_out.into_names() };
        Ok(Prompt { model: self.model, images, chat })
    }

    /// Instructions, history and input as messages.
    fn messages(
        &mut self,
        history: &[Box<RawValue>],
        seal: &dyn Seal,
    ) -> Result<Vec<ChatMessage>, ApiError> {
        self.conversation(history, seal).map(Conversation::finish)
    }

    /// Instructions, history and input.
    pub(super) fn conversation(
        &mut self,
        history: &[Box<RawValue>],
        seal: &dyn Seal,
    ) -> Result<Conversation, ApiError> {
        let mut conversation = Conversation::default();
        conversation.system(self.echo.instructions.clone().unwrap_or_default());
        let left_out = &mut self.left_out;
        let mut reader = Reader { conversation: &mut conversation, left_out, seal };
        for raw in history {
            reader.add(raw, "previous_response_id")?;
        }
        match &self.input {
            Input::Text(text) => {
                let text = text_of(text, "input")?;
                conversation.user(vec![crate::dialect::chat::Part::text(text)]);
            }
            Input::Items(items) => {
                for (at, raw) in items.iter().enumerate() {
                    reader.add(raw, &format!("input[{at}]"))?;
                }
            }
        }
        if conversation.is_empty() {
            return Err(ApiError::invalid("input", "`input` says nothing; expected text or items"));
        }
        Ok(conversation)
    }
}

/// The input; a request that follows a response may have none.
fn input<'a>(fields: &mut Fields<'a>, previous: Option<&str>) -> Result<Input<'a>, ApiError> {
    let raw = match (fields.take("input"), previous) {
        (Some(raw), _) => raw,
        (None, Some(_)) => return Ok(Input::Items(Vec::new())),
        (None, None) => return Err(missing("input", "a string or a list of items")),
    };
    if is_text(raw) {
        return Ok(Input::Text(raw));
    }
    list_of(raw, "input")
        .map(Input::Items)
        .map_err(|_| mistyped("input", raw, "a string or a list of items"))
}

/// A text; some clients give it as items.
fn instructions(fields: &mut Fields<'_>) -> Result<Option<String>, ApiError> {
    fields.text("instructions")
}

fn metadata(fields: &mut Fields<'_>) -> Result<Box<RawValue>, ApiError> {
    match fields.take("metadata") {
        None => Ok(default_of(&json!({}))),
        Some(raw) if raw.get().starts_with('{') => Ok(raw.to_owned()),
        Some(raw) => Err(mistyped("metadata", raw, "an object")),
    }
}

fn included(fields: &mut Fields<'_>) -> Result<Included, ApiError> {
    let mut included = Included::default();
    for (at, raw) in fields.list("include")?.unwrap_or_default().into_iter().enumerate() {
        let path = format!("include[{at}]");
        match text_of(raw, &path)?.as_str() {
            "reasoning.encrypted_content" => included.seals = true,
            "message.output_text.logprobs" => included.logprobs = true,
            name if NEVER_MADE.contains(&name) => {}
            name => {
                let expected = "`reasoning.encrypted_content` or `message.output_text.logprobs`";
                return Err(unknown(&path, name, expected));
            }
        }
    }
    Ok(included)
}

fn reasoning(
    fields: &mut Fields<'_>,
    chat: &mut ChatBody,
    echo: &mut Echo,
    left_out: &mut LeftOut,
) -> Result<(), ApiError> {
    let Some(mut reasoning) = fields.object("reasoning")? else { return Ok(()) };
    echo.reasoning.effort = reasoning.text("effort")?;
    chat.set_some("reasoning_effort", echo.reasoning.effort.as_ref());
    let older = reasoning.text("generate_summary")?;
    echo.reasoning.summary = reasoning.text("summary")?.or(older);
    left_out.note_unread(&reasoning);
    Ok(())
}

/// The form of the text: flat here, nested in chat.
fn format(fields: &mut Fields<'_>, chat: &mut ChatBody, echo: &mut Echo) -> Result<(), ApiError> {
    let Some(raw) = fields.take("text") else { return Ok(()) };
    let mut text = Fields::of(raw, "text")?;
    let format = text.object("format")?;
    echo.text = if format.is_some() {
        raw.to_owned()
    } else {
        patched(raw, &Patch::new().set("format", &json!({"type": "text"})))
    };
    if let Some(mut format) = format {
        let kind = format.required_text("type")?;
        match kind.as_str() {
            "text" => {}
            "json_object" => chat.set("response_format", &json!({"type": "json_object"})),
            "json_schema" => {
                let name = format.required_text("name")?;
                let schema = format.required("schema", "a JSON schema")?;
                let description = format.text("description")?;
                let strict = format.flag("strict")?;
                let named = JsonSchema { name, description, schema, strict };
                chat.set("response_format", &named.format());
            }
            _ => {
                let expected = "`text`, `json_object` or `json_schema`";
                return Err(unknown(&format.path("type"), &kind, expected));
            }
        }
        format.finish()?;
    }
    text.skip(&["verbosity"]);
    text.finish()
}

/// What the request says in chat's own words, as far as it was given.
fn parameters(echo: &Echo, included: Included, chat: &mut ChatBody) {
    chat.set_some("max_tokens", echo.max_output_tokens);
    chat.set_some("temperature", echo.temperature.as_ref());
    chat.set_some("top_p", echo.top_p.as_ref());
    chat.set_some("user", echo.user.as_ref());
    chat.set_some("service_tier", echo.service_tier.as_ref());
    if included.logprobs {
        chat.set("logprobs", &true);
        chat.set_some("top_logprobs", echo.top_logprobs);
    }
}
