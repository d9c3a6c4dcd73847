//! Input items of a Responses request as chat messages.
//!
//! Consecutive items of the assistant (thought, text, calls) are one chat message. Instructions of a
//! developer are a system's: at the beginning they join the leading system message, later they become a
//! reminder of the user's. What a chat worker cannot take is refused by the item's type.

use serde_json::value::RawValue;

use super::Seal;
use super::compaction;
use super::custom::arguments_of;
use super::tools::chat_name;
use crate::dialect::chat::{LeftOut, Part};
use crate::dialect::conversation::Conversation;
use crate::dialect::fields::{Fields, is_text, list_of, text_of, unknown};
use crate::error::{ApiError, clip};

/// Keys that clients send back with items of ours; they say nothing of what is in them.
const ITEM_HINTS: [&str; 6] = ["id", "status", "phase", "type", "annotations", "logprobs"];

/// Adds items to conversations.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) conversation: &'a mut Conversation,
    pub(super) left_out: &'a mut LeftOut,
    pub(super) seal: &'a dyn Seal,
}

impl Reader<'_> {
    /// Adds an item.
    pub(super) fn add(&mut self, raw: &RawValue, path: &str) -> Result<(), ApiError> {
        let mut item = Fields::of(raw, path)?;
        // What has an id alone refers to an item that the vendor keeps.
        let untyped =
            if item.has("role") || !item.has("id") { "message" } else { "item_reference" };
        let kind = item.text("type")?.unwrap_or_else(|| untyped.to_owned());
        match kind.as_str() {
            "message" => self.message(&mut item)?,
            "function_call" => {
                let (id, name) = called(&mut item)?;
                let arguments = item.text("arguments")?.filter(|text| !text.is_empty());
                let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
                self.conversation.call(id, name, arguments);
            }
            "custom_tool_call" => {
                let (id, name) = called(&mut item)?;
                let input = item.required_text("input")?;
                self.conversation.call(id, name, arguments_of(&input));
            }
            "function_call_output" | "custom_tool_call_output" => self.output(&mut item)?,
            "reasoning" => self.reasoning(&mut item)?,
            "compaction" | "compaction_summary" => self.compaction(&mut item)?,
            _ => {
                let message = format!(
                    "`{path}` is an item of type `{}`, which cannot be carried to chat workers",
                    clip(&kind)
                );
                return Err(ApiError::invalid(item.path("type"), message));
            }
        }
        item.skip(&ITEM_HINTS);
        self.left_out.note_unread(&item);
        Ok(())
    }

    fn message(&mut self, item: &mut Fields<'_>) -> Result<(), ApiError> {
        let role = item.required_text("role")?;
        let content = item.required("content", "a string or a list of parts")?;
        let parts = self.parts(content, &item.path("content"))?;
        match role.as_str() {
            "user" => self.conversation.user(parts),
            "assistant" => {
                let text = texts_alone(parts, "", &item.path("content"))?;
                self.conversation.said(text);
            }
            "system" | "developer" => {
                let text = texts_alone(parts, "\n", &item.path("content"))?;
                self.conversation.system(text);
            }
            _ => {
                let expected = "`user`, `assistant`, `system` or `developer`";
                return Err(unknown(&item.path("role"), &role, expected));
            }
        }
        Ok(())
    }

    fn output(&mut self, item: &mut Fields<'_>) -> Result<(), ApiError> {
        let id = item.required_text("call_id")?;
        let path = item.path("output");
        let parts = match item.take("output") {
            Some(raw) => self.parts(raw, &path)?,
            None => Vec::new(),
        };
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text { text } => texts.push(text),
                image @ Part::ImageUrl { .. } => images.push(image),
            }
        }
        item.skip(&["name"]);
        self.conversation.result(id, texts.join("\n"), images);
        Ok(())
    }

    /// The thought itself goes before its seal, and that before its summary. A seal of another server is
    /// nobody's thought.
    fn reasoning(&mut self, item: &mut Fields<'_>) -> Result<(), ApiError> {
        let sealed = item.text("encrypted_content")?;
        let content = match item.take("content") {
            Some(raw) => thoughts(raw, &item.path("content"))?,
            None => String::new(),
        };
        let summary = match item.take("summary") {
            Some(raw) => thoughts(raw, &item.path("summary"))?,
            None => String::new(),
        };
        let opened = || sealed.and_then(|sealed| self.seal.open(&sealed));
        let thought = Some(content).filter(|text| !text.is_empty()).or_else(opened);
        self.conversation.thought(thought.unwrap_or(summary));
        Ok(())
    }

    /// What stands for the conversation before it. One that nobody can read is refused: without it, all before would
    /// be forgotten.
    fn compaction(&mut self, item: &mut Fields<'_>) -> Result<(), ApiError> {
        let sealed = item.required_text("encrypted_content")?;
        item.skip(&["created_by"]);
        let Some(summary) = self.seal.open(&sealed) else {
            let path = item.path("encrypted_content");
            let message = format!(
                "`{path}` was not sealed here for this key; send the conversation itself, or give all gateways one \
                 `isolation.salt_secret`"
            );
            return Err(ApiError::invalid(path, message));
        };
        self.conversation.user(vec![Part::text(compaction::reminder(&summary))]);
        Ok(())
    }

    fn parts(&mut self, raw: &RawValue, path: &str) -> Result<Vec<Part>, ApiError> {
        if is_text(raw) {
            return Ok(vec![Part::text(text_of(raw, path)?)]);
        }
        let mut parts = Vec::new();
        for (at, raw) in list_of(raw, path)?.into_iter().enumerate() {
            let mut part = Fields::of(raw, format!("{path}[{at}]"))?;
            let kind = part.required_text("type")?;
            parts.push(match kind.as_str() {
                "input_text" | "output_text" | "text" | "summary_text" => {
                    Part::text(part.required_text("text")?)
                }
                "refusal" => Part::text(part.required_text("refusal")?),
                "input_image" => image(&mut part)?,
                _ => {
                    let message = format!(
                        "`{}` is a part of type `{}`, which cannot be carried to chat workers",
                        part.place(),
                        clip(&kind)
                    );
                    return Err(ApiError::invalid(part.path("type"), message));
                }
            });
            part.skip(&ITEM_HINTS);
            self.left_out.note_unread(&part);
        }
        Ok(parts)
    }
}

/// The text of parts that must be text alone.
fn texts_alone(parts: Vec<Part>, separator: &str, path: &str) -> Result<String, ApiError> {
    let text = |part| match part {
        Part::Text { text } => Ok(text),
        Part::ImageUrl { .. } => {
            let message = format!("`{path}` holds an image; only a user's message may");
            Err(ApiError::invalid(path, message))
        }
    };
    let texts: Result<Vec<String>, ApiError> = parts.into_iter().map(text).collect();
    texts.map(|texts| texts.join(separator))
}

/// The call's id, never the item's, and the name that the worker knows.
fn called(item: &mut Fields<'_>) -> Result<(String, String), ApiError> {
    let id = item.required_text("call_id")?;
    let name = item.required_text("name")?;
    let namespace = item.text("namespace")?;
    Ok((id, chat_name(namespace.as_deref(), &name)))
}

fn image(part: &mut Fields<'_>) -> Result<Part, ApiError> {
    let path = part.path("image_url");
    if let Some(id) = part.text("file_id")? {
        let message = format!(
            "`input_image` by `file_id` (`{}`) cannot be carried: no files are kept here; give `{path}`",
            clip(&id)
        );
        return Err(ApiError::invalid(part.path("file_id"), message));
    }
    let url = part.text("image_url")?.ok_or_else(|| {
        ApiError::invalid(path.clone(), format!("`input_image` lacks `{path}`; expected a URL"))
    })?;
    Ok(Part::image(url, part.text("detail")?))
}

/// The texts of a thought's parts.
fn thoughts(raw: &RawValue, path: &str) -> Result<String, ApiError> {
    let mut texts = Vec::new();
    for (at, raw) in list_of(raw, path)?.into_iter().enumerate() {
        let mut part = Fields::of(raw, format!("{path}[{at}]"))?;
        texts.push(part.required_text("text")?);
    }
    Ok(texts.join("\n"))
}
