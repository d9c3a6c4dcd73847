//! Tools of a Messages request as functions, and the choice among them.
//!
//! Tools of Anthropic's own have a type and no schema. Among others they are left out and told;
//! alone or forced they are refused by name, for then the answer depends on them.

use crate::dialect::chat::{ChatBody, Function, LeftOut, Schema, Tool, forced};
use crate::dialect::fields::{Fields, unknown};
use crate::error::{ApiError, clip};

/// Keys of a tool that only Anthropic's servers go by.
const TOOL_HINTS: [&str; 6] = [
    "cache_control",
    "eager_input_streaming",
    "input_examples",
    "defer_loading",
    "allowed_callers",
    "type",
];

/// Sets `tools`, `tool_choice` and `parallel_tool_calls`.
pub(super) fn translate(
    fields: &mut Fields<'_>,
    chat: &mut ChatBody,
    left_out: &mut LeftOut,
) -> Result<(), ApiError> {
    let (mut tools, mut servers) = (Vec::new(), Vec::new());
    for (at, raw) in fields.list("tools")?.unwrap_or_default().into_iter().enumerate() {
        let mut tool = Fields::of(raw, format!("tools[{at}]"))?;
        let kind = tool.text("type")?;
        match (kind, tool.take("input_schema")) {
            // A set of tools has no name.
            (Some(kind), None) if kind != "custom" => servers.push((kind, tool.text("name")?)),
            (_, Some(schema)) => {
                let name = tool.required_text("name")?;
                let description = tool.text("description")?;
                let strict = tool.flag("strict")?;
                tool.skip(&TOOL_HINTS);
                left_out.note_unread(&tool);
                let parameters = Some(Schema::Own(schema));
                tools.push(Tool::new(Function { name, description, parameters, strict }));
            }
            (_, None) => {
                let path = tool.path("input_schema");
                let message = format!("`{path}` is missing; expected a JSON schema");
                return Err(ApiError::invalid(path, message));
            }
        }
    }
    if let (true, Some((kind, _))) = (tools.is_empty(), servers.first()) {
        return Err(refused(kind));
    }
    for (kind, _) in &servers {
        left_out.note(format!("tools.{}", clip(kind)));
    }
    let choice = fields.object("tool_choice")?;
    if tools.is_empty() {
        return choice.map_or(Ok(()), |choice| choose(choice, &servers, &mut ChatBody::default()));
    }
    chat.set("tools", &tools);
    choice.map_or(Ok(()), |choice| choose(choice, &servers, chat))
}

fn choose(
    mut choice: Fields<'_>,
    servers: &[(String, Option<String>)],
    chat: &mut ChatBody,
) -> Result<(), ApiError> {
    let kind = choice.required_text("type")?;
    match kind.as_str() {
        "auto" => chat.set("tool_choice", "auto"),
        "any" => chat.set("tool_choice", "required"),
        "none" => chat.set("tool_choice", "none"),
        "tool" => {
            let name = choice.required_text("name")?;
            if let Some((kind, _)) =
                servers.iter().find(|(_, server)| server.as_ref() == Some(&name))
            {
                return Err(refused(kind));
            }
            chat.set("tool_choice", &forced(&name));
        }
        _ => return Err(unknown("tool_choice.type", &kind, "`auto`, `any`, `none` or `tool`")),
    }
    if choice.flag("disable_parallel_tool_use")? == Some(true) {
        chat.set("parallel_tool_calls", &false);
    }
    choice.finish()
}

fn refused(kind: &str) -> ApiError {
    let message = format!(
        "`{}` is a tool of Anthropic's own and is not offered here; give a tool with an `input_schema`",
        clip(kind)
    );
    ApiError::invalid("tools", message)
}
