//! Response events: a streamed answer in the dialect of Responses.
//!
//! | after               | events                                                                  |
//! |---------------------|-------------------------------------------------------------------------|
//! | the beginning       | `response.created`, `response.in_progress`                              |
//! | an item opens       | `response.output_item.added`; `response.content_part.added` for text and thoughts |
//! | more of it          | its `.delta`                                                            |
//! | it closes           | its `.done`; `response.content_part.done` for those; `response.output_item.done` |
//! | the answer is whole | `response.completed`, or `response.incomplete` where it was cut short   |
//! | it broke off        | `response.failed`                                                       |
//!
//! **Invariant:** `sequence_number` counts from 0 without gaps, and the output of the last event is the items
//! of `response.output_item.done`. A part is added before its deltas: `OpenAI`'s SDK for Node appends them to it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Seal;
use super::custom::InputDecoder;
use super::echo::Echo;
use super::error::code;
use super::object::{Item, Object, Part, Status};
use super::request::{Included, Translated};
use super::tools::{Kind, Named, Naming};
use crate::dialect::answer::Finish;
use crate::dialect::failure::Failure;
use crate::dialect::steps::{Ending, Step, word_of};
use crate::dialect::stream::{EventWriter, translate_whole};

/// Who answers, as the client knows it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The response's id.
    pub id: String,
    /// When it was made, in seconds since 1970.
    pub created_at: u64,
    /// The model that was asked for; the worker's own name where none was.
    pub model: Option<String>,
}

/// Writes the events of one response.
#[derive(Debug)]
pub struct Writer {
    identity: Identity,
    echo: Echo,
    naming: Naming,
    included: Included,
    seal: Arc<dyn Seal>,
    sequence: u64,
    /// The items that are whole.
    items: Vec<Box<RawValue>>,
    open: Option<OpenItem>,
    /// The last event's object.
    last: Option<Vec<u8>>,
}

/// The item that is open.
#[derive(Debug)]
struct OpenItem {
    id: String,
    text: String,
    kind: OpenKind,
}

#[derive(Debug)]
enum OpenKind {
    Message(Vec<Box<RawValue>>),
    /// A message that says why there is no other.
    Refusal,
    Reasoning,
    Function {
        call_id: String,
        tool: Named,
    },
    Custom {
        call_id: String,
        tool: Named,
        decoder: InputDecoder,
    },
}

impl Writer {
    /// A writer of the response that `identity` names.
    pub fn new(identity: Identity, translated: Translated, seal: Arc<dyn Seal>) -> Self {
        let Translated { naming, echo, included, .. } = translated;
        Self {
            identity,
            echo,
            naming,
            included,
            seal,
            sequence: 0,
            items: Vec::new(),
            open: None,
            last: None,
        }
    }

    /// The object of the last event, once that was written.
    pub fn object(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }

    /// The object of a response that is under way.
    pub fn under_way(&self) -> Vec<u8> {
        encode(&self.base(None))
    }

    /// The object of a response that was cancelled.
    pub fn cancelled(&self) -> Vec<u8> {
        encode(&self.base(None).with(Status::Cancelled, &self.items))
    }

    fn base<'a>(&'a self, model: Option<&'a str>) -> Object<'a> {
        Object::new(&self.identity, model, &self.echo)
    }

    fn event(&mut self, name: &'static str, body: impl Serialize, out: &mut Vec<u8>) {
        write(name, self.sequence, body, out);
        self.sequence += 1;
    }

    /// The place of the open item.
    fn at(&self) -> usize {
        self.items.len()
    }

    fn start(&mut self, kind: OpenKind, out: &mut Vec<u8>) {
        self.close(Status::Completed, out);
        let prefix = match &kind {
            OpenKind::Message(_) | OpenKind::Refusal => "msg",
            OpenKind::Reasoning => "rs",
            OpenKind::Function { .. } => "fc",
            OpenKind::Custom { .. } => "ctc",
        };
        let id = format!("{prefix}_{}", word_of(&self.identity.id, self.at()));
        let open = OpenItem { id, text: String::new(), kind };
        let item = open.item(Status::InProgress, None).to_raw();
        let output_index = self.at();
        let added = json!({"output_index": output_index});
        self.event("response.output_item.added", WithItem { body: added, item: &item }, out);
        if let Some(part) = open.part() {
            let place = Place { item_id: &open.id, output_index, content_index: Some(0) };
            let added = Placed { place, body: WithPart { part } };
            self.event("response.content_part.added", added, out);
        }
        self.open = Some(open);
    }

    /// Adds to the open item and tells it.
    fn grow(
        &mut self,
        name: &'static str,
        more: &str,
        logprobs: Vec<Box<RawValue>>,
        out: &mut Vec<u8>,
    ) {
        let Some(mut open) = self.open.take() else { return };
        open.text.push_str(more);
        let content_index = open.content_index();
        let place = Place { item_id: &open.id, output_index: self.at(), content_index };
        let is_text = matches!(open.kind, OpenKind::Message(_));
        let told: Option<&[Box<RawValue>]> = is_text.then_some(&logprobs);
        self.event(name, Placed { place, body: WithDelta { delta: more, logprobs: told } }, out);
        if let OpenKind::Message(all) = &mut open.kind {
            all.extend(logprobs);
        }
        self.open = Some(open);
    }

    /// Tells what the open item lacks: the rest of an input, and an object for a function that takes nothing, whose
    /// clients read JSON.
    fn complete(&mut self, status: Status, out: &mut Vec<u8>) {
        let Some(open) = &mut self.open else { return };
        let is_blank = open.text.is_empty() && status == Status::Completed;
        let (name, rest) = match &mut open.kind {
            OpenKind::Custom { decoder, .. } => {
                ("response.custom_tool_call_input.delta", decoder.finish())
            }
            OpenKind::Function { .. } if is_blank => {
                ("response.function_call_arguments.delta", "{}".to_owned())
            }
            OpenKind::Function { .. }
            | OpenKind::Message(_)
            | OpenKind::Refusal
            | OpenKind::Reasoning => return,
        };
        if !rest.is_empty() {
            self.grow(name, &rest, Vec::new(), out);
        }
    }

    fn close(&mut self, status: Status, out: &mut Vec<u8>) {
        self.complete(status, out);
        let Some(open) = self.open.take() else { return };
        let output_index = self.at();
        let place =
            || Place { item_id: &open.id, output_index, content_index: open.content_index() };
        let text = &open.text;
        match &open.kind {
            OpenKind::Message(logprobs) => {
                let done = WithLogprobs { text, logprobs };
                self.event("response.output_text.done", Placed { place: place(), body: done }, out);
            }
            OpenKind::Refusal => {
                let body = json!({"refusal": text});
                self.event("response.refusal.done", Placed { place: place(), body }, out);
            }
            OpenKind::Reasoning => {
                let body = json!({"text": text});
                self.event("response.reasoning_text.done", Placed { place: place(), body }, out);
            }
            OpenKind::Function { tool, .. } => {
                let body = json!({"name": tool.name, "arguments": text});
                let name = "response.function_call_arguments.done";
                self.event(name, Placed { place: place(), body }, out);
            }
            OpenKind::Custom { .. } => {
                let body = json!({"input": text});
                let name = "response.custom_tool_call_input.done";
                self.event(name, Placed { place: place(), body }, out);
            }
        }
        if let Some(part) = open.part() {
            let body = WithPart { part };
            self.event("response.content_part.done", Placed { place: place(), body }, out);
        }
        let is_sealed = self.included.seals && matches!(open.kind, OpenKind::Reasoning);
        let sealed = if is_sealed { self.seal.seal(text) } else { None };
        let item = open.item(status, sealed).to_raw();
        let done = json!({"output_index": output_index});
        self.event("response.output_item.done", WithItem { body: done, item: &item }, out);
        self.items.push(item);
    }

    /// Writes the last event and keeps its object.
    fn end(&mut self, name: &'static str, object: Vec<u8>, out: &mut Vec<u8>) {
        let response: Option<&RawValue> = serde_json::from_slice(&object).ok();
        write(name, self.sequence, WithResponse { response }, out);
        self.sequence += 1;
        self.last = Some(object);
    }
}

impl OpenItem {
    const fn content_index(&self) -> Option<usize> {
        match self.kind {
            OpenKind::Message(_) | OpenKind::Refusal | OpenKind::Reasoning => Some(0),
            OpenKind::Function { .. } | OpenKind::Custom { .. } => None,
        }
    }

    /// The part that its content is, as far as it has come; a call has none.
    fn part(&self) -> Option<Part<'_>> {
        match &self.kind {
            OpenKind::Message(logprobs) => Some(Part::text(&self.text, logprobs)),
            OpenKind::Refusal => Some(Part::Refusal { refusal: &self.text }),
            OpenKind::Reasoning => Some(Part::ReasoningText { text: &self.text }),
            OpenKind::Function { .. } | OpenKind::Custom { .. } => None,
        }
    }

    /// The item as it stands: without content while it is in progress.
    fn item(&self, status: Status, encrypted_content: Option<String>) -> Item<'_> {
        let (id, text) = (self.id.as_str(), self.text.as_str());
        let is_open = status == Status::InProgress;
        let content = self.part().filter(|_| !is_open).into_iter().collect();
        match &self.kind {
            OpenKind::Message(_) | OpenKind::Refusal => {
                Item::Message { id, status, role: "assistant", content }
            }
            OpenKind::Reasoning => {
                Item::Reasoning { id, status, summary: [], content, encrypted_content }
            }
            OpenKind::Function { call_id, tool } => Item::FunctionCall {
                id,
                status,
                call_id,
                name: &tool.name,
                arguments: text,
                namespace: tool.namespace.as_deref(),
            },
            OpenKind::Custom { call_id, tool, .. } => Item::CustomToolCall {
                id,
                status,
                call_id,
                name: &tool.name,
                input: text,
                namespace: tool.namespace.as_deref(),
            },
        }
    }
}

impl EventWriter for Writer {
    fn begin(&mut self, out: &mut Vec<u8>) {
        for name in ["response.created", "response.in_progress"] {
            write(name, self.sequence, WithResponse { response: self.base(None) }, out);
            self.sequence += 1;
        }
    }

    fn step(&mut self, step: Step, out: &mut Vec<u8>) {
        let open = self.open.as_ref().map(|open| &open.kind);
        match step {
            Step::Thought(text) => {
                if !matches!(open, Some(OpenKind::Reasoning)) {
                    self.start(OpenKind::Reasoning, out);
                }
                self.grow("response.reasoning_text.delta", &text, Vec::new(), out);
            }
            Step::Text(text, logprobs) => {
                if !matches!(open, Some(OpenKind::Message(_))) {
                    self.start(OpenKind::Message(Vec::new()), out);
                }
                let logprobs = if self.included.logprobs { logprobs } else { Vec::new() };
                self.grow("response.output_text.delta", &text, logprobs, out);
            }
            Step::Refusal(text) => {
                if !matches!(open, Some(OpenKind::Refusal)) {
                    self.start(OpenKind::Refusal, out);
                }
                self.grow("response.refusal.delta", &text, Vec::new(), out);
            }
            Step::CallOpened { id: call_id, name } => {
                let tool = self.naming.of_chat(&name);
                let kind = match tool.kind {
                    Kind::Function => OpenKind::Function { call_id, tool },
                    Kind::Custom => {
                        OpenKind::Custom { call_id, tool, decoder: InputDecoder::default() }
                    }
                };
                self.start(kind, out);
            }
            Step::Arguments(text) => match self.open.as_mut().map(|open| &mut open.kind) {
                Some(OpenKind::Custom { decoder, .. }) => {
                    let more = decoder.push(&text);
                    if !more.is_empty() {
                        let name = "response.custom_tool_call_input.delta";
                        self.grow(name, &more, Vec::new(), out);
                    }
                }
                _ => self.grow("response.function_call_arguments.delta", &text, Vec::new(), out),
            },
            Step::Closed => self.close(Status::Completed, out),
        }
    }

    fn finish(&mut self, ending: &Ending, out: &mut Vec<u8>) {
        let (status, name, reason) = match ending.finish {
            Finish::Stop(_) | Finish::Calls => (Status::Completed, "response.completed", None),
            Finish::Length => {
                (Status::Incomplete, "response.incomplete", Some("max_output_tokens"))
            }
            Finish::Filtered => (Status::Incomplete, "response.incomplete", Some("content_filter")),
        };
        self.close(status, out);
        let object = self.base(ending.model.as_deref()).with(status, &self.items);
        let object = encode(&object.incomplete(reason).used(ending.usage));
        self.end(name, object, out);
    }

    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        let code = code(failure).unwrap_or_else(|| "server_error".to_owned());
        let object = self.base(None).with(Status::Failed, &self.items);
        let object = encode(&object.failed(&code, &failure.message));
        self.end("response.failed", object, out);
    }

    fn ping(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&crate::sse::comment("keep-alive"));
    }
}

/// The object of a whole chat answer.
///
/// # Errors
/// [`Failure`] where that is no answer.
pub fn object(answer: &[u8], mut writer: Writer) -> Result<Vec<u8>, Failure> {
    let (steps, ending) = translate_whole(answer, &writer.identity.id)?;
    // The same items as of a stream, whose events nobody reads.
    let mut unread = Vec::new();
    for step in steps {
        writer.step(step, &mut unread);
        unread.clear();
    }
    writer.finish(&ending, &mut unread);
    Ok(writer.last.unwrap_or_default())
}

#[derive(Serialize)]
struct Place<'a> {
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<usize>,
}

#[derive(Serialize)]
struct Placed<'a, T: Serialize> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    body: T,
}

#[derive(Serialize)]
struct WithItem<'a, T: Serialize> {
    #[serde(flatten)]
    body: T,
    item: &'a RawValue,
}

#[derive(Serialize)]
struct WithResponse<T: Serialize> {
    response: T,
}

#[derive(Serialize)]
struct WithPart<'a> {
    part: Part<'a>,
}

#[derive(Serialize)]
struct WithLogprobs<'a> {
    text: &'a str,
    logprobs: &'a [Box<RawValue>],
}

#[derive(Serialize)]
struct WithDelta<'a> {
    delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<&'a [Box<RawValue>]>,
}

fn write(name: &'static str, sequence_number: u64, body: impl Serialize, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    struct Event<T: Serialize> {
        r#type: &'static str,
        sequence_number: u64,
        #[serde(flatten)]
        body: T,
    }
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    crate::sse::write_data(out, &Event { r#type: name, sequence_number, body });
}

fn encode(object: &Object<'_>) -> Vec<u8> {
    serde_json::to_vec(object).expect("an object has string keys")
}
