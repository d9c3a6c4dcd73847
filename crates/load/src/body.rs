//! Request body of a session's turn.
//!
//! Equal pieces are equal text, so what prompts share in the workload they share on the wire. What the
//! model really answered in earlier turns takes the place of what the workload says it did.

use std::collections::BTreeMap;

use bytes::Bytes;
use overdraft_sim::workload::{Turn, Voice, Wording};
use serde_json::{Map, Value, json};

/// Which of OpenAI's interfaces is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Completions,
}

/// How turns are asked.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Which interface.
    pub interface: Interface,
    /// Which model.
    pub model: String,
    /// How many words make a token's worth of text.
    pub wording: Wording,
    /// What else every body says, such as `ignore_eos`.
    pub extra: Map<String, Value>,
}

/// What the model answered in a session, by the names of the answers.
pub(crate) type Answers = BTreeMap<u64, String>;

impl Interface {
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
        }
    }
}

impl Asking {
    /// The body that asks for a turn.
    pub(crate) fn body(&self, turn: &Turn, answers: &Answers) -> Bytes {
        let mut body = match self.interface {
            Interface::Chat => self.chat(&self.messages(turn, answers)),
            Interface::Completions => self.completion(self.text(turn, answers)),
        };
        body.insert("max_tokens".to_owned(), turn.answer.tokens.get().into());
        body.insert("stream".to_owned(), true.into());
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        for (name, value) in &self.extra {
            body.insert(name.clone(), value.clone());
        }
        Value::Object(body).to_string().into()
    }

    /// A body without a stream that says one text.
    pub(crate) fn whole(&self, text: String, output: u32) -> Bytes {
        let mut body = match self.interface {
            Interface::Chat => self.chat(&[(Voice::User, text)]),
            Interface::Completions => self.completion(text),
        };
        body.insert("max_tokens".to_owned(), output.into());
        Value::Object(body).to_string().into()
    }

    fn chat(&self, messages: &[(Voice, String)]) -> Map<String, Value> {
        let told =
            messages.iter().map(|(voice, text)| json!({ "role": role(*voice), "content": text }));
        self.head("messages", told.collect())
    }

    fn completion(&self, text: String) -> Map<String, Value> {
        self.head("prompt", text.into())
    }

    fn head(&self, name: &str, asked: Value) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("model".to_owned(), self.model.as_str().into());
        body.insert(name.to_owned(), asked);
        body.insert("temperature".to_owned(), 0.into());
        body
    }

    /// All pieces as one text. What was answered stands as it came, right behind what it was an answer to: one
    /// space more would be other tokens than those in the worker's cache.
    fn text(&self, turn: &Turn, answers: &Answers) -> String {
        let mut text = String::new();
        for piece in &turn.prompt {
            match answers.get(&piece.content) {
                Some(answer) => text.push_str(answer),
                None => self.wording.write(*piece, &mut text),
            }
        }
        text
    }

    /// Pieces of one voice that follow each other are one message.
    fn messages(&self, turn: &Turn, answers: &Answers) -> Vec<(Voice, String)> {
        let mut messages: Vec<(Voice, String)> = Vec::new();
        for piece in &turn.prompt {
            if messages.last().is_none_or(|(voice, _)| *voice != piece.voice) {
                messages.push((piece.voice, String::new()));
            }
            let Some((_, text)) = messages.last_mut() else { continue };
            match answers.get(&piece.content) {
                Some(answer) => text.push_str(answer),
                None => self.wording.write(*piece, text),
            }
        }
        messages
    }
}

const fn role(voice: Voice) -> &'static str {
    match voice {
        Voice::System => "system",
        Voice::User => "user",
        Voice::Assistant => "assistant",
    }
}
