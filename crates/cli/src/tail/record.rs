//! Record of one request, from a view of a gateway or from a line of its access log.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value as Json;

use crate::plain_text::plain;

/// What the values of a field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// In milliseconds.
    Time,
    Count,
    /// In dollars.
    Money,
    Flag,
}

/// One field: its name, what it holds, and where a view and a log line have it. Numbers are divided.
struct Field {
    name: &'static str,
    kind: Kind,
    view: (&'static str, f64),
    log: (&'static str, f64),
}

const fn text(name: &'static str, view: &'static str, log: &'static str) -> Field {
    Field { name, kind: Kind::Text, view: (view, 1.0), log: (log, 1.0) }
}

const fn time(name: &'static str, view: &'static str, log: &'static str) -> Field {
    Field { name, kind: Kind::Time, view: (view, 1.0), log: (log, 1e3) }
}

const fn count(name: &'static str, view: &'static str, log: &'static str) -> Field {
    Field { name, kind: Kind::Count, view: (view, 1.0), log: (log, 1.0) }
}

/// Every field that an expression may name.
const FIELDS: [Field; 22] = [
    text("id", "id", "request"),
    text("route", "route", "path"),
    text("model", "model", "model"),
    text("tenant", "tenant", "tenant"),
    text("priority", "priority", "priority"),
    text("worker", "worker", "worker"),
    text("end", "end", "end"),
    text("served_by", "served_by", "served_by"),
    text("cache", "cache", "cache"),
    text("refused", "refused", "refused"),
    text("resumed_by", "resumed_by", "resumed_by"),
    text("trace", "trace_id", "trace_id"),
    time("ttft", "ttft_ms", "ttft_us"),
    time("total", "total_ms", "total_us"),
    time("queued", "queued_ms", "queued_us"),
    count("status", "status", "status"),
    count("prompt", "prompt_tokens", "tokens_prompt"),
    count("cached", "cached_tokens", "tokens_cached"),
    count("out", "completion_tokens", "tokens_out"),
    count("attempts", "attempts", "attempts"),
    Field {
        name: "cost",
        kind: Kind::Money,
        view: ("cost_microusd", 1e6),
        log: ("cost_microusd", 1e6),
    },
    Field { name: "stream", kind: Kind::Flag, view: ("streamed", 1.0), log: ("stream", 1.0) },
];

/// The fields by name, with their kinds.
pub(super) fn fields() -> impl Iterator<Item = (&'static str, Kind)> {
    FIELDS.iter().map(|field| (field.name, field.kind))
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Held {
    Text(String),
    Number(f64),
    Flag(bool),
}

/// One request that has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// When it ended, as `12:04:31.207`.
    ended: String,
    held: BTreeMap<&'static str, Held>,
    source: Json,
}

impl Record {
    /// Of a row of the view of requests.
    pub(crate) fn of_view(row: &Json) -> Self {
        let ended = row["ended_ms"].as_u64().map(clock).unwrap_or_default();
        Self::of(row, ended, |field| field.view)
    }

    /// Of a line of an access log; nothing for other lines.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        if !line.starts_with('{') {
            return None;
        }
        let row: Json = serde_json::from_str(line).ok()?;
        if row["target"] != "access" {
            return None;
        }
        // `2025-11-22T18:15:46.680590Z`: the day is in what was asked for.
        let ended = row["timestamp"].as_str().and_then(|stamp| stamp.get(11..23));
        let ended = ended.unwrap_or_default().to_owned();
        Some(Self::of(&row, ended, |field| field.log))
    }

    fn of(row: &Json, ended: String, place: impl Fn(&Field) -> (&'static str, f64)) -> Self {
        let mut held = BTreeMap::new();
        for field in &FIELDS {
            let (key, divisor) = place(field);
            let value = match (field.kind, &row[key]) {
                (_, Json::Null) => continue,
                (Kind::Text, Json::String(text)) => Held::Text(text.clone()),
                (Kind::Flag, Json::Bool(flag)) => Held::Flag(*flag),
                (_, number) => match number.as_f64() {
                    Some(number) => Held::Number(number / divisor),
                    None => continue,
                },
            };
            held.insert(field.name, value);
        }
        Self { ended, held, source: row.clone() }
    }

    pub(super) fn field(&self, name: &str) -> Option<&Held> {
        self.held.get(name)
    }

    /// The request's id.
    pub(crate) fn id(&self) -> &str {
        self.word("id")
    }

    fn word(&self, name: &str) -> &str {
        match self.field(name) {
            Some(Held::Text(text)) => text,
            _ => "-",
        }
    }

    fn number(&self, name: &str) -> Option<f64> {
        match self.field(name) {
            Some(Held::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// As it came, on one line.
    pub(crate) fn json(&self) -> String {
        self.source.to_string()
    }

    /// In one line for a person.
    pub(super) fn line(&self) -> String {
        let count =
            |name| self.number(name).map_or_else(|| "-".to_owned(), |count| count.to_string());
        let mut line = format!(
            "{} {} {} {} {} tenant {} at {}: first token {}, total {}, {} tokens in, {} out",
            self.ended,
            self.id(),
            count("status"),
            self.word("end"),
            self.word("model"),
            self.word("tenant"),
            self.word("worker"),
            span(self.number("ttft")),
            span(self.number("total")),
            count("prompt"),
            count("out"),
        );
        for name in ["refused", "cache", "served_by", "resumed_by"] {
            if self.field(name).is_some() {
                let _written = write!(line, ", {name} {}", self.word(name));
            }
        }
        if let Some(queued) = self.number("queued") {
            let _written = write!(line, ", queued {}", span(Some(queued)));
        }
        plain(&line)
    }

    /// All its fields, one a line.
    pub(crate) fn fields(&self) -> String {
        let mut text = format!("request {}, ended {}\n", plain(self.id()), self.ended);
        for (name, kind) in fields() {
            let Some(held) = self.field(name) else { continue };
            let shown = match (kind, held) {
                (_, Held::Text(text)) => plain(text),
                (Kind::Time, Held::Number(number)) => span(Some(*number)),
                (Kind::Money, Held::Number(number)) => format!("${number:.6}"),
                (_, Held::Number(number)) => number.to_string(),
                (_, Held::Flag(flag)) => flag.to_string(),
            };
            let _written = writeln!(text, "  {name:<12} {shown}");
        }
        text
    }
}

fn span(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "-".to_owned(),
        Some(span) if span < 1_000.0 => format!("{span:.0} ms"),
        Some(span) => format!("{:.2} s", span / 1_000.0),
    }
}

/// A moment as `12:04:31.207`, by UTC.
fn clock(unix_ms: u64) -> String {
    let (seconds, rest) = (unix_ms / 1_000 % 86_400, unix_ms % 1_000);
    format!("{:02}:{:02}:{:02}.{rest:03}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}
