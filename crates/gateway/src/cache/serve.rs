//! Lookup: a request's path through the cache: hit, follower of a single flight, or leader.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Response, StatusCode};
use overdraft_http::{Body, BoxError, BrokenOff};
use overdraft_otlp::Attribute;
use overdraft_telemetry::{EndCode, Ender, Phase, unix_milliseconds};
use overdraft_units::Tokens;
use overdraft_wire::{ApiError, sse};
use tokio::time::Instant;

use super::entry::Entry;
use super::leader::{Leading, start, told_events, wanted};
use super::request::{Form, Seeking, Sought, mark, seek};
use super::single_flight::{
    Begun, Bounds, Counted, CutOff, Ended, FlightKey, Next, Opening, Role, Seat,
};
use super::{Cache, replay};
use crate::pipeline::charges::{Fare, charge, charge_request};
use crate::pipeline::context::RequestContext;
use crate::pipeline::deadline::{self, Deadline};
use crate::pipeline::facts::{RequestFacts, SharedFacts};
use crate::pipeline::keys::Charge;
use crate::pipeline::refusal::Refused;
use crate::pipeline::relay::{Fault, note_broken};
use crate::pipeline::request_guard::RequestGuard;
use crate::pipeline::request_info::RequestInfo;
use crate::pipeline::upstream_body::Content;
use crate::pipeline::usage::Counts;
use crate::pipeline::{Pipeline, explanation};
use crate::settings::CacheMode;

/// What became of a request at the cache.
pub(crate) enum Served {
    /// This is its answer.
    Answered(Response<Body>),
    /// It is to be asked like any other; its answer is marked so, and its key has paid for having come or has not.
    Ask(Mark, Fare),
}

/// How the answer to a request that went on is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// There is no cache.
    Nothing,
    Miss,
    Bypass,
}

impl Mark {
    /// Says it in the answer's head.
    pub(crate) fn tell<B>(self, response: &mut Response<B>) {
        match self {
            Self::Nothing => {}
            Self::Miss => mark(response.headers_mut(), "MISS"),
            Self::Bypass => mark(response.headers_mut(), "BYPASS"),
        }
    }
}

/// Answers a request from what is kept, or together with others, where it may be.
pub(crate) async fn serve(
    cache: &Arc<Cache>,
    context: &mut RequestContext<'_>,
    content: &Content,
    info: &RequestInfo,
) -> Result<Served, Refused> {
    let settings = Arc::clone(&cache.pipeline.settings());
    let explains = explanation::is_wanted(&settings.admin, context.exchange, &context.head.headers);
    let seeking = match seek(cache, context, content, info)? {
        Seeking::Sought(_) if explains => {
            Seeking::Past(overdraft_core::response_cache::Bypass::Explained)
        }
        seeking => seeking,
    };
    let sought = match seeking {
        Seeking::Off => return Ok(Served::Ask(Mark::Nothing, Fare::Due)),
        Seeking::Past(why) => {
            cache.metrics.bypassed(why.name());
            return Ok(Served::Ask(told(cache, context, Mark::Bypass), Fare::Due));
        }
        Seeking::Sought(sought) => sought,
    };
    let now = cache.pipeline.dispatcher.clock.now();
    let observes = settings.cache.mode == CacheMode::Observe;
    let kept = if sought.looks_up { cache.recall(&sought.name, now) } else { None };
    if let Some(entry) = kept {
        if observes {
            cache.metrics.requested("would_hit");
            return Ok(Served::Ask(Mark::Nothing, Fare::Due));
        }
        if let Some(told) = replay::told(&entry, sought.form) {
            pay(&cache.pipeline, info)?;
            note_hit(cache, context, &entry);
            let response = replay::response(told, sought.form, &entry, unix_milliseconds());
            return Ok(Served::Answered(response));
        }
    }
    let coalesces = settings.cache.coalesce && sought.looks_up && !observes;
    let patience = cache.openings().patience(wanted(&sought, info));
    let bounds = Bounds {
        bytes_max: settings.cache.entry_bytes,
        due: Instant::now() + Duration::from(patience),
    };
    let flights = &cache.flights;
    let (seat, role) = if coalesces {
        let (key, form, priority) = (sought.name.key, sought.form, info.priority);
        flights.join(FlightKey { key, form, priority }, bounds)
    } else {
        (flights.start(bounds), Role::Leader)
    };
    let form = sought.form;
    match role {
        Role::Follower => pay(&cache.pipeline, info)?,
        Role::Leader => {
            let charged = charge(&cache.pipeline, info, Fare::Due);
            if charged.is_err() {
                seat.flight().end(Ended::Broken, None);
            }
            let leading = leading(context, sought, info, charged?);
            start(cache, seat.flight(), leading);
        }
    }
    let waiting = Waiting { seat, role, form, observes };
    let (deadline, facts) = (context.deadline, context.facts.clone());
    // In a box, for those who come where no cache is would carry room for it along. The deadline is the client's own:
    // others may wait for the same answer without one.
    let served = Box::pin(async { Ok(wait(cache, context, waiting).await) });
    deadline::within(deadline, &facts, served).await
}

fn leading(
    context: &RequestContext<'_>,
    sought: Box<Sought>,
    info: &RequestInfo,
    charge: Option<Charge>,
) -> Leading {
    let exchange = context.exchange.apart();
    // What is kept tells its counts; who did not ask for them is shown it without.
    let (mut info, head) = (info.clone(), context.head.clone());
    info.counts = Counts::Relayed;
    let facts = SharedFacts::traced(context.facts.trace().clone());
    let (endpoint, held) = (context.endpoint, context.hears());
    let explanation = context.explanation.clone();
    Leading { sought, info, head, endpoint, exchange, charge, facts, explanation, held }
}

/// Pays for having come. There is nothing to settle later: the request that asks the worker pays the tokens.
fn pay(pipeline: &Pipeline, info: &RequestInfo) -> Result<(), Refused> {
    charge_request(pipeline, info).map(drop)
}

/// A request that waits for the answer of a flight.
struct Waiting {
    seat: Seat,
    role: Role,
    form: Form,
    /// Whether it is only counted what the cache would do.
    observes: bool,
}

/// Waits for the answer of a flight.
async fn wait(cache: &Cache, context: &mut RequestContext<'_>, waiting: Waiting) -> Served {
    let Waiting { seat, role, form, observes } = waiting;
    context.note(|record| record.end.phase = Phase::FirstToken);
    let opening = match role {
        Role::Leader => seat.opening().await,
        // The leader is late: a follower asks by itself, and waits no longer than it would have alone.
        Role::Follower => seat.opening_in_time().await.unwrap_or(Opening::Failed),
    };
    let begun = match opening {
        Opening::Found(entry, told) => {
            note_hit(cache, context, &entry);
            return Served::Answered(replay::response(told, form, &entry, unix_milliseconds()));
        }
        Opening::Begun(begun) if role == Role::Leader || is_for_all(&begun) => begun,
        // The leader has been told why; a follower may fare better by itself.
        Opening::Begun(_) | Opening::Failed => {
            return Served::Ask(told(cache, context, Mark::Miss), Fare::Paid);
        }
    };
    let word = match (observes, role) {
        (true, _) => "would_miss",
        (false, Role::Leader) => "miss",
        (false, Role::Follower) => "coalesced",
    };
    note(cache, context, word);
    if let Some(pool) = begun.pool
        && let Some(guard) = context.guard()
    {
        guard.by(pool);
    }
    if role == Role::Leader
        && let Some(own) = context.explanation.trail()
    {
        own.clone_from(&begun.trail);
    }
    let response = relay(cache, context, seat, &begun).await;
    let Some(mut response) = response else {
        return Served::Ask(told(cache, context, Mark::Miss), Fare::Paid);
    };
    match word {
        "miss" => mark(response.headers_mut(), "MISS"),
        "coalesced" => mark(response.headers_mut(), "COALESCED"),
        _ => {}
    }
    Served::Answered(response)
}

/// Whether an answer is one to the question, and not to the one who asked: another model may be for his key alone.
fn is_for_all(begun: &Begun) -> bool {
    let status = begun.head.status;
    let is_about_it = status.is_client_error()
        && status != StatusCode::TOO_MANY_REQUESTS
        && status != StatusCode::REQUEST_TIMEOUT;
    !begun.has_fallen_back && (status.is_success() || is_about_it)
}

/// The flight's answer as one client gets it; `None` where it broke off before anything was shown.
async fn relay(
    cache: &Cache,
    context: &mut RequestContext<'_>,
    mut seat: Seat,
    begun: &Arc<Begun>,
) -> Option<Response<Body>> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = begun.head.status;
    *response.headers_mut() = begun.head.headers.clone();
    response.headers_mut().remove(CONTENT_LENGTH);
    context.note(|record| record.worker.clone_from(&begun.worker));
    let bytes_max = cache.pipeline.settings().cache.entry_bytes;
    let fits = |length: u64| usize::try_from(length).is_ok_and(|length| length <= bytes_max);
    if begun.length.is_some_and(fits) {
        let mut whole = BytesMut::new();
        loop {
            match seat.next().await {
                Next::Frame(frame) => whole.extend_from_slice(&frame),
                Next::End(Ended::Whole) => break,
                Next::End(Ended::Broken) | Next::CutOff(_) => return None,
            }
        }
        learn(&context.facts, &seat);
        *response.body_mut() = Body::full(whole.freeze());
        return Some(response);
    }
    let is_stream = begun
        .head
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let first_token = cache.pipeline.dispatcher.clock.now() - context.exchange.begun;
    context.note(|record| {
        record.end.phase = Phase::Data;
        record.first_token = is_stream.then_some(first_token);
    });
    if let Some(guard) = context.guard() {
        guard.answered(begun.head.status);
    }
    let reader = Reader {
        seat,
        facts: context.facts.clone(),
        deadline: context.deadline,
        passes: if is_stream { Passes::Events } else { Passes::Bytes },
        events: 0,
        _guard: context.take_guard(),
    };
    *response.body_mut() = Body::unfold(reader, Reader::step);
    Some(response)
}

/// One client's reading of a flight.
struct Reader {
    seat: Seat,
    facts: SharedFacts,
    /// The client's, or its key's.
    deadline: Option<Deadline>,
    passes: Passes,
    /// Events that it was shown.
    events: u64,
    /// Ends when the answer does.
    _guard: Option<RequestGuard>,
}

/// What an answer that is read along is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Events,
    Bytes,
    /// The event that says why nothing follows has been handed over.
    Nothing,
}

impl Reader {
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        if self.passes == Passes::Nothing {
            return broken_off().await;
        }
        let next = deadline::in_time(self.deadline, &self.facts, self.seat.next()).await;
        let Some(next) = next else {
            return self.give_up(Fault::Late.ender(), &deadline::missed()).await;
        };
        match next {
            Next::Frame(frame) => {
                if self.passes == Passes::Events {
                    self.events = self.events.saturating_add(told_events(&frame));
                }
                Ok(Some((frame, self)))
            }
            Next::End(Ended::Whole) => {
                learn(&self.facts, &self.seat);
                self.facts.note(|record| record.end = EndCode::WHOLE);
                Ok(None)
            }
            Next::End(Ended::Broken) => {
                learn(&self.facts, &self.seat);
                broken_off().await
            }
            // What the answer used is told by those who got all of it.
            Next::CutOff(CutOff::Behind) => {
                let error = ApiError::overloaded(
                    "the client read a shared answer too slowly, and the rest of it is no longer \
                     buffered; send the request again",
                );
                self.give_up(Ender::ClientStalled, &error).await
            }
            Next::CutOff(CutOff::Unled) => {
                let error = ApiError::server_error(
                    "the gateway lost the rest of the answer; send the request again",
                );
                self.give_up(Ender::Defect, &error).await
            }
        }
    }

    /// Ends an answer that does not say itself why nothing follows: an event says so, where it has events.
    async fn give_up(
        mut self,
        ender: Ender,
        error: &ApiError,
    ) -> Result<Option<(Bytes, Self)>, BoxError> {
        let end = EndCode { ender, phase: Phase::Data };
        self.facts.note(|record| record.end = end);
        match self.passes {
            Passes::Events => {
                self.passes = Passes::Nothing;
                Ok(Some((sse::error_event(error).into(), self)))
            }
            Passes::Bytes | Passes::Nothing => broken_off().await,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let left = EndCode { ender: Ender::Nobody, phase: Phase::Data };
        // Where others read on, the answer's tokens are told by them.
        if self.seat.leave() {
            let events = u32::try_from(self.events).unwrap_or(u32::MAX);
            self.facts.note(|record| note_broken(record, None, events));
        } else if self.facts.known().end == left
            && let Some((counted, Counted::Here)) = self.seat.facts()
        {
            // Its worker had said more than was read.
            self.facts.note(|record| {
                (record.prompt, record.completion) = (counted.prompt, counted.completion);
                record.cached = counted.cached;
            });
        }
    }
}

/// Ends an answer by ending its connection. What was handed over before has to leave before that.
async fn broken_off<T>() -> Result<T, BoxError> {
    tokio::task::yield_now().await;
    Err(BrokenOff.into())
}

/// Takes what the worker said into the client's own facts. Tokens are told once, for they were made
/// once; to all others they are given again.
fn learn(own: &SharedFacts, seat: &Seat) {
    let Some((facts, told)) = seat.facts() else { return };
    let RequestFacts { prompt, completion, cached, end, queued, served_by, .. } = facts;
    let RequestFacts { worker, stand_in, resumed, resumed_by, hedged, .. } = facts;
    own.note(|record| {
        (record.end, record.queued) = (end, queued);
        (record.served_by, record.stand_in) = (served_by, stand_in);
        (record.resumed, record.resumed_by, record.hedged) = (resumed, resumed_by, hedged);
        if worker.is_some() {
            record.worker = worker;
        }
        match told {
            Counted::Here => {
                (record.prompt, record.completion, record.cached) = (prompt, completion, cached);
            }
            Counted::Elsewhere => record.reused = prompt.zip(completion),
        }
    });
}

/// An answer is given again: tokens that nobody made, and so are told apart from those that somebody did.
fn note_hit(cache: &Cache, context: &RequestContext<'_>, entry: &Entry) {
    note(cache, context, "hit");
    let usage = &entry.usage;
    cache.metrics.saved(entry.took, usage.total_tokens);
    let reused = (Tokens::new(usage.prompt_tokens), Tokens::new(usage.completion_tokens));
    context.note(|record| record.reused = Some(reused));
}

fn note(cache: &Cache, context: &RequestContext<'_>, word: &'static str) {
    cache.metrics.requested(word);
    context
        .facts
        .trace()
        .event("overdraft.cache", || vec![Attribute::new("overdraft.cache", word)]);
    context.note(|record| record.cache = Some(word));
}

/// The mark of a request that goes on, which nobody shows while it is only observed.
fn told(cache: &Cache, context: &RequestContext<'_>, mark: Mark) -> Mark {
    let word = if mark == Mark::Bypass { "bypass" } else { "miss" };
    note(cache, context, word);
    if cache.pipeline.settings().cache.mode == CacheMode::On { mark } else { Mark::Nothing }
}

#[cfg(test)]
mod tests;
