//! Guard characters: mark the client's text in a rendered prompt.
//!
//! The guard is a Unicode noncharacter that none of the client's strings contains. It is put behind
//! the first character of every text that spells a control token, or could begin one at the end of a
//! string. So the text survives trimming and splitting by the template, but is no control token.
//! **Invariant:** [`Guard::remove`] yields the text that would have been rendered without guards.

use std::borrow::Cow;

use memchr::memchr_iter;
use serde_json::Value;

use super::TemplateError;
use crate::rendered::Rendered;
use crate::tokenizer::Markup;

/// Characters that are never assigned: free for use within a program.
pub(super) const NONCHARACTERS: std::ops::RangeInclusive<char> = '\u{FDD0}'..='\u{FDEF}';

/// The first byte of all of them, rare otherwise.
const NONCHARACTERS_BEGIN: u8 = 0xEF;

/// Marks what a client wrote.
pub(super) struct Guard<'a> {
    markup: &'a Markup,
    /// Put into texts that spell control tokens.
    mark: char,
    /// Put behind the message that is to be continued.
    end: char,
}

impl<'a> Guard<'a> {
    /// A guard for strings in `values`; `None` if they use all characters it could be made of.
    pub(super) fn new<'v>(
        markup: &'a Markup,
        values: impl Iterator<Item = &'v Value>,
    ) -> Option<Self> {
        let mut used = Vec::new();
        values.for_each(|value| note_used(value, &mut used));
        let mut free = NONCHARACTERS.filter(|character| !used.contains(character));
        Some(Self { markup, mark: free.next()?, end: free.next()? })
    }

    /// Guards every string in `value`, keys included.
    pub(super) fn protect(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(guarded) = self.guarded(text) {
                    *text = guarded;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.protect(item)),
            Value::Object(members) => {
                let unguarded = std::mem::take(members);
                for (key, mut member) in unguarded {
                    self.protect(&mut member);
                    members.insert(self.guarded(&key).into_owned(), member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn guarded<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let starts = self.markup.control_starts(text);
        if starts.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut guarded = String::with_capacity(text.len() + starts.len() * 3);
        let mut copied = 0;
        for start in starts {
            let first = text[start..].chars().next().map_or(0, char::len_utf8);
            guarded.push_str(&text[copied..start + first]);
            guarded.push(self.mark);
            copied = start + first;
        }
        guarded.push_str(&text[copied..]);
        Cow::Owned(guarded)
    }

    /// Marks the end of the content that is to be continued. The space tells later whether the
    /// template trims.
    pub(super) fn mark_end(&self, content: &mut Value) {
        if let Value::Array(parts) = content {
            return parts.last_mut().into_iter().for_each(|part| self.mark_end(&mut part["text"]));
        }
        let text = content.as_str().unwrap_or_default();
        *content = Value::String(format!("{text}{} ", self.end));
    }

    /// The text up to the marked end; `None` if the template did not show it.
    pub(super) fn cut_at_end<'t>(&self, text: &'t str) -> Option<&'t str> {
        let place = text.rfind(self.end)?;
        let trims = !text[place + self.end.len_utf8()..].starts_with(' ');
        let before = &text[..place];
        Some(if trims { before.trim_end() } else { before })
    }

    /// Takes the guards out and notes where they were.
    pub(super) fn remove(&self, text: &str) -> Rendered {
        let mut clean = String::with_capacity(text.len());
        let mut inert = Vec::new();
        let mut copied = 0;
        // A byte that only begins characters, so each of these places is a character's.
        for place in memchr_iter(NONCHARACTERS_BEGIN, text.as_bytes()) {
            let character = text[place..].chars().next();
            if character != Some(self.mark) && character != Some(self.end) {
                continue;
            }
            clean.push_str(&text[copied..place]);
            copied = place + self.mark.len_utf8();
            if character == Some(self.mark) {
                inert.push(clean.char_indices().next_back().map_or(0, |(last, _)| last));
            }
        }
        clean.push_str(&text[copied..]);
        inert.dedup();
        Rendered::new(clean, inert)
    }

    /// An error as the client may see it.
    pub(super) fn clean_error(&self, error: TemplateError) -> TemplateError {
        let clean = |text: String| text.replace([self.mark, self.end], "");
        match error {
            TemplateError::Refused(text) => TemplateError::Refused(clean(text)),
            TemplateError::Failed(text) => TemplateError::Failed(clean(text)),
            other => other,
        }
    }
}

/// Collects the noncharacters in the strings of `value`, each once.
fn note_used(value: &Value, used: &mut Vec<char>) {
    let mut note = |text: &str| {
        if text.as_bytes().contains(&NONCHARACTERS_BEGIN) {
            used.extend(text.chars().filter(|character| NONCHARACTERS.contains(character)));
            used.sort_unstable();
            used.dedup();
        }
    };
    match value {
        Value::String(text) => note(text),
        Value::Array(items) => items.iter().for_each(|item| note_used(item, used)),
        Value::Object(members) => {
            members.keys().for_each(|key| note(key));
            members.values().for_each(|member| note_used(member, used));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
