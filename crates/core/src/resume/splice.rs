//! Splice: what of a second answer is told, so that the client sees one stream (R4 to R6).

use alloc::string::String;
use alloc::vec::Vec;

use super::ledger::{Ledger, Part};
use super::overlap::{CallOverlap, Diverged, Overlap};
use super::stops::{StopRules, Stops};
use super::way::Way;

/// What is told of one chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The new part of it.
    pub part: Part,
    /// The stop string that ends the answer here, where the gateway found one.
    pub stop: Option<String>,
}

/// A second answer on its way.
#[derive(Clone, Debug)]
pub struct Splice {
    way: Way,
    text: Overlap,
    reasoning: Overlap,
    calls: CallOverlap,
    /// Ids that are to come again.
    ids: Vec<u32>,
    stops: Option<Stops>,
    least: u32,
    /// Tokens that were kept of the attempts before.
    base: u32,
    /// Tokens of this attempt.
    tokens: u32,
}

impl Splice {
    /// An answer that goes on this `way` after what `ledger` has; it stops by `rules` from `least` tokens on.
    pub fn new(way: Way, ledger: &Ledger, rules: StopRules, least: u32) -> Self {
        let stops = (!rules.strings.is_empty()).then(|| Stops::new(rules, ledger.text()));
        let new = |way, base, text: &str, stops| Self {
            way,
            text: Overlap::new(text),
            reasoning: Overlap::default(),
            calls: CallOverlap::default(),
            ids: Vec::new(),
            stops,
            least,
            base,
            tokens: 0,
        };
        match way {
            Way::Anew => new(way, 0, "", None),
            Way::Ids => new(way, ledger.tokens(), "", stops),
            Way::Text => {
                let again = &ledger.text()[ledger.solid_text().len()..];
                new(way, ledger.solid_tokens(), again, stops)
            }
            Way::Replay => Self {
                reasoning: Overlap::new(ledger.reasoning()),
                calls: CallOverlap::new(ledger.calls()),
                ids: ledger.ids_told().to_vec(),
                ..new(way, 0, ledger.text(), None)
            },
        }
    }

    /// How it goes on.
    pub const fn way(&self) -> Way {
        self.way
    }

    /// Tokens of the answer so far, those before the seam included.
    pub const fn tokens(&self) -> u32 {
        self.base.saturating_add(self.tokens)
    }

    /// The answer's tokens, where its worker has counted its own.
    pub const fn counted(&mut self, completion: u32) {
        self.tokens = completion;
    }

    /// What of `part` is new. `is_last` says that the worker has ended the answer with it.
    ///
    /// # Errors
    /// [`Diverged`] where it is not what was told before, or ends before it.
    pub fn take(&mut self, part: Part, is_last: bool) -> Result<Told, Diverged> {
        self.count(&part);
        let is_foreign = !part.reasoning.is_empty() || !part.calls.is_empty();
        if is_foreign && matches!(self.way, Way::Ids | Way::Text) {
            return Err(Diverged);
        }
        let text = self.text.take(&part.text)?;
        let (mut text, stop) = match &mut self.stops {
            Some(stops) => {
                let is_due = self.least <= self.base.saturating_add(self.tokens);
                let (text, stopped) = stops.take(text, is_due)?;
                (text, stopped.map(|stopped| stopped.stop))
            }
            None => (text.into(), None),
        };
        if is_last && stop.is_none() {
            text.push_str(&self.stops.as_mut().map(Stops::finish).unwrap_or_default());
        }
        let reasoning = self.reasoning.take(&part.reasoning)?.into();
        let mut calls = Vec::new();
        for call in part.calls {
            calls.extend(self.calls.take(call)?);
        }
        if is_last && !(self.text.is_over() && self.reasoning.is_over() && self.calls.is_over()) {
            return Err(Diverged);
        }
        let ids = self.new_ids(part.ids);
        let tokens = part.is_token.then_some(self.base.saturating_add(self.tokens));
        let is_token = part.is_token;
        let is_strange = part.is_strange;
        let part = Part { text, reasoning, calls, ids, tokens, is_token, is_strange };
        Ok(Told { part, stop })
    }

    fn count(&mut self, part: &Part) {
        self.tokens = match (&part.ids, part.tokens) {
            (_, Some(tokens)) => self.tokens.max(tokens),
            (Some(ids), None) => {
                self.tokens.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX))
            }
            (None, None) => self.tokens.saturating_add(u32::from(part.is_token)),
        };
    }

    /// The ids that were not told yet; none where they are not those that were.
    fn new_ids(&mut self, ids: Option<Vec<u32>>) -> Option<Vec<u32>> {
        if self.way == Way::Text {
            return None;
        }
        let mut ids = ids?;
        let again = self.ids.len().min(ids.len());
        if ids[..again] != self.ids[..again] {
            return None;
        }
        self.ids.drain(..again);
        ids.drain(..again);
        Some(ids)
    }
}
