//! The clients of `ServeGen`: how often each of them asks, how unevenly, and how long prompts and answers are.
//!
//! A folder holds for each client `NAME-trace.csv` (start of a window in seconds, requests a second, their
//! variation, the family of the gaps, its parameters) and `NAME-dataset.json` (from when on which lengths
//! are how likely). Requests are drawn from that, client by client, and merged by time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use overdraft_units::{Instant, Micros, Tokens};
use serde::Deserialize;

use super::error::{Fault, WorkloadError};
use super::lines::{self, Lines};
use super::{Piece, Sender, Session, Stage, Turn, named};
use crate::Draws;
use crate::float_conversion::{length, whole, whole32};

const EXPECTED: &str = "a folder with pairs of `NAME-trace.csv` and `NAME-dataset.json`";
const ROW: &str = "`start,requests a second,variation,Gamma or Weibull,shape,scale`";

/// Seconds of a window whose successor does not tell.
const WINDOW: f64 = 600.0;

/// Requests of a window at most.
const WINDOW_REQUESTS_MAX: u64 = 10_000_000;

#[derive(Deserialize)]
struct Lengths {
    input_tokens: String,
    output_tokens: String,
}

/// The family of a client's gaps.
#[derive(Clone, Copy, Debug)]
enum Gaps {
    /// With this variation.
    Gamma(f64),
    /// With this shape.
    Weibull(f64),
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: f64,
    end: f64,
    rate: f64,
    gaps: Gaps,
}

/// Lengths and how likely each is: the length, and the likelihood of it and all before.
type Odds = Vec<(u32, f64)>;

struct Client {
    windows: Vec<Window>,
    lengths: BTreeMap<u64, (Odds, Odds)>,
    draws: Draws,
    /// The window that is being drawn from, and the time of the last draw.
    window: usize,
    at: f64,
    drawn: u64,
}

/// The requests of all clients.
pub(super) struct ServeGen {
    clients: Vec<Client>,
    /// When each client asks next, in microseconds.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// When the first one asks at all.
    first: u64,
    count: u64,
}

impl ServeGen {
    pub(super) fn open(folder: &Path, seed: u64) -> Result<Self, WorkloadError> {
        let mut clients = Vec::new();
        for (number, trace) in lines::files(folder, "-trace.csv", EXPECTED)?.iter().enumerate() {
            let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let dataset = trace.with_file_name(name.replace("-trace.csv", "-dataset.json"));
            let draws = Draws::new(seed, 0x7365_0000 + length(number));
            let windows = windows(trace)?;
            let lengths = datasets(&dataset)?;
            let at = windows.first().map_or(0.0, |window| window.start);
            clients.push(Client { windows, lengths, draws, window: 0, at, drawn: 0 });
        }
        let mut all = Self { clients, next: BinaryHeap::new(), first: 0, count: 0 };
        for client in 0..all.clients.len() {
            all.draw(client);
        }
        let Some(Reverse((first, _))) = all.next.peek() else {
            return Err(WorkloadError::Empty { file: folder.to_owned(), expected: EXPECTED });
        };
        all.first = *first;
        Ok(all)
    }

    fn draw(&mut self, client: usize) {
        if let Some(at) = self.clients[client].draw() {
            self.next.push(Reverse((whole(at * 1e6), client)));
        }
    }
}

impl Iterator for ServeGen {
    type Item = Result<Session, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((at, number)) = self.next.pop()?;
        let (prompt, output) = self.clients[number].lengths_at(at / 1_000_000);
        self.draw(number);
        let name = self.count;
        self.count += 1;
        let prompt = vec![Piece::said(named(&[0x7365_7276, name]), Tokens::new(prompt))];
        let answer = Piece::said(named(&[0x616e_7377, name]), Tokens::new(output));
        let turns = vec![Turn { think: Micros::ZERO, prompt, answer }];
        let (at, sender) = (Instant::ORIGIN + Micros::new(at - self.first), Sender::default());
        Some(Ok(Session { at, name, sender, stage: Stage::default(), turns }))
    }
}

impl Client {
    /// When it asks next; none when its trace is over.
    fn draw(&mut self) -> Option<f64> {
        while let Some(window) = self.windows.get(self.window) {
            let mean = 1.0 / window.rate;
            let gap = match window.gaps {
                Gaps::Gamma(variation) => self.draws.gamma(1.0 / (variation * variation), mean),
                Gaps::Weibull(shape) => self.draws.weibull(shape, mean),
            };
            self.at = self.at.max(window.start) + gap;
            self.drawn += 1;
            if self.at < window.end && self.drawn <= WINDOW_REQUESTS_MAX {
                return Some(self.at);
            }
            self.window += 1;
            self.drawn = 0;
            self.at = window.end;
        }
        None
    }

    /// How long a prompt and its answer are at a time.
    fn lengths_at(&mut self, second: u64) -> (u32, u32) {
        let now = self.lengths.range(..=second).next_back();
        let Some((_, (prompt, output))) = now.or_else(|| self.lengths.iter().next()) else {
            return (1, 1);
        };
        let (first, other) = (self.draws.share(), self.draws.share());
        (pick(prompt, first).max(1), pick(output, other).max(1))
    }
}

fn pick(odds: &Odds, share: f64) -> u32 {
    let at = odds.partition_point(|(_, below)| *below <= share).min(odds.len().saturating_sub(1));
    odds.get(at).map_or(1, |(length, _)| *length)
}

/// The windows in which a client asks at all.
fn windows(trace: &Path) -> Result<Vec<Window>, WorkloadError> {
    let mut lines = Lines::open(trace, EXPECTED)?;
    let mut windows: Vec<Window> = Vec::new();
    while let Some(line) = lines.next_line() {
        let line = line?;
        let window = window(&line).map_err(|fault| lines.fault(fault))?;
        if let Some(last) = windows.last_mut() {
            last.end = window.start;
        }
        windows.push(window);
    }
    windows.retain(|window| 0.0 < window.rate);
    Ok(windows)
}

fn window(line: &str) -> Result<Window, Fault> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let number = |place: usize| -> Result<f64, Fault> {
        let cell = cells.get(place).copied().unwrap_or_default();
        let number = cell.parse::<f64>().ok().filter(|number| 0.0 <= *number);
        number.ok_or_else(|| Fault::new(cell, format!("in column {} is no number", place + 1), ROW))
    };
    let (start, rate, variation) = (number(0)?, number(1)?, number(2)?);
    let gaps = match cells.get(3).copied().unwrap_or_default() {
        "Weibull" => Gaps::Weibull(number(4)?),
        "Gamma" => Gaps::Gamma(variation.max(1e-3)),
        "" if rate == 0.0 => Gaps::Gamma(1.0),
        other => return Err(Fault::new(other, "is no family of gaps", ROW)),
    };
    Ok(Window { start, end: start + WINDOW, rate, gaps })
}

fn datasets(file: &Path) -> Result<BTreeMap<u64, (Odds, Odds)>, WorkloadError> {
    let text = lines::read(file, EXPECTED)?;
    let expected =
        "`{\"0\": {\"input_tokens\": \"{40: 0.5, 41: 0.5}\", \"output_tokens\": \"{…}\"}}`";
    let fault = |found: &str, wrong: String| Fault::new(found, wrong, expected).at(file, 1);
    let all: BTreeMap<String, Lengths> = serde_json::from_str(&text)
        .map_err(|error| fault(text.lines().next().unwrap_or_default(), error.to_string()))?;
    let mut found = BTreeMap::new();
    for (from, lengths) in &all {
        let second = from.parse::<f64>().map_err(|error| fault(from, error.to_string()))?;
        let part = |text: &str| odds(text).ok_or_else(|| fault(text, "has no lengths".to_owned()));
        let pair = (part(&lengths.input_tokens)?, part(&lengths.output_tokens)?);
        // A client that asked nothing then tells no lengths either.
        if !pair.0.is_empty() && !pair.1.is_empty() {
            found.insert(whole(second), pair);
        }
    }
    Ok(found)
}

/// `{40: 0.1875, 41: 0.0625}` cumulated.
fn odds(text: &str) -> Option<Odds> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut sum = 0.0;
    let mut odds = Vec::new();
    for pair in inside.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (length, likely) = pair.split_once(':')?;
        sum += likely.trim().parse::<f64>().ok()?;
        odds.push((whole32(length.trim().parse::<f64>().ok()?), sum));
    }
    for (_, below) in &mut odds {
        *below /= sum;
    }
    Some(odds)
}
