//! Resume ledger: what a client was told of its answer.
//!
//! **Invariant:** what is in it has been handed to the client, and all of that is in it; ids are the
//! exception, for they run ahead of text that a worker holds back (R4).

use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of one answer that are kept at most; a longer one is not resumed.
pub const LEDGER_BYTES_MAX: usize = 1 << 20;

/// A tool call as far as it was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its place among the calls.
    pub index: u32,
    /// The function.
    pub name: String,
    /// Its arguments so far.
    pub arguments: String,
}

/// What one chunk says of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPart {
    /// Its place among the calls.
    pub index: u32,
    /// Its id, where the call begins.
    pub id: Option<String>,
    /// The function, where it is named.
    pub name: Option<String>,
    /// More of its arguments.
    pub arguments: String,
}

/// What one chunk of an answer adds to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Text for the reader.
    pub text: String,
    /// Reasoning.
    pub reasoning: String,
    /// Tool calls.
    pub calls: Vec<CallPart>,
    /// Ids of its tokens, where they are told.
    pub ids: Option<Vec<u32>>,
    /// Tokens of the answer so far, where the worker counts with every chunk.
    pub tokens: Option<u32>,
    /// Whether it is of an answer's tokens at all, and not a role or a count alone.
    pub is_token: bool,
    /// Whether it holds something that cannot be compared, as a sound.
    pub is_strange: bool,
}

impl Part {
    /// Tokens that it holds at the least: its ids, else one where it says anything.
    pub fn tokens_least(&self) -> u32 {
        let says = !self.text.is_empty() || !self.reasoning.is_empty() || !self.calls.is_empty();
        self.ids.as_ref().map_or(u32::from(says), |ids| count(ids.len()))
    }
}

/// Where a prefix of the text ends, and the tokens it came with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Border {
    bytes: usize,
    tokens: u32,
}

/// Whether the ids are all there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ids {
    /// As far as they were told.
    #[default]
    Complete,
    /// Some are missing, or none were told.
    Missing,
}

/// What a client was told.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    prompt: Option<Vec<u32>>,
    ids: Vec<u32>,
    known: Ids,
    /// Ids that came before the first text.
    before_text: usize,
    tokens: u32,
    /// Tokens that were told at the least, whatever its worker counts.
    least: u32,
    solid: Border,
    prompt_tokens: Option<u32>,
    is_strange: bool,
    /// Whether a part of it was drawn anew, so that no request gives the same again.
    is_redrawn: bool,
    view: View,
}

/// What of ids the client sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Nothing: they are the gateway's.
    #[default]
    Text,
    /// It has asked for them.
    Ids,
}

impl Ledger {
    /// Of a client that sees this.
    pub fn of(view: View) -> Self {
        Self { view, ..Self::default() }
    }

    /// Nothing that the client saw is left of the answer: it begins anew.
    pub fn restart(&mut self) {
        self.ids.clear();
        self.known = Ids::Complete;
        (self.tokens, self.least) = (0, 0);
    }

    /// The prompt's ids were told.
    pub fn prompt(&mut self, ids: Vec<u32>) {
        self.prompt.get_or_insert(ids);
    }

    /// The prompt's tokens were counted.
    pub fn prompt_counted(&mut self, tokens: u32) {
        self.prompt_tokens.get_or_insert(tokens);
    }

    /// This goes to the client.
    pub fn tell(&mut self, part: &Part) {
        self.reasoning.push_str(&part.reasoning);
        part.calls.iter().for_each(|call| self.tell_call(call));
        self.is_strange |= part.is_strange;
        self.least = self.least.saturating_add(part.tokens_least());
        if part.ids.is_none() && part.is_token {
            self.known = Ids::Missing;
        }
        let tokens = match (&part.ids, part.tokens) {
            (Some(ids), None) => self.tokens.saturating_add(count(ids.len())),
            (_, Some(tokens)) => self.tokens.max(tokens),
            // Most servers send a chunk for each token; where they do not, this is an estimate (R9).
            (None, None) => self.tokens.saturating_add(u32::from(part.is_token)),
        };
        self.add(&part.text, part.ids.as_deref().unwrap_or_default(), tokens);
    }

    /// The same of a chunk that says a text, perhaps with ids, and nothing else.
    pub fn tell_text(&mut self, text: &str, ids: Option<&[u32]>) {
        if ids.is_none() {
            self.known = Ids::Missing;
        }
        let more = ids.map_or(1, |ids| count(ids.len()));
        self.least = self.least.saturating_add(more);
        self.add(text, ids.unwrap_or_default(), self.tokens.saturating_add(more));
    }

    fn add(&mut self, text: &str, ids: &[u32], tokens: u32) {
        if self.text.is_empty() && !text.is_empty() {
            self.before_text = self.ids.len();
        }
        self.text.push_str(text);
        self.ids.extend_from_slice(ids);
        self.tokens = tokens;
        if !text.is_empty() && !self.text.ends_with(char::is_whitespace) {
            self.solid = Border { bytes: self.text.len(), tokens };
        }
    }

    fn tell_call(&mut self, part: &CallPart) {
        let at = self.calls.iter().position(|call| call.index == part.index);
        let at = at.unwrap_or_else(|| {
            self.calls.push(Call { index: part.index, ..Call::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        call.name.push_str(part.name.as_deref().unwrap_or_default());
        call.arguments.push_str(&part.arguments);
    }

    /// What follows was not drawn with what stands here.
    pub const fn redrawn(&mut self) {
        self.is_redrawn = true;
    }

    /// The ids are of no further use: what follows comes without them.
    pub const fn forget_ids(&mut self) {
        self.known = Ids::Missing;
    }

    /// Counts the answer's tokens so far, where something else than chunks tells.
    pub const fn counted(&mut self, tokens: u32) {
        self.tokens = tokens;
    }

    /// Whether nothing was told that a reader waits for.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
            && self.reasoning.is_empty()
            && self.calls.is_empty()
            && !self.is_strange
            && (self.view == View::Text || self.ids.is_empty())
    }

    /// Text for the reader.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text up to the last chunk border before which no white space stands: templates trim it.
    pub fn solid_text(&self) -> &str {
        &self.text[..self.solid.bytes]
    }

    /// The tokens that the solid text came with.
    pub const fn solid_tokens(&self) -> u32 {
        self.solid.tokens
    }

    /// Reasoning.
    pub fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// Tool calls.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Ids of prompt and answer, where all of them are known.
    pub fn ids(&self) -> Option<(&[u32], &[u32])> {
        let prompt = self.prompt.as_deref()?;
        (self.known == Ids::Complete).then_some((prompt, self.ids.as_slice()))
    }

    /// Those of the answer's ids that its text came with: what stands before is reasoning.
    pub fn ids_of_text(&self) -> &[u32] {
        let begin = if self.reasoning.is_empty() { 0 } else { self.before_text };
        &self.ids[begin..]
    }

    /// Ids of the answer that were told, complete or not.
    pub fn ids_told(&self) -> &[u32] {
        &self.ids
    }

    /// Whether the client has been told ids, and so expects all of them.
    pub fn owes_ids(&self) -> bool {
        self.view == View::Ids && !self.ids.is_empty()
    }

    /// Tokens of the answer so far.
    pub const fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Tokens that were told at the least, one for each chunk that said anything where ids are not told.
    pub const fn tokens_least(&self) -> u32 {
        self.least
    }

    /// Tokens of the prompt, where they are known.
    pub fn prompt_tokens(&self) -> Option<u32> {
        self.prompt.as_ref().map(|prompt| count(prompt.len())).or(self.prompt_tokens)
    }

    /// Whether it holds something that cannot be compared.
    pub const fn is_strange(&self) -> bool {
        self.is_strange
    }

    /// Whether a part of it was drawn anew.
    pub const fn is_redrawn(&self) -> bool {
        self.is_redrawn
    }

    /// Bytes that it keeps of the answer.
    pub fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len());
        self.text.len() + self.reasoning.len() + 4 * self.ids.len() + calls.sum::<usize>()
    }

    /// Bytes of memory that it has taken.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let prompt = self.prompt.as_ref().map_or(0, Vec::capacity);
        let calls = self.calls.iter().map(|call| call.name.capacity() + call.arguments.capacity());
        size_of::<Self>()
            + self.text.capacity()
            + self.reasoning.capacity()
            + 4 * (self.ids.capacity() + prompt)
            + calls.sum::<usize>()
    }

    /// How often each token was said, as frequency penalties count.
    pub fn frequencies(&self) -> Vec<(u32, u32)> {
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        let mut counted: Vec<(u32, u32)> = Vec::new();
        for id in ids {
            match counted.last_mut() {
                Some((last, times)) if *last == id => *times += 1,
                _ => counted.push((id, 1)),
            }
        }
        counted
    }
}

fn count(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
