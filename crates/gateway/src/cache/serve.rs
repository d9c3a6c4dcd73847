//! A request's way through the cache: found, joined to a question under way, or asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{Response, StatusCode};
use overdraft_http::{Access, Body, BoxError, Exchange};
use overdraft_telemetry::{AccessRecord, EndCode, Phase};
use overdraft_units::Tokens;
use tokio::time::Instant;

use super::again;
use super::entry::Entry;
use super::flight::{Begun, Bounds, Ended, FlightKey, Next, Opening, Role, Seat};
use super::lead::{Errand, now_ms, set_out, wanted};
use super::request::{Form, Seeking, Sought, mark, seek};
use super::settings::CacheMode;
use crate::content::Content;
use crate::explain;
use crate::fingerprint::Fingerprint;
use crate::forward::{charge, charge_request};
use crate::keys::Charge;
use crate::refusal::Refused;
use crate::shared::Shared;
use crate::tally::Tally;
use crate::usage::Counts;

/// What became of a request at the cache.
pub(crate) enum Served {
    /// This is its answer.
    Answered(Response<Body>),
    /// It is to be asked like any other; its answer is marked so.
    Ask(Mark),
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
    shared: &Arc<Shared>,
    exchange: &Exchange,
    tally: &mut Option<Tally>,
    (head, content, path): (&Parts, &Content, &'static str),
    print: &Fingerprint,
) -> Result<Served, Refused> {
    let seeking = match seek(shared, (&head.headers, content), path, print)? {
        Seeking::Sought(_)
            if explain::is_wanted(&shared.settings().admin, exchange, &head.headers) =>
        {
            Seeking::Past(overdraft_core::reuse::Bypass::Explained)
        }
        seeking => seeking,
    };
    let sought = match seeking {
        Seeking::Off => return Ok(Served::Ask(Mark::Nothing)),
        Seeking::Past(why) => {
            shared.cache.metrics.bypassed(why.name());
            return Ok(Served::Ask(told(shared, exchange, Mark::Bypass)));
        }
        Seeking::Sought(sought) => sought,
    };
    let now = shared.clock.now();
    let observes = shared.settings().cache.mode == CacheMode::Observe;
    let kept = if sought.looks_up { shared.cache.recall(&sought.name, now) } else { None };
    if let Some(entry) = kept {
        if observes {
            shared.cache.metrics.requested("would_hit");
            return Ok(Served::Ask(Mark::Nothing));
        }
        if let Some(told) = again::told(&entry, sought.form) {
            pay(shared, print)?;
            note_hit(shared, exchange, &entry);
            let response = again::response(told, sought.form, &entry, now_ms());
            return Ok(Served::Answered(response));
        }
    }
    let coalesces = shared.settings().cache.coalesce && sought.looks_up && !observes;
    let patience = shared.cache.openings().patience(wanted(&sought, print));
    let bounds = Bounds {
        bytes_max: shared.settings().cache.entry_bytes,
        due: Instant::now() + Duration::from_micros(patience.get()),
    };
    let flights = &shared.cache.flights;
    let (seat, role) = if coalesces {
        let (key, form, priority) = (sought.name.key, sought.form, print.priority);
        flights.board(FlightKey { key, form, priority }, bounds)
    } else {
        (flights.charter(bounds), Role::Leader)
    };
    let form = sought.form;
    match role {
        Role::Follower => pay(shared, print)?,
        Role::Leader => {
            let charged = charge(shared, print);
            if charged.is_err() {
                seat.flight().end(Ended::Broken, None);
            }
            let errand = errand(exchange, sought, print, (head, path), charged?);
            set_out(shared, seat.flight(), errand);
        }
    }
    // In a box, for those who come where no cache is would carry room for it along.
    Ok(Box::pin(sit(shared, exchange, tally, (seat, role), (form, observes))).await)
}

fn errand(
    exchange: &Exchange,
    sought: Box<Sought>,
    print: &Fingerprint,
    (head, path): (&Parts, &'static str),
    charge: Option<Charge>,
) -> Errand {
    let exchange = Exchange { access: Access::default(), ..exchange.clone() };
    // What is kept tells its counts; who did not ask for them is shown it without.
    let (mut print, head) = (print.clone(), head.clone());
    print.counts = Counts::Relayed;
    Errand { sought, print, head, path, exchange, charge }
}

/// Pays for having come. There is nothing to settle later: whoever asked the worker pays the tokens.
fn pay(shared: &Shared, print: &Fingerprint) -> Result<(), Refused> {
    charge_request(shared, print).map(drop)
}

/// Waits for the answer of a flight.
async fn sit(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    tally: &mut Option<Tally>,
    (seat, role): (Seat, Role),
    (form, observes): (Form, bool),
) -> Served {
    exchange.access.note(|record| record.end.phase = Phase::FirstToken);
    let opening = match role {
        Role::Leader => seat.opening().await,
        // Whoever asked is late: who joined asks by itself, and waits no longer than it would have alone.
        Role::Follower => seat.opening_in_time().await.unwrap_or(Opening::Failed),
    };
    let begun = match opening {
        Opening::Found(entry, told) => {
            note_hit(shared, exchange, &entry);
            return Served::Answered(again::response(told, form, &entry, now_ms()));
        }
        Opening::Begun(begun) if role == Role::Leader || is_for_all(begun.head.status) => begun,
        // The first one has been told why; whoever joined may fare better by itself.
        Opening::Begun(_) | Opening::Failed => {
            return Served::Ask(told(shared, exchange, Mark::Miss));
        }
    };
    let word = match (observes, role) {
        (true, _) => "would_miss",
        (false, Role::Leader) => "miss",
        (false, Role::Follower) => "coalesced",
    };
    note(shared, exchange, word);
    if let Some(pool) = begun.pool
        && let Some(tally) = tally
    {
        tally.by(pool);
    }
    let response = relay(shared, exchange, tally, seat, &begun).await;
    let Some(mut response) = response else {
        return Served::Ask(told(shared, exchange, Mark::Miss));
    };
    match word {
        "miss" => mark(response.headers_mut(), "MISS"),
        "coalesced" => mark(response.headers_mut(), "COALESCED"),
        _ => {}
    }
    Served::Answered(response)
}

/// Whether an answer is one to the question, and not to the one who asked.
fn is_for_all(status: StatusCode) -> bool {
    status.is_success()
        || (status.is_client_error()
            && status != StatusCode::TOO_MANY_REQUESTS
            && status != StatusCode::REQUEST_TIMEOUT)
}

/// The flight's answer as one client gets it; `None` where it broke off before anything was shown.
async fn relay(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    tally: &mut Option<Tally>,
    mut seat: Seat,
    begun: &Arc<Begun>,
) -> Option<Response<Body>> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = begun.head.status;
    *response.headers_mut() = begun.head.headers.clone();
    response.headers_mut().remove(CONTENT_LENGTH);
    exchange.access.note(|record| record.worker.clone_from(&begun.worker));
    let bytes_max = shared.settings().cache.entry_bytes;
    let fits = |length: u64| usize::try_from(length).is_ok_and(|length| length <= bytes_max);
    if begun.length.is_some_and(fits) {
        let mut whole = BytesMut::new();
        loop {
            match seat.next().await {
                Next::Frame(frame) => whole.extend_from_slice(&frame),
                Next::End(Ended::Whole) => break,
                Next::End(Ended::Broken) => return None,
            }
        }
        learn(exchange, &seat);
        *response.body_mut() = Body::full(whole.freeze());
        return Some(response);
    }
    let is_stream = begun
        .head
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let first_token = shared.clock.now() - exchange.begun;
    exchange.access.note(|record| {
        record.end.phase = Phase::Data;
        record.first_token = is_stream.then_some(first_token);
    });
    if let Some(tally) = tally {
        tally.answered(begun.head.status);
    }
    let reader = Reader { seat, exchange: exchange.clone(), _tally: tally.take() };
    *response.body_mut() = Body::unfold(reader, Reader::step);
    Some(response)
}

/// One client's reading of a flight.
struct Reader {
    seat: Seat,
    exchange: Exchange,
    /// Ends when the answer does.
    _tally: Option<Tally>,
}

/// The answer was broken off; the client has been told why in the event before, where it could be.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the stream was broken off")]
struct BrokenOff;

impl Reader {
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        match self.seat.next().await {
            Next::Frame(frame) => Ok(Some((frame, self))),
            Next::End(Ended::Whole) => {
                learn(&self.exchange, &self.seat);
                self.exchange.access.note(|record| record.end = EndCode::WHOLE);
                Ok(None)
            }
            Next::End(Ended::Broken) => {
                learn(&self.exchange, &self.seat);
                // What was handed over before has to leave before the connection does.
                tokio::task::yield_now().await;
                Err(BrokenOff.into())
            }
        }
    }
}

/// Takes what the worker said into the client's own record. Tokens are told once, for they were made
/// once.
fn learn(exchange: &Exchange, seat: &Seat) {
    let Some(facts) = seat.facts() else { return };
    let AccessRecord { prompt, completion, cached, end, queued, .. } = facts;
    exchange.access.note(|record| {
        (record.prompt, record.completion, record.cached) = (prompt, completion, cached);
        (record.end, record.queued) = (end, queued);
    });
}

/// An answer is given again: tokens that nobody made, and so are told apart from those that somebody did.
fn note_hit(shared: &Shared, exchange: &Exchange, entry: &Entry) {
    note(shared, exchange, "hit");
    let usage = &entry.usage;
    shared.cache.metrics.saved(entry.took, usage.total_tokens);
    let reused = (Tokens::new(usage.prompt_tokens), Tokens::new(usage.completion_tokens));
    exchange.access.note(|record| record.reused = Some(reused));
}

fn note(shared: &Shared, exchange: &Exchange, word: &'static str) {
    shared.cache.metrics.requested(word);
    exchange.access.note(|record| record.cache = Some(word));
}

/// The mark of a request that goes on, which nobody shows while it is only observed.
fn told(shared: &Shared, exchange: &Exchange, mark: Mark) -> Mark {
    let word = if mark == Mark::Bypass { "bypass" } else { "miss" };
    note(shared, exchange, word);
    if shared.settings().cache.mode == CacheMode::On { mark } else { Mark::Nothing }
}
