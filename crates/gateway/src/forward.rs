//! The path of one request: judge it, choose a worker, ask, and if that fails ask elsewhere.
//!
//! The body is read whole, looked into and sent on as it came. Which worker, and whether again, the
//! core says; this file carries the question there and the outcome back.
//!
//! Invariant: a retry happens only while nothing of an answer has reached the client.

use std::borrow::Cow;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Response, Uri};
use overdraft_core::fleet::Turn;
use overdraft_core::route::{Ask, Choice, Tried, Verdict};
use overdraft_http::{Body, Exchange, RequestBody, reply};
use overdraft_telemetry::Delivery;
use overdraft_units::Tokens;
use overdraft_wire::{ApiError, RequestPeek};
use tokio::time::Instant;

use crate::attempt::{Attempted, Failed, Question, attempt};
use crate::shared::Shared;
use crate::tally::Tally;

/// Bytes of a prompt that are taken for one token: what English text comes to, and enough to tell a
/// long prompt from a short one.
const BYTES_PER_TOKEN: usize = 4;

/// Tokens that a request which sets no limit is taken to generate.
const COMPLETION_TOKENS_GUESS: u32 = 256;

/// Models that a refusal names at most.
const MODELS_NAMED_MAX: usize = 20;

/// What routing and relaying must know of a request.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) model: String,
    pub(crate) delivery: Delivery,
    pub(crate) choices: u32,
    pub(crate) tokens: Tokens,
}

impl Want {
    /// Looks into a request's body.
    fn parse(body: &[u8], model_default: Option<&str>) -> Result<Self, ApiError> {
        let peek = RequestPeek::parse(body)?;
        let model = peek.model.or(model_default.map(Cow::Borrowed)).ok_or_else(|| {
            ApiError::invalid("model", "the request names no model; expected `model`: a string")
        })?;
        let prompt = u32::try_from(body.len() / BYTES_PER_TOKEN).unwrap_or(u32::MAX);
        let each = peek.max_tokens.unwrap_or(COMPLETION_TOKENS_GUESS);
        let completion = each.saturating_mul(peek.n.max(1));
        Ok(Self {
            model: model.into_owned(),
            delivery: if peek.stream { Delivery::Streamed } else { Delivery::Whole },
            choices: peek.n.max(1),
            tokens: Tokens::new(prompt.saturating_add(completion)),
        })
    }

    fn ask(&self) -> Ask<'_> {
        Ask { model: &self.model, tokens: self.tokens }
    }
}

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
    let want = Want::parse(&body, shared.settings.model_default.as_deref())?;
    exchange.access.note(|record| {
        record.model = Some(want.model.clone());
        record.delivery = want.delivery;
    });
    if want.delivery == Delivery::Streamed && !tally.as_mut().is_some_and(Tally::stream) {
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
    let response = ask_until_answered(shared, exchange, tally, &want, &question).await;
    shared.intake.give_back(question.body);
    Ok(response)
}

/// Asks one worker after the other, as the core says.
async fn ask_until_answered(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    tally: &mut Option<Tally>,
    want: &Want,
    question: &Question<'_>,
) -> Response<Body> {
    let mut tried = Tried::default();
    let mut turn = Turn::First;
    let mut last: Option<Failed> = None;
    loop {
        let lease = match shared.choose(want.ask(), &tried, turn) {
            Ok(lease) => lease,
            Err(choice) => return refused(shared, exchange, want, choice, last),
        };
        let worker = lease.worker();
        if turn == Turn::Again {
            shared.metrics.retried();
        }
        match attempt(shared, exchange, want, question, (lease, &mut *tally)).await {
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
    want: &Want,
    choice: Choice,
    last: Option<Failed>,
) -> Response<Body> {
    if let Some(failed) = last {
        return failed.into_response(exchange);
    }
    if choice == Choice::UnknownModel {
        return reply::error(&unknown_model(shared, &want.model));
    }
    let error = ApiError::overloaded(format!(
        "no worker that serves `{}` is up; try again in a moment",
        want.model
    ));
    reply::error(&error)
}

/// Names the models that could have been asked for.
pub(crate) fn unknown_model(shared: &Shared, model: &str) -> ApiError {
    let mut error = ApiError::model_not_found(model);
    let fleet = shared.fleet();
    let known: Vec<&str> = fleet.models().take(MODELS_NAMED_MAX).collect();
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
