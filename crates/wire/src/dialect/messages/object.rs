//! Message object: a whole answer in the dialect of Messages.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::{Identity, Told};
use crate::dialect::answer::{ChatUsage, Finish};
use crate::dialect::failure::Failure;
use crate::dialect::steps::{Ending, Step};
use crate::dialect::stream::translate_whole;

/// Bytes of a thought's signature before they are spelled out.
const SIGNATURE_BYTES: usize = 24;

/// A message.
#[derive(Debug, Serialize)]
pub(super) struct Message<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block>,
    stop_reason: Option<&'static str>,
    stop_sequence: Option<&'a str>,
    usage: Usage,
}

impl<'a> Message<'a> {
    /// A message that has only begun.
    pub(super) fn begun(identity: &'a Identity) -> Self {
        Self {
            id: &identity.id,
            r#type: "message",
            role: "assistant",
            model: identity.model.as_deref().unwrap_or_default(),
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: Usage::default(),
        }
    }
}

/// A content block.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text { text: String },
    Thinking { thinking: String, signature: String },
    ToolUse { id: String, name: String, input: Input },
}

/// The arguments of a call as a value: digits and order of keys stay as the model wrote them.
#[derive(Debug, Default)]
pub(super) struct Input(String);

impl Serialize for Input {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What was cut off in the middle is no value, and no arguments are an empty object.
        let raw: Option<&RawValue> = serde_json::from_str(&self.0).ok();
        match raw {
            Some(raw) => raw.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

/// Token counts: what was cached is not counted as input a second time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
    #[serde(rename = "cache_read_input_tokens", skip_serializing_if = "Option::is_none")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens", skip_serializing_if = "Option::is_none")]
    cache_creation: Option<u64>,
    #[serde(rename = "output_tokens_details", skip_serializing_if = "Option::is_none")]
    output_details: Option<OutputDetails>,
}

/// What the output is made of; absent where the worker tells of no thoughts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct OutputDetails {
    #[serde(rename = "thinking_tokens")]
    thinking: u64,
}

impl Usage {
    pub(super) fn of(told: Option<ChatUsage>) -> Self {
        let told = told.unwrap_or_default();
        let cached = told.cached.map(|cached| cached.min(told.prompt));
        Self {
            input: told.prompt - cached.unwrap_or(0),
            output: told.completion,
            cache_read: cached,
            cache_creation: cached.map(|_| 0),
            output_details: (0 < told.reasoning)
                .then_some(OutputDetails { thinking: told.reasoning }),
        }
    }
}

/// Why the answer ended, and the stop sequence that it met.
pub(super) fn stop_of(finish: &Finish, told: Told) -> (&'static str, Option<&str>) {
    if told == Told::Nothing {
        return ("max_tokens", None);
    }
    match finish {
        Finish::Stop(None) => ("end_turn", None),
        Finish::Stop(Some(sequence)) => ("stop_sequence", Some(sequence)),
        Finish::Calls => ("tool_use", None),
        Finish::Length => ("max_tokens", None),
        Finish::Filtered => ("refusal", None),
    }
}

/// The signature of a thought: clients keep no thought without one. It follows from the thought and proves
/// nothing; any signature is taken back.
#[derive(Clone, Debug, Default)]
pub(super) struct Signature(blake3::Hasher);

impl Signature {
    pub(super) fn update(&mut self, thought: &str) {
        self.0.update(thought.as_bytes());
    }

    pub(super) fn finish(&self) -> String {
        use base64::Engine as _;
        let hash = self.0.finalize();
        base64::engine::general_purpose::STANDARD.encode(&hash.as_bytes()[..SIGNATURE_BYTES])
    }
}

/// The object of a whole chat answer.
///
/// # Errors
/// [`Failure`] where that is no answer.
pub fn object(answer: &[u8], identity: &Identity, told: Told) -> Result<Vec<u8>, Failure> {
    let (mut steps, ending) = translate_whole(answer, &identity.id)?;
    steps.retain(|step| match told {
        Told::All => true,
        Told::ButThoughts => !matches!(step, Step::Thought(_)),
        Told::Nothing => false,
    });
    Ok(assemble(steps, &ending, identity, told))
}

/// The object that steps add up to.
fn assemble(steps: Vec<Step>, ending: &Ending, identity: &Identity, told: Told) -> Vec<u8> {
    let mut blocks = Vec::new();
    let mut is_open = false;
    for step in steps {
        match (step, blocks.last_mut()) {
            (Step::Closed, _) => {
                is_open = false;
                continue;
            }
            (Step::Thought(more), Some(Block::Thinking { thinking, .. })) if is_open => {
                thinking.push_str(&more);
            }
            (Step::Thought(thinking), _) => {
                blocks.push(Block::Thinking { thinking, signature: String::new() });
            }
            (Step::Text(more, _) | Step::Refusal(more), Some(Block::Text { text })) if is_open => {
                text.push_str(&more);
            }
            (Step::Text(text, _) | Step::Refusal(text), _) => blocks.push(Block::Text { text }),
            (Step::CallOpened { id, name }, _) => {
                blocks.push(Block::ToolUse { id, name, input: Input::default() });
            }
            (Step::Arguments(more), Some(Block::ToolUse { input, .. })) => input.0.push_str(&more),
            (Step::Arguments(_), _) => debug_assert!(false, "arguments follow their call"),
        }
        is_open = true;
    }
    for block in &mut blocks {
        if let Block::Thinking { thinking, signature } = block {
            let mut made = Signature::default();
            made.update(thinking);
            *signature = made.finish();
        }
    }
    let (stop_reason, stop_sequence) = stop_of(&ending.finish, told);
    let message = Message {
        model: identity.model.as_deref().or(ending.model.as_deref()).unwrap_or_default(),
        content: blocks,
        stop_reason: Some(stop_reason),
        stop_sequence,
        usage: Usage::of(ending.usage),
        ..Message::begun(identity)
    };
    serde_json::to_vec(&message).expect("a message has string keys")
}
