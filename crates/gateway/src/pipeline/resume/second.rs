//! Second answer: what of it is told, in the name of the first.

use overdraft_core::resume::{Part, Refusal, Splice, Told, Way};
use overdraft_wire::request::StreamUsage;
use overdraft_wire::resume::{Choice, NotJson, Piece};
use overdraft_wire::sse::Event;
use serde_json::value::RawValue;

use super::journal::{Journal, part_of};
use crate::pipeline::extras::IdsFor;
use crate::pipeline::relay::{Continuation, Fault, Verdict};

/// Why a choice ended, in a chunk of the second answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Last<'a> {
    pub(super) finish: Option<&'a str>,
    /// What stopped it, as JSON text.
    pub(super) stop_reason: Option<&'a str>,
    pub(super) logprobs: Option<&'a str>,
}

impl Journal {
    /// An event of the second answer.
    pub(super) fn second(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<Verdict, NotJson> {
        let Some(data) = self.chunk_of(event, out) else { return Ok(Verdict::GoesOn) };
        let piece = Piece::parse(&data)?;
        self.usage = piece.usage.or(self.usage);
        if !piece.has_choice {
            if let (Some(splice), Some(usage)) = (&mut self.splice, piece.usage) {
                splice.counted(usage.completion);
            }
            return Ok(Verdict::GoesOn);
        }
        if let (Some(Way::Anew | Way::Replay), Some(ids)) =
            (self.splice.as_ref().map(Splice::way), &piece.prompt_ids)
        {
            self.ledger.prompt(ids.clone());
        }
        let last = Last {
            finish: piece.finish.as_deref(),
            stop_reason: piece.stop_reason.map(RawValue::get),
            logprobs: piece.logprobs.map(RawValue::get),
        };
        Ok(self.take(part_of(&piece), last, out))
    }

    /// Tells what of a part is new.
    pub(super) fn take(&mut self, part: Part, last: Last<'_>, out: &mut Vec<u8>) -> Verdict {
        let Some(splice) = &mut self.splice else { return Verdict::GoesOn };
        let (told, before) = (self.ledger.tokens(), splice.tokens());
        let Ok(Told { part, stop }) = splice.take(part, last.finish.is_some()) else {
            let why = Refusal::Diverged.name();
            return Verdict::Failed(Fault::Worker(format!("its second answer has {why}")));
        };
        // A position is told once. A chunk that was told in part cannot be told apart.
        let is_told = splice.way() == Way::Replay && splice.tokens() <= told;
        if last.logprobs.is_some() && before < told && told < splice.tokens() {
            let why = Refusal::Logprobs.name();
            return Verdict::Failed(Fault::Worker(format!("its second answer has other {why}")));
        }
        self.ledger.tell(&part);
        let stop_reason = stop.as_ref().and_then(|stop| serde_json::to_string(stop).ok());
        let finish = if stop.is_some() { Some("stop") } else { last.finish };
        let shows_ids = self.request.tracked.ids == IdsFor::Client;
        let choice = Choice {
            text: &part.text,
            reasoning: &part.reasoning,
            calls: part
                .calls
                .iter()
                .map(|call| {
                    (call.index, call.id.as_deref(), call.name.as_deref(), &*call.arguments)
                })
                .collect(),
            logprobs: last.logprobs.filter(|_| !is_told),
            finish,
            stop_reason: stop_reason.as_deref().or(last.stop_reason),
            ids: part.ids.as_deref().filter(|_| shows_ids),
        };
        let every = self.request.tracked.usage == StreamUsage::Every;
        if !choice.is_idle() {
            let sums = if every { self.sums() } else { None };
            self.heading.event(&choice, sums, out);
        }
        if stop.is_some() {
            let ending = self.ending();
            out.extend_from_slice(&ending);
            return Verdict::Finished;
        }
        Verdict::GoesOn
    }
}
