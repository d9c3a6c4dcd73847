//! Tools of a Responses request as functions, and the names under which they come back.
//!
//! Functions are flat here and nested in chat. A freeform tool becomes a function with one string; the
//! functions of a namespace get its name before theirs. Tools that run on OpenAI's servers are left out and
//! told among others, and refused by name where they are alone or forced.

use std::collections::BTreeSet;

use serde_json::json;
use serde_json::value::RawValue;

use super::custom::PARAMETER;
use crate::dialect::chat::{ChatBody, Function, LeftOut, Schema, Tool, forced};
use crate::dialect::fields::{Fields, is_text, text_of, unknown};
use crate::error::{ApiError, clip};

/// Tools that run on OpenAI's servers, or in a client that talks to them.
const HOSTED: [&str; 14] = [
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "computer",
    "computer_use",
    "computer_use_preview",
    "mcp",
    "local_shell",
    "shell",
    "apply_patch",
    "tool_search",
    "programmatic_tool_calling",
];

/// Keys of a tool that a chat worker has no use for.
const TOOL_HINTS: [&str; 4] = ["type", "defer_loading", "output_schema", "allowed_callers"];

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Function,
    Custom,
}

/// A tool under the name that chat workers know it by.
#[derive(Clone, Debug)]
pub(super) struct Named {
    chat: String,
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

/// The tools' names, there and back.
#[derive(Clone, Debug, Default)]
pub(super) struct Naming(Vec<Named>);

impl Naming {
    /// The tool that a worker calls so.
    pub(super) fn of_chat(&self, name: &str) -> Named {
        let known = self.0.iter().find(|named| named.chat == name);
        known.cloned().unwrap_or_else(|| Named {
            chat: name.to_owned(),
            kind: Kind::Function,
            name: name.to_owned(),
            namespace: None,
        })
    }
}

/// The name that a chat worker knows a tool by.
pub(super) fn chat_name(namespace: Option<&str>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}__{name}"))
}

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct Tools<'a> {
    functions: Vec<Tool<'a>>,
    hosted: Vec<String>,
    pub(super) naming: Naming,
    /// As the client gave them.
    pub(super) given: Vec<&'a RawValue>,
}

impl<'a> Tools<'a> {
    /// Reads `tools`.
    pub(super) fn read(fields: &mut Fields<'a>, left_out: &mut LeftOut) -> Result<Self, ApiError> {
        let mut tools =
            Self { given: fields.list("tools")?.unwrap_or_default(), ..Self::default() };
        for (at, raw) in tools.given.clone().into_iter().enumerate() {
            let tool = Fields::of(raw, format!("tools[{at}]"))?;
            tools.add(tool, None, left_out)?;
        }
        if let (true, Some(kind)) = (tools.functions.is_empty(), tools.hosted.first()) {
            return Err(refused(kind));
        }
        for kind in &tools.hosted {
            left_out.note(format!("tools.{kind}"));
        }
        Ok(tools)
    }

    fn add(
        &mut self,
        mut tool: Fields<'a>,
        namespace: Option<&str>,
        left_out: &mut LeftOut,
    ) -> Result<(), ApiError> {
        let kind = tool.required_text("type")?;
        match kind.as_str() {
            "function" => {
                let name = tool.required_text("name")?;
                let description = tool.text("description")?;
                let parameters = tool.take("parameters").map(Schema::Own);
                let strict = tool.flag("strict")?;
                self.name(Kind::Function, namespace, &name);
                let name = chat_name(namespace, &name);
                let function = Function { name, description, parameters, strict };
                self.functions.push(Tool::new(function));
            }
            "custom" => {
                let function = custom(&mut tool)?;
                self.name(Kind::Custom, namespace, &function.name);
                let name = chat_name(namespace, &function.name);
                self.functions.push(Tool::new(Function { name, ..function }));
            }
            "namespace" if namespace.is_none() => {
                let name = tool.required_text("name")?;
                let path = tool.path("tools");
                for (at, raw) in tool.list("tools")?.unwrap_or_default().into_iter().enumerate() {
                    self.add(Fields::of(raw, format!("{path}[{at}]"))?, Some(&name), left_out)?;
                }
            }
            kind if is_hosted(kind) => {
                self.hosted.push(kind.to_owned());
                return Ok(());
            }
            _ => {
                return Err(unknown(
                    &tool.path("type"),
                    &kind,
                    "`function`, `custom` or `namespace`",
                ));
            }
        }
        tool.skip(&TOOL_HINTS);
        left_out.note_unread(&tool);
        Ok(())
    }

    fn name(&mut self, kind: Kind, namespace: Option<&str>, name: &str) {
        let (chat, name) = (chat_name(namespace, name), name.to_owned());
        self.naming.0.push(Named { chat, kind, name, namespace: namespace.map(str::to_owned) });
    }

    /// Sets `tools`, `tool_choice` and `parallel_tool_calls`; without tools engines refuse the others.
    pub(super) fn translate(
        mut self,
        choice: Option<&RawValue>,
        parallel: Option<bool>,
        chat: &mut ChatBody,
        left_out: &mut LeftOut,
    ) -> Result<Naming, ApiError> {
        let chosen = choice.map(|raw| self.choose(raw, left_out)).transpose()?.flatten();
        if !self.functions.is_empty() {
            chat.set("tools", &self.functions);
            chat.set_some("tool_choice", chosen);
            chat.set_some("parallel_tool_calls", parallel);
        }
        Ok(self.naming)
    }

    fn choose(
        &mut self,
        raw: &RawValue,
        left_out: &mut LeftOut,
    ) -> Result<Option<serde_json::Value>, ApiError> {
        const WORDS: &str = "`auto`, `none`, `required` or an object";
        if is_text(raw) {
            let word = text_of(raw, "tool_choice")?;
            return match word.as_str() {
                "auto" | "none" | "required" => Ok(Some(json!(word))),
                _ => Err(unknown("tool_choice", &word, WORDS)),
            };
        }
        let mut choice = Fields::of(raw, "tool_choice")?;
        let kind = choice.required_text("type")?;
        match kind.as_str() {
            "function" | "custom" => {
                let name = choice.required_text("name")?;
                let namespace = choice.text("namespace")?;
                choice.finish()?;
                Ok(Some(forced(&chat_name(namespace.as_deref(), &name))))
            }
            "allowed_tools" => self.allow(choice, left_out).map(Some),
            kind if is_hosted(kind) => Err(refused(kind)),
            _ => Err(unknown("tool_choice.type", &kind, WORDS)),
        }
    }

    /// Only some of the tools may be called: the worker is told of no others.
    fn allow(
        &mut self,
        mut choice: Fields<'_>,
        left_out: &mut LeftOut,
    ) -> Result<serde_json::Value, ApiError> {
        let mode = choice.text("mode")?.unwrap_or_else(|| "auto".to_owned());
        if !matches!(mode.as_str(), "auto" | "required") {
            return Err(unknown("tool_choice.mode", &mode, "`auto` or `required`"));
        }
        let mut allowed = BTreeSet::new();
        for (at, raw) in choice.list("tools")?.unwrap_or_default().into_iter().enumerate() {
            let mut tool = Fields::of(raw, format!("tool_choice.tools[{at}]"))?;
            match tool.text("name")? {
                Some(name) => {
                    allowed.insert(chat_name(tool.text("namespace")?.as_deref(), &name));
                }
                None => left_out.note(tool.place()),
            }
        }
        choice.finish()?;
        self.functions.retain(|tool| allowed.contains(&tool.function.name));
        if self.functions.is_empty() {
            let message =
                "`tool_choice.tools` names none of the functions in `tools`; name one of them";
            return Err(ApiError::invalid("tool_choice.tools", message));
        }
        Ok(json!(mode))
    }
}

/// A freeform tool as a function with one string; what its grammar says goes into the description.
fn custom<'a>(tool: &mut Fields<'a>) -> Result<Function<'a>, ApiError> {
    let name = tool.required_text("name")?;
    let mut lines: Vec<String> = tool.text("description")?.into_iter().collect();
    if let Some(mut format) = tool.object("format")? {
        let kind = format.required_text("type")?;
        match kind.as_str() {
            "text" => {}
            "grammar" => {
                let syntax = format.required_text("syntax")?;
                let definition = format.required_text("definition")?;
                lines.push(format!("`{PARAMETER}` follows this {syntax} grammar:\n{definition}"));
            }
            _ => return Err(unknown(&format.path("type"), &kind, "`text` or `grammar`")),
        }
        format.finish()?;
    }
    let parameters = json!({
        "type": "object",
        "properties": {PARAMETER: {"type": "string"}},
        "required": [PARAMETER],
        "additionalProperties": false,
    });
    let description = (!lines.is_empty()).then(|| lines.join("\n\n"));
    Ok(Function { name, description, parameters: Some(Schema::Made(parameters)), strict: None })
}

/// Whether a tool runs elsewhere; later versions of one have a date behind their name.
fn is_hosted(kind: &str) -> bool {
    HOSTED.iter().any(|hosted| {
        kind.strip_prefix(hosted).is_some_and(|rest| rest.is_empty() || rest.starts_with("_20"))
    })
}

fn refused(kind: &str) -> ApiError {
    let message = format!(
        "`{}` is a tool that runs on OpenAI's servers and is not offered here; give a `function` or a \
         `custom` tool",
        clip(kind)
    );
    ApiError::invalid("tools", message)
}
