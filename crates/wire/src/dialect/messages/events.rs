//! Message events: a streamed answer in the dialect of Messages.
//!
//! | after               | event                                                       |
//! |---------------------|-------------------------------------------------------------|
//! | the beginning       | `message_start`                                             |
//! | an item opens       | `content_block_start`                                       |
//! | more of it          | `content_block_delta`                                       |
//! | it closes           | `content_block_stop`, after `signature_delta` for a thought |
//! | the answer is whole | `message_delta`, `message_stop`                             |
//! | it broke off        | `error`                                                     |

use serde::Serialize;
use serde_json::{Value, json};

use super::error::error;
use super::object::{Message, Signature, Usage, stop_of};
use super::{Identity, Told};
use crate::dialect::failure::Failure;
use crate::dialect::steps::{Ending, Step};
use crate::dialect::stream::EventWriter;

/// Writes the events of one message.
#[derive(Debug)]
pub struct Writer {
    identity: Identity,
    /// Names the request in errors.
    request_id: String,
    told: Told,
    /// Blocks that have been opened.
    blocks: usize,
    open: Option<Open>,
}

#[derive(Debug)]
enum Open {
    Thought(Box<Signature>),
    Text,
    Call,
}

impl Writer {
    /// A writer of the message that `identity` names.
    pub const fn new(identity: Identity, request_id: String, told: Told) -> Self {
        Self { identity, request_id, told, blocks: 0, open: None }
    }

    fn start(&mut self, open: Open, block: &Value, out: &mut Vec<u8>) {
        self.close(out);
        self.open = Some(open);
        let event =
            json!({"type": "content_block_start", "index": self.blocks, "content_block": block});
        write("content_block_start", &event, out);
        self.blocks += 1;
    }

    fn delta(&self, delta: Delta<'_>, out: &mut Vec<u8>) {
        let index = self.blocks.saturating_sub(1);
        write(
            "content_block_delta",
            &BlockDelta { r#type: "content_block_delta", index, delta },
            out,
        );
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let Some(open) = self.open.take() else { return };
        if let Open::Thought(signature) = open {
            self.delta(Delta::Signature { signature: &signature.finish() }, out);
        }
        let index = self.blocks.saturating_sub(1);
        write("content_block_stop", &json!({"type": "content_block_stop", "index": index}), out);
    }
}

#[derive(Serialize)]
struct BlockDelta<'a> {
    r#type: &'static str,
    index: usize,
    delta: Delta<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Delta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

impl EventWriter for Writer {
    fn begin(&mut self, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Start<'a> {
            r#type: &'static str,
            message: Message<'a>,
        }
        let event = Start { r#type: "message_start", message: Message::begun(&self.identity) };
        write("message_start", &event, out);
    }

    fn step(&mut self, step: Step, out: &mut Vec<u8>) {
        match step {
            _ if self.told == Told::Nothing => {}
            Step::Thought(_) if self.told == Told::ButThoughts => {}
            Step::Thought(thinking) => {
                if !matches!(self.open, Some(Open::Thought(_))) {
                    let block = json!({"type": "thinking", "thinking": "", "signature": ""});
                    self.start(Open::Thought(Box::default()), &block, out);
                }
                if let Some(Open::Thought(signature)) = &mut self.open {
                    signature.update(&thinking);
                }
                self.delta(Delta::Thinking { thinking: &thinking }, out);
            }
            Step::Text(text, _) | Step::Refusal(text) => {
                if !matches!(self.open, Some(Open::Text)) {
                    self.start(Open::Text, &json!({"type": "text", "text": ""}), out);
                }
                self.delta(Delta::Text { text: &text }, out);
            }
            Step::CallOpened { id, name } => {
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                self.start(Open::Call, &block, out);
            }
            Step::Arguments(text) => self.delta(Delta::InputJson { partial_json: &text }, out),
            Step::Closed => self.close(out),
        }
    }

    fn finish(&mut self, ending: &Ending, out: &mut Vec<u8>) {
        self.close(out);
        let (reason, sequence) = stop_of(&ending.finish, self.told);
        let delta = json!({"stop_reason": reason, "stop_sequence": sequence});
        let event =
            json!({"type": "message_delta", "delta": delta, "usage": Usage::of(ending.usage)});
        write("message_delta", &event, out);
        write("message_stop", &json!({"type": "message_stop"}), out);
    }

    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        // The words of an answer that failed before anything was sent: agents go by them in a stream as well.
        let (_, body) = error(failure, &self.request_id);
        out.extend_from_slice(b"event: error\ndata: ");
        out.extend_from_slice(&body);
        out.extend_from_slice(b"\n\n");
    }

    fn ping(&self, out: &mut Vec<u8>) {
        write("ping", &json!({"type": "ping"}), out);
    }
}

fn write(name: &str, event: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    crate::sse::write_data(out, event);
}
