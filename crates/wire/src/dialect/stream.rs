//! Stream translation: the events of a chat stream to the events of a dialect.
//!
//! | state   | after                | what may follow |
//! |---------|----------------------|-----------------|
//! | running | the beginning        | steps, pings    |
//! | whole   | `[DONE]`             | nothing         |
//! | failed  | an error, or a break | nothing         |
//!
//! **Invariant:** a stream that was cut never looks whole: the dialect's last event is written only after the
//! chat stream's own.

use super::failure::Failure;
use super::steps::{Ending, Step, Steps};

/// Writes the events of one answer in a dialect.
pub trait EventWriter {
    /// The answer begins.
    fn begin(&mut self, out: &mut Vec<u8>);
    /// A step of it.
    fn step(&mut self, step: Step, out: &mut Vec<u8>);
    /// It is whole.
    fn finish(&mut self, ending: &Ending, out: &mut Vec<u8>);
    /// It broke off.
    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>);
    /// A sign of life.
    fn ping(&self, out: &mut Vec<u8>);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Whole,
    Failed,
}

/// Translates one stream.
#[derive(Debug)]
pub struct StreamTranslator<W> {
    steps: Steps,
    writer: W,
    state: State,
    /// Reused from event to event.
    made: Vec<Step>,
}

impl<W: EventWriter> StreamTranslator<W> {
    /// A translator of the stream that `writer` writes; made-up call ids follow from `seed`.
    pub fn new(seed: &str, writer: W) -> Self {
        Self { steps: Steps::new(seed), writer, state: State::Running, made: Vec::new() }
    }

    /// What writes it.
    pub const fn writer(&self) -> &W {
        &self.writer
    }

    /// Whether nothing may follow.
    pub const fn is_over(&self) -> bool {
        !matches!(self.state, State::Running)
    }

    /// Whether the last event was an error.
    pub const fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }

    /// The answer begins.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        self.writer.begin(out);
    }

    /// A sign of life.
    pub fn ping(&self, out: &mut Vec<u8>) {
        self.writer.ping(out);
    }

    /// Takes in the data of a chat event.
    pub fn handle_data(&mut self, data: &[u8], out: &mut Vec<u8>) {
        if self.is_over() {
            return;
        }
        let handled = self.steps.handle(data, &mut self.made);
        self.write(out);
        if let Err(failure) = handled {
            self.fail(&failure, out);
        }
    }

    /// `[DONE]` has come.
    pub fn handle_done(&mut self, out: &mut Vec<u8>) {
        if self.is_over() {
            return;
        }
        let finished = self.steps.finish(&mut self.made);
        self.write(out);
        match finished {
            Ok(ending) => {
                self.writer.finish(&ending, out);
                self.state = State::Whole;
            }
            Err(failure) => self.fail(&failure, out),
        }
    }

    /// The answer broke off.
    pub fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        if !self.is_over() {
            self.writer.fail(failure, out);
            self.state = State::Failed;
        }
    }

    fn write(&mut self, out: &mut Vec<u8>) {
        for step in self.made.drain(..) {
            self.writer.step(step, out);
        }
    }
}

/// Reads a whole chat answer as steps.
///
/// # Errors
/// [`Failure`] where it is none.
pub fn translate_whole(answer: &[u8], seed: &str) -> Result<(Vec<Step>, Ending), Failure> {
    let (mut steps, mut made) = (Steps::new(seed), Vec::new());
    steps.handle(answer, &mut made)?;
    let ending = steps.finish(&mut made)?;
    Ok((made, ending))
}
