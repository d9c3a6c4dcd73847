//! Stop strings over a seam: the gateway looks for them itself, since a worker sees only its own part.

use alloc::string::String;
use alloc::vec::Vec;

use super::overlap::Diverged;

/// What ends an answer by its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopRules {
    /// The strings, none empty.
    pub strings: Vec<String>,
    /// Whether the string stays in the answer.
    pub is_included: bool,
}

/// A stop was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Which.
    pub stop: String,
}

/// Looks for stop strings in what comes, and holds back what may become one.
#[derive(Clone, Debug)]
pub struct Stops {
    rules: StopRules,
    /// The end of what has come: what was told and may begin a stop, then what is held back.
    tail: String,
    /// How much of the tail was told.
    told: usize,
}

impl Stops {
    /// Goes on after `told`.
    pub fn new(rules: StopRules, told: &str) -> Self {
        let longest = rules.strings.iter().map(String::len).max().unwrap_or(0);
        let mut from = told.len().saturating_sub(longest.saturating_sub(1));
        while !told.is_char_boundary(from) {
            from += 1;
        }
        let tail = String::from(&told[from..]);
        Self { rules, told: tail.len(), tail }
    }

    /// What of `new` may be told, and whether a stop ends the answer; before the answer's least length none does.
    ///
    /// # Errors
    /// [`Diverged`] where a part of a stop that is to be left out was told: the answer was drawn anew behind it.
    pub fn take(&mut self, new: &str, is_due: bool) -> Result<(String, Option<Stopped>), Diverged> {
        let before = self.tail.len();
        self.tail.push_str(new);
        if is_due && let Some((begin, end, stop)) = self.find(before) {
            let until = if self.rules.is_included { end } else { begin };
            let rest = self.tail.get(self.told..until).ok_or(Diverged)?.into();
            self.tail.clear();
            self.told = 0;
            return Ok((rest, Some(Stopped { stop })));
        }
        let hold = if self.rules.is_included { 0 } else { self.held() };
        let until = (self.tail.len() - hold).max(self.told);
        let out = String::from(&self.tail[self.told..until]);
        self.told = until;
        self.trim();
        Ok((out, None))
    }

    /// What was held back, once nothing follows.
    pub fn finish(&mut self) -> String {
        let rest = String::from(&self.tail[self.told..]);
        self.told = self.tail.len();
        rest
    }

    /// The first stop that ends in what is new: one that was passed before the least length stays passed.
    fn find(&self, before: usize) -> Option<(usize, usize, String)> {
        let found = self.rules.strings.iter().filter_map(|stop| {
            let mut from = (before + 1).saturating_sub(stop.len());
            while !self.tail.is_char_boundary(from) {
                from += 1;
            }
            let at = from + self.tail[from..].find(stop.as_str())?;
            Some((at, at + stop.len(), stop.clone()))
        });
        found.min_by_key(|(at, ..)| *at)
    }

    /// Bytes at the end that may become a stop.
    fn held(&self) -> usize {
        let begins = |stop: &String| {
            let most = stop.len().saturating_sub(1).min(self.tail.len());
            (1..=most)
                .rev()
                .find(|&many| stop.is_char_boundary(many) && self.tail.ends_with(&stop[..many]))
        };
        self.rules.strings.iter().filter_map(begins).max().unwrap_or(0)
    }

    /// Forgets what can begin no stop any more.
    fn trim(&mut self) {
        let longest = self.rules.strings.iter().map(String::len).max().unwrap_or(0);
        let mut from = self.tail.len().saturating_sub(longest).min(self.told);
        while !self.tail.is_char_boundary(from) {
            from += 1;
        }
        self.tail.drain(..from);
        self.told -= from;
    }
}
