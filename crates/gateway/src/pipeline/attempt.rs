//! Attempt: a request sent to one worker, and what came of it.
//!
//! The outcome is an answer for the client, or a failure of which the client has seen nothing.
//! There is no third case: a stream counts as answered from its first token on, a non-streamed
//! answer once it is complete.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, response};
use overdraft_core::fleet::{self, Ending, Failure, failure_of};
use overdraft_core::resume::Extra;
use overdraft_http::{Body, Exchange, reply};
use overdraft_telemetry::{Delivery, EndCode, Ender, Phase};
use overdraft_units::Micros;
use overdraft_wire::{ApiError, Endpoint, names_out_of_memory};
use tokio::time::{Instant, timeout_at};

use super::context::RequestContext;
use super::extras::Extras;
use super::relay::whole::{self, Whole};
use super::relay::{self, Fault, Opened, Story, Stream, Watch};
use super::request_info::RequestInfo;
use super::upstream_body::Content;
use super::{Pipeline, refusal};
use crate::dispatch::{Lease, Used};
use crate::settings::{Credentials, GatewaySettings, Limits};
use crate::upstream::{AnswerBody, Outgoing, Pieces, Upstream, UpstreamError, headers};

/// Bytes of a stream that are held back for its first token at most; what goes on without one is relayed.
const OPENING_BYTES_MAX: usize = 64 * 1024;

const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What is asked, the same for every worker.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) content: Content,
    pub(crate) path: Uri,
    /// The endpoint, where it is one that clients have.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) request_id: HeaderValue,
    /// The head as the client sent it.
    pub(crate) head: &'a Parts,
    pub(crate) begun: Instant,
}

impl Question<'_> {
    fn to(&self, upstream: &Upstream, body: &Pieces, credentials: Credentials) -> Outgoing {
        let mut request = Outgoing::new(body.clone());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() =
            headers::outgoing(&self.head.headers, upstream, &self.request_id, credentials);
        request
    }
}

/// What came of an attempt.
pub(crate) enum Attempted {
    /// This is for the client.
    Answered(Response<Body>),
    /// The client has seen nothing yet.
    Failed(Failed),
}

/// A failed attempt, and what the client is told if it was the last.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    end: EndCode,
    response: Response<Body>,
}

impl Failed {
    fn new(failure: Failure, phase: Phase, error: &ApiError) -> Self {
        let ender = match failure {
            Failure::Silent => Ender::ServerStalled,
            Failure::Saturated => Ender::Capacity,
            Failure::Unreachable
            | Failure::Broken
            | Failure::Misconfigured
            | Failure::Disputed
            | Failure::Faulty => Ender::Server,
        };
        Self { failure, end: EndCode { ender, phase }, response: reply::error(error) }
    }

    /// The worker's own words instead of ours.
    fn saying(self, response: Response<Body>) -> Self {
        Self { response, ..self }
    }

    fn of_fault(fault: &Fault) -> Self {
        let failure = fault.failure().unwrap_or(Failure::Broken);
        Self::new(failure, Phase::FirstToken, &fault.error())
    }

    /// What a client is told after both: the last word, unless the one before is of more use to it. Who is full says
    /// when to come back; that there is no such thing is the word of one worker alone.
    pub(crate) fn or_better(self, before: Option<Self>) -> Self {
        let use_of = |failed: &Self| match failed.failure {
            Failure::Saturated => 2,
            Failure::Disputed => 0,
            _ => 1,
        };
        before.filter(|before| use_of(&self) < use_of(before)).unwrap_or(self)
    }

    /// For how long the worker asked to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Micros> {
        (self.failure == Failure::Saturated).then(|| refusal::asked_for(self.response.headers()))?
    }

    /// Ours, with the time that the worker asked for.
    fn asking_to_wait(mut self, head: &HeaderMap) -> Self {
        if let Some(after) = head.get(RETRY_AFTER) {
            self.response.headers_mut().insert(RETRY_AFTER, after.clone());
        }
        self
    }

    /// What went wrong, as metrics call it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.failure {
            Failure::Unreachable => "unreachable",
            Failure::Broken => "broken",
            Failure::Silent => "silent",
            Failure::Saturated => "saturated",
            Failure::Misconfigured => "misconfigured",
            Failure::Disputed => "disputed",
            Failure::Faulty => "faulty",
        }
    }

    /// As a client is told that may come back: another worker, or this one later, may do it.
    pub(crate) fn into_response(mut self, exchange: &Exchange) -> Response<Body> {
        refusal::bound_retry(self.response.headers_mut());
        self.into_verdict(exchange)
    }

    /// As a client is told whose request it is that fails.
    pub(crate) fn into_verdict(self, exchange: &Exchange) -> Response<Body> {
        exchange.access.note(|record| record.end = self.end);
        self.response
    }
}

impl From<UpstreamError> for Failed {
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::Connect(_) | UpstreamError::ConnectTimedOut(_) => {
                let told = ApiError::overloaded(format!("the worker cannot be reached: {error}"));
                Self::new(Failure::Unreachable, Phase::Connect, &told)
            }
            UpstreamError::Broken(_) => Self::of_fault(&Fault::Broken(error.to_string())),
        }
    }
}

/// Makes one attempt. The guard is taken only by an answer that goes on after this returns.
pub(crate) async fn attempt(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    question: &Question<'_>,
    mut lease: Lease,
) -> Attempted {
    let member = Arc::clone(lease.member());
    let upstream = &member.upstream;
    context.asks(&member);
    if let Some(continuation) = &mut context.continuation {
        continuation.begins(&member);
    }
    match converse(pipeline, info, question, &mut lease).await {
        Ok(Answer::Stream { head, opened }) => {
            lease.first_token();
            if let Some(guard) = context.guard() {
                guard.answered(head.status);
            }
            let first_token = pipeline.dispatcher.clock.now() - context.exchange.begun;
            context.note(|record| {
                record.first_token = Some(first_token);
                record.end.phase = Phase::Data;
            });
            let timeouts = pipeline.settings().timeouts;
            let story = Story {
                lease,
                guard: context.take_guard(),
                access: context.exchange.access.clone(),
                drain: context.exchange.drain.clone(),
                idle: timeouts.idle,
                last: question.begun + timeouts.total,
                deadline: context.deadline,
                continuation: context.continuation.take(),
            };
            let body = Body::wrap(Stream::new(*opened, story));
            Attempted::Answered(streamed(head, body, upstream))
        }
        Ok(Answer::Whole { head, body, used }) => {
            let is_result = head.status.is_success();
            lease.end(if is_result { Ending::Answered } else { Ending::Declined }, used);
            context.note(|record| relay::note_used(record, used));
            Attempted::Answered(relayed(head, body, upstream))
        }
        Err(mut failed) => {
            lease.refused(failed.failure, failed.retry_after());
            headers::signed(failed.response.headers_mut(), upstream);
            Attempted::Failed(failed)
        }
    }
}

/// Asks the worker that `lease` is for, and says what it answered.
pub(crate) async fn converse(
    pipeline: &Pipeline,
    info: &RequestInfo,
    question: &Question<'_>,
    lease: &mut Lease,
) -> Result<Answer, Failed> {
    let member = Arc::clone(lease.member());
    let source = lease.source().map(|source| pipeline.dispatcher.upstream(source));
    let terms = Terms::of(&pipeline.settings(), info);
    let until = Instant::now() + terms.patience;
    let ask = || {
        let ability = *member.resume_ability();
        let extras = question.content.tracked.map(|tracked| tracked.extras(ability));
        let extras = extras.unwrap_or_default();
        let body = question.content.addressed(info, &member.settings, extras);
        let route = Route { body, upstream: &member.upstream, source: source.clone(), extras };
        in_time(until, answer(terms, info, question, route))
    };
    let mut told = once_begun(ask(), || lease.remember(info.request().prompt)).await?;
    loop {
        match told {
            Heard::Answer(answer) => return Ok(answer),
            // One member less each time.
            Heard::Objection(extra) => {
                member.resume_ability().refuses(extra);
                told = ask().await?;
            }
        }
    }
}

/// What a worker answered with.
enum Heard {
    Answer(Answer),
    /// It refuses a member that only the gateway has asked for.
    Objection(Extra),
}

/// An answer the client may see.
pub(crate) enum Answer {
    Stream { head: response::Parts, opened: Box<Opened> },
    Whole { head: response::Parts, body: Body, used: Option<Used> },
}

/// Whom a question goes to, and with which bytes.
struct Route<'a> {
    body: Pieces,
    upstream: &'a Arc<Upstream>,
    /// Who has more of its prompt, where the worker can fetch it from there.
    source: Option<Arc<Upstream>>,
    extras: Extras,
}

/// What an answer is waited for and read by.
#[derive(Clone, Copy)]
struct Terms {
    patience: Duration,
    credentials: Credentials,
    limits: Limits,
}

impl Terms {
    fn of(settings: &GatewaySettings, info: &RequestInfo) -> Self {
        // The head of a whole answer comes when the last token has been made.
        let patience = match info.delivery {
            Delivery::Streamed => settings.timeouts.first_byte,
            Delivery::Whole => settings.timeouts.total,
        };
        let GatewaySettings { credentials, limits, .. } = *settings;
        Self { patience, credentials, limits }
    }
}

async fn answer(
    terms: Terms,
    info: &RequestInfo,
    question: &Question<'_>,
    Route { body, upstream, source, extras }: Route<'_>,
) -> Result<Heard, Failed> {
    let make = || {
        let mut request = question.to(upstream, &body, terms.credentials);
        if let Some(source) = &source {
            headers::name_source(request.headers_mut(), source);
        }
        request
    };
    let (response, connection) = upstream.exchange(make).await?;
    let (head, incoming) = response.into_parts();
    let body = AnswerBody::new(incoming, connection, Arc::clone(upstream));
    match kind(&head, terms.credentials) {
        Kind::Stream => {
            let watch = Watch::new(info.choices, terms.limits.event_bytes, info.counts);
            let opened = open(body, watch).await;
            opened
                .map(|opened| Heard::Answer(Answer::Stream { head, opened: Box::new(opened) }))
                .map_err(|fault| Failed::of_fault(&fault))
        }
        Kind::Whole => {
            let collected = whole::collect(body, terms.limits.answer_bytes).await;
            match collected.map_err(|fault| Failed::of_fault(&fault))? {
                Whole::Collected(bytes) if is_out_of_memory(head.status, &bytes, question) => {
                    Err(Failed::of_fault(&Fault::OutOfMemory).asking_to_wait(&head.headers))
                }
                Whole::Collected(bytes) => {
                    if let Some(extra) = extras.refused_by(head.status, &bytes) {
                        return Ok(Heard::Objection(extra));
                    }
                    let used = read(&bytes, head.status, question.endpoint);
                    let used = used.map_err(|fault| Failed::of_fault(&fault))?;
                    Ok(Heard::Answer(Answer::Whole { head, body: Body::full(bytes), used }))
                }
                Whole::Long(long) => {
                    let body = Body::wrap(long);
                    Ok(Heard::Answer(Answer::Whole { head, body, used: None }))
                }
            }
        }
        Kind::Refusal(failure) => {
            let failed = Failed::new(failure, Phase::FirstToken, &told(failure, head.status));
            // Who does not accept us says nothing that is for the client's eyes.
            if failure == Failure::Misconfigured {
                return Err(failed);
            }
            let collected = whole::collect(body, terms.limits.answer_bytes).await;
            let Ok(Whole::Collected(bytes)) = collected else { return Err(failed) };
            if is_out_of_memory(head.status, &bytes, question) {
                return Err(Failed::of_fault(&Fault::OutOfMemory).asking_to_wait(&head.headers));
            }
            // Two of them may be what the client is told.
            if failure != Failure::Disputed && !is_json(&head.headers) {
                return Err(failed.asking_to_wait(&head.headers));
            }
            Err(failed.saying(relayed(head, Body::full(bytes), upstream)))
        }
        Kind::Nonsense(why) => Err(Failed::of_fault(&Fault::Broken(why))),
    }
}

/// What sort of answer a head announces.
enum Kind {
    Stream,
    Whole,
    /// The worker says that it cannot, which another may.
    Refusal(Failure),
    Nonsense(String),
}

fn kind(head: &response::Parts, credentials: Credentials) -> Kind {
    if let Some(encoding) = head.headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        return Kind::Nonsense(format!("it is encoded as {encoding:?}, which was not asked for"));
    }
    let whose = match credentials {
        Credentials::Strip => fleet::Credentials::Own,
        Credentials::Forward => fleet::Credentials::Client,
    };
    if let Some(failure) = failure_of(head.status.as_u16(), whose) {
        return Kind::Refusal(failure);
    }
    match head.status {
        // It blames the request, in whatever words: a proxy before it speaks no JSON.
        status if status.is_client_error() => Kind::Whole,
        status if status.is_redirection() || status.is_informational() => {
            Kind::Nonsense(format!("its status is {status}"))
        }
        status if status.is_success() && headers::is(&head.headers, "text/event-stream") => {
            Kind::Stream
        }
        _ if is_json(&head.headers) => Kind::Whole,
        status => Kind::Nonsense(format!("it is no JSON, with status {status}")),
    }
}

/// Whether an error is back-pressure: the worker's memory is full. Where the client is blamed, the words may be its
/// own that are said back to it, and prove nothing.
fn is_out_of_memory(status: StatusCode, error: &[u8], question: &Question<'_>) -> bool {
    let is_error = status.is_client_error() || status.is_server_error();
    is_error
        && names_out_of_memory(error)
        && !(status.is_client_error() && question.content.may_name_out_of_memory())
}

/// What a client is told where the worker's own words are none for it.
fn told(failure: Failure, status: StatusCode) -> ApiError {
    match failure {
        Failure::Misconfigured => ApiError::upstream(
            "the worker does not accept the gateway's credentials; this is for the operator to mend",
        ),
        _ => ApiError::upstream(format!("the worker answered {status}")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers::is(headers, "application/json")
}

/// Does `then` once `work` has come as far as it comes without waiting: the request has been written
/// by then, or its connection is being made, and nobody waits for `then`.
async fn once_begun<T>(work: impl Future<Output = T>, then: impl FnOnce()) -> T {
    let mut work = pin!(work);
    let mut then = Some(then);
    poll_fn(|cx| {
        let polled = work.as_mut().poll(cx);
        if let Some(then) = then.take() {
            then();
        }
        polled
    })
    .await
}

/// Reads an answer that has come whole, where it is one that a worker computed. What has another path than
/// clients have is for who asked to read.
fn read(
    answer: &[u8],
    status: StatusCode,
    endpoint: Option<Endpoint>,
) -> Result<Option<Used>, Fault> {
    match endpoint {
        Some(endpoint) if status.is_success() => whole::read(answer, endpoint.generates()),
        _ => Ok(whole::read(answer, false).ok().flatten()),
    }
}

/// Waits for the first token of a stream, or its end. What comes before, a role or keep-alives, is held back
/// until then: as long as the client has seen nothing, another worker can be asked.
async fn open(mut answer: AnswerBody, mut watch: Watch) -> Result<Opened, Fault> {
    let mut held = BytesMut::new();
    loop {
        match poll_fn(|cx| answer.poll_data(cx)).await {
            Some(Ok(chunk)) => {
                let seen = watch.take(chunk);
                if let Some(fault) = seen.fault {
                    return Err(fault);
                }
                let is_open =
                    watch.has_begun() || OPENING_BYTES_MAX < held.len() + seen.relay.len();
                if held.is_empty() && is_open {
                    return Ok(Opened { answer, watch, first: seen.relay });
                }
                held.extend_from_slice(&seen.relay);
                if is_open {
                    return Ok(Opened { answer, watch, first: held.freeze() });
                }
            }
            Some(Err(error)) => return Err(Fault::Broken(error.to_string())),
            None => return Err(Fault::Broken("it ended before its first token".to_owned())),
        }
    }
}

async fn in_time<T>(
    until: Instant,
    work: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    match timeout_at(until, work).await {
        Ok(done) => done,
        Err(_elapsed) => {
            let silent = Fault::Silent("the worker did not begin its answer in time");
            Err(Failed::of_fault(&silent))
        }
    }
}

fn relayed(mut head: response::Parts, body: Body, upstream: &Upstream) -> Response<Body> {
    headers::relayed(&mut head.headers, upstream);
    Response::from_parts(head, body)
}

/// Nobody on the way may hold events back.
fn streamed(head: response::Parts, body: Body, upstream: &Upstream) -> Response<Body> {
    let mut response = relayed(head, body, upstream);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}
