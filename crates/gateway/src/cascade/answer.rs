//! Answer: a request answered as its plan says, by the draft or by the target.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use overdraft_core::cascade::{Action, Cause, DraftCall, Event};
use overdraft_core::deadline::LIMIT_MAX;
use overdraft_http::{Body, reply};
use overdraft_telemetry::{Delivery, EndCode, Ender, Phase, unix_seconds};
use overdraft_wire::Generation;
use tokio::sync::oneshot;

use super::CascadeLayer;
use super::call::CallContext;
use super::capture::Capture;
use super::continuation::{Sink, Told, Unfinished};
use super::cost_accounting::{CostAccount, SharedAccount};
use super::driver::Driver;
use super::flow::Flow;
use super::plan::Plan;
use super::protocol::Fallback;
use super::response_writer::{Counts, ResponseWriter};
use super::shadow::{self, Target};
use super::state::CascadeState;
use crate::pipeline::context::RequestContext;
use crate::pipeline::facts::SharedFacts;
use crate::pipeline::question::Question;
use crate::pipeline::refusal::Refused;
use crate::pipeline::relay::Fault;
use crate::pipeline::request_guard::PoolTimes;
use crate::pipeline::request_info::RequestInfo;
use crate::pipeline::{deadline, fallback, resume};
use crate::upstream::headers;

/// Tells whose answer it is.
const SERVED_BY: HeaderName = HeaderName::from_static("x-overdraft-served-by");
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// Answers a request as its plan says.
pub(crate) async fn answer(
    layer: &Arc<CascadeLayer>,
    context: &mut RequestContext<'_>,
    plan: Plan,
    info: &RequestInfo,
    question: &mut Question<'_>,
) -> Result<Response<Body>, Refused> {
    let state = Arc::clone(&plan.state);
    let resumes = resume::is_wanted(&context.head.headers)?;
    let mut driver = start(layer, context, plan, info, question);
    if let Some(guard) = context.guard() {
        guard.counts(&driver.calls.times);
    }
    let actions = driver.report(Event::Arrived);
    note_unknown_draft(layer, &driver);
    let asked = actions.iter().find_map(|action| match action {
        Action::AskDraft(call) => Some(*call),
        _ => None,
    });
    let left = match asked {
        None => Fallback::of(&actions),
        Some(call) => match Box::pin(begin(driver, call, context)).await {
            Ok(response) => return Ok(response),
            Err((kept, left)) => {
                driver = kept;
                Some(left)
            }
        },
    };
    let left = left.expect("a request goes to the draft or to the target");
    layer.metrics.answered(&state.name, outcome(layer, &state, left.cause));
    let account = SharedAccount::new(driver.change_account());
    if let Some(guard) = context.guard() {
        guard.keeps(account.clone());
    }
    let protocol = driver.protocol.clone();
    let wanted = left.compares.then(move || {
        let (sender, coming) = oneshot::channel();
        shadow::begin(driver, Target::Coming(coming));
        sender
    });
    if resumes {
        resume::prepare(&layer.pipeline, context, info, question);
    }
    let mut response = fallback::ask(&layer.pipeline, context, info, question).await?;
    // What another model says in its place is nothing to learn the target's answers from.
    let is_target = !context.facts.known().has_fallen_back();
    if is_target {
        response.headers_mut().insert(SERVED_BY, HeaderValue::from_static("target"));
        let _none = protocol.report(Event::TargetBegan);
    } else {
        account.falls_back();
    }
    let is_told = is_target && response.status().is_success();
    let wanted = wanted.filter(|_| is_told);
    let streamed = info.delivery == Delivery::Streamed;
    let protocol = is_told.then_some(protocol);
    Ok(response.map(|body| Body::wrap(Capture::new(body, account, wanted, protocol, streamed))))
}

/// Has the draft's pool woken where no worker is there to tell its tokenizer, without which no draft is asked.
fn note_unknown_draft(layer: &CascadeLayer, driver: &Driver) {
    if driver.protocol.misses_draft() {
        layer.pipeline.dispatcher.note_miss(&driver.state().settings.draft);
    }
}

/// What came of the draft of a request that the target answers, as metrics call it.
fn outcome(layer: &CascadeLayer, state: &CascadeState, cause: Cause) -> &'static str {
    match cause {
        Cause::Excluded(reason) => {
            layer.metrics.excluded(&state.name, reason);
            "target"
        }
        Cause::Chosen => "target",
        Cause::Rejected(rejected) if rejected.is_fault() => {
            layer.metrics.draft_failed(rejected.name());
            "draft_failed"
        }
        Cause::Rejected(rejected) => rejected.name(),
        Cause::BrokenOff => "draft_failed",
    }
}

/// A request that nothing has been done for yet.
fn start(
    layer: &Arc<CascadeLayer>,
    context: &RequestContext<'_>,
    plan: Plan,
    info: &RequestInfo,
    question: &Question<'_>,
) -> Box<Driver> {
    let exchange = context.exchange;
    let mut head = Request::new(()).into_parts().0;
    head.headers.clone_from(&question.head.headers);
    // Each call has a limit of its own besides.
    let total = layer.pipeline.routes().route(&info.model).deadlines.total.at_least(LIMIT_MAX);
    let calls = CallContext {
        layer: Arc::clone(layer),
        head: Arc::new(head),
        request_id: question.request_id.clone(),
        drain: Some(exchange.drain.clone()),
        begun: question.begun,
        last: question.begun + Duration::from(total),
        times: PoolTimes::default(),
        trace: context.facts.trace().clone(),
    };
    let name = exchange.id.as_str();
    let bare = name.strip_prefix("req_").unwrap_or(name);
    let kind = match plan.generation {
        Generation::Chat => "chatcmpl",
        Generation::Completion => "cmpl",
    };
    let writer = ResponseWriter {
        generation: plan.generation,
        id: format!("{kind}-{bare}"),
        created: unix_seconds(),
        model: info.model.clone(),
        usage: plan.usage,
    };
    let tenant = info.caller.label().to_owned();
    let (facts, estimated) = (&context.facts, plan.terms.traits.prompt);
    let account =
        CostAccount::new(layer, &plan.state, &tenant, facts, estimated).on(info.side.clone());
    let body = question.content.body.clone();
    let mut driver = Driver::new(calls, plan, body, info.clone(), writer, account);
    if context.explanation.is_wanted() {
        let cascade = driver.state().name.clone();
        driver.explanation.want_of_draft(cascade);
    }
    Box::new(driver)
}

/// A request whose draft was of no use, and what follows.
type Kept = (Box<Driver>, Fallback);

/// Asks the draft; the answer once something of it may be shown.
async fn begin(
    mut driver: Box<Driver>,
    call: DraftCall,
    context: &mut RequestContext<'_>,
) -> Result<Response<Body>, Kept> {
    let exchange = context.exchange;
    let opened = driver.open(call).await;
    if let Some(stream) = &mut driver.stream {
        stream.hurry(Duration::from(driver.protocol.silence()));
    }
    driver.end_prefill();
    let actions = match opened {
        Ok(actions) => actions,
        Err(fallback) => return Err((driver, fallback)),
    };
    let layer = Arc::clone(&driver.calls.layer);
    let served = if driver.verifies() { "verified" } else { "draft" };
    driver.account.served = served;
    let upstream = driver.worker.map(|worker| layer.pipeline.dispatcher.upstream(worker));
    let is_streamed = driver.info.delivery == Delivery::Streamed;
    let first_token = layer.pipeline.dispatcher.clock.now() - exchange.begun;
    context.note(|record| {
        record.worker = upstream.as_ref().map(|upstream| upstream.name().to_owned());
        record.first_token = is_streamed.then_some(first_token);
        record.end.phase = Phase::Data;
    });
    if let (Some(guard), Some(worker)) = (context.guard(), driver.worker) {
        guard.by(layer.pipeline.dispatcher.pool(worker));
    }
    let explanation = std::mem::take(&mut driver.explanation);
    let mut response = match driver.info.delivery {
        Delivery::Streamed => {
            driver.guard = context.take_guard();
            if let Some(guard) = &mut driver.guard {
                guard.answered(StatusCode::OK);
            }
            streamed(driver, actions, context)
        }
        Delivery::Whole => whole(driver, actions, &context.facts).await?,
    };
    context.explanation.adopt(explanation);
    let headers = response.headers_mut();
    headers.insert(SERVED_BY, HeaderValue::from_static(served));
    if let Some(upstream) = &upstream {
        headers::signed(headers, upstream);
    }
    Ok(response)
}

/// An answer that is told as it comes, until its deadline.
fn streamed(
    mut driver: Box<Driver>,
    actions: Vec<Action>,
    context: &RequestContext<'_>,
) -> Response<Body> {
    let (facts, deadline) = (context.facts.clone(), context.deadline);
    let flow = Flow::new(|sender| async move {
        let mut sink = Sink::Stream(sender.clone());
        let telling = Box::pin(driver.tell(actions, &mut sink));
        let Some(told) = deadline::in_time(deadline, &facts, telling).await else {
            facts.note(|record| record.end = Fault::Late.end());
            return Err(deadline::missed());
        };
        match told {
            Ok(told) => {
                let note = driver.note();
                let end = driver.writer.end(told.reason, note.as_deref(), told.counts);
                finish(driver, told, &facts);
                // A client that has left takes this with it.
                let _gone = sender.send(end).await;
                Ok(())
            }
            Err(Unfinished { error, .. }) => {
                let end = EndCode { ender: Ender::Server, phase: Phase::Data };
                facts.note(|record| record.end = end);
                Err(error)
            }
        }
    });
    let mut response = Response::new(Body::wrap(flow));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, NO_CACHE);
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// An answer that is told when it has ended; what breaks off leaves it to the target.
async fn whole(
    mut driver: Box<Driver>,
    actions: Vec<Action>,
    facts: &SharedFacts,
) -> Result<Response<Body>, Kept> {
    let mut sink = Sink::Whole(String::new());
    match driver.tell(actions, &mut sink).await {
        Ok(told) => {
            let text = sink.into_text();
            let document = driver.writer.whole(text, told.reason, told.counts);
            finish(driver, told, facts);
            Ok(reply::json(StatusCode::OK, document))
        }
        Err(Unfinished { error, fallback }) => {
            tracing::debug!(%error, "the draft's answer was not finished; the target answers");
            driver.account.served = "target";
            let fallback = fallback.expect("where nothing was shown the target answers alone");
            Err((driver, fallback))
        }
    }
}

/// Closes the books over an answer that is told, and has it compared where that was drawn.
fn finish(mut driver: Box<Driver>, told: Told, facts: &SharedFacts) {
    let Counts { prompt, completion } = told.counts;
    facts.note(|record| {
        (record.prompt, record.completion) = (Some(prompt), Some(completion));
        record.end = EndCode::WHOLE;
    });
    let compares = driver.report(Event::Ended).contains(&Action::Compare);
    driver.account.is_compared = compares;
    driver.account.close();
    // An answer that is read to its end is counted then.
    let (state, layer) = (Arc::clone(driver.state()), Arc::clone(&driver.calls.layer));
    layer.metrics.answered(&state.name, driver.protocol.outcome().name());
    if compares {
        driver.change_account();
        shadow::begin(driver, Target::Ask);
    }
}
