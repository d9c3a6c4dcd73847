//! Attempt: a request sent to one worker, and what came of it.
//!
//! The outcome is an answer for the client, or a failure of which the client has seen nothing.
//! There is no third case: a stream counts as answered from its first token on, a non-streamed
//! answer once it is complete.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode, response};
use overdraft_core::deadline::DeadlineSettings;
use overdraft_core::fleet::{Ending, Failure, WorkerId};
use overdraft_core::resume::Extra;
use overdraft_core::route::Tried;
use overdraft_http::Body;
use overdraft_telemetry::Phase;
use overdraft_wire::Endpoint;
use overdraft_wire::dialect::names_long_prompt;
use tokio::time::{Instant, timeout_at};

use super::Pipeline;
use super::answer_head::{relayed, streamed};
use super::answer_kind::{Kind, is_invalid, is_json, is_out_of_memory, kind, told};
use super::context::RequestContext;
use super::deadline::{self, Overrun, Which};
use super::failed_attempt::{Failed, TooLong};
use super::hedge;
use super::question::Question;
use super::relay::whole::{self, Whole};
use super::relay::{self, Fault, Opened, Story, Stream};
use super::request_info::RequestInfo;
use super::terms::Terms;
use super::upstream_body::{Added, EffortLeftOut, Spare, tell_refused};
use crate::dispatch::{Lease, Member, Used};
use crate::trace::{AttemptTrace, Callee};
use crate::upstream::{AnswerBody, Upstream, headers};

/// What came of an attempt.
pub(crate) enum Attempted {
    /// This is for the client.
    Answered(Response<Body>),
    /// The client has seen nothing yet; this worker failed last.
    Failed(WorkerId, Failed),
}

/// Makes one attempt. The guard is taken only by an answer that goes on after this returns.
pub(crate) async fn attempt(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    question: &Question<'_>,
    tried: &mut Tried,
    mut lease: Lease,
) -> Attempted {
    let (asked, sent) = (lease.worker(), Instant::now());
    begins(context, lease.member());
    let answered = if lease.watch().is_none() {
        converse(pipeline, info, question, &mut lease).await
    } else {
        // In a box: most gateways hedge nothing and should not carry room for it along.
        let raced = Box::pin(hedge::race(pipeline, context, info, question, tried, lease));
        let (winner, answered) = raced.await;
        lease = winner;
        if lease.worker() != asked {
            begins(context, lease.member());
        }
        answered
    };
    let member = Arc::clone(lease.member());
    let upstream = &member.upstream;
    let rules = pipeline.settings().headers.clone();
    let rules = rules.as_deref();
    match answered {
        Ok(Answer::Stream { head, opened }) => {
            if opened.watch.has_events() {
                lease.first_token();
            }
            if let Some(guard) = context.guard() {
                guard.answered(head.status);
            }
            let first_token = pipeline.dispatcher.clock.now() - context.exchange.begun;
            context.note(|record| {
                record.first_token = Some(first_token);
                record.end.phase = Phase::Data;
            });
            let deadlines = pipeline.routes().route(&info.model).deadlines;
            let story = story(context, deadlines, lease, question, sent);
            let body = Body::wrap(Stream::new(*opened, story));
            Attempted::Answered(streamed(head, body, upstream, rules))
        }
        Ok(Answer::Whole { head, body, used, .. }) => {
            let is_result = head.status.is_success();
            lease.end(if is_result { Ending::Answered } else { Ending::Declined }, used);
            context.note(|record| relay::note_used(record, used));
            Attempted::Answered(relayed(head, body, upstream, rules))
        }
        Err(mut failed) => {
            let worker = lease.worker();
            if let Some(overrun) = failed.overrun {
                context.note(|record| record.limit = Some(overrun.fact()));
            }
            lease.refused(failed.failure, failed.retry_after());
            headers::signed(failed.response.headers_mut(), upstream);
            Attempted::Failed(worker, failed)
        }
    }
}

/// What a stream takes along.
fn story(
    context: &mut RequestContext<'_>,
    deadlines: DeadlineSettings,
    lease: Lease,
    question: &Question<'_>,
    sent: Instant,
) -> Story {
    let total = lease.limits(deadlines).total;
    Story {
        lease,
        guard: context.take_guard(),
        facts: context.facts.clone(),
        drain: context.exchange.drain.clone(),
        deadlines,
        total,
        last: deadline::end_of(total, question.begun, sent),
        deadline: context.deadline,
        continuation: context.continuation.take(),
    }
}

/// This worker is asked, or answers.
fn begins(context: &mut RequestContext<'_>, member: &Arc<Member>) {
    context.asks(member);
    if let Some(continuation) = &mut context.continuation {
        continuation.begins(member);
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
    let terms = Terms::of(pipeline, info, lease);
    let until = Instant::now() + Duration::from(terms.patience.limit.after);
    lease.traced(question.trace.attempt(|| callee(&member, info, question)));
    let trace = lease.trace().clone();
    let added = question.content.added(info, &member);
    let mut route = Route { added, upstream: &member.upstream, source, trace: &trace };
    let asked =
        in_time(until, &terms, moving(&member, &terms, answer(&terms, info, question, &route)));
    let mut heard = once_begun(asked, || lease.remember(info.request().prompt)).await?;
    // A field that the client did not write is no fault of its own: the request is asked once without it.
    let mut refused: Option<Spare> = None;
    let mut objections: Vec<Extra> = Vec::new();
    let mut answered = loop {
        match heard {
            // One member less each time.
            Heard::Objection(extra) => {
                objections.push(extra);
                let extras = question.content.extras(&member, &objections);
                route.added = route.added.with_extras(extras);
            }
            Heard::Answer(answered) => {
                let Answer::Whole { refuses: Some(field), .. } = answered else { break answered };
                let Some(added) = route.added.without(field) else {
                    tell_refused(&member, field, "change the setting to leave the field out");
                    return Ok(answered);
                };
                (route.added, refused) = (added, Some(field));
            }
        }
        let asked = moving(&member, &terms, answer(&terms, info, question, &route));
        // In a box: it is seldom asked again.
        heard = Box::pin(in_time(until, &terms, asked)).await?;
    };
    // An answer that repeats a malformed request names every member of it, and refuses none of them.
    for extra in objections.into_iter().filter(|_| answered.is_taken()) {
        member.resume_ability().refuses(extra);
    }
    if let Some(field) = refused.filter(|_| answered.is_taken()) {
        tell_refused(&member, field, "the field is left out from now on");
        if route.added.lacks_effort() {
            answered.head_mut().extensions.insert(EffortLeftOut);
        }
    }
    trace.answered(answered.status().as_u16());
    Ok(answered)
}

/// Whom a question goes to, as a trace tells it.
fn callee(member: &Member, info: &RequestInfo, question: &Question<'_>) -> Callee {
    let upstream = &member.upstream;
    Callee {
        worker: upstream.name().into(),
        host: upstream.host().to_owned(),
        port: upstream.port(),
        pool: member.settings.pool.name(),
        model: info.model.clone(),
        path: question.path.path().to_owned(),
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
    /// Events, or a document or a recording that is too long to hold back.
    Stream { head: response::Parts, opened: Box<Opened> },
    Whole {
        head: response::Parts,
        body: Body,
        used: Option<Used>,
        /// The field that it complains of, if it is one that the client did not write.
        refuses: Option<Spare>,
    },
}

impl Answer {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Stream { head, .. } | Self::Whole { head, .. } => head.status,
        }
    }

    const fn head_mut(&mut self) -> &mut response::Parts {
        match self {
            Self::Stream { head, .. } | Self::Whole { head, .. } => head,
        }
    }

    /// Whether the request was good.
    pub(super) const fn is_taken(&self) -> bool {
        match self {
            Self::Stream { .. } => true,
            Self::Whole { head, .. } => head.status.as_u16() < 400,
        }
    }
}

/// Whom a question goes to, and with which fields.
struct Route<'a> {
    added: Added<'a>,
    upstream: &'a Arc<Upstream>,
    /// Who has more of its prompt, where the worker can fetch it from there.
    source: Option<Arc<Upstream>>,
    trace: &'a AttemptTrace,
}

async fn answer(
    terms: &Terms,
    info: &RequestInfo,
    question: &Question<'_>,
    Route { added, upstream, source, trace }: &Route<'_>,
) -> Result<Heard, Failed> {
    let form = info.form.as_deref();
    let body = match form {
        Some(form) => form.pieces(&question.content.body),
        None => question.content.with(*added),
    };
    let make = || {
        let mut request = question.to(upstream, &body, form, terms);
        trace.tell(request.headers_mut());
        if let Some(source) = source {
            headers::name_source(request.headers_mut(), source);
        }
        request
    };
    let (response, connection) = upstream.exchange(make).await?;
    let (mut head, incoming) = response.into_parts();
    let body = AnswerBody::new(incoming, connection, Arc::clone(upstream));
    match kind(&head, terms.credentials, question.endpoint) {
        Kind::Stream => {
            let opened = relay::open(body, question.watch(info, terms.limits.event_bytes)).await;
            let opened = opened.map(|opened| streaming(head, Box::new(opened)));
            opened.map_err(|fault| Failed::of_fault(&fault))
        }
        Kind::Recording => {
            let opened = relay::open_bytes(body).await;
            let opened = opened.map(|opened| streaming(head, Box::new(opened)));
            opened.map_err(|fault| Failed::of_fault(&fault))
        }
        Kind::Whole => {
            let dialect = question.dialect();
            let collected = whole::collect(body, terms.limits.answer_bytes, dialect).await;
            match collected.map_err(|fault| Failed::of_fault(&fault))? {
                Whole::Collected(bytes) if is_out_of_memory(head.status, &bytes, question) => {
                    Err(Failed::of_fault(&Fault::OutOfMemory).asking_to_wait(&head.headers))
                }
                Whole::Collected(bytes) => {
                    if let Some(extra) = added.extras().refused_by(head.status, &bytes) {
                        return Ok(Heard::Objection(extra));
                    }
                    let used = read(&bytes, head.status, question.endpoint);
                    let used = used.map_err(|fault| Failed::of_fault(&fault))?;
                    let refuses = is_invalid(head.status).then(|| added.named_in(&bytes)).flatten();
                    mark_long_prompt(&mut head, &bytes);
                    let body = Body::full(bytes);
                    Ok(Heard::Answer(Answer::Whole { head, body, used, refuses }))
                }
                Whole::Long(opened) => Ok(streaming(head, opened)),
            }
        }
        Kind::Opaque => opaque(head, body, terms.limits.answer_bytes).await,
        Kind::Refusal(failure) => refusal(failure, head, body, terms, question, upstream).await,
        Kind::Nonsense(why) => Err(Failed::of_fault(&Fault::Broken(why))),
    }
}

/// What a worker says that cannot answer, as far as it is for the client's eyes.
async fn refusal(
    failure: Failure,
    head: response::Parts,
    body: AnswerBody,
    terms: &Terms,
    question: &Question<'_>,
    upstream: &Upstream,
) -> Result<Heard, Failed> {
    let failed = Failed::new(failure, Phase::FirstToken, &told(failure, head.status));
    // Who does not accept us says nothing that is for the client's eyes.
    if failure == Failure::Misconfigured {
        return Err(failed);
    }
    let collected = whole::collect(body, terms.limits.answer_bytes, None).await;
    let Ok(Whole::Collected(bytes)) = collected else { return Err(failed) };
    if is_out_of_memory(head.status, &bytes, question) {
        return Err(Failed::of_fault(&Fault::OutOfMemory).asking_to_wait(&head.headers));
    }
    // Two of them may be what the client is told.
    if failure != Failure::Disputed && !is_json(&head.headers) {
        return Err(failed.asking_to_wait(&head.headers));
    }
    let rules = terms.headers.as_deref();
    Err(failed.saying(relayed(head, Body::full(bytes), upstream, rules)))
}

/// Passes on a stream that has begun, or what is too long to hold back.
const fn streaming(head: response::Parts, opened: Box<Opened>) -> Heard {
    Heard::Answer(Answer::Stream { head, opened })
}

/// Passes on what is no document, in which nothing is read.
async fn opaque(
    head: response::Parts,
    body: AnswerBody,
    bytes_max: usize,
) -> Result<Heard, Failed> {
    let collected = whole::opaque(body, bytes_max).await;
    match collected.map_err(|fault| Failed::of_fault(&fault))? {
        Whole::Collected(bytes) => {
            let body = Body::full(bytes);
            Ok(Heard::Answer(Answer::Whole { head, body, used: None, refuses: None }))
        }
        Whole::Long(opened) => Ok(streaming(head, opened)),
    }
}

/// Marks an answer by which the prompt is longer than the model's context.
fn mark_long_prompt(head: &mut response::Parts, body: &[u8]) {
    if names_long_prompt(head.status.as_u16(), body) {
        head.extensions.insert(TooLong);
    }
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
        Some(endpoint) if status.is_success() => match endpoint.dialect() {
            Some(dialect) => whole::read_dialect(answer, dialect),
            None => whole::read(answer, endpoint.generates()),
        },
        _ => Ok(whole::read(answer, false).ok().flatten()),
    }
}

/// Waits for an answer for as long as the worker's engine computes anything: a whole answer shows nothing before it
/// is there, and its worker's API server answers probes whatever the engine does.
async fn moving<T>(
    member: &Member,
    terms: &Terms,
    work: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    let from = Instant::now() + Duration::from(terms.standstill.after);
    tokio::select! {
        biased;
        done = work => done,
        () = member.until_still(from) => {
            let overrun = Overrun { which: Which::Standstill, limit: terms.standstill };
            Err(Failed::of_fault(&Fault::Silent(overrun)))
        }
    }
}

async fn in_time<T>(
    until: Instant,
    terms: &Terms,
    work: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    match timeout_at(until, work).await {
        Ok(done) => done,
        Err(_elapsed) => Err(Failed::of_fault(&Fault::Silent(terms.patience))),
    }
}
