//! Conversation builder: the turns of a dialect as chat messages.
//!
//! Chat templates take one system message, at the front, and a tool's results right after the calls. Both
//! dialects allow more; this builder restores that order. **Invariant:** no message stands between a call and
//! its results, and the messages of a conversation begin with those of its beginning, so that a worker's
//! prefix cache holds.

use std::collections::BTreeSet;

use super::chat::{ChatMessage, Content, Part, ToolCall};

/// What stands between two texts of one system message.
const SYSTEM_SEPARATOR: &str = "\n\n";

/// A conversation in the making.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    system: Vec<String>,
    messages: Vec<ChatMessage>,
    /// The assistant's turn that is open.
    turn: Option<Turn>,
    /// Calls whose results have not come.
    awaited: BTreeSet<String>,
    /// Images of the results, for one user message after all of them.
    images: Vec<Part>,
    /// Reminders that wait until the results have come.
    reminders: Vec<String>,
}

#[derive(Debug, Default)]
struct Turn {
    thoughts: Vec<String>,
    texts: Vec<String>,
    calls: Vec<ToolCall>,
}

impl Conversation {
    /// A text for the leading system message; where the conversation has begun, a reminder of the user's.
    pub(super) fn system(&mut self, text: String) {
        if text.is_empty() {
            return;
        }
        if self.messages.is_empty() && self.turn.is_none() {
            self.system.push(text);
            return;
        }
        self.reminders.push(text);
        let waits = !self.awaited.is_empty()
            || self.turn.as_ref().is_some_and(|turn| !turn.calls.is_empty());
        if !waits {
            self.settle();
        }
    }

    /// A user's message, if anything is in it.
    pub(super) fn user(&mut self, mut parts: Vec<Part>) {
        parts.retain(|part| !matches!(part, Part::Text { text } if text.is_empty()));
        if parts.is_empty() {
            return;
        }
        self.end_turn();
        if self.reminders.is_empty() && !self.images.is_empty() {
            let mut images = std::mem::take(&mut self.images);
            images.append(&mut parts);
            parts = images;
        }
        self.settle();
        self.messages.push(user(parts));
        self.awaited.clear();
    }

    /// Something that the assistant thought.
    pub(super) fn thought(&mut self, text: String) {
        if !text.is_empty() {
            self.turn().thoughts.push(text);
        }
    }

    /// Something that the assistant said.
    pub(super) fn said(&mut self, text: String) {
        if !text.is_empty() {
            self.turn().texts.push(text);
        }
    }

    /// A call that the assistant made.
    pub(super) fn call(&mut self, id: String, name: String, arguments: String) {
        self.turn().calls.push(ToolCall::new(id, name, arguments));
    }

    /// The result of a call: its text goes under the call's id, its images after all results.
    pub(super) fn result(&mut self, id: String, text: String, mut images: Vec<Part>) {
        self.end_turn();
        self.awaited.remove(&id);
        self.images.append(&mut images);
        self.messages.push(ChatMessage {
            role: "tool",
            tool_call_id: Some(id),
            content: Some(Content::Text(text)),
            ..ChatMessage::default()
        });
    }

    /// The assistant's turn is over.
    pub(super) fn end_turn(&mut self) {
        let Some(Turn { thoughts, texts, calls }) = self.turn.take() else { return };
        let thought = (!thoughts.is_empty()).then(|| thoughts.join("\n"));
        let content =
            if texts.is_empty() && !calls.is_empty() { None } else { Some(texts.join("\n")) };
        self.awaited = calls.iter().map(|call| call.id.clone()).collect();
        self.messages.push(ChatMessage {
            role: "assistant",
            tool_call_id: None,
            content: content.map(Content::Text),
            reasoning_content: thought.clone(),
            reasoning: thought,
            tool_calls: calls,
        });
    }

    /// Whether nothing was said.
    pub(super) const fn is_empty(&self) -> bool {
        self.system.is_empty() && self.messages.is_empty() && self.turn.is_none()
    }

    /// The messages, with the system's first; none where nothing was said.
    pub(super) fn finish(mut self) -> Vec<ChatMessage> {
        self.end_turn();
        self.settle();
        if self.system.is_empty() {
            return self.messages;
        }
        let text = self.system.join(SYSTEM_SEPARATOR);
        let system = ChatMessage {
            role: "system",
            content: Some(Content::Text(text)),
            ..ChatMessage::default()
        };
        self.messages.insert(0, system);
        self.messages
    }

    fn turn(&mut self) -> &mut Turn {
        if self.turn.is_none() {
            self.settle();
        }
        self.turn.get_or_insert_default()
    }

    /// What waited for the results follows them.
    fn settle(&mut self) {
        self.end_turn();
        if !self.images.is_empty() {
            let images = std::mem::take(&mut self.images);
            self.messages.push(user(images));
        }
        for reminder in std::mem::take(&mut self.reminders) {
            let text = format!("<system-reminder>\n{reminder}\n</system-reminder>");
            self.messages.push(user(vec![Part::text(text)]));
        }
    }
}

/// A user's message: a plain string where it holds text alone, for engines that read nothing else.
fn user(parts: Vec<Part>) -> ChatMessage {
    let content = match texts(&parts) {
        Some(text) => Content::Text(text),
        None => Content::Parts(parts),
    };
    ChatMessage { role: "user", content: Some(content), ..ChatMessage::default() }
}

/// The text of parts that are text alone.
fn texts(parts: &[Part]) -> Option<String> {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::ImageUrl { .. } => None,
    };
    parts.iter().map(text).collect::<Option<Vec<_>>>().map(|texts| texts.join("\n"))
}
