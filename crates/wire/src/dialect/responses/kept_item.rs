//! Kept input item: an item of the input in the form in which clients read it back.
//!
//! A request may leave out what `OpenAI` tells of each item (`type`, `status`, an id), and may give a message's content
//! as a text. Clients that list the input take parts for granted. What is there stays byte for byte.

use serde_json::value::RawValue;

use crate::dialect::fields::{Fields, is_text, patched};
use crate::dialect::steps::word_of;
use crate::json::Patch;

/// The item with what it lacks; an id that is made up follows from `seed` and its place.
pub(super) fn kept(raw: &RawValue, seed: &str, at: usize) -> Box<RawValue> {
    let Ok(mut item) = Fields::of(raw, "") else { return raw.to_owned() };
    let kind = item.text("type").ok().flatten();
    let mut patch = Patch::new();
    let prefix = match kind.as_deref() {
        None | Some("message") => {
            patch = message(&mut item, patch);
            "msg"
        }
        Some("function_call") => "fc",
        Some("custom_tool_call") => "ctc",
        Some("reasoning") => "rs",
        Some("compaction") => "cmp",
        Some(_) => "item",
    };
    if !item.has("id") {
        patch = patch.set("id", &format!("{prefix}_{}", word_of(seed, at)));
    }
    // The other kinds are told without it.
    let has_status = matches!(prefix, "msg" | "fc" | "ctc" | "item");
    if has_status && !item.has("status") {
        patch = patch.set("status", &"completed");
    }
    patched(raw, &patch)
}

/// A message's type, and its content as a list of parts.
fn message(item: &mut Fields<'_>, patch: Patch) -> Patch {
    let patch = patch.set("type", &"message");
    let role = item.text("role").ok().flatten();
    let Some(content) = item.take("content").filter(|content| is_text(content)) else {
        return patch;
    };
    let text = content.get();
    let part = if role.as_deref() == Some("assistant") {
        format!(r#"[{{"type":"output_text","text":{text},"annotations":[],"logprobs":[]}}]"#)
    } else {
        format!(r#"[{{"type":"input_text","text":{text}}}]"#)
    };
    patch.set_raw("content", &part)
}
