//! Compaction: a shorter conversation in the place of a long one.
//!
//! The conversation goes to the worker as always, with one message more that asks for a summary, so that what the
//! worker's cache holds of it is found. In its place come the messages of user, system and developer as they were,
//! and one item with the summary under a seal. The model reads the summary wherever a client sends that item back.
//!
//! **Invariant:** nothing that the model said is passed on as it is, and a summary that was cut says so.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::echo::{Course, default_of, message};
use super::events::Identity;
use super::object::usage;
use super::{Request, Seal};
use crate::dialect::answer::{Finish, Said};
use crate::dialect::chat::{Chat, Part};
use crate::dialect::failure::Failure;
use crate::dialect::fields::Fields;
use crate::dialect::steps::word_of;
use crate::error::ApiError;

/// Asks for the summary.
const ASK: &str = "Write a summary that can stand in the place of this conversation. Whoever goes on with it will read \
the user's messages and your summary, and nothing else. Tell what is wanted and what has been decided; what was done, \
and what came of it; what was found out that still matters, with the names of files, commands and identifiers as they \
are; what is left to do, and the next step. Answer with the summary alone.";

/// What a model reads before a summary.
const BEFORE: &str =
    "The conversation before this message was made shorter. This is a summary of it:";

/// What a summary ends with that has reached the limit of its length.
const CUT: &str = "[The summary was cut here.]";

/// Members of a chat that are for its answer, and would spoil a summary.
const OF_ANSWER: [&str; 5] = ["response_format", "logprobs", "top_logprobs", "max_tokens", "stop"];

/// Whose messages stay as they are.
const KEPT: [&str; 3] = ["user", "system", "developer"];

/// A summary as the model is to read it.
pub(super) fn reminder(summary: &str) -> String {
    format!("{BEFORE}\n\n{summary}")
}

/// A conversation that is to be made shorter.
#[derive(Debug)]
pub struct Compaction<'a>(Request<'a>);

impl<'a> Compaction<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// [`ApiError`] that names what cannot be translated.
    pub fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        let request = Request::parse(body)?;
        let refused = |name: &str| {
            let message = format!("`{name}` is true; a compaction is answered at once and whole");
            Err(ApiError::invalid(name, message))
        };
        match (request.streams, request.course) {
            (true, _) => refused("stream"),
            (false, Course::Background) => refused("background"),
            (false, Course::Foreground) => Ok(Self(request)),
        }
    }

    /// The response that the conversation goes on from.
    pub fn previous(&self) -> Option<&str> {
        self.0.previous.as_deref()
    }

    /// The model that was asked for, if one was.
    pub fn model(&self) -> Option<&str> {
        self.0.model.as_deref()
    }

    /// As a chat completion that asks for the summary of `history` and the input, and what stays of them.
    ///
    /// # Errors
    /// [`ApiError`] that names the item that cannot be translated.
    pub fn translate(
        self,
        identity: Identity,
        history: &[Box<RawValue>],
        seal: &dyn Seal,
    ) -> Result<(Chat, Summary), ApiError> {
        let Self(mut request) = self;
        let mut conversation = request.conversation(history, seal)?;
        conversation.user(vec![Part::text(ASK)]);
        let input = request.input_items(&identity.id);
        let kept = history.iter().chain(&input).filter_map(|raw| kept(raw)).collect();
        request.chat.remove(&OF_ANSWER);
        request.chat.set("messages", &conversation.finish());
        request.tools.translate(None, None, &mut request.chat, &mut request.left_out)?;
        if request.chat.has("tools") {
            // They stay, for templates put them first; but none is to be called now.
            request.chat.set("tool_choice", "none");
        }
        let left_out = request.left_out.into_names();
        Ok((Chat { body: request.chat.into_bytes(), left_out }, Summary { identity, kept }))
    }
}

/// What becomes of the summary.
#[derive(Debug)]
pub struct Summary {
    identity: Identity,
    kept: Vec<Box<RawValue>>,
}

impl Summary {
    /// The object of the shorter conversation, with the summary that a worker's whole `answer` holds.
    ///
    /// # Errors
    /// [`Failure`] where the worker failed, or the model has given no summary.
    pub fn object(self, answer: &[u8], seal: &dyn Seal) -> Result<Vec<u8>, Failure> {
        let said = Said::parse(answer)?;
        let none = |why: &str| Failure::in_stream(why.to_owned());
        let mut summary = said.text.trim().to_owned();
        if summary.is_empty() {
            return Err(none("the model gave no summary of the conversation"));
        }
        if said.finish == Some(Finish::Length) {
            summary = format!("{summary}\n{CUT}");
        }
        let sealed = seal.seal(&summary).ok_or_else(|| none("the summary cannot be sealed"))?;
        let Self { identity, kept } = self;
        let mut output = kept;
        let id = format!("cmp_{}", word_of(&identity.id, 0));
        let item = json!({"id": id, "type": "compaction", "encrypted_content": sealed});
        output.push(default_of(&item));
        let object = Compacted {
            id: &identity.id,
            object: "response.compaction",
            created_at: identity.created_at,
            output,
            usage: usage(said.usage.unwrap_or_default()),
        };
        Ok(serde_json::to_vec(&object).expect("it has string keys"))
    }
}

/// A conversation that was made shorter.
#[derive(Serialize)]
struct Compacted<'a> {
    id: &'a str,
    object: &'static str,
    created_at: u64,
    output: Vec<Box<RawValue>>,
    usage: Value,
}

/// An item of the input as an item of the output, where it is one that stays.
fn kept(raw: &RawValue) -> Option<Box<RawValue>> {
    let mut item = Fields::of(raw, "").ok()?;
    let kind = item.text("type").ok()?;
    let role = item.text("role").ok()??;
    if kind.is_some_and(|kind| kind != "message") || !KEPT.contains(&role.as_str()) {
        return None;
    }
    let content = item.take("content")?;
    let id = item.text("id").ok().flatten();
    Some(message(id.as_deref(), &role, content))
}
