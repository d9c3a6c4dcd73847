//! Mooncake's traces: JSON lines with lengths and the names of prefix blocks of 512 tokens.
//!
//! Arrivals are given in ticks of up to three seconds. Requests of one tick are spread over the time to
//! the next one, by draws of the seed: sent all at once they would show a burst that never was.

use std::collections::VecDeque;
use std::path::Path;

use overdraft_units::{Instant, Micros, Tokens};
use serde::Deserialize;

use super::error::{Fault, WorkloadError};
use super::lines::{Lines, whole};
use super::{Piece, Sender, Session, Stage, Turn, named};
use crate::Draws;

/// Tokens of a block.
const BLOCK: u32 = 512;

/// Requests of one tick at most.
const TICK_REQUESTS_MAX: usize = 100_000;

/// No tick is longer; a later gap is a gap.
const TICK_MAX: Micros = Micros::new(3_000_000);

const EXPECTED: &str = "JSON lines as `{\"timestamp\": 0, \"input_length\": 6755, \"output_length\": 500, \
                        \"hash_ids\": [0, 1]}`, milliseconds and blocks of 512 tokens";

/// One line.
#[derive(Deserialize)]
struct Row {
    timestamp: f64,
    #[serde(deserialize_with = "whole")]
    input_length: u32,
    #[serde(deserialize_with = "whole")]
    output_length: u32,
    hash_ids: Vec<u64>,
}

/// The sessions of a trace, one request each.
pub(super) struct Mooncake {
    lines: Lines,
    draws: Draws,
    /// The first line's time, in milliseconds, from which all count.
    first: Option<f64>,
    /// Read ahead: the first of the next tick.
    next: Option<Session>,
    /// The tick that is being given out.
    tick: VecDeque<Session>,
    count: u64,
    over: bool,
}

impl Mooncake {
    pub(super) fn open(file: &Path, seed: u64) -> Result<Self, WorkloadError> {
        let lines = Lines::open(file, EXPECTED)?;
        let draws = Draws::new(seed, 0x6d6f_6f6e);
        let tick = VecDeque::new();
        let mut trace = Self { lines, draws, first: None, next: None, tick, count: 0, over: false };
        trace.next = trace.read(None)?;
        if trace.next.is_none() {
            return Err(WorkloadError::Empty { file: file.to_owned(), expected: EXPECTED });
        }
        Ok(trace)
    }

    fn read(&mut self, before: Option<Instant>) -> Result<Option<Session>, WorkloadError> {
        let Some(line) = self.lines.next_line() else { return Ok(None) };
        let line = line?;
        let session =
            session(&line, self.count, &mut self.first).map_err(|fault| self.lines.fault(fault))?;
        if before.is_some_and(|before| session.at < before) {
            return Err(self.lines.fault(early(&line)));
        }
        self.count += 1;
        Ok(Some(session))
    }

    /// Takes the next tick in.
    fn fill(&mut self) -> Result<(), WorkloadError> {
        let Some(first) = self.next.take() else { return Ok(()) };
        let at = first.at;
        self.tick.push_back(first);
        let mut end = at;
        while self.tick.len() < TICK_REQUESTS_MAX {
            match self.read(Some(at))? {
                Some(session) if session.at == at => self.tick.push_back(session),
                Some(session) => {
                    end = session.at;
                    self.next = Some(session);
                    break;
                }
                None => break,
            }
        }
        if 1 < self.tick.len() {
            self.spread(at, end.since(at).min(TICK_MAX));
        }
        Ok(())
    }

    fn spread(&mut self, at: Instant, over: Micros) {
        let draws = &mut self.draws;
        let mut times: Vec<u64> = self.tick.iter().map(|_| draws.below(over.get())).collect();
        times.sort_unstable();
        for (session, time) in self.tick.iter_mut().zip(times) {
            session.at = at + Micros::new(time);
        }
    }
}

impl Iterator for Mooncake {
    type Item = Result<Session, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        if self.tick.is_empty()
            && let Err(error) = self.fill()
        {
            self.over = true;
            return Some(Err(error));
        }
        self.tick.pop_front().map(Ok)
    }
}

fn early(line: &str) -> Fault {
    Fault::new(line, "is earlier than the line above", "lines in order of time")
}

fn session(line: &str, name: u64, first: &mut Option<f64>) -> Result<Session, Fault> {
    let row: Row = serde_json::from_str(line)
        .map_err(|error| Fault::new(line, format!("does not fit ({error})"), EXPECTED))?;
    let first = *first.get_or_insert(row.timestamp);
    if row.timestamp < first {
        return Err(early(line));
    }
    let blocks = u32::try_from(row.hash_ids.len()).unwrap_or(u32::MAX);
    if blocks == 0 || row.input_length.div_ceil(BLOCK) != blocks {
        let expected = format!("{} of them, one for 512 tokens", row.input_length.div_ceil(BLOCK));
        let wrong = format!("has {blocks} `hash_ids` for {} tokens", row.input_length);
        return Err(Fault::new(line, wrong, expected));
    }
    let last = row.input_length - (blocks - 1) * BLOCK;
    let piece = |(place, id): (u32, &u64)| {
        let tokens = if place + 1 == blocks { last } else { BLOCK };
        Piece::said(named(&[0x6d6f_6f6e, *id]), Tokens::new(tokens))
    };
    let prompt = (0..).zip(&row.hash_ids).map(piece).collect();
    let answer = Piece::said(named(&[0x616e_7377, name]), Tokens::new(row.output_length.max(1)));
    let at = Instant::ORIGIN + super::seconds((row.timestamp - first) / 1e3);
    Ok(Session {
        at,
        name,
        sender: Sender::default(),
        stage: Stage::default(),
        turns: vec![Turn { think: Micros::ZERO, prompt, answer }],
    })
}
