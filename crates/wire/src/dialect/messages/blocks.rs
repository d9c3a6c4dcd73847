//! Content blocks of a Messages request as chat messages.
//!
//! A user's turn becomes the tool messages of its results, then one user message with the rest; an
//! assistant's turn becomes one assistant message. What a chat worker cannot take is refused by the block's
//! type.

use serde_json::value::RawValue;

use crate::dialect::chat::{ChatMessage, LeftOut, Part};
use crate::dialect::conversation::Conversation;
use crate::dialect::fields::{Fields, compact, is_text, list_of, mistyped, text_of, unknown};
use crate::error::{ApiError, clip};

/// What begins the line that Claude Code puts before everything and changes with every request, so that no
/// prefix of it would ever be found again.
const BILLING: &str = "x-anthropic-billing-header";

/// Keys of blocks that say nothing of what is in them.
const BLOCK_HINTS: [&str; 5] = ["type", "cache_control", "citations", "caller", "signature"];

/// How a failed tool's result begins: chat has no flag for it.
const FAILED: &str = "Error: ";

/// The texts of the system prompt.
pub(super) fn system(
    fields: &mut Fields<'_>,
    left_out: &mut LeftOut,
) -> Result<Vec<String>, ApiError> {
    let Some(raw) = fields.take("system") else { return Ok(Vec::new()) };
    texts(raw, "system", left_out).map(|texts| texts.into_iter().map(without_billing).collect())
}

fn without_billing(text: String) -> String {
    if !text.starts_with(BILLING) {
        return text;
    }
    text.split_once('\n').map_or_else(String::new, |(_, rest)| rest.to_owned())
}

/// The turns as chat messages.
pub(super) fn conversation(
    system: Vec<String>,
    turns: &[&RawValue],
    left_out: &mut LeftOut,
) -> Result<Vec<ChatMessage>, ApiError> {
    let mut conversation = Conversation::default();
    for text in system {
        conversation.system(text);
    }
    for (at, raw) in turns.iter().enumerate() {
        let mut turn = Fields::of(raw, format!("messages[{at}]"))?;
        let role = turn.required_text("role")?;
        let content = turn.required("content", "a string or a list of blocks")?;
        let path = turn.path("content");
        match role.as_str() {
            "user" => user(&mut conversation, content, &path, left_out)?,
            "assistant" => assistant(&mut conversation, content, &path, left_out)?,
            "system" => {
                for text in texts(content, &path, left_out)? {
                    conversation.system(without_billing(text));
                }
            }
            _ => {
                let expected = "`user`, `assistant` or `system`";
                return Err(unknown(&turn.path("role"), &role, expected));
            }
        }
        left_out.note_unread(&turn);
    }
    Ok(conversation.finish())
}

/// A string, or the texts of text blocks.
fn texts(raw: &RawValue, path: &str, left_out: &mut LeftOut) -> Result<Vec<String>, ApiError> {
    if is_text(raw) {
        return Ok(vec![text_of(raw, path)?]);
    }
    let mut texts = Vec::new();
    for (at, raw) in list_of(raw, path)?.into_iter().enumerate() {
        let mut block = Fields::of(raw, format!("{path}[{at}]"))?;
        let kind = block.required_text("type")?;
        if kind != "text" {
            return Err(refused(&kind, block.place()));
        }
        texts.push(block.required_text("text")?);
        block.skip(&BLOCK_HINTS);
        left_out.note_unread(&block);
    }
    Ok(texts)
}

fn user(
    conversation: &mut Conversation,
    content: &RawValue,
    path: &str,
    left_out: &mut LeftOut,
) -> Result<(), ApiError> {
    if is_text(content) {
        conversation.user(vec![Part::text(text_of(content, path)?)]);
        return Ok(());
    }
    let mut parts = Vec::new();
    for (at, raw) in list_of(content, path)?.into_iter().enumerate() {
        let mut block = Fields::of(raw, format!("{path}[{at}]"))?;
        let kind = block.required_text("type")?;
        if kind == "tool_result" {
            result(conversation, &mut block, left_out)?;
        } else {
            parts.extend(part(&kind, &mut block, left_out)?);
        }
        block.skip(&BLOCK_HINTS);
        left_out.note_unread(&block);
    }
    conversation.user(parts);
    Ok(())
}

/// One block of a user's, or within a result.
fn part(kind: &str, block: &mut Fields<'_>, left_out: &mut LeftOut) -> Result<Vec<Part>, ApiError> {
    match kind {
        "text" => Ok(vec![Part::text(block.required_text("text")?)]),
        "image" => image(block).map(|image| vec![image]),
        "document" => document(block, left_out),
        "search_result" => search_result(block, left_out).map(|text| vec![Part::text(text)]),
        "tool_reference" => {
            let name = block.required_text("tool_name")?;
            Ok(vec![Part::text(format!("Tool: {name}"))])
        }
        _ => Err(refused(kind, block.place())),
    }
}

fn image(block: &mut Fields<'_>) -> Result<Part, ApiError> {
    let path = block.path("source");
    let Some(mut source) = block.object("source")? else {
        let message = format!("the image has no `{path}`; expected an object with `type`");
        return Err(ApiError::invalid(path, message));
    };
    let kind = source.required_text("type")?;
    let url = match kind.as_str() {
        "base64" => {
            let media_type = source.required_text("media_type")?;
            let data = source.required_text("data")?;
            format!("data:{media_type};base64,{data}")
        }
        "url" => source.required_text("url")?,
        _ => {
            let message = format!(
                "the image's source `{}` cannot be carried; expected `base64` or `url`",
                clip(&kind)
            );
            return Err(ApiError::invalid(source.path("type"), message));
        }
    };
    source.finish()?;
    Ok(Part::image(url, None))
}

/// A document of text goes as text, its title first; other documents no chat worker reads.
fn document(block: &mut Fields<'_>, left_out: &mut LeftOut) -> Result<Vec<Part>, ApiError> {
    citations(block, left_out)?;
    let mut head = Vec::new();
    for name in ["title", "context"] {
        head.extend(block.text(name)?);
    }
    let path = block.path("source");
    let mut source = block.object("source")?.ok_or_else(|| {
        ApiError::invalid(path.clone(), format!("the document has no `{path}`; expected an object"))
    })?;
    let kind = source.required_text("type")?;
    let mut parts = Vec::new();
    match kind.as_str() {
        "text" => {
            source.skip(&["media_type"]);
            head.push(source.required_text("data")?);
        }
        "content" => {
            let content = source.required("content", "a string or a list of blocks")?;
            parts = self::content(content, &source.path("content"), left_out)?;
        }
        _ => {
            let message = format!(
                "a document whose source is `{}` cannot be carried to chat workers; send its text",
                clip(&kind)
            );
            return Err(ApiError::invalid(source.path("type"), message));
        }
    }
    source.finish()?;
    if !head.is_empty() {
        parts.insert(0, Part::text(head.join("\n")));
    }
    Ok(parts)
}

/// No chat worker cites: a wish for it is left out.
fn citations(block: &mut Fields<'_>, left_out: &mut LeftOut) -> Result<(), ApiError> {
    let path = block.path("citations");
    let Some(mut citations) = block.object("citations")? else { return Ok(()) };
    if citations.flag("enabled")? == Some(true) {
        left_out.note(path);
    }
    left_out.note_unread(&citations);
    Ok(())
}

fn search_result(block: &mut Fields<'_>, left_out: &mut LeftOut) -> Result<String, ApiError> {
    citations(block, left_out)?;
    let mut lines = Vec::new();
    for name in ["title", "source"] {
        lines.extend(block.text(name)?);
    }
    if let Some(raw) = block.take("content") {
        lines.extend(texts(raw, &block.path("content"), left_out)?);
    }
    Ok(lines.join("\n"))
}

/// A string, or a list of blocks that a user may send.
fn content(raw: &RawValue, path: &str, left_out: &mut LeftOut) -> Result<Vec<Part>, ApiError> {
    if is_text(raw) {
        return Ok(vec![Part::text(text_of(raw, path)?)]);
    }
    let mut parts = Vec::new();
    for (at, raw) in list_of(raw, path)?.into_iter().enumerate() {
        let mut block = Fields::of(raw, format!("{path}[{at}]"))?;
        let kind = block.required_text("type")?;
        parts.extend(part(&kind, &mut block, left_out)?);
        block.skip(&BLOCK_HINTS);
        left_out.note_unread(&block);
    }
    Ok(parts)
}

fn result(
    conversation: &mut Conversation,
    block: &mut Fields<'_>,
    left_out: &mut LeftOut,
) -> Result<(), ApiError> {
    let id = block.required_text("tool_use_id")?;
    let path = block.path("content");
    let parts = match block.take("content") {
        Some(raw) => content(raw, &path, left_out)?,
        None => Vec::new(),
    };
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text { text } => texts.push(text),
            image @ Part::ImageUrl { .. } => images.push(image),
        }
    }
    let mut text = texts.join("\n");
    if block.flag("is_error")? == Some(true) {
        let words = if text.is_empty() { "the tool failed" } else { &text };
        text = format!("{FAILED}{words}");
    }
    conversation.result(id, text, images);
    Ok(())
}

fn assistant(
    conversation: &mut Conversation,
    content: &RawValue,
    path: &str,
    left_out: &mut LeftOut,
) -> Result<(), ApiError> {
    if is_text(content) {
        conversation.said(text_of(content, path)?);
        conversation.end_turn();
        return Ok(());
    }
    for (at, raw) in list_of(content, path)?.into_iter().enumerate() {
        let mut block = Fields::of(raw, format!("{path}[{at}]"))?;
        let kind = block.required_text("type")?;
        match kind.as_str() {
            "text" => conversation.said(block.required_text("text")?),
            "thinking" => conversation.thought(block.required_text("thinking")?),
            // Opaque to everybody but who made it.
            "redacted_thinking" => block.skip(&["data"]),
            "tool_use" => call(conversation, &mut block)?,
            _ => return Err(refused(&kind, block.place())),
        }
        block.skip(&BLOCK_HINTS);
        left_out.note_unread(&block);
    }
    conversation.end_turn();
    Ok(())
}

fn call(conversation: &mut Conversation, block: &mut Fields<'_>) -> Result<(), ApiError> {
    let id = block.required_text("id")?;
    let name = block.required_text("name")?;
    let arguments = match block.take("input") {
        None => "{}".to_owned(),
        Some(raw) if raw.get().starts_with('{') => compact(raw),
        Some(raw) => return Err(mistyped(&block.path("input"), raw, "an object")),
    };
    conversation.call(id, name, arguments);
    Ok(())
}

fn refused(kind: &str, path: &str) -> ApiError {
    let message = format!(
        "`{path}` is a block of type `{}`, which cannot be carried to chat workers",
        clip(kind)
    );
    ApiError::invalid(path, message)
}
