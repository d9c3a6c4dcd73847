//! The state of a streamed answer: events of the engine in, events for the client out.
//!
//! Pure: no clock, no socket. **Invariant:** `[DONE]` is written once, after every choice has told
//! why it finished; a stream that loses a choice ends with an error event and never with `[DONE]`.

use std::sync::Arc;

use overdraft_engine::{Event, Tokenizer};
use overdraft_wire::ApiError;
use overdraft_wire::request::{Delivery, StreamUsage};
use overdraft_wire::sse;

use crate::meter::Meter;
use crate::piece::{Choice, Piece, Step};
use crate::plan::Plan;
use crate::render::Heading;

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More is to come.
    GoesOn,
    /// Everything was told, `[DONE]` included.
    Done,
    /// It is lost, and the error was told.
    Lost,
}

/// A streamed answer on its way.
#[derive(Debug)]
pub(crate) struct StreamState {
    heading: Heading,
    tokenizer: Arc<Tokenizer>,
    choices: Vec<Choice>,
    unfinished: usize,
    usage: StreamUsage,
    meter: Meter,
    progress: Progress,
}

impl StreamState {
    pub(crate) fn new(plan: &Plan, heading: Heading, tokenizer: Arc<Tokenizer>) -> Self {
        let usage = match plan.delivery {
            Delivery::Stream(usage) => usage,
            Delivery::Whole => StreamUsage::Never,
        };
        Self {
            heading,
            tokenizer,
            choices: (0..plan.choices()).map(|index| Choice::new(plan, index)).collect(),
            unfinished: plan.choices(),
            usage,
            meter: Meter::new(plan),
            progress: Progress::GoesOn,
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.progress
    }

    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Takes a choice's next event and writes what it tells.
    pub(crate) fn take(&mut self, choice: usize, event: Event, out: &mut Vec<u8>) {
        self.meter.note(choice, &event);
        match self.choices[choice].take(event, &self.tokenizer) {
            Step::Piece(piece) => self.tell(piece, out),
            Step::Last(piece) => {
                self.tell(piece, out);
                self.unfinished -= 1;
                if self.unfinished == 0 {
                    self.close(out);
                }
            }
            Step::Lost(sentence) => self.lose(&ApiError::server_error(sentence), out),
        }
    }

    /// Ends the stream with an error, whatever it still had to tell.
    pub(crate) fn lose(&mut self, error: &ApiError, out: &mut Vec<u8>) {
        out.extend_from_slice(&sse::error_event(error));
        self.progress = Progress::Lost;
    }

    fn tell(&self, piece: Piece, out: &mut Vec<u8>) {
        let every = self.usage == StreamUsage::Every;
        let ids = self.heading.form.token_ids.returned && !piece.tokens.is_empty();
        if piece.is_idle() && !every && !ids {
            return;
        }
        let usage = every.then(|| self.meter.usage());
        self.heading.event(piece, usage, &self.tokenizer, out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.usage != StreamUsage::Never {
            self.heading.usage_event(self.meter.usage(), out);
        }
        out.extend_from_slice(sse::DONE);
        self.progress = Progress::Done;
    }
}
