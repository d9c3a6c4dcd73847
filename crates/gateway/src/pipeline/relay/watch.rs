//! Has this stream said all it has to say, or did it only stop?
//!
//! A stream is whole when it has sent `[DONE]`, or a finish reason for every choice. Most chunks
//! say neither, and are recognised as such by looking for four short strings; only a chunk that
//! holds one of them is cut into events and read. A chunk that ends within an event is the other
//! exception: the rest is held back until the event is whole, so that an error can always follow
//! as an event of its own.
//!
//! Invariant: what is given out is a sequence of whole events and the same bytes as came in; nothing
//! is given out after `[DONE]`, and neither is an event that tells a failure, or token counts that
//! only we asked for.

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use overdraft_units::Tokens;
use overdraft_wire::sse::{Event, Splitter};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Fault;
use crate::dispatch::Used;
use crate::pipeline::usage::Counts;

/// What vLLM gives as finish reason when it shuts down or evicts a request: no answer at all.
const ABORT: &str = "abort";

/// What one chunk amounted to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What may be given out now; empty when nothing may.
    pub(crate) relay: Bytes,
    /// Why nothing may follow it.
    pub(crate) fault: Option<Fault>,
}

/// Watches one stream.
#[derive(Debug)]
pub(crate) struct Watch {
    splitter: Splitter,
    /// Bytes of an event that is not whole yet.
    held: usize,
    choices: usize,
    finished: usize,
    done: bool,
    used: Option<Used>,
    counts: Counts,
}

/// What is done with an event that was read.
enum Heard {
    Relay,
    KeepBack,
    Fault(Fault),
}

impl Watch {
    /// Watches a stream of `choices` choices whose events have up to `event_bytes` bytes.
    pub(crate) fn new(choices: u32, event_bytes: usize, counts: Counts) -> Self {
        Self {
            splitter: Splitter::new(event_bytes),
            held: 0,
            choices: choices.max(1) as usize,
            finished: 0,
            done: false,
            used: None,
            counts,
        }
    }

    /// Whether `[DONE]` has been given out.
    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether all has come that was asked for, said or not.
    pub(crate) const fn is_whole(&self) -> bool {
        self.done || self.choices <= self.finished
    }

    /// The last token counts that were told.
    pub(crate) const fn used(&self) -> Option<Used> {
        self.used
    }

    /// Takes in the next chunk.
    pub(crate) fn take(&mut self, chunk: Bytes) -> Seen {
        if self.done {
            return Seen { relay: Bytes::new(), fault: None };
        }
        if self.held == 0 && ends_event(&chunk) && !is_telling(&chunk) {
            return Seen { relay: chunk, fault: None };
        }
        self.read(&chunk)
    }

    /// Cuts a chunk into events and reads each.
    fn read(&mut self, chunk: &Bytes) -> Seen {
        let held_before = self.held;
        self.splitter.push(chunk);
        self.held += chunk.len();
        let mut events = Vec::new();
        let (mut fault, mut is_gapless) = (None, held_before == 0);
        while fault.is_none() && !self.done {
            match self.splitter.next_event() {
                Ok(Some(event)) => {
                    self.held -= event.raw().len();
                    match self.hear(&event) {
                        Heard::Relay => events.push(event),
                        Heard::KeepBack => is_gapless = false,
                        Heard::Fault(told) => fault = Some(told),
                    }
                }
                Ok(None) => break,
                Err(error) => fault = Some(Fault::Broken(error.to_string())),
            }
        }
        // Whole events of one chunk, which most chunks are, go out as they came in.
        let given: usize = events.iter().map(|event| event.raw().len()).sum();
        let relay = if is_gapless { chunk.slice(..given) } else { joined(&events, given) };
        Seen { relay, fault }
    }

    /// Reads one event.
    fn hear(&mut self, event: &Event) -> Heard {
        if event.is_done() {
            self.done = true;
            return Heard::Relay;
        }
        let Some(data) = event.data() else { return Heard::Relay };
        // What is no JSON is the client's to judge; it neither ends nor finishes anything.
        let Ok(told) = serde_json::from_slice::<Told<'_>>(&data) else { return Heard::Relay };
        if told.error.is_some() {
            return Heard::Fault(Fault::of_worker(message(&data)));
        }
        let is_bare = told.choices.as_ref().is_some_and(Vec::is_empty);
        for choice in told.choices.unwrap_or_default() {
            match choice.finish_reason.as_deref() {
                Some(ABORT) => {
                    return Heard::Fault(Fault::Worker("it aborted the request".to_owned()));
                }
                Some(_) => self.finished += 1,
                None => {}
            }
        }
        let counts_only = is_bare && told.usage.is_some();
        self.used = told.usage.map(Usage::into_used).or(self.used);
        match self.counts {
            Counts::KeptBack if counts_only => Heard::KeepBack,
            Counts::KeptBack | Counts::Relayed => Heard::Relay,
        }
    }
}

fn joined(events: &[Event], bytes: usize) -> Bytes {
    let mut joined = BytesMut::with_capacity(bytes);
    for event in events {
        joined.extend_from_slice(event.raw());
    }
    joined.freeze()
}

/// Whether a chunk ends with a blank line. One that ends with CR is left to the splitter: the next
/// chunk may begin with the LF.
fn ends_event(chunk: &[u8]) -> bool {
    chunk.ends_with(b"\n\n") || chunk.ends_with(b"\r\n\r\n")
}

/// Whether a chunk may say something that matters here. It may be wrong about that, for text can
/// hold the same letters, but it never misses anything.
fn is_telling(chunk: &[u8]) -> bool {
    NEEDLES.done.find(chunk).is_some()
        || NEEDLES.keys.iter().any(|key| {
            let after = |at: usize| &chunk[at + key.needle().len()..];
            key.find_iter(chunk).any(|at| !is_null(after(at)))
        })
}

/// What to look for, prepared once.
struct Needles {
    done: Finder<'static>,
    keys: [Finder<'static>; 3],
}

static NEEDLES: LazyLock<Needles> = LazyLock::new(|| Needles {
    done: Finder::new(b"[DONE]"),
    keys: [Finder::new(b"\"finish_reason\""), Finder::new(b"\"usage\""), Finder::new(b"\"error\"")],
});

/// Whether what follows a key is `: null`.
fn is_null(after: &[u8]) -> bool {
    let after = after.trim_ascii_start();
    let value = after.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    value.is_some_and(|value| value.starts_with(b"null"))
}

/// The parts of an event that matter here.
#[derive(Deserialize)]
struct Told<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

/// Token counts, as far as they are told.
#[derive(Deserialize)]
pub(super) struct Usage {
    #[serde(default)]
    prompt_tokens: u32,
    #[serde(default)]
    completion_tokens: u32,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Clone, Copy, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u32>,
}

impl Usage {
    pub(super) fn into_used(self) -> Used {
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Used {
            prompt: Tokens::new(self.prompt_tokens),
            cached: cached.map(Tokens::new),
            completion: Tokens::new(self.completion_tokens),
        }
    }
}

/// What an error event says, in its own words.
fn message(data: &[u8]) -> String {
    let peek = overdraft_wire::json::ChunkPeek::parse(data).ok();
    peek.and_then(|peek| peek.error).unwrap_or_else(|| "it did not say why".to_owned())
}
