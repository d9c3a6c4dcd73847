//! Path of a request: who asks, what for, the response cache, a cascade, and the workers.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, Uri};
use overdraft_http::{Body, RequestBody};
use overdraft_telemetry::Delivery;
use overdraft_units::Micros;
use overdraft_wire::{ApiError, Endpoint};
use tokio::time::Instant;

use super::Gateway;
use super::percent::plain_path;
use crate::cache::serve::{self as cache, Mark, Served};
use crate::cascade;
use crate::pipeline::charges::{Fare, charge};
use crate::pipeline::context::RequestContext;
use crate::pipeline::inspect::inspect;
use crate::pipeline::keys::Caller;
use crate::pipeline::passed::Passed;
use crate::pipeline::question::Question;
use crate::pipeline::refusal::{Refused, Retry};
use crate::pipeline::request_guard::RequestGuard;
use crate::pipeline::request_info::{RequestInfo, Work};
use crate::pipeline::uploads::read_body;
use crate::pipeline::upstream_body::Content;
use crate::pipeline::{
    Pipeline, Visit, bounds, deadline, explanation, fallback, prompt_tokens, resume,
};

/// The body of a request that is forwarded.
pub(super) enum Intake {
    /// As the client sends it.
    Sent(RequestBody),
    /// Read already, and translated.
    Read(Bytes),
    /// Read already, and to go on as it came.
    Passed(Bytes, Passed),
}

impl Intake {
    /// What is known of it beside its body, where it goes on as it came.
    const fn passed(&self) -> Option<&Passed> {
        match self {
            Self::Sent(_) | Self::Read(_) => None,
            Self::Passed(_, passed) => Some(passed),
        }
    }
}

/// Forwards one request to its endpoint of a worker.
pub(super) async fn forward(
    gateway: &Arc<Gateway>,
    mut context: RequestContext<'_>,
    body: Intake,
) -> Response<Body> {
    match ask(gateway, &mut context, body).await {
        Ok(response) => answered(gateway, context, response),
        Err(refused) => refuse(gateway, context, refused),
    }
}

/// Refuses a request.
pub(super) fn refuse(
    gateway: &Gateway,
    mut context: RequestContext<'_>,
    refused: Refused,
) -> Response<Body> {
    if let Some(reason) = refused.reason {
        let priority = context.priority.unwrap_or_default();
        gateway.pipeline.admission.rejected(reason, priority.name());
        if let Some(guard) = context.guard() {
            guard.refused(reason, &refused.error.message);
        }
    }
    answered(gateway, context, refused.into_response())
}

fn answered(
    gateway: &Gateway,
    mut context: RequestContext<'_>,
    mut response: Response<Body>,
) -> Response<Body> {
    context.sign(&gateway.pipeline, &mut response);
    // An answer that goes on has taken the guard along.
    let trail = context.explanation.take_trail();
    if let Some(guard) = context.guard() {
        guard.answered(response.status());
        guard.decided(trail);
    }
    response
}

/// Finds out who asks, and takes a place among the requests in flight.
///
/// # Errors
/// [`Refused`] where nobody is known, or there is no room.
pub(super) async fn enter(
    gateway: &Gateway,
    context: &mut RequestContext<'_>,
) -> Result<Caller, Refused> {
    let caller = gateway.pipeline.identify(&context.head.headers).await?;
    context.caller = Some(caller.clone());
    context.note(|record| record.tenant = caller.name());
    if !context.guard().is_some_and(RequestGuard::enter) {
        return Err(full("requests"));
    }
    Ok(caller)
}

/// Who asks, and the body, read where it was not before.
async fn take_in(
    gateway: &Gateway,
    context: &mut RequestContext<'_>,
    body: Intake,
) -> Result<(Caller, Bytes), Refused> {
    context.deadline = deadline::named(&context.head.headers)?;
    let caller = match &context.caller {
        Some(caller) => caller.clone(),
        None => enter(gateway, context).await?,
    };
    context.deadline = context.deadline.or_else(|| deadline::of_key(&caller));
    let body = match body {
        Intake::Sent(body) => read_body(&gateway.pipeline, context.exchange, &caller, body).await?,
        Intake::Read(body) | Intake::Passed(body, _) => body,
    };
    Ok((caller, body))
}

/// Reads and judges the request, then has it answered, in a box: what a request carries along is moved on its way.
async fn ask(
    gateway: &Arc<Gateway>,
    context: &mut RequestContext<'_>,
    body: Intake,
) -> Result<Response<Body>, Refused> {
    let pipeline = &gateway.pipeline;
    let passed = body.passed().cloned();
    let is_translated = matches!(body, Intake::Read(_));
    let (caller, body) = take_in(gateway, context, body).await?;
    let (mut info, content) = match &passed {
        Some(passed) => passed.inspect(pipeline, context, &caller, &body)?,
        None => inspect(pipeline, context, &caller, &body)?,
    };
    info.is_translated = is_translated;
    context.priority = Some(info.priority);
    // By the name that the client gave: the body's own may be the target's by now.
    let plan = cascade::consider(&gateway.cascade, context, &body, &info)?;
    note_side(context, &info, plan.is_some());
    drop(body);
    note_request(gateway, context, &info);
    if info.delivery == Delivery::Streamed && !context.guard().is_some_and(RequestGuard::stream) {
        return Err(full("streams"));
    }
    let (mark, fare) = if plan.is_some() {
        // Whose answer it gets is decided anew each time, and none is kept under the target's name.
        (Mark::Nothing, Fare::Due)
    } else {
        match cache::serve(&gateway.cache, context, &content, &info).await? {
            Served::Answered(response) => return Ok(response),
            Served::Ask(mark, fare) => (mark, fare),
        }
    };
    let chat = passed.and_then(|passed| passed.chat);
    count(pipeline, &mut info, &content.body, context.endpoint, chat).await;
    bounds::check_prompt(pipeline, &info)?;
    let charged = charge(pipeline, &info, fare)?;
    if let Some(guard) = context.guard() {
        guard.charge(charged);
    }
    let mut question = question(context, content);
    if explanation::is_wanted(&pipeline.settings().admin, context.exchange, &context.head.headers) {
        context.explanation.want();
    }
    if plan.is_none() && resume::is_wanted(&context.head.headers)? {
        resume::prepare(pipeline, context, &info, &mut question);
    }
    let (deadline, facts) = (context.deadline, context.facts.clone());
    let answered = {
        let answering = pin!(async {
            match plan {
                None => Box::pin(fallback::ask(pipeline, context, &info, &question)).await,
                Some(plan) => {
                    let layer = &gateway.cascade;
                    Box::pin(cascade::answer(layer, context, plan, &info, &mut question)).await
                }
            }
        });
        deadline::within(deadline, &facts, answering).await
    };
    pipeline.buffers.give_back(question.content.body);
    let words = context.explanation.words().cloned();
    let mut response = answered.map_err(|refused| refused.explained(words.clone()))?;
    mark.tell(&mut response);
    if let Some(words) = &words {
        explanation::attach(response.headers_mut(), words);
    }
    Ok(response)
}

/// Has the tokens of the prompt counted, in the translation of what came in another dialect.
async fn count(
    pipeline: &Arc<Pipeline>,
    info: &mut RequestInfo,
    body: &Bytes,
    endpoint: Endpoint,
    chat: Option<Bytes>,
) {
    match chat {
        Some(chat) => prompt_tokens::count(pipeline, info, &chat, Endpoint::ChatCompletions).await,
        None => prompt_tokens::count(pipeline, info, body, endpoint).await,
    }
}

/// What workers are asked.
fn question<'a>(context: &RequestContext<'a>, content: Content) -> Question<'a> {
    Question {
        content,
        path: Uri::from_static(context.endpoint.spelled_as(&plain_path(context.head.uri.path()))),
        endpoint: Some(context.endpoint),
        request_id: HeaderValue::from_str(context.exchange.id.as_str())
            .expect("a request's name is printable"),
        head: context.head,
        begun: Instant::now(),
        trace: context.facts.trace().clone(),
    }
}

/// Notes what is known of the request by now in its access record.
fn note_request(gateway: &Gateway, context: &RequestContext<'_>, info: &RequestInfo) {
    let pipeline = &gateway.pipeline;
    context.note(|record| {
        (record.model, record.named) = (Some(info.model.clone()), info.named.clone());
        record.delivery = info.delivery;
        record.priority = Some(info.priority.name());
    });
    if pipeline.routes().settings.names_prefixes && info.work == Work::Generation {
        let named = info.beginnings();
        context.note(|record| (record.prompt_bytes, record.prefix) = named.unzip());
    }
    pipeline.admission.tenant_asked(info.caller.label(), info.priority.name());
}

/// Notes the side of a comparison that a request is on, if on any, and whether a cascade keeps its books.
fn note_side(context: &mut RequestContext<'_>, info: &RequestInfo, has_books: bool) {
    if let (Some(guard), Some(side)) = (context.guard(), &info.side) {
        guard.stands_on(side, has_books);
    }
}

/// A place in flight, and among the streams, for who follows what another request makes.
///
/// # Errors
/// [`Refused`] where there is no room.
pub(super) fn enter_beside(gateway: &Gateway) -> Result<Visit, Refused> {
    let mut visit = gateway.pipeline.enter().ok_or_else(|| full("requests"))?;
    if visit.stream() { Ok(visit) } else { Err(full("streams")) }
}

/// Too much is in flight. 429 and not 503: others are being served.
pub(super) fn full(what: &'static str) -> Refused {
    let error = ApiError::rate_limited(format!(
        "the gateway's limit of {what} in flight is reached; try again in a moment"
    ));
    Refused::for_room(error, what, Retry::After(Micros::ZERO))
}
