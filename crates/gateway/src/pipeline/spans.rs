//! Spans of a request that has ended: one of the server, and one of the client for each attempt.
//!
//! Names are OpenTelemetry's for HTTP, `overdraft.*` for what only we have, and on wish those for generative models.
//! Tokens are on the attempt that counted them, so that adding up spans counts none twice.

use std::borrow::Cow;

use overdraft_otlp::{Attribute, Kind, Outcome, Span, SpanEvent, Value};
use overdraft_telemetry::{EndCode, Ender};
use overdraft_units::{Instant, Micros, Tokens};

use super::facts::RequestFacts;
use crate::settings::GenAi;
use crate::trace::{AttemptNote, Calendar, EventNote, Notes, Recording};

/// How a request ended, as its guard knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) route: &'static str,
    pub(crate) begun: Instant,
    pub(crate) total: Micros,
    pub(crate) status: u16,
    pub(crate) code: EndCode,
}

/// Hands the spans of a request to the exporter's queue.
pub(crate) fn finish(recording: &Recording, facts: &RequestFacts, end: &End) {
    let calendar = recording.tracer.calendar();
    let notes = recording.take();
    let builder = Builder { recording, calendar, facts, end };
    let mut spans = Vec::with_capacity(1 + notes.attempts.len());
    for (number, attempt) in notes.attempts.iter().enumerate() {
        let before = notes.attempts.iter().take(number);
        let resends = before.filter(|before| is_same_question(before, attempt)).count();
        spans.push(builder.attempt(resends, attempt));
    }
    spans.push(builder.request(notes));
    recording.tracer.finish(spans);
}

/// Whether two attempts ask the same of a model: another model, or a score, is another question and no resend.
fn is_same_question(one: &AttemptNote, other: &AttemptNote) -> bool {
    one.callee.model == other.callee.model && one.callee.path == other.callee.path
}

struct Builder<'a> {
    recording: &'a Recording,
    calendar: Calendar,
    facts: &'a RequestFacts,
    end: &'a End,
}

impl Builder<'_> {
    fn request(&self, notes: Notes) -> Span {
        let (facts, end) = (self.facts, self.end);
        let mut said = Attributes(vec![
            Attribute::new("http.request.method", "POST"),
            Attribute::new("http.route", end.route),
            Attribute::new("overdraft.request_id", self.recording.request.to_string()),
            Attribute::new("overdraft.end", end.code.to_string()),
            Attribute::new("overdraft.attempts", count(notes.attempts.len())),
        ]);
        if end.status != 0 {
            said.add("http.response.status_code", u64::from(end.status));
        }
        said.maybe("overdraft.model", facts.model.clone());
        said.maybe("overdraft.tenant", facts.tenant.as_deref().map(str::to_owned));
        said.maybe("overdraft.priority", facts.priority);
        said.maybe("overdraft.worker", facts.worker.clone());
        said.maybe("overdraft.cache", facts.cache);
        said.maybe("overdraft.served_by", facts.served_by);
        said.maybe("overdraft.cost_microusd", facts.cost);
        said.maybe("overdraft.queued_us", facts.queued.map(Micros::get));
        said.maybe("overdraft.first_token_us", facts.first_token.map(Micros::get));
        let reused = facts.reused.map(|(_, completion)| tokens(completion));
        said.maybe("overdraft.tokens_out_reused", reused);
        let failed = matches!(
            end.code.ender,
            Ender::Server | Ender::ServerStalled | Ender::Defect | Ender::Drain
        );
        let outcome = if failed || 500 <= end.status {
            said.add("error.type", end.code.to_string());
            Outcome::Failed(end.code.to_string().into())
        } else {
            Outcome::Fine
        };
        let ended = end.begun + end.total;
        let mut events: Vec<_> = notes.events.into_iter().map(|event| self.event(event)).collect();
        if let Some(first) = facts.first_token {
            let at_ns = self.calendar.of(end.begun + first);
            events.push(SpanEvent { at_ns, name: "overdraft.first_token", attributes: Vec::new() });
        }
        events.sort_by_key(|event| event.at_ns);
        Span {
            trace: self.recording.context.trace,
            id: self.recording.context.span,
            parent: self.recording.caller.span,
            is_parent_remote: self.recording.caller.span.is_some(),
            state: self.recording.caller.state.clone(),
            name: format!("POST {}", end.route).into(),
            kind: Kind::Server,
            begun_ns: self.calendar.of(end.begun),
            ended_ns: self.calendar.of(ended),
            attributes: said.0,
            events,
            events_dropped: notes.dropped,
            outcome,
        }
    }

    fn event(&self, event: EventNote) -> SpanEvent {
        let EventNote { at, name, attributes } = event;
        SpanEvent { at_ns: self.calendar.of(at), name, attributes }
    }

    fn attempt(&self, resends: usize, note: &AttemptNote) -> Span {
        let callee = &note.callee;
        let mut said = Attributes(vec![
            Attribute::new("http.request.method", "POST"),
            Attribute::new("server.address", callee.host.clone()),
            Attribute::new("server.port", u64::from(callee.port)),
            Attribute::new("overdraft.worker", callee.worker.to_string()),
            Attribute::new("overdraft.pool", callee.pool),
            Attribute::new("overdraft.model", callee.model.clone()),
        ]);
        if 0 < resends {
            said.add("http.request.resend_count", count(resends));
        }
        said.maybe("http.response.status_code", note.status.map(u64::from));
        said.maybe("error.type", note.error);
        let ended = note.ended.unwrap_or_else(|| self.calendar.now());
        if let Some(used) = note.tokens {
            said.add("overdraft.tokens_prompt", tokens(used.prompt));
            said.add("overdraft.tokens_out", tokens(used.completion));
            said.maybe("overdraft.tokens_cached", used.cached.map(tokens));
        }
        self.of_convention(note, &mut said);
        let events = note.first_token.map(|at| SpanEvent {
            at_ns: self.calendar.of(at),
            name: "overdraft.first_token",
            attributes: Vec::new(),
        });
        Span {
            trace: self.recording.context.trace,
            id: note.span,
            parent: Some(self.recording.context.span),
            is_parent_remote: false,
            state: self.recording.caller.state.clone(),
            name: self.attempt_name(note),
            kind: Kind::Client,
            begun_ns: self.calendar.of(note.began),
            ended_ns: self.calendar.of(ended),
            attributes: said.0,
            events: events.into_iter().collect(),
            events_dropped: 0,
            outcome: note.error.map_or(Outcome::Fine, |error| Outcome::Failed(error.into())),
        }
    }

    fn attempt_name(&self, note: &AttemptNote) -> Cow<'static, str> {
        match self.recording.tracer.gen_ai {
            GenAi::Off => format!("POST {}", note.callee.path).into(),
            GenAi::V1_36 | GenAi::Latest => {
                format!("{} {}", operation(&note.callee.path), note.callee.model).into()
            }
        }
    }

    /// Names for generative models, by version.
    fn of_convention(&self, note: &AttemptNote, said: &mut Attributes) {
        let is_latest = match self.recording.tracer.gen_ai {
            GenAi::Off => return,
            GenAi::V1_36 => false,
            GenAi::Latest => true,
        };
        let name = |before, latest| if is_latest { latest } else { before };
        said.add("gen_ai.operation.name", operation(&note.callee.path));
        said.add(name("gen_ai.system", "gen_ai.provider.name"), "overdraft");
        said.add("gen_ai.request.model", note.callee.model.clone());
        if let Some(used) = note.tokens {
            said.add("gen_ai.usage.input_tokens", tokens(used.prompt));
            said.add("gen_ai.usage.output_tokens", tokens(used.completion));
            let cached = used.cached.filter(|_| is_latest).map(tokens);
            said.maybe("gen_ai.usage.cache_read.input_tokens", cached);
        }
        if let (true, Some(first)) = (is_latest, note.first_token) {
            let seconds = seconds(first.since(note.began));
            said.add("gen_ai.response.time_to_first_chunk", seconds);
        }
    }
}

/// What the conventions call a path of ours.
fn operation(path: &str) -> &'static str {
    match path {
        "/v1/chat/completions" => "chat",
        "/v1/embeddings" => "embeddings",
        _ => "text_completion",
    }
}

struct Attributes(Vec<Attribute>);

impl Attributes {
    fn add(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push(Attribute::new(key, value));
    }

    fn maybe(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }
}

fn tokens(count: Tokens) -> u64 {
    count.get().into()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "a span of time for people")]
fn seconds(span: Micros) -> Value {
    Value::Float(span.get() as f64 / 1e6)
}
