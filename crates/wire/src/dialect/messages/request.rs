//! Messages request: its fields as those of a chat completion.

use serde_json::json;
use serde_json::value::RawValue;

use super::blocks::{conversation, system};
use super::{Told, tools};
use crate::dialect::Prompt;
use crate::dialect::chat::{Chat, ChatBody, ChatMessage, JsonSchema, LeftOut};
use crate::dialect::fields::{Fields, list_of, missing, mistyped, text_of, unknown};
use crate::error::{ApiError, ErrorKind};

/// Fields that say nothing of the answer's text; coding agents send them with every request.
const HINTS: [&str; 9] = [
    "service_tier",
    "context_management",
    "cache_control",
    "inference_geo",
    "speed",
    "diagnostics",
    "user_profile_id",
    "workspace_id",
    "betas",
];

/// The schema's name, which chat requires and this dialect does not have.
const SCHEMA_NAME: &str = "output";

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// An answer.
    Generate,
    /// The number of tokens of its prompt.
    Count,
}

/// A request, translated.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model that was asked for, if one was.
    pub model: Option<String>,
    /// Whether the answer is to be streamed.
    pub streams: bool,
    /// What of the answer its client is told.
    pub told: Told,
    /// As a chat completion.
    pub chat: Chat,
}

/// Translates a request.
///
/// # Errors
/// [`ApiError`] that names what cannot be translated.
pub fn translate(body: &[u8]) -> Result<Request, ApiError> {
    read(body, Purpose::Generate).map(|(request, _)| request)
}

/// Translates what of a request makes its prompt; `max_tokens` may be missing.
///
/// # Errors
/// [`ApiError`] that names what cannot be translated.
pub fn prompt(body: &[u8]) -> Result<Prompt, ApiError> {
    let (Request { model, chat, .. }, images) = read(body, Purpose::Count)?;
    Ok(Prompt { model, images, chat })
}

/// The request, and the images that were taken out of a prompt to be counted.
fn read(body: &[u8], purpose: Purpose) -> Result<(Request, usize), ApiError> {
    let mut fields = Fields::of_body(body)?;
    refuse_thread(&mut fields)?;
    let (mut chat, mut left_out) = (ChatBody::default(), LeftOut::default());
    let model = fields.text("model")?;
    chat.set_some("model", model.as_ref());
    let mut messages = messages(&mut fields, &mut left_out)?;
    let images = match purpose {
        Purpose::Generate => 0,
        Purpose::Count => messages.iter_mut().map(ChatMessage::take_images).sum(),
    };
    let is_prefill =
        messages.last().is_some_and(|last| last.role == "assistant" && last.tool_calls.is_empty());
    chat.set("messages", &messages);
    drop(messages);
    tools::translate(&mut fields, &mut chat, &mut left_out)?;
    if is_prefill {
        chat.set("continue_final_message", &true);
        chat.set("add_generation_prompt", &false);
    }
    let most = fields.count("max_tokens", 0)?;
    if purpose == Purpose::Generate {
        let most = most.ok_or_else(|| missing("max_tokens", "an integer of at least 0"))?;
        // No engine takes 0, and one token is the least that brings the prompt into its cache.
        chat.set("max_tokens", &most.max(1));
    }
    stop_sequences(&mut fields, &mut chat)?;
    for name in ["temperature", "top_p", "top_k"] {
        chat.set_some(name, fields.number(name)?);
    }
    let told = thinking(&mut fields, &mut chat, &mut left_out)?;
    let told = if most == Some(0) { Told::Nothing } else { told };
    output(&mut fields, &mut chat)?;
    if let Some(mut metadata) = fields.object("metadata")? {
        chat.set_some("user", metadata.text("user_id")?);
        left_out.note_unread(&metadata);
    }
    let streams = fields.flag("stream")?.unwrap_or(false) && purpose == Purpose::Generate;
    if streams {
        chat.set("stream", &true);
        chat.set("stream_options", &json!({"include_usage": true}));
    }
    refuse_servers(&mut fields)?;
    fields.skip(&HINTS);
    fields.finish()?;
    if purpose == Purpose::Count {
        chat.keep_prompt();
        chat.set("add_generation_prompt", &!is_prefill);
    }
    let chat = Chat { body: chat.into_bytes(), left_out: left_out.into_names() };
    Ok((Request { model, streams, told, chat }, images))
}

/// System prompt and turns.
fn messages(fields: &mut Fields<'_>, left_out: &mut LeftOut) -> Result<Vec<ChatMessage>, ApiError> {
    let system = system(fields, left_out)?;
    let raw = fields.required("messages", "a list of messages")?;
    let turns = list_of(raw, "messages")?;
    let messages = conversation(system, &turns, left_out)?;
    if messages.iter().all(|message| message.role == "system") {
        return Err(ApiError::invalid("messages", "`messages` says nothing; expected a message"));
    }
    Ok(messages)
}

fn stop_sequences(fields: &mut Fields<'_>, chat: &mut ChatBody) -> Result<(), ApiError> {
    let Some(list) = fields.list("stop_sequences")? else { return Ok(()) };
    for (at, raw) in list.iter().enumerate() {
        text_of(raw, &format!("stop_sequences[{at}]"))?;
    }
    if !list.is_empty() {
        chat.set("stop", &list);
    }
    Ok(())
}

/// Thinking is a switch of the chat template; its budget is the worker's own affair. Who says nothing has not asked for
/// thoughts, but keeps the prompt that a chat has: its model may think.
fn thinking(
    fields: &mut Fields<'_>,
    chat: &mut ChatBody,
    left_out: &mut LeftOut,
) -> Result<Told, ApiError> {
    let Some(mut thinking) = fields.object("thinking")? else { return Ok(Told::ButThoughts) };
    let kind = thinking.required_text("type")?;
    let told = match kind.as_str() {
        "disabled" => Told::ButThoughts,
        "enabled" | "adaptive" => Told::All,
        _ => {
            let expected = "`enabled`, `adaptive` or `disabled`";
            return Err(unknown("thinking.type", &kind, expected));
        }
    };
    let thinks = told == Told::All;
    chat.set("chat_template_kwargs", &json!({"enable_thinking": thinks, "thinking": thinks}));
    if thinking.number("budget_tokens")?.is_some() {
        left_out.note("thinking.budget_tokens");
    }
    // Nobody here checks what thoughts are bound to.
    thinking.skip(&["display", "block_binding"]);
    thinking.finish()?;
    Ok(told)
}

/// Format and effort of the answer.
fn output(fields: &mut Fields<'_>, chat: &mut ChatBody) -> Result<(), ApiError> {
    let older = fields.take("output_format");
    let mut format = older.map(|raw| (raw, "output_format"));
    if let Some(mut output) = fields.object("output_config")? {
        if let Some(effort) = output.text("effort")? {
            let known = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
            if !known.contains(&effort.as_str()) {
                return Err(unknown(
                    "output_config.effort",
                    &effort,
                    "`low`, `medium`, `high` or `max`",
                ));
            }
            // Templates know nothing above.
            let effort =
                if matches!(effort.as_str(), "xhigh" | "max") { "high" } else { effort.as_str() };
            chat.set("reasoning_effort", effort);
        }
        format = output.take("format").map(|raw| (raw, "output_config.format")).or(format);
        output.finish()?;
    }
    let Some((raw, path)) = format else { return Ok(()) };
    let mut format = Fields::of(raw, path)?;
    let kind = format.required_text("type")?;
    if kind != "json_schema" {
        return Err(unknown(&format.path("type"), &kind, "`json_schema`"));
    }
    let schema = format.required("schema", "a JSON schema")?;
    let name = format.text("name")?.unwrap_or_else(|| SCHEMA_NAME.to_owned());
    let named = JsonSchema { name, description: None, schema, strict: None };
    chat.set("response_format", &named.format());
    format.finish()
}

/// No conversation is kept for messages. What goes on one has the new turns alone, so this is said before anything else
/// is found missing.
fn refuse_thread(fields: &mut Fields<'_>) -> Result<(), ApiError> {
    if fields.take("thread").is_none() {
        return Ok(());
    }
    let message = "`thread` is not served: no conversation is kept for messages; send all of it, without `thread`";
    Err(ApiError::new(ErrorKind::ThreadUnsupported, message).with_param("thread"))
}

/// What runs on Anthropic's servers changes the answer; empty offers do not.
fn refuse_servers(fields: &mut Fields<'_>) -> Result<(), ApiError> {
    let is_empty = |raw: &RawValue| matches!(raw.get().trim(), "[]" | "{}");
    for name in ["container", "mcp_servers"] {
        if let Some(raw) = fields.take(name).filter(|raw| !is_empty(raw)) {
            return Err(mistyped(name, raw, "nothing: it needs Anthropic's own servers"));
        }
    }
    Ok(())
}
