//! Answer: a request answered as its plan says, by the draft or by the target.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use overdraft_core::cascade::{Ask, Upshot, Waited};
use overdraft_http::{Access, Body, reply};
use overdraft_telemetry::{Delivery, EndCode, Ender, Phase, unix_seconds};
use overdraft_wire::Generation;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::CascadeLayer;
use super::call::CallContext;
use super::capture::Capture;
use super::continuation::{Sink, Told};
use super::cost_accounting::CostAccount;
use super::driver::{Driver, Rejected};
use super::flow::Flow;
use super::plan::Plan;
use super::plan::Way;
use super::response_writer::{Counts, ResponseWriter};
use super::shadow::{self, Target};
use super::wait::{Telling, Wait, micros};
use crate::pipeline::attempt::Question;
use crate::pipeline::attempts::ask_until_answered;
use crate::pipeline::context::RequestContext;
use crate::pipeline::refusal::Refused;
use crate::pipeline::request_guard::PoolTimes;
use crate::pipeline::request_info::RequestInfo;
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
    question: &Question<'_>,
) -> Result<Response<Body>, Refused> {
    let (state, way, traits) = (Arc::clone(&plan.state), plan.way, plan.traits);
    let mut driver = start(layer, context, plan, info, question);
    if let Some(guard) = context.guard() {
        guard.counts(&driver.calls.times);
    }
    let (outcome, compare) = match way {
        Way::Target(reason) => {
            layer.metrics.excluded(&state.name, reason);
            ("target", None)
        }
        Way::Ask(Ask::Target) => ("target", None),
        Way::Ask(asked @ Ask::Beside(_)) => ("target", Some((asked, None))),
        Way::Ask(Ask::Draft) => match Box::pin(begin(driver, context)).await {
            Ok(response) => {
                context.explanation.withdraw();
                return Ok(response);
            }
            Err((kept, why)) => {
                driver = kept;
                let judgement = driver.judgement.filter(|judgement| judgement.checked);
                (why, judgement.map(|judgement| (Ask::Draft, Some(judgement))))
            }
        },
    };
    layer.metrics.answered(&state.name, outcome);
    let account = driver.change_account();
    let wanted = compare.map(move |(asked, judgement)| {
        let (sender, coming) = oneshot::channel();
        shadow::begin(driver, asked, judgement, Target::Coming(coming));
        sender
    });
    // What no draft may answer says nothing of how long the target takes where one may.
    let mut telling = matches!(way, Way::Ask(_)).then(|| Telling::begin(&state, traits));
    let mut response = ask_until_answered(&layer.pipeline, context, info, question).await?;
    response.headers_mut().insert(SERVED_BY, HeaderValue::from_static("target"));
    let is_success = response.status().is_success();
    let wanted = wanted.filter(|_| is_success);
    let streamed = info.delivery == Delivery::Streamed;
    if let Some(telling) = telling.as_mut().filter(|_| streamed) {
        telling.first();
    }
    let telling = telling.filter(|_| is_success);
    Ok(response.map(|body| Body::wrap(Capture::new(body, account, wanted, telling, streamed))))
}

/// A draft that the client has seen something of may always be silent for so long: to change the model costs more.
const SILENCE_MIN: Duration = Duration::from_secs(2);

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
    let calls = CallContext {
        layer: Arc::clone(layer),
        head: Arc::new(head),
        request_id: question.request_id.clone(),
        drain: Some(exchange.drain.clone()),
        begun: question.begun,
        last: question.begun + layer.pipeline.settings().timeouts.total,
        times: PoolTimes::default(),
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
    let (access, estimated) = (&exchange.access, plan.traits.prompt);
    let account =
        CostAccount::new(layer, &plan.state, &tenant, access, estimated).on(info.side.clone());
    let body = question.content.body.clone();
    Box::new(Driver::new(calls, plan, body, info.clone(), writer, account))
}

/// A request whose draft was of no use, and why.
type Kept = (Box<Driver>, &'static str);

/// Asks the draft; the answer once something of it may be shown.
async fn begin(
    mut driver: Box<Driver>,
    context: &mut RequestContext<'_>,
) -> Result<Response<Body>, Kept> {
    let exchange = context.exchange;
    let wait = Wait::begin(driver.state(), driver.plan.traits);
    // A draft that would spare no time any more is given up, and the target asked.
    let opened = timeout(wait.limit(), Box::pin(driver.open())).await;
    let opened = opened.unwrap_or_else(|_elapsed| {
        driver.stream = None;
        Err(Rejected::broken("late"))
    });
    if let Some(stream) = &mut driver.stream {
        stream.hurry(wait.limit().max(SILENCE_MIN));
    }
    wait.end(match opened {
        Ok(()) => Some(Upshot::Given),
        Err(rejected) if rejected.broken => (!rejected.unasked).then_some(Upshot::Failed),
        Err(_) => Some(Upshot::Refused),
    });
    driver.end_prefill();
    if let Err(rejected) = opened {
        if rejected.broken {
            driver.calls.layer.metrics.draft_failed(rejected.why);
            return Err((driver, "draft_failed"));
        }
        return Err((driver, rejected.why));
    }
    let layer = Arc::clone(&driver.calls.layer);
    let served = if driver.verifies() { "verified" } else { "draft" };
    driver.account.served = served;
    let upstream = driver.worker.map(|worker| layer.pipeline.dispatcher.upstream(worker));
    let first_token = layer.pipeline.dispatcher.clock.now() - exchange.begun;
    exchange.access.note(|record| {
        record.worker = upstream.as_ref().map(|upstream| upstream.name().to_owned());
        record.first_token = Some(first_token);
        record.end.phase = Phase::Data;
    });
    if let (Some(guard), Some(worker)) = (context.guard(), driver.worker) {
        guard.by(layer.pipeline.dispatcher.pool(worker));
    }
    let mut response = match driver.info.delivery {
        Delivery::Streamed => {
            driver.guard = context.take_guard();
            if let Some(guard) = &mut driver.guard {
                guard.answered(StatusCode::OK);
            }
            streamed(driver, exchange.access.clone())
        }
        Delivery::Whole => whole(driver, &exchange.access).await?,
    };
    let headers = response.headers_mut();
    headers.insert(SERVED_BY, HeaderValue::from_static(served));
    if let Some(upstream) = &upstream {
        headers::signed(headers, upstream);
    }
    Ok(response)
}

/// An answer that is told as it comes.
fn streamed(mut driver: Box<Driver>, access: Access) -> Response<Body> {
    let flow = Flow::new(|sender| async move {
        let mut sink = Sink::Stream(sender.clone());
        match driver.tell(&mut sink).await {
            Ok(told) => {
                let note = driver.note();
                let end = driver.writer.end(told.reason, note.as_deref(), told.counts);
                finish(driver, told, &access);
                // A client that has left takes this with it.
                let _gone = sender.send(end).await;
                Ok(())
            }
            Err(error) => {
                let end = EndCode { ender: Ender::Server, phase: Phase::Data };
                access.note(|record| record.end = end);
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
async fn whole(mut driver: Box<Driver>, access: &Access) -> Result<Response<Body>, Kept> {
    let mut sink = Sink::Whole(String::new());
    match driver.tell(&mut sink).await {
        Ok(told) => {
            let text = sink.into_text();
            let document = driver.writer.whole(text, told.reason, told.counts);
            finish(driver, told, access);
            Ok(reply::json(StatusCode::OK, document))
        }
        Err(error) => {
            tracing::debug!(%error, "the draft's answer was not finished; the target answers");
            driver.account.served = "target";
            Err((driver, "draft_failed"))
        }
    }
}

/// Closes the books over an answer that is told, and has it compared where that was drawn.
fn finish(mut driver: Box<Driver>, told: Told, access: &Access) {
    let Counts { prompt, completion } = told.counts;
    access.note(|record| {
        (record.prompt, record.completion) = (Some(prompt), Some(completion));
        record.end = EndCode::WHOLE;
    });
    let took = micros(driver.calls.begun.elapsed());
    let traits = driver.plan.traits;
    driver.state().timed(|payback| payback.handle_draft_end(&traits, took, Waited::Client));
    let judgement = driver.judgement.filter(|judgement| judgement.checked && !driver.goes_on);
    driver.account.is_compared = judgement.is_some();
    driver.account.close();
    // Whoever reads the answer to its end is counted then.
    let (state, layer) = (Arc::clone(driver.state()), Arc::clone(&driver.calls.layer));
    let outcome = match (driver.verifies(), driver.account.is_mixed() || driver.goes_on) {
        (true, _) => "verified",
        (false, false) => "draft",
        (false, true) => "handed_over",
    };
    layer.metrics.answered(&state.name, outcome);
    if let Some(judgement) = judgement {
        driver.change_account();
        shadow::begin(driver, Ask::Draft, Some(judgement), Target::Ask);
    }
}
