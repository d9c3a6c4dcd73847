//! The path of one request: judge it, choose a worker, ask, and if that fails ask elsewhere.
//!
//! The body is read whole, looked into and sent on as it came. Which worker, and whether again, the
//! core says; this file carries the question there and the outcome back.
//!
//! Invariant: a retry happens only while nothing of an answer has reached the client.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, Uri};
use overdraft_core::fleet::Turn;
use overdraft_core::route::{Choice, Tried, Verdict};
use overdraft_http::{Body, Exchange, RequestBody, reply};
use overdraft_telemetry::Delivery;
use overdraft_wire::json::Patch;
use overdraft_wire::{ApiError, ErrorKind, RequestPeek};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::attempt::{Attempted, Failed, Question, attempt};
use crate::explain;
use crate::fingerprint::Fingerprint;
use crate::shared::Shared;
use crate::tally::Tally;
use crate::tokenizing;

/// Where tokens are generated.
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// Models that a refusal names at most.
const MODELS_NAMED_MAX: usize = 20;

/// Forwards one request to `path` of a worker.
pub(crate) async fn forward(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    tally: Tally,
    (head, body): (&Parts, RequestBody),
    path: &'static str,
) -> Response<Body> {
    let mut tally = Some(tally);
    let asked = ask(shared, exchange, &mut tally, (head, body), path);
    let response = asked.await.unwrap_or_else(|error| reply::error(&error));
    // An answer that goes on has taken the tally along.
    if let Some(mut tally) = tally {
        tally.answered(response.status());
    }
    response
}

/// Reads and judges the request, then has it answered.
async fn ask(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    tally: &mut Option<Tally>,
    (head, body): (&Parts, RequestBody),
    path: &'static str,
) -> Result<Response<Body>, ApiError> {
    if !tally.as_mut().is_some_and(Tally::enter) {
        return Err(full("requests"));
    }
    let body = shared.intake.read(body).await?;
    let (mut print, patched) = look(shared, exchange, head, (&body, path))?;
    let body = patched.unwrap_or(body);
    tokenizing::count(shared, &mut print, &body, path).await;
    exchange.access.note(|record| {
        record.model = Some(print.model.clone());
        record.delivery = print.delivery;
    });
    if print.delivery == Delivery::Streamed && !tally.as_mut().is_some_and(Tally::stream) {
        return Err(full("streams"));
    }
    let question = Question {
        body,
        path: Uri::from_static(path),
        request_id: HeaderValue::from_str(exchange.id.as_str())
            .expect("a request's name is printable"),
        head,
        begun: Instant::now(),
    };
    let mut explained =
        explain::is_wanted(&shared.settings().admin, exchange, &head.headers).then(Bytes::new);
    let asking = ask_until_answered(shared, (exchange, tally), &print, &question, &mut explained);
    let mut response = asking.await;
    if let Some(words) = explained {
        explain::attach(response.headers_mut(), &words);
    }
    shared.intake.give_back(question.body);
    Ok(response)
}

/// Looks into a request: what routing must know of it, and its body where that names an alias.
pub(crate) fn look(
    shared: &Shared,
    exchange: &Exchange,
    head: &Parts,
    (body, path): (&Bytes, &'static str),
) -> Result<(Fingerprint, Option<Bytes>), ApiError> {
    let peek = RequestPeek::parse(body)?;
    let settings = shared.settings();
    let routes = shared.routes();
    let named = peek.model.as_deref().or(settings.model_default.as_deref()).ok_or_else(|| {
        ApiError::invalid("model", "the request names no model; expected `model`: a string")
    })?;
    let behind = routes.model_behind(named);
    let model = behind.unwrap_or(named).to_owned();
    let patched = behind.map(|model| Patch::new().set("model", &model).apply(&peek.object).into());
    let session = routes.session(&model, &head.headers, &peek);
    let dice = xxh3_64(exchange.id.as_str().as_bytes());
    let print = match path {
        CHAT | COMPLETIONS => Fingerprint::of_text(&routes, model, &peek, (session, dice)),
        _ => Fingerprint::of_chore(model, &peek, (session, dice)),
    };
    Ok((print, patched))
}

/// Asks one worker after the other, as the core says.
async fn ask_until_answered(
    shared: &Arc<Shared>,
    (exchange, tally): (&Exchange, &mut Option<Tally>),
    print: &Fingerprint,
    question: &Question<'_>,
    explained: &mut Option<Bytes>,
) -> Response<Body> {
    let mut tried = Tried::default();
    let mut turn = Turn::First;
    let mut last: Option<Failed> = None;
    loop {
        let lease = match shared.choose(print, (&tried, turn), explained) {
            Ok(lease) => lease,
            Err(choice) => return refused(shared, exchange, print, choice, last),
        };
        let worker = lease.worker();
        if turn == Turn::Again {
            shared.metrics.retried();
        }
        match attempt(shared, exchange, print, question, (lease, &mut *tally)).await {
            Attempted::Answered(response) => return response,
            Attempted::Failed(failed) => {
                shared.metrics.upstream_failed(failed.kind());
                tracing::debug!(request = %exchange.id, worker = shared.upstream(worker).name(),
                    failure = ?failed.failure, "attempt failed");
                tried.add(worker);
                if let Verdict::GiveUp(_) = shared.retry(&tried) {
                    return failed.into_response(exchange);
                }
                last = Some(failed);
                turn = Turn::Again;
            }
        }
    }
}

/// Nobody is left to ask.
fn refused(
    shared: &Shared,
    exchange: &Exchange,
    print: &Fingerprint,
    choice: Choice,
    last: Option<Failed>,
) -> Response<Body> {
    if let Some(failed) = last {
        return failed.into_response(exchange);
    }
    let model = &print.model;
    let error = match choice {
        Choice::UnknownModel => unknown_model(shared, model),
        Choice::NoRoom { asked, most, .. } if most < asked && print.is_counted() => ApiError::new(
            ErrorKind::ContextLengthExceeded,
            format!(
                "the prompt has {asked} tokens and the largest cache of a worker that serves \
                 `{model}` has room for {most}; send a shorter prompt"
            ),
        ),
        Choice::NoRoom { asked, free, .. } => ApiError::overloaded(format!(
            "no worker that serves `{model}` has room: the prompt has about {asked} tokens and the \
             most that is free on one of them is {free}; send a shorter prompt, or try again when \
             others have finished"
        )),
        Choice::Saturated { asked, free, .. } => ApiError::overloaded(format!(
            "every worker that serves `{model}` is saturated: the request needs about {asked} \
             tokens and the most that is free on one of them is {free}; try again in a moment"
        )),
        _ => ApiError::overloaded(format!(
            "no worker that serves `{model}` is up; try again in a moment"
        )),
    };
    reply::error(&error)
}

/// Names the models that could have been asked for.
pub(crate) fn unknown_model(shared: &Shared, model: &str) -> ApiError {
    let mut error = ApiError::model_not_found(model);
    let router = shared.router();
    let known: Vec<&str> = router.fleet().models().take(MODELS_NAMED_MAX).collect();
    if !known.is_empty() {
        error.message = format!("{}; known models: `{}`", error.message, known.join("`, `"));
    }
    error
}

/// Too much is in flight. 429 and not 503: others are being served.
fn full(what: &str) -> ApiError {
    ApiError::rate_limited(format!(
        "the gateway has as many {what} in flight as it may; try again in a moment"
    ))
}
