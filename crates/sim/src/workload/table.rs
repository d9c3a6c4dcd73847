//! Traces that only tell times and lengths: those of Azure and `BurstGPT`, and plain tables as CSV or JSON lines.
//!
//! All are rows with a time, the tokens of a prompt and of its answer; formats differ in what they call
//! these. A plain table may also name a prefix that rows share, and its length. Where there is no column of
//! times the rows say nothing of when they come, and their reader has to.

use std::path::Path;

use overdraft_units::{Instant, Micros, Tokens};
use serde_json::{Map, Value};

use super::error::{Fault, WorkloadError};
use super::lines::Lines;
use super::{PROMPT_TOKENS_MAX, Piece, Sender, Session, Stage, Turn, Voice, named};

const EXPECTED: &str = "a table whose first line names its columns: `at` (seconds) or `timestamp`, \
                        `prompt_tokens`, `output_tokens`, and if prompts share prefixes `prefix` and \
                        `prefix_tokens`";

/// What a column is called in the formats we know, whatever the case and whatever stands between its words.
const NAMES: [&[&str]; COLUMNS] = [
    &["at", "timestamp", "arrived_at", "arrival_seconds", "at_seconds"],
    &[
        "prompt_tokens",
        "context_tokens",
        "request_tokens",
        "num_prefill_tokens",
        "input_tokens",
        "input_length",
    ],
    &[
        "output_tokens",
        "generated_tokens",
        "response_tokens",
        "num_decode_tokens",
        "completion_tokens",
        "output_length",
    ],
    &["prefix", "prefix_id"],
    &["prefix_tokens", "prefix_length"],
];
const COLUMNS: usize = 5;

/// Seconds since 1970, or since any other beginning, at most: the year 5138. What is more are milliseconds.
const SECONDS_MAX: f64 = 1e11;

/// A member of Mooncake's rows, whose times are milliseconds.
const MOONCAKES: &str = "hash_ids";
const PROMPT: usize = 1;
const OUTPUT: usize = 2;
const PREFIX_TOKENS: usize = 4;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// Commas, and a first line with names.
    Csv,
    /// An object a line.
    JsonLines,
}

/// The sessions of a table, one request each.
pub(super) struct Table {
    lines: Lines,
    notation: Notation,
    /// In which place each column stands, for CSV.
    places: [Option<usize>; COLUMNS],
    first: Option<f64>,
    last: Instant,
    count: u64,
    /// A row that was read to see whether rows have times.
    ahead: Option<Result<Session, WorkloadError>>,
    over: bool,
}

/// The cells of a row that are of interest.
type Cells = [Option<String>; COLUMNS];

impl Table {
    pub(super) fn open(file: &Path, notation: Notation) -> Result<Self, WorkloadError> {
        let lines = Lines::open(file, EXPECTED)?;
        let places = [None; COLUMNS];
        let last = Instant::ORIGIN;
        let mut table =
            Self { lines, notation, places, first: None, last, count: 0, ahead: None, over: false };
        if notation == Notation::Csv {
            table.read_header()?;
        }
        // A first row that cannot be read is told as what it is, not as one without a time.
        table.ahead = table.read()?.map(Ok);
        if table.ahead.is_none() {
            return Err(WorkloadError::Empty { file: file.to_owned(), expected: EXPECTED });
        }
        Ok(table)
    }

    /// Whether rows say when they come.
    pub(super) fn has_times(&self) -> bool {
        self.first.is_some()
    }

    fn read_header(&mut self) -> Result<(), WorkloadError> {
        let Some(header) = self.lines.next_line() else {
            let file = self.lines.file().to_owned();
            return Err(WorkloadError::Empty { file, expected: EXPECTED });
        };
        let header = header?;
        let names = cells(&header);
        for (place, known) in self.places.iter_mut().zip(NAMES) {
            *place = names.iter().position(|name| known.iter().any(|one| is_called(name, one)));
        }
        for column in [PROMPT, OUTPUT] {
            if self.places[column].is_none() {
                let wrong = format!("names no column `{}`", NAMES[column][0]);
                return Err(self.lines.fault(Fault::new(&header, wrong, EXPECTED)));
            }
        }
        Ok(())
    }

    /// The next row that has an answer.
    fn read(&mut self) -> Result<Option<Session>, WorkloadError> {
        while let Some(line) = self.lines.next_line() {
            let line = line?;
            let cells = match self.notation {
                Notation::Csv => Ok(self.pick(&line)),
                Notation::JsonLines => object(&line),
            };
            let session = cells.and_then(|cells| self.session(&line, &cells));
            if let Some(session) = session.map_err(|fault| self.lines.fault(fault))? {
                return Ok(Some(session));
            }
        }
        Ok(None)
    }

    fn pick(&self, line: &str) -> Cells {
        let row = cells(line);
        self.places.map(|place| row.get(place?).cloned())
    }

    fn session(&mut self, line: &str, cells: &Cells) -> Result<Option<Session>, Fault> {
        let [time, prompt, output, prefix, prefix_tokens] = cells;
        let prompt = count(line, PROMPT, prompt.as_deref())?;
        let output = count(line, OUTPUT, output.as_deref())?;
        // A request that failed when it was recorded has no answer.
        if prompt == 0 || output == 0 {
            return Ok(None);
        }
        let at = self.time(line, time.as_deref())?;
        let shared = match prefix.as_deref().filter(|name| !name.is_empty()) {
            None => None,
            Some(name) => {
                let tokens = count(line, PREFIX_TOKENS, prefix_tokens.as_deref())?;
                if prompt < tokens {
                    let wrong = format!("has {tokens} tokens of prefix in {prompt} of prompt");
                    return Err(Fault::new(line, wrong, "a prefix that fits its prompt"));
                }
                let content =
                    named(&[0x7072_6566, overdraft_core::prefix::digest_of(name.as_bytes())]);
                Some(Piece { content, tokens: Tokens::new(tokens), voice: Voice::System })
            }
        };
        let name = self.count;
        self.count += 1;
        let own = prompt - shared.map_or(0, |piece| piece.tokens.get());
        let own = Piece::said(named(&[0x726f_7773, name]), Tokens::new(own));
        let pieces = shared.into_iter().chain([own]).filter(|piece| Tokens::ZERO < piece.tokens);
        let answer = Piece::said(named(&[0x616e_7377, name]), Tokens::new(output));
        let turn = Turn { think: Micros::ZERO, prompt: pieces.collect(), answer };
        let (sender, stage) = (Sender::default(), Stage::default());
        Ok(Some(Session { at, name, sender, stage, turns: vec![turn] }))
    }

    fn time(&mut self, line: &str, cell: Option<&str>) -> Result<Instant, Fault> {
        let Some(cell) = cell else {
            if self.first.is_some() {
                return Err(Fault::new(line, "has no time", "a time in every row or in none"));
            }
            return Ok(Instant::ORIGIN);
        };
        let number = cell.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
        let seconds = number.or_else(|| calendar_seconds(cell)).ok_or_else(|| {
            let expected = "seconds, or a date and time as `2023-11-16 18:15:46.68`";
            Fault::new(cell, "is no time", expected)
        })?;
        if SECONDS_MAX < seconds.abs() {
            let expected = "seconds; divide milliseconds by 1,000";
            return Err(Fault::new(cell, "is no time in seconds", expected));
        }
        let first = *self.first.get_or_insert(seconds);
        let at = Instant::ORIGIN + super::seconds(seconds - first);
        if at < self.last || seconds < first {
            return Err(Fault::new(line, "is earlier than the row above", "rows in order of time"));
        }
        self.last = at;
        Ok(at)
    }
}

impl Iterator for Table {
    type Item = Result<Session, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.ahead.take().or_else(|| self.read().transpose());
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The cells of a line (RFC 4180): a comma within quotes is text, and so is a quote that is doubled there.
fn cells(line: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let (mut cell, mut is_quoted) = (String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if is_quoted || cell.trim().is_empty() => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            letter => cell.push(letter),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

fn object(line: &str) -> Result<Cells, Fault> {
    let object: Map<String, Value> = serde_json::from_str(line).map_err(|error| {
        Fault::new(line, format!("is no object ({error})"), "an object with `prompt_tokens`")
    })?;
    if object.contains_key(MOONCAKES) {
        let wrong = format!("has `{MOONCAKES}`, as Mooncake's traces");
        return Err(Fault::new(
            line,
            wrong,
            "`mooncake:PATH` for those: their times are milliseconds",
        ));
    }
    let cell = |known: &[&str]| -> Option<String> {
        let exact = known.iter().find_map(|name| object.get(*name));
        let value = exact.or_else(|| {
            let mut members = object.iter();
            let like = members.find(|(name, _)| known.iter().any(|one| is_called(name, one)));
            like.map(|(_, value)| value)
        });
        match value? {
            // As tools write what a row does not have.
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    };
    Ok(NAMES.map(cell))
}

/// Whether a column's name is a known one, but for case and for what stands between words.
fn is_called(name: &str, known: &str) -> bool {
    letters(name).eq(letters(known))
}

fn letters(name: &str) -> impl Iterator<Item = u8> {
    let plain = name.bytes().filter(u8::is_ascii_alphanumeric);
    plain.map(|letter| letter.to_ascii_lowercase())
}

/// A number of tokens.
fn count(line: &str, column: usize, cell: Option<&str>) -> Result<u32, Fault> {
    let name = NAMES[column][0];
    let cell =
        cell.ok_or_else(|| Fault::new(line, format!("has no `{name}`"), "a number of tokens"))?;
    let whole = cell
        .parse::<f64>()
        .ok()
        .filter(|count| (0.0..=crate::float_conversion::float(PROMPT_TOKENS_MAX)).contains(count));
    let whole = whole.ok_or_else(|| {
        let expected = format!("a number of tokens up to {PROMPT_TOKENS_MAX}");
        Fault::new(cell, format!("is no `{name}`"), expected)
    })?;
    Ok(crate::float_conversion::whole32(whole))
}

/// `2023-11-16 18:15:46.6805900` as seconds since 1970, in the zone that stands behind it, or in UTC.
pub(super) fn calendar_seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i32>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, ahead) = match time.find(['+', '-', 'Z']) {
        None => (time, 0.0),
        Some(at) => (time[..at].trim_end(), zone_seconds(&time[at..])?),
    };
    let mut time = time.splitn(3, ':').map(|part| part.parse::<f64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the day that leaps comes last.
    let year = if month <= 2 { year - 1 } else { year };
    let months = (month + 9) % 12;
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * months + 2) / 5
        + day
        - 719_469;
    Some(f64::from(days) * 86_400.0 + hour * 3_600.0 + minute * 60.0 + second - ahead)
}

/// How far the clock of a zone is ahead of UTC: `Z`, `+02:00`, `-0730` or `+02`.
fn zone_seconds(zone: &str) -> Option<f64> {
    if zone == "Z" {
        return Some(0.0);
    }
    let sign = if zone.starts_with('-') { -1.0 } else { 1.0 };
    let digits: String = zone.get(1..)?.chars().filter(|letter| *letter != ':').collect();
    let (hours, minutes) = digits.split_at_checked(2)?;
    let number = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u8>().ok().filter(|_| is_number).map(f64::from)
    };
    let minutes = if minutes.is_empty() { 0.0 } else { number(minutes)? };
    Some(sign * (number(hours)? * 3_600.0 + minutes * 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_quotes_parts_no_cells() {
        assert_eq!(cells(r#"0, "a, ""b"""  ,5"#), ["0", r#"a, "b""#, "5"]);
        assert_eq!(cells(r#"1,,x"y"#), ["1", "", r#"x"y"#]);
        assert_eq!(cells(r#""",2"#), ["", "2"]);
    }

    #[test]
    fn a_date_is_seconds_since_1970() {
        assert_eq!(calendar_seconds("1970-01-01 00:00:00"), Some(0.0));
        assert_eq!(calendar_seconds("2000-03-01T00:00:01.5Z"), Some(951_868_801.5));
        assert_eq!(calendar_seconds("2023-11-16 18:15:46+00:00"), Some(1_700_158_546.0));
        assert_eq!(calendar_seconds("2023-11-16T20:15:46+02:00"), Some(1_700_158_546.0));
        assert_eq!(calendar_seconds("2023-11-16 10:45:46.5-0730"), Some(1_700_158_546.5));
        assert_eq!(calendar_seconds("2023-11-16 18:15:46+x"), None);
        assert_eq!(calendar_seconds("2023-13-16 18:15:46"), None);
        assert_eq!(calendar_seconds("yesterday"), None);
    }
}
