//! Admission queue: whether a request is sent now, waits, or is told to come back.
//!
//! The core decides; this file does the waiting. A request waits for a worker that has no room for
//! it yet. The queue calls it when there may be room, and it starts when there is. It is refused
//! where its expected wait is too long, when its maximum wait is over and its line too slow to keep
//! it, and when the gateway shuts down.

use std::sync::Arc;
use std::time::Duration;

use overdraft_core::admit::{RETRY_AFTER_MIN, Refusal, Wait, WaitTime};
use overdraft_core::deadline::Prediction;
use overdraft_core::fleet::{Turn, WorkerId};
use overdraft_core::route::{Choice, Strictness, Tried};
use overdraft_otlp::Attribute;
use overdraft_telemetry::{Delivery, Phase};
use overdraft_units::Micros;
use overdraft_wire::{ApiError, ErrorKind};
use tokio::time::{Instant, sleep_until};

use super::Pipeline;
use super::context::RequestContext;
use super::deadline::{self, PREDICTED};
use super::inspect::unknown_model;
use super::refusal::{Refused, Retry};
use super::request_info::RequestInfo;
use crate::dispatch::Lease;
use crate::fleet::locked_workers;
use crate::settings::GatewaySettings;

/// What a request needs and what there was for it, as the core saw it last.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    asked: u64,
    free: u64,
    retry_after: Micros,
}

/// Why a request gets no worker.
#[derive(Clone, Copy, Debug)]
enum Denial {
    /// The core says so, and waiting would not help.
    Choice(Choice),
    /// It may not even wait.
    Queue(Refusal),
    /// It has waited for as long as it may.
    Late(Micros),
    /// No worker of its model has come up for as long as it may be held.
    NeverUp(Micros),
    /// The gateway shuts down.
    Draining,
    /// It is expected to take that, and clearly more than what is left to its deadline.
    Hopeless(Prediction, Micros),
}

/// A denial, and what was seen before it.
#[derive(Clone, Copy, Debug)]
struct Denied {
    why: Denial,
    figures: Option<Figures>,
}

impl Denial {
    /// Before anything was seen of the fleet.
    const fn unseen(self) -> Denied {
        Denied { why: self, figures: None }
    }
}

/// Finds a worker for the first attempt, when it is the request's turn.
pub(crate) async fn place(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
) -> Result<Lease, Refused> {
    let mut placed = seek(pipeline, context, info).await;
    let is_unknown = |denied: &Denied| matches!(denied.why, Denial::Choice(Choice::UnknownModel));
    if placed.as_ref().is_err_and(is_unknown) && Box::pin(first_look(pipeline)).await {
        placed = seek(pipeline, context, info).await;
    }
    if placed.as_ref().is_err_and(is_unknown)
        && Box::pin(locked_workers::introduce(&pipeline.fleet, &context.head.headers)).await
    {
        placed = seek(pipeline, context, info).await;
    }
    if let Err(Denied { why: Denial::Choice(choice), .. }) = placed
        && is_held(pipeline, info, choice)
    {
        let time = WaitTime::exactly(Micros::from(pipeline.settings().admission.hold));
        let nobody = Wait::for_room(WorkerId::NOBODY, time);
        context.holds(info.delivery == Delivery::Streamed);
        placed = Box::pin(wait(pipeline, context, info, nobody, Figures::default())).await;
        context.holds(false);
    }
    let placed = placed.and_then(|lease| match hopeless(context, lease.prediction()) {
        Some(denial) => Err(denial.unseen()),
        None => Ok(lease),
    });
    placed.map_err(|denied| refused(pipeline, info, denied.why, denied.figures))
}

/// Waits until every worker has been asked what it serves: who comes right after a start is else told that there is no
/// such model. Whether there was anything to wait for.
pub(crate) async fn first_look(pipeline: &Pipeline) -> bool {
    let patience = pipeline.settings().probe.timeout;
    let sources = pipeline.settings().worker_sources();
    pipeline.dispatcher.members.until_asked(sources, patience).await
}

/// Why a request that is expected to take that is not worth beginning, where it is not; its access record tells it.
fn hopeless(context: &RequestContext<'_>, prediction: &Prediction) -> Option<Denial> {
    let deadline = context.deadline?;
    let left = deadline.left();
    prediction.misses(left).then(|| {
        context.note(|record| record.limit = Some(deadline.passed(PREDICTED)));
        Denial::Hopeless(*prediction, left)
    })
}

async fn seek(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
) -> Result<Lease, Denied> {
    let tried = Tried::default();
    let placing = info.placing(&tried, Turn::First, Strictness::Judged);
    let choice = match pipeline.dispatcher.place(placing, &mut context.explanation) {
        Ok(lease) => return Ok(lease),
        Err(choice) if !waits(pipeline, info) => return Err(Denial::Choice(choice).unseen()),
        Err(choice) => choice,
    };
    let Choice::Saturated { asked, free, at, awaits, retry_after } = choice else {
        return Err(Denial::Choice(choice).unseen());
    };
    if context.deadline.is_some() {
        let prediction = pipeline.dispatcher.predict(info.request(), at);
        if let Some(denial) = hopeless(context, &prediction) {
            return Err(denial.unseen());
        }
    }
    pipeline.dispatcher.metrics.routing.waits(awaits.name());
    // In a box: most requests do not wait and should not carry room for it along.
    let patience = pipeline.settings().admission.first_token.of(info.priority);
    let wait_for = Wait { at, awaits, time: WaitTime::of(Micros::from(patience)) };
    let figures = Figures { asked, free, retry_after };
    Box::pin(wait(pipeline, context, info, wait_for, figures)).await
}

/// Whether a request that nobody is up for is held until somebody is: its model will be served, and no other one
/// stands in for it.
fn is_held(pipeline: &Pipeline, info: &RequestInfo, choice: Choice) -> bool {
    let stands_in = pipeline.routes().has_fallback(&info.model);
    let is_on = !pipeline.settings().admission.hold.is_zero() && !stands_in;
    is_on
        && match choice {
            Choice::NoneUp => true,
            Choice::UnknownModel => is_expected(pipeline, &info.model),
            _ => false,
        }
}

/// Waits in the queue again after a worker was too full, until then at most; none where nobody takes it.
pub(super) async fn return_to(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    at: WorkerId,
    until: Instant,
) -> Option<Lease> {
    let figures = look(pipeline, info);
    let left = until.saturating_duration_since(Instant::now());
    let wait_for = Wait::for_room(at, WaitTime::exactly(Micros::from(left)));
    Box::pin(wait(pipeline, context, info, wait_for, figures)).await.ok()
}

/// Whether the model's requests wait where there is no room.
pub(super) fn waits(pipeline: &Pipeline, info: &RequestInfo) -> bool {
    pipeline.routes().route(&info.model).admission.mode.waits()
}

/// Waits in the queue for a worker, for so long at most.
async fn wait(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    wait_for: Wait,
    mut figures: Figures,
) -> Result<Lease, Denied> {
    let dispatcher = &pipeline.dispatcher;
    let denied = |why, figures| Denied { why, figures: Some(figures) };
    context.note(|record| record.end.phase = Phase::Queue);
    let time = wait_for.time;
    let time = context.deadline.map_or(time, |deadline| time.within(deadline.left()));
    let mut until = Instant::now() + Duration::from(time.patience);
    let entered =
        dispatcher.wait_queue.enter(dispatcher, info.request(), Wait { time, ..wait_for });
    context.facts.trace().event("overdraft.queue.entered", Vec::new);
    let place = entered.map_err(|refusal| denied(Denial::Queue(refusal), figures))?;
    loop {
        tokio::select! {
            biased;
            () = place.called() => {}
            () = sleep_until(until) => {
                if let Some(more) = place.keep() {
                    until = Instant::now() + Duration::from(more);
                    continue;
                }
                let is_held = dispatcher.view().queue().is_held(place.ticket());
                let why = if is_held { Denial::NeverUp } else { Denial::Late };
                return Err(denied(why(place.waited()), figures));
            }
            () = context.exchange.drain.closing() => return Err(denied(Denial::Draining, figures)),
        }
        let explanation = &mut context.explanation;
        let placed = dispatcher.place_called(info.request(), place.ticket(), explanation);
        dispatcher.call_waiting();
        match placed {
            Ok(lease) => {
                let waited = place.waited();
                context.note(|record| record.queued = Some(waited));
                context.facts.trace().event("overdraft.queue.left", || {
                    vec![Attribute::new("overdraft.queued_us", waited.get())]
                });
                pipeline.admission.waited(info.priority.name(), waited);
                return Ok(lease);
            }
            Err(_) if dispatcher.view().queue().is_held(place.ticket()) => {}
            Err(choice) => {
                let seen = saturation(choice);
                figures = seen.ok_or_else(|| denied(Denial::Choice(choice), figures))?;
            }
        }
    }
}

/// What there was, where waiting helps.
const fn saturation(choice: Choice) -> Option<Figures> {
    match choice {
        Choice::Saturated { asked, free, retry_after, .. } => {
            Some(Figures { asked, free, retry_after })
        }
        _ => None,
    }
}

/// Turns a denial into what the client is told.
fn refused(
    pipeline: &Pipeline,
    info: &RequestInfo,
    denial: Denial,
    figures: Option<Figures>,
) -> Refused {
    let saturated = |what: String, reason, retry| {
        let Figures { asked, free, .. } = figures.unwrap_or_else(|| look(pipeline, info));
        let message = format!(
            "every worker that serves `{}` is saturated: {}; {what}",
            info.model,
            needs(asked, free)
        );
        Refused::for_room(ApiError::rate_limited(message), reason, retry)
    };
    let seconds = |time: Micros| time.get().div_ceil(1_000_000);
    match denial {
        Denial::Choice(choice) => of_choice(pipeline, info, choice),
        Denial::Queue(Refusal::HeldFull { retry_after }) => held_full(&info.model, retry_after),
        Denial::Queue(refusal) => {
            let wait = refusal.retry_after();
            let (why, retry) = match refusal {
                Refusal::QueueFull { .. } | Refusal::HeldFull { .. } => {
                    ("the wait queue is full".to_owned(), Retry::After(wait))
                }
                // It is this tenant's own load that is in its way.
                Refusal::TenantFull { .. } => (
                    "your share of the wait queue is full; send fewer requests at once".to_owned(),
                    Retry::Unwise(wait),
                ),
                Refusal::TooLate { wait: expected, .. } => {
                    let expected = seconds(expected);
                    (format!("it would wait for about {expected} s"), Retry::After(wait))
                }
            };
            let what = format!("{why}; try again in {} s", seconds(wait));
            saturated(what, refusal.name(), retry)
        }
        Denial::Late(waited) => {
            let wait = figures.map_or(RETRY_AFTER_MIN, |figures| figures.retry_after);
            let what = format!(
                "it has waited for {} s, the most for priority `{}`; try again in {} s",
                seconds(waited),
                info.priority,
                seconds(wait)
            );
            saturated(what, "late", Retry::After(wait))
        }
        Denial::NeverUp(waited) => never_up(&info.model, seconds(waited)),
        // The same request would be refused again.
        Denial::Hopeless(prediction, left) => {
            let error = deadline::hopeless(&prediction, left);
            Refused::for_room(error, "deadline", Retry::Unwise(RETRY_AFTER_MIN))
        }
        Denial::Draining => {
            let error =
                ApiError::overloaded("the gateway is shutting down; send the request again");
            Refused::for_room(error, "draining", Retry::After(Micros::ZERO))
        }
    }
}

/// What the core would say now, where it was not asked because others wait.
fn look(pipeline: &Pipeline, info: &RequestInfo) -> Figures {
    let (choice, _) = pipeline.dispatcher.explain(info.request(), None);
    let (prompt, completion) = pipeline.dispatcher.view().expected(info.request());
    let asked = u64::from(prompt.get()).saturating_add(u64::from(completion.get()));
    saturation(choice).unwrap_or(Figures { asked, ..Figures::default() })
}

/// Why no worker takes the request now, in tokens.
fn needs(asked: u64, free: u64) -> String {
    let needs = format!(
        "the request needs about {asked} tokens and the most that is free on one of them is {free}"
    );
    if free < asked {
        return needs;
    }
    // It waits for the worker where it is computed soonest, which is not always the one with most room.
    format!(
        "{needs}, but that is kept for requests ahead of it, or lies at a worker where it would end later"
    )
}

/// What the client is told where waiting would not help.
fn of_choice(pipeline: &Pipeline, info: &RequestInfo, choice: Choice) -> Refused {
    let model = &info.model;
    let now = Retry::After(Micros::ZERO);
    match choice {
        Choice::UnknownModel if is_expected(pipeline, model) => none_up(model),
        Choice::UnknownModel => unknown_model(pipeline, &info.caller, model).into(),
        Choice::NoRoom { asked, most, .. } if most < asked => ApiError::new(
            ErrorKind::ContextLengthExceeded,
            format!(
                "the prompt has {}{asked} tokens and the largest cache of a worker that serves \
                 `{model}` has room for {most}; send a shorter prompt",
                if info.is_counted() { "" } else { "about " }
            ),
        )
        .into(),
        Choice::NoRoom { asked, free, .. } => {
            let error = ApiError::overloaded(format!(
                "no worker that serves `{model}` has room: the prompt has about {asked} tokens \
                 and the most that is free on one of them is {free}; send a shorter prompt, or \
                 try again when others have finished"
            ));
            Refused::for_room(error, "no_room", now)
        }
        Choice::Saturated { asked, free, retry_after, .. } => {
            let error = ApiError::overloaded(format!(
                "every worker that serves `{model}` is saturated: {}; try again in {} s",
                needs(asked, free),
                retry_after.get().div_ceil(1_000_000)
            ));
            Refused::for_room(error, "threshold", Retry::After(retry_after))
        }
        _ => none_up(model),
    }
}

/// The queue of requests that are held until a worker comes up is full.
fn held_full(model: &str, retry_after: Micros) -> Refused {
    let why = format!(
        "no worker that serves `{model}` is up, and the queue of requests that wait for one is full"
    );
    Refused::for_room(ApiError::overloaded(why), "held_full", Retry::After(retry_after))
}

/// Nobody who serves the model has come up for as long as a request is held.
fn never_up(model: &str, seconds: u64) -> Refused {
    let why = format!(
        "no worker that serves `{model}` has come up within {seconds} s; try again in a moment"
    );
    Refused::for_room(ApiError::overloaded(why), "none_up", Retry::After(Micros::ZERO))
}

/// Nobody who serves the model is there now.
fn none_up(model: &str) -> Refused {
    let why = format!("no worker that serves `{model}` is up; try again in a moment");
    Refused::for_room(ApiError::overloaded(why), "none_up", Retry::After(Micros::ZERO))
}

/// Whether a model that no worker serves now may be served later: it is configured, it was served before, or workers are
/// to be asked what they serve and none has answered yet.
pub(crate) fn is_expected(pipeline: &Pipeline, model: &str) -> bool {
    let settings = pipeline.settings();
    let is_it = |named: &Option<String>| named.as_deref() == Some(model);
    settings.routing.models.contains_key(model)
        || settings.workers.iter().any(|worker| is_it(&worker.model))
        || settings.discovery.iter().any(|source| source.model() == Some(model))
        || settings.cascades.values().any(|one| one.draft == model || one.target == model)
        || pipeline.fleet.models.has_seen(model)
        || is_untold(pipeline, &settings)
}

/// Whether it is for workers to say which models there are, and none has been up yet to say it.
fn is_untold(pipeline: &Pipeline, settings: &GatewaySettings) -> bool {
    let is_asked = settings.workers.iter().any(|worker| worker.model.is_none())
        || settings.discovery.iter().any(|source| source.model().is_none());
    is_asked
        && settings.routing.models.is_empty()
        && pipeline.fleet.models.has_seen_none()
        && !locked_workers::has_any(&pipeline.fleet)
}

#[cfg(test)]
mod tests {
    use super::needs;

    #[test]
    fn room_that_is_not_for_the_request_is_told_apart_from_room_that_is_missing() {
        assert!(needs(1_423, 879).ends_with("on one of them is 879"));
        let kept = needs(1_423, 1_872);
        assert!(kept.contains("is 1872, but that is kept for requests ahead of it"), "{kept}");
    }
}
