//! Stream state: whether a streamed answer has said all that was asked for.
//!
//! | state            | after                                                          |
//! |------------------|----------------------------------------------------------------|
//! | open             | nothing but comments, roles and empty texts                     |
//! | running          | a text, a thought, a tool call                                  |
//! | whole            | every choice has finished                                       |
//! | done             | `[DONE]`, every choice that was seen having finished            |
//!
//! A stream that ends while it is open or running was cut, however politely it ends. So was one whose
//! worker says `[DONE]` though a choice that it began has not finished, or none was begun.
//!
//! A stream in a dialect of its own is done after that dialect's last event, whatever the worker adds to it.
//!
//! Events of recordings and pictures have a `type` instead of choices. Such a stream is whole after one that ends in
//! `.done` or `.completed` (`transcript.text.done`, `image_generation.completed`), and need not say `[DONE]`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::chunk::{AnswerChunk, Finish, UsageTold};
use super::dialect::{DialectEvent, DialectUsage, Sense};
use crate::dialect::Dialect;
use crate::error::clip;
use crate::sse::Event;

/// Choices that are told apart at most; a request cannot ask for more than engines allow.
const CHOICES_MAX: usize = 4_096;

/// What an event amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing a reader waits for: a comment, a role, an empty text, what is no answer at all.
    Idle,
    /// Something that a reader waits for, or the end of a choice.
    Progress,
    /// Token counts and nothing else.
    Usage,
    /// The end.
    Done,
}

/// The message of an error whose fields stand bare, or all that was said.
fn message(data: &[u8]) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(data).ok();
    let told = value.as_ref().and_then(|value| value["message"].as_str());
    told.map_or_else(|| clip(&String::from_utf8_lossy(data)), str::to_owned)
}

/// Why a stream is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The worker says that it failed, in these words.
    Failed(String),
    /// The worker gave a choice up.
    Aborted,
    /// It said `[DONE]` before that was so.
    Cut,
}

/// The types of events after which a stream of media is whole, by their ends.
const LAST_EVENTS: [&str; 2] = [".done", ".completed"];

/// What shows that a stream is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grammar {
    /// Its choices.
    Choices,
    /// The type of its last event, or its choices: vLLM streams a transcription as it does a chat.
    Media { has_ended: bool },
    /// The types of its events.
    Dialect(Dialect),
}

/// Reads the events of one stream.
#[derive(Clone, Debug)]
pub struct StreamState {
    grammar: Grammar,
    /// Choices that were asked for.
    asked: usize,
    /// Those that were seen, and whether each has finished.
    choices: BTreeMap<u32, bool>,
    finished: usize,
    begun: bool,
    done: bool,
    usage: Option<UsageTold>,
    dialect_usage: DialectUsage,
    next_number: u64,
}

impl StreamState {
    /// A stream that was asked for so many choices.
    ///
    /// ```
    /// use overdraft_wire::answer::{Heard, StreamState};
    ///
    /// let mut state = StreamState::new(1);
    /// state.handle_data(br#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#).unwrap();
    /// assert!(!state.is_whole());
    /// state.handle_data(br#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#).unwrap();
    /// assert!(state.is_whole());
    /// ```
    pub fn new(choices: u32) -> Self {
        let asked = usize::try_from(choices).unwrap_or(usize::MAX).clamp(1, CHOICES_MAX);
        Self {
            grammar: Grammar::Choices,
            asked,
            choices: BTreeMap::new(),
            finished: 0,
            begun: false,
            done: false,
            usage: None,
            dialect_usage: DialectUsage::default(),
            next_number: 0,
        }
    }

    /// A stream of a worker that speaks a dialect itself.
    ///
    /// ```
    /// use overdraft_wire::answer::StreamState;
    /// use overdraft_wire::dialect::Dialect;
    ///
    /// let mut state = StreamState::of_dialect(Dialect::Messages);
    /// state.handle_data(br#"{"type":"content_block_delta","index":0}"#).unwrap();
    /// assert!(state.has_begun() && !state.is_whole());
    /// state.handle_data(br#"{"type":"message_stop"}"#).unwrap();
    /// assert!(state.is_whole());
    /// ```
    pub fn of_dialect(dialect: Dialect) -> Self {
        Self { grammar: Grammar::Dialect(dialect), ..Self::new(1) }
    }

    /// A stream of a recording, a picture or what was heard in one.
    ///
    /// ```
    /// use overdraft_wire::answer::StreamState;
    ///
    /// let mut state = StreamState::of_media();
    /// state.handle_data(br#"{"type":"transcript.text.delta","delta":"hi"}"#).unwrap();
    /// assert!(state.has_begun() && !state.is_whole());
    /// state.handle_data(br#"{"type":"transcript.text.done","text":"hi"}"#).unwrap();
    /// assert!(state.is_whole());
    /// ```
    pub fn of_media() -> Self {
        Self { grammar: Grammar::Media { has_ended: false }, ..Self::new(1) }
    }

    /// Whether the worker has said `[DONE]` of a whole answer, or the last event of its dialect.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether all has come that was asked for, said or not.
    pub const fn is_whole(&self) -> bool {
        let has_ended = matches!(self.grammar, Grammar::Media { has_ended: true });
        self.done || has_ended || self.asked <= self.finished
    }

    /// Whether anything has come that a reader waits for.
    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    /// The last token counts that were told.
    pub const fn usage(&self) -> Option<UsageTold> {
        self.usage
    }

    /// The number of an event that would follow, where events are numbered.
    pub const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Takes in an event.
    ///
    /// # Errors
    /// [`StreamFault`] where the stream is no answer; nothing may follow then.
    pub fn handle_event(&mut self, event: &Event) -> Result<Heard, StreamFault> {
        if event.is_done() {
            return self.handle_done();
        }
        let Some(data) = event.data() else { return Ok(Heard::Idle) };
        let heard = self.handle_data(&data)?;
        // Some servers tell an error by the event's name alone.
        if event.name() == Some(b"error") {
            return Err(StreamFault::Failed(message(&data)));
        }
        Ok(heard)
    }

    /// Takes in an event's data. What is no answer is the client's to judge; it neither ends nor finishes
    /// anything.
    ///
    /// # Errors
    /// [`StreamFault`] where it says that the stream is no answer.
    pub fn handle_data(&mut self, data: &[u8]) -> Result<Heard, StreamFault> {
        if let Grammar::Dialect(dialect) = self.grammar {
            return self.handle_dialect(dialect, data);
        }
        let Ok(chunk) = AnswerChunk::parse(data) else { return Ok(Heard::Idle) };
        if let Some(message) = chunk.error {
            return Err(StreamFault::Failed(message));
        }
        self.usage = chunk.usage.or(self.usage);
        for choice in chunk.choices.iter().flatten() {
            if choice.finish == Finish::Aborted {
                return Err(StreamFault::Aborted);
            }
            self.note(choice.index, choice.finish);
        }
        self.begun |= chunk.has_progress();
        if self.grammar != Grammar::Choices {
            return self.handle_media(data);
        }
        Ok(match () {
            () if chunk.is_usage_only() => Heard::Usage,
            () if chunk.has_progress() => Heard::Progress,
            () => Heard::Idle,
        })
    }

    /// Takes in an event of a dialect.
    fn handle_dialect(&mut self, dialect: Dialect, data: &[u8]) -> Result<Heard, StreamFault> {
        let event = DialectEvent::read(dialect, data);
        if let Some(usage) = event.usage {
            self.dialect_usage = self.dialect_usage.or(usage);
            self.usage = self.dialect_usage.told();
        }
        // A failure is not relayed, so that another event may have its number.
        let is_relayed = !matches!(event.sense, Sense::Failed(_));
        if let Some(number) = event.number.filter(|_| is_relayed) {
            self.next_number = number.saturating_add(1);
        }
        match event.sense {
            Sense::Idle => return Ok(Heard::Idle),
            Sense::Progress => {}
            Sense::Failed(why) => return Err(StreamFault::Failed(why)),
            // Nothing has been seen of it, so that another worker may do better.
            Sense::EndedFailed(why) if !self.begun => return Err(StreamFault::Failed(why)),
            Sense::Ended | Sense::EndedFailed(_) => self.done = true,
        }
        self.begun = true;
        Ok(if self.done { Heard::Done } else { Heard::Progress })
    }

    /// Takes in an event of media; whatever it says, a reader waits for it.
    fn handle_media(&mut self, data: &[u8]) -> Result<Heard, StreamFault> {
        #[derive(Deserialize)]
        struct Typed<'a> {
            #[serde(borrow)]
            r#type: Option<Cow<'a, str>>,
        }
        let typed: Option<Typed<'_>> = serde_json::from_slice(data).ok();
        let kind = typed.and_then(|typed| typed.r#type).unwrap_or_default();
        if kind == "error" {
            return Err(StreamFault::Failed(message(data)));
        }
        self.begun = true;
        let has_ended = LAST_EVENTS.iter().any(|last| kind.ends_with(last));
        self.grammar = Grammar::Media { has_ended };
        Ok(Heard::Progress)
    }

    fn handle_done(&mut self) -> Result<Heard, StreamFault> {
        // A worker may give fewer choices than were asked for, as those do that know one only; each that it
        // began must have finished.
        let is_cut = self.choices.is_empty() || self.finished < self.choices.len();
        if is_cut && !matches!(self.grammar, Grammar::Media { .. }) {
            return Err(StreamFault::Cut);
        }
        self.done = true;
        Ok(Heard::Done)
    }

    fn note(&mut self, index: u32, finish: Finish) {
        if CHOICES_MAX <= self.choices.len() && !self.choices.contains_key(&index) {
            return;
        }
        let has_finished = self.choices.entry(index).or_default();
        if finish == Finish::Ended && !*has_finished {
            *has_finished = true;
            self.finished += 1;
        }
    }
}
