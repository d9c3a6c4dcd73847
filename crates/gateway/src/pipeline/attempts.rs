//! Attempts at a request: one worker after the other, as the core says, until one answers.
//!
//! A worker that failed while no other one is there is asked once more after a moment: a connection that was reset, or
//! one error of a server, mostly passes. One that said nothing in time is not.
//!
//! Invariant: a retry happens only while nothing of an answer has reached the client.

use std::sync::Arc;

use http::Response;
use overdraft_core::fleet::{Failure, Turn};
use overdraft_core::route::{GiveUp, SecondTry, Strictness, Tried, Verdict};
use overdraft_http::Body;
use tokio::time::sleep;

use super::Pipeline;
use super::attempt::{Attempted, attempt};
use super::back_pressure::BackPressure;
use super::context::RequestContext;
use super::failed_attempt::Failed;
use super::question::Question;
use super::queue;
use super::refusal::Refused;
use super::request_info::RequestInfo;
use crate::dispatch::Lease;

/// Asks one worker after the other, as the core says.
///
/// # Errors
/// [`Refused`] where no worker may be asked at all.
pub(crate) async fn ask_until_answered(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    question: &Question<'_>,
) -> Result<Response<Body>, Refused> {
    let dispatcher = &pipeline.dispatcher;
    let mut tried = Tried::default();
    let mut said: Option<Failed> = None;
    let mut pressure = BackPressure::new(pipeline, info);
    let mut second = SecondTry::default();
    let mut lease = queue::place(pipeline, context, info).await?;
    loop {
        match attempt(pipeline, context, info, question, &mut tried, lease).await {
            Attempted::Answered(response) => {
                if response.status().is_success() {
                    dispatcher.refuted(&tried);
                }
                return Ok(response);
            }
            Attempted::Failed(worker, failed) => {
                pipeline.requests.upstream_failed(failed.kind());
                if let Some(trail) = context.explanation.trail() {
                    trail.failed(failed.kind());
                }
                tracing::debug!(request = %context.exchange.id,
                    worker = dispatcher.upstream(worker).name(), failure = ?failed.failure,
                    "attempt failed");
                let verdict =
                    dispatcher.attempt_failed(&info.model, &mut tried, worker, failed.failure);
                let strictness = Strictness::after(failed.failure);
                if verdict == Verdict::GiveUp(GiveUp::Agreed) {
                    return Ok(failed.into_verdict(context));
                }
                let failed = failed.or_better(said.take());
                let other = match verdict {
                    Verdict::GiveUp(_) => None,
                    Verdict::Elsewhere => {
                        let placing = info.placing(&tried, Turn::Again, strictness);
                        let other = dispatcher.place(placing, &mut context.explanation).ok();
                        match other {
                            // In a box, as what is seldom awaited: every request carries room for it along.
                            None => {
                                let why = failed.failure;
                                Box::pin(ask_again(pipeline, context, info, &mut second, why)).await
                            }
                            other => other,
                        }
                    }
                };
                if let Some(other) = other {
                    lease = other;
                    said = Some(failed);
                    pipeline.requests.retried();
                    continue;
                }
                // A worker that is full says nothing against the request: it waits as others do.
                let after = failed.back_pressure();
                let waiting = pressure.wait(pipeline, context, info, worker, after);
                let Some(other) = Box::pin(waiting).await else {
                    return Ok(failed.into_response(context));
                };
                (lease, tried) = (other, Tried::default());
            }
        }
    }
}

/// A worker that has failed the request before, where no other one is there and it may serve now.
async fn ask_again(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    second: &mut SecondTry,
    failure: Failure,
) -> Option<Lease> {
    let pause = second.pause(failure)?;
    tokio::select! {
        () = sleep(pause.into()) => {}
        () = context.exchange.drain.closing() => return None,
    }
    let tried = Tried::default();
    let placing = info.placing(&tried, Turn::Again, Strictness::after(failure));
    pipeline.dispatcher.place(placing, &mut context.explanation).ok()
}
