//! The question behind a flight: looked up where others keep answers, asked, watched, and kept.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, Response, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use overdraft_core::reuse::{Answered, Finish, Unkept, Wanted, unkept};
use overdraft_http::{Body, Exchange};
use overdraft_store::{Looked, Ticket};
use overdraft_telemetry::{AccessRecord, unix_time};
use overdraft_units::Micros;
use overdraft_wire::response::Usage;
use overdraft_wire::response::replay::{self, Finished};
use tokio::time::Instant;

use super::entry::{Entry, Kept};
use super::flight::{Begun, Ended, Flight, Opening};
use super::request::{Form, Sought};
use super::settings::CacheMode;
use super::{Term, again};
use crate::attempt::Question;
use crate::fingerprint::Fingerprint;
use crate::forward::ask_until_answered;
use crate::keys::{Bill, Charge};
use crate::shared::Shared;
use crate::{admin, refusal, tokenizing};

/// What one question needs, of whoever asked first.
pub(crate) struct Errand {
    pub(crate) sought: Box<Sought>,
    pub(crate) print: Fingerprint,
    pub(crate) head: Parts,
    pub(crate) path: &'static str,
    /// Its access record is its own: the first to ask may be gone before the answer is.
    pub(crate) exchange: Exchange,
    pub(crate) charge: Option<Charge>,
}

/// Sees to it that a flight ends, however its task does.
struct Guard {
    shared: Arc<Shared>,
    flight: Arc<Flight>,
    charge: Option<Charge>,
    frames: u64,
}

impl Guard {
    fn settle(&mut self, bill: Bill) {
        if let Some(charge) = self.charge.take() {
            charge.settle(bill, self.shared.clock.now());
        }
    }

    fn end(mut self, end: Ended, bill: Bill, facts: Option<AccessRecord>) {
        self.settle(bill);
        self.flight.end(end, facts);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let bill = if self.frames == 0 { Bill::Nothing } else { Bill::Streamed(self.frames) };
        self.settle(bill);
        self.flight.end(Ended::Broken, None);
    }
}

/// Sets out; the flight ends it when nobody waits any more.
#[expect(clippy::disallowed_methods, reason = "the owner keeps an abort handle, not a JoinSet yet")]
pub(crate) fn set_out(shared: &Arc<Shared>, flight: &Arc<Flight>, mut errand: Errand) {
    let charge = errand.charge.take();
    let (shared, flight) = (Arc::clone(shared), Arc::clone(flight));
    let guard =
        Guard { shared: Arc::clone(&shared), flight: Arc::clone(&flight), charge, frames: 0 };
    let task = tokio::spawn(lead(shared, guard, errand));
    flight.led_by(task.abort_handle());
}

async fn lead(shared: Arc<Shared>, mut guard: Guard, errand: Errand) {
    let begun = Instant::now();
    let flight = Arc::clone(&guard.flight);
    let purges = shared.cache.purges();
    let ticket = match look_up(&shared, &errand.sought, purges).await {
        Ok((entry, told)) => {
            flight.open(Opening::Found(entry, told));
            guard.end(Ended::Whole, Bill::Nothing, None);
            return;
        }
        Err(ticket) => ticket,
    };
    let Errand { sought, mut print, head, path, exchange, .. } = errand;
    tokenizing::count(&shared, &mut print, &sought.content.body, path).await;
    let response = ask(&shared, (&exchange, &print), (&sought, &head, path)).await;
    let is_success = response.status().is_success();
    if is_success {
        shared.cache.openings().note(wanted(&sought, &print), micros(begun.elapsed()));
    }
    let (head, body) = response.into_parts();
    let (mut worker, mut first_token) = (None, None);
    exchange.access.note(|record| {
        worker.clone_from(&record.worker);
        first_token = record.first_token;
    });
    let id = worker.as_deref().and_then(|name| admin::find(&shared, name));
    let pool = id.map(|id| shared.pool(id));
    let length = body.size_hint().exact();
    flight.open(Opening::Begun(Arc::new(Begun { head, length, worker, pool })));
    let entry_bytes = shared.settings().cache.entry_bytes;
    let mut pump = Pump { form: sought.form, held: Vec::new(), bytes: 0, bytes_max: entry_bytes };
    let is_whole = pump.run((&shared, &flight), body, &mut guard.frames).await;
    let mut facts = AccessRecord::default();
    exchange.access.note(|record| facts = record.clone());
    let bytes = u64::try_from(pump.bytes).unwrap_or(u64::MAX);
    let came = Came { is_success, is_whole, bytes, took: begun.elapsed(), purges };
    let kept = keep(&shared, &sought, pump, came);
    let bill = match (facts.prompt, facts.completion) {
        (None, None) if !is_success => Bill::Nothing,
        (None, None) => Bill::AsExpected,
        (prompt, completion) => {
            let count = |count: Option<overdraft_units::Tokens>| {
                count.map_or(0, |count| u64::from(count.get()))
            };
            Bill::Counted(count(prompt).saturating_add(count(completion)))
        }
    };
    guard.end(if is_whole { Ended::Whole } else { Ended::Broken }, bill, Some(facts));
    // The clients have their answer; that others may have it too keeps nobody waiting.
    if let (Some(entry), Some(ticket)) = (kept, ticket) {
        share(&shared, &sought, &entry, ticket).await;
    }
}

/// Looks again in memory, for the answer may have come meanwhile, and then where others keep theirs.
async fn look_up(
    shared: &Arc<Shared>,
    sought: &Sought,
    purges: u64,
) -> Result<(Arc<Entry>, Bytes), Option<Ticket>> {
    let cache = &shared.cache;
    let settings = Arc::clone(&shared.settings());
    if sought.looks_up
        && settings.cache.mode == CacheMode::On
        && let Some(entry) = cache.recall(&sought.name, shared.clock.now())
        && let Some(told) = again::told(&entry, sought.form)
    {
        return Ok((entry, told));
    }
    let Some(depot) = cache.depot() else { return Err(None) };
    let looked = depot.get(&sought.name).await;
    match looked {
        Err(_) => {
            cache.metrics.looked_up("shared", "error");
            Err(None)
        }
        Ok(Looked::Missing(ticket)) => {
            cache.metrics.looked_up("shared", "miss");
            Err(Some(ticket))
        }
        Ok(Looked::Found(bytes, ticket)) => {
            let answer_max = settings.cache.entry_bytes;
            let entry = Entry::decode(bytes, &sought.name, answer_max);
            let alive = entry.filter(|entry| entry.age(now_ms()) < settings.cache.life);
            let told = alive.as_ref().and_then(|entry| again::told(entry, sought.form));
            let (Some(entry), Some(told)) = (alive, told) else {
                cache.metrics.looked_up("shared", "unusable");
                return Err(Some(ticket));
            };
            cache.metrics.looked_up("shared", if sought.looks_up { "hit" } else { "passed" });
            if !sought.looks_up {
                return Err(Some(ticket));
            }
            let entry = Arc::new(entry);
            let left = settings.cache.life.saturating_sub(entry.age(now_ms()));
            let term = Term { bytes: entry.bytes(), life: left, purges };
            cache.put(&sought.name, Arc::clone(&entry), term, shared.clock.now());
            Ok((entry, told))
        }
    }
}

/// Asks workers, as any other request would be.
async fn ask(
    shared: &Arc<Shared>,
    (exchange, print): (&Exchange, &Fingerprint),
    (sought, head, path): (&Sought, &Parts, &'static str),
) -> Response<Body> {
    let question = Question {
        content: sought.content.clone(),
        path: Uri::from_static(path),
        request_id: HeaderValue::from_str(exchange.id.as_str())
            .expect("a request's name is printable"),
        head,
        begun: Instant::now(),
    };
    let asking =
        ask_until_answered(shared, (exchange, &mut None), print, &question, &mut None).await;
    asking.unwrap_or_else(|refused| {
        if let Some(reason) = refused.reason {
            shared.admission.rejected(reason, print.priority.name());
        }
        let mut response = refused.into_response();
        refusal::tell_priority(response.headers_mut(), print.priority);
        response
    })
}

/// What a question wants, as far as it says how long its answer takes to begin.
pub(crate) fn wanted(sought: &Sought, print: &Fingerprint) -> Wanted {
    let bytes = u64::try_from(sought.content.body.len()).unwrap_or(u64::MAX);
    Wanted { whole: sought.form == Form::Whole, bytes, limit: print.limit }
}

/// Bytes of an answer after which kept ones make room for it.
const ROOM_BYTES: usize = 64 * 1024;

/// How an answer came.
#[derive(Clone, Copy, Debug)]
struct Came {
    is_success: bool,
    is_whole: bool,
    bytes: u64,
    took: Duration,
    /// Purges before it was asked for.
    purges: u64,
}

/// Gives an answer to the flight and holds it back for keeping.
struct Pump {
    form: Form,
    held: Vec<Bytes>,
    bytes: usize,
    bytes_max: usize,
}

impl Pump {
    /// Whether the answer came to its clean end.
    async fn run(
        &mut self,
        (shared, flight): (&Shared, &Flight),
        mut body: Body,
        frames: &mut u64,
    ) -> bool {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            let Ok(data) = frame.into_data() else { continue };
            let before = self.bytes;
            self.bytes += data.len();
            if before / ROOM_BYTES < self.bytes / ROOM_BYTES {
                shared.cache.make_room(shared.clock.now());
            }
            // Readers are given the same bytes: as long as the flight holds all of them, this holds none of its own.
            if flight.is_cut() {
                self.bytes_max = 0;
            }
            if self.bytes <= self.bytes_max {
                self.held.push(data.clone());
            } else {
                self.held = Vec::new();
            }
            // Who did not ask for the usage does not see that it was asked for.
            let shown = if self.form == Form::Events && tells_usage(&data) {
                replay::without_usage(&data).into()
            } else {
                data
            };
            if !shown.is_empty() {
                *frames += 1;
                flight.push(shown).await;
            }
        }
        true
    }

    fn answer(self) -> BytesMut {
        let mut answer = BytesMut::with_capacity(self.bytes);
        self.held.iter().for_each(|data| answer.extend_from_slice(data));
        answer
    }
}

fn tells_usage(data: &[u8]) -> bool {
    memchr::memmem::find(data, b"\"usage\"").is_some()
}

/// Keeps an answer in memory, where it may be kept; what others may have of it.
fn keep(shared: &Shared, sought: &Sought, pump: Pump, came: Came) -> Option<Arc<Entry>> {
    let Came { is_success, is_whole, bytes, took, purges } = came;
    let settings = shared.settings();
    let bytes_max = u64::try_from(pump.bytes_max).unwrap_or(u64::MAX);
    let mut answered = Answered { finish: Finish::Complete, is_whole, is_success, bytes };
    let mut summary = None;
    if unkept(answered, bytes_max).is_none() {
        let is_whole_form = pump.form == Form::Whole;
        let answer = pump.answer();
        let told = if is_whole_form {
            replay::summary_of_whole(&answer, sought.choices)
        } else {
            replay::summary_of_events(&answer, sought.choices)
        };
        answered.finish = match told.map(|told| told.finished) {
            Some(Finished::Complete) => Finish::Complete,
            Some(Finished::Calls) => Finish::Calls,
            Some(Finished::Otherwise) | None => Finish::Otherwise,
        };
        let kept = if is_whole_form { Kept::Whole } else { Kept::Events };
        summary = told.map(|told| (kept, answer, told.usage.unwrap_or_default()));
    }
    if let Some(why) = unkept(answered, bytes_max) {
        shared.cache.metrics.unkept(why.name());
        return None;
    }
    let (kept, answer, usage): (Kept, BytesMut, Usage) = summary?;
    let Some(entry) = Entry::new((kept, &answer), &sought.name, usage, (now_ms(), took)) else {
        shared.cache.metrics.unkept(Unkept::TooLarge.name());
        return None;
    };
    let observes = settings.cache.mode == CacheMode::Observe;
    let size = entry.bytes();
    let entry = Arc::new(if observes { entry.hollow() } else { entry });
    let now = shared.clock.now();
    let term = Term { bytes: size, life: settings.cache.life, purges };
    shared.cache.put(&sought.name, Arc::clone(&entry), term, now);
    // At the store the ticket says that it is of before a purge.
    (!observes).then_some(entry)
}

/// Puts an answer where other gateways find it.
async fn share(shared: &Shared, sought: &Sought, entry: &Entry, ticket: Ticket) {
    let Some(depot) = shared.cache.depot() else { return };
    let life = shared.settings().cache.life;
    let put = depot.put(&sought.name, ticket, (&entry.encode(), life)).await;
    shared.cache.metrics.put(if put.is_ok() { "stored" } else { "error" });
}

/// Milliseconds since 1970, for the age of what others wrote.
pub(crate) fn now_ms() -> u64 {
    let time = Duration::try_from_secs_f64(unix_time()).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The same time in the core's units.
pub(crate) fn micros(span: Duration) -> Micros {
    Micros::new(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}
