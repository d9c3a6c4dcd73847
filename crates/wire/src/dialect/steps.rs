//! Answer steps: a chat answer as items that follow each other, one open at a time.
//!
//! The clients of both dialects keep one item open, so an item that comes while another is not whole is held
//! back: calls that engines interleave, and text that comes in the middle of a call. The open item streams.
//! A call is over once its arguments are a whole JSON object, and then the next item opens, so that of many
//! calls each streams in its turn.
//!
//! | open           | what comes          | then                                              |
//! |----------------|---------------------|---------------------------------------------------|
//! | nothing        | any item            | it opens; a call once its name is known           |
//! | thought, text  | more of it          | it goes on                                        |
//! | thought, text  | another item        | it closes, the other opens                        |
//! | call           | its arguments       | it goes on                                        |
//! | call           | another item        | that waits until the arguments are whole          |
//! | anything       | the answer's end    | what waits opens and closes in order              |
//!
//! **Invariant:** [`Step::Closed`] follows every item but the last, which [`Steps::finish`] leaves open so
//! that its writer can tell a cut item from a whole one.

use std::collections::{BTreeSet, VecDeque};

use serde_json::value::RawValue;

use super::answer::{ChatUsage, Finish, Said};
use super::calls::Calls;
use super::failure::Failure;

/// Bytes that are held back at most while another item is open.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// More of a thought, never empty.
    Thought(String),
    /// More text, never empty, and the log probabilities of its tokens.
    Text(String, Vec<Box<RawValue>>),
    /// More of why the model does not answer, never empty.
    Refusal(String),
    /// A tool call opens.
    CallOpened {
        /// The worker's own id; one of ours where it has none, or has told it of another call.
        id: String,
        /// The function's name.
        name: String,
    },
    /// More of the open call's arguments, never empty.
    Arguments(String),
    /// The open item is over.
    Closed,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub finish: Finish,
    /// What it cost, where the worker says.
    pub usage: Option<ChatUsage>,
    /// The model's name as the worker has it.
    pub model: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Thought,
    Text,
    Refusal,
    Call(usize),
}

#[derive(Debug)]
enum Item {
    Thought(String),
    Text(String, Vec<Box<RawValue>>),
    Refusal(String),
    Call(usize),
}

/// Whether more may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Ending,
}

/// Makes steps of a chat answer.
#[derive(Debug)]
pub struct Steps {
    /// What made-up ids begin with.
    seed: String,
    calls: Calls,
    /// Ids of the calls that have opened.
    ids: BTreeSet<String>,
    /// Calls that have been lined up.
    lined_up: usize,
    open: Option<Open>,
    queue: VecDeque<Item>,
    held: usize,
    finish: Option<Finish>,
    usage: Option<ChatUsage>,
    model: Option<String>,
}

impl Steps {
    /// Steps of an answer whose calls get ids that follow from `seed` where the worker gives none.
    pub fn new(seed: impl Into<String>) -> Self {
        Self {
            seed: seed.into(),
            calls: Calls::default(),
            ids: BTreeSet::new(),
            lined_up: 0,
            open: None,
            queue: VecDeque::new(),
            held: 0,
            finish: None,
            usage: None,
            model: None,
        }
    }

    /// Takes in an event's data, or a whole answer.
    ///
    /// # Errors
    /// [`Failure`] where it is an error or no chat answer; nothing may follow then.
    pub fn handle(&mut self, data: &[u8], out: &mut Vec<Step>) -> Result<(), Failure> {
        let said = Said::parse(data)?;
        self.finish = said.finish.or(self.finish.take());
        self.usage = said.usage.or(self.usage);
        self.model = self.model.take().or(said.model);
        let before = said.thought.len() + said.text.len() + said.refusal.len();
        self.held += before + said.calls.iter().map(|call| call.arguments.len()).sum::<usize>();
        if !said.thought.is_empty() {
            self.queue.push_back(Item::Thought(said.thought));
        }
        if !said.text.is_empty() {
            self.queue.push_back(Item::Text(said.text, said.logprobs));
        }
        if !said.refusal.is_empty() {
            self.queue.push_back(Item::Refusal(said.refusal));
        }
        for fragment in said.calls {
            let too_many =
                |_| Failure::in_stream("the worker's answer has too many calls".to_owned());
            let at = self.calls.take(fragment).map_err(too_many)?;
            if self.lined_up <= at {
                self.lined_up = at + 1;
                self.queue.push_back(Item::Call(at));
            }
        }
        self.advance(Phase::Running, out);
        if self.queue.is_empty() {
            self.held = 0;
        } else if HELD_BYTES_MAX < self.held {
            let message = "the worker interleaves more than can be held back".to_owned();
            return Err(Failure::in_stream(message));
        }
        Ok(())
    }

    /// The answer is whole: gives out what was held back; the last item stays open.
    ///
    /// # Errors
    /// [`Failure`] where a call never got a name.
    pub fn finish(&mut self, out: &mut Vec<Step>) -> Result<Ending, Failure> {
        self.advance(Phase::Ending, out);
        if !self.queue.is_empty() {
            return Err(Failure::in_stream(
                "the worker sent a tool call without a name".to_owned(),
            ));
        }
        let has_calls = self.lined_up > 0;
        let finish = match self.finish.take() {
            Some(Finish::Stop(_)) | None if has_calls => Finish::Calls,
            Some(Finish::Calls) | None if !has_calls => Finish::Stop(None),
            Some(finish) => finish,
            None => Finish::Stop(None),
        };
        Ok(Ending { finish, usage: self.usage, model: self.model.clone() })
    }

    fn advance(&mut self, phase: Phase, out: &mut Vec<Step>) {
        loop {
            if let Some(Open::Call(at)) = self.open {
                let call = self.calls.at(at);
                if !call.waiting.is_empty() && !call.is_null() {
                    out.push(Step::Arguments(std::mem::take(&mut call.waiting)));
                }
                let is_over = call.is_whole() || phase == Phase::Ending;
                if !is_over || self.queue.is_empty() {
                    return;
                }
            }
            let Some(item) = self.queue.pop_front() else { return };
            if let Some(waits) = self.give(item, phase, out) {
                self.queue.push_front(waits);
                return;
            }
        }
    }

    /// Gives an item out; gives it back where it must wait.
    fn give(&mut self, item: Item, phase: Phase, out: &mut Vec<Step>) -> Option<Item> {
        let (open, opening) = match item {
            Item::Thought(text) => (Open::Thought, Step::Thought(text)),
            Item::Text(text, logprobs) => (Open::Text, Step::Text(text, logprobs)),
            Item::Refusal(text) => (Open::Refusal, Step::Refusal(text)),
            Item::Call(at) => {
                let made_up = format!("call_{}", word_of(&self.seed, at));
                let call = self.calls.at(at);
                let Some(name) = call.name.clone() else { return Some(item) };
                if call.id.is_none() && call.waiting.is_empty() && phase == Phase::Running {
                    return Some(item);
                }
                // Models that write their ids themselves write one twice. Results would be told of either call, and
                // the SDKs' helpers take no second item of that id.
                let own = call.id.clone().filter(|id| !self.ids.contains(id));
                let id = own.unwrap_or(made_up);
                self.ids.insert(id.clone());
                (Open::Call(at), Step::CallOpened { id, name })
            }
        };
        if self.open.is_some_and(|before| before != open) {
            out.push(Step::Closed);
        }
        self.open = Some(open);
        out.push(opening);
        None
    }
}

/// Twenty-four digits that follow from a seed and a number, and tell nothing of either.
pub(super) fn word_of(seed: &str, number: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(seed.as_bytes()).update(&number.to_le_bytes());
    hasher.finalize().to_hex()[..24].to_owned()
}
