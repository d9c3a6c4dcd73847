//! May a small model answer first?
//!
//! A request to a cascade is put to the draft where nothing speaks against it; what the draft says is held
//! back until it has been judged. What is refused, the target answers as if nothing had been. The rules are
//! in `docs/design/cascade.md`, "In the gateway"; every decision is the core's.
//!
//! | question                                        | file          |
//! |-------------------------------------------------|---------------|
//! | Does this request meet a draft?                 | `plan.rs`     |
//! | What is known of a cascade?                     | `course.rs`   |
//! | What is asked of draft and target?              | `ask.rs`      |
//! | How is a worker asked, and how heard?           | `call.rs`     |
//! | What was said, and how surely?                  | `speech.rs`   |
//! | Whose answer begins?                            | `driver.rs`   |
//! | May the target read the prompt meanwhile?       | `prefill.rs`  |
//! | What would the target have said?                | `verify.rs`   |
//! | How is it asked for that?                       | `score.rs`    |
//! | How does the answer go on?                      | `rest.rs`     |
//! | How does it look to the client?                 | `teller.rs`, `flow.rs` |
//! | What did it cost?                               | `ledger.rs`   |
//! | Was it as good?                                 | `shadow.rs`, `judge.rs`, `tap.rs`, `schema.rs` |
//! | How long did it take?                           | `wait.rs`     |
//! | What outlives a request, and a restart?         | `keep.rs`, `memory.rs` |
//!
//! **Invariant.** No text of a draft reaches a client before it was judged, none is taken back, and what
//! follows it continues by its tokens or not at all.

mod ask;
mod call;
mod course;
mod driver;
mod flow;
mod judge;
mod keep;
mod ledger;
mod memory;
mod plan;
mod prefill;
mod prompt;
mod rest;
mod schema;
mod score;
mod settings;
pub(crate) mod shadow;
mod speech;
mod tap;
mod teller;
mod verify;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use overdraft_core::cascade::{Ask, Upshot, Waited};
use overdraft_http::{Access, Body, Exchange, reply};
use overdraft_telemetry::{Delivery, EndCode, Ender, Phase, unix_seconds};
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::call::Outset;
pub(crate) use self::course::Cascades;
use self::driver::{Driver, Turned};
use self::flow::Flow;
pub(crate) use self::keep::{keep, set_gauges, switched_off};
use self::ledger::Ledger;
pub(crate) use self::memory::{remember, save};
use self::plan::Way;
pub(crate) use self::plan::{Plan, consider};
use self::rest::{Sink, Told};
pub(crate) use self::score::identify;
pub(crate) use self::settings::drafts;
pub use self::settings::{CascadeSettings, Labels};
pub(crate) use self::shadow::Shadows;
use self::shadow::Target;
use self::tap::Tap;
use self::teller::Surface;
use self::teller::Teller;
use self::wait::{Telling, Wait, micros};
use crate::attempt::Question;
use crate::fingerprint::Fingerprint;
use crate::forward::ask_until_answered;
use crate::headers;
use crate::refusal::Refused;
use crate::shared::Shared;
use crate::tally::{PoolTimes, Tally};

/// Tells whose answer it is.
const SERVED_BY: HeaderName = HeaderName::from_static("x-overdraft-served-by");
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// Answers a request as its plan says.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    (exchange, tally): (&Exchange, &mut Option<Tally>),
    plan: Plan,
    (print, question): (&Fingerprint, &Question<'_>),
    explained: &mut Option<Bytes>,
) -> Result<Response<Body>, Refused> {
    let (course, way, traits) = (Arc::clone(&plan.course), plan.way, plan.traits);
    let mut driver = start(shared, exchange, plan, (print, question));
    if let Some(tally) = tally {
        tally.counts(&driver.outset.times);
    }
    let (outcome, compare) = match way {
        Way::Target(reason) => {
            shared.cascade.excluded(&course.name, reason);
            ("target", None)
        }
        Way::Ask(Ask::Target) => ("target", None),
        Way::Ask(asked @ Ask::Beside(_)) => ("target", Some((asked, None))),
        Way::Ask(Ask::Draft) => match Box::pin(begin(driver, exchange, tally)).await {
            Ok(response) => {
                *explained = None;
                return Ok(response);
            }
            Err((kept, why)) => {
                driver = kept;
                let judgement = driver.judgement.filter(|judgement| judgement.checked);
                (why, judgement.map(|judgement| (Ask::Draft, Some(judgement))))
            }
        },
    };
    shared.cascade.answered(&course.name, outcome);
    let ledger = driver.change_ledger();
    let wanted = compare.map(move |(asked, judgement)| {
        let (sender, coming) = oneshot::channel();
        shadow::begin(driver, asked, judgement, Target::Coming(coming));
        sender
    });
    // What no draft may answer says nothing of how long the target takes where one may.
    let mut telling = matches!(way, Way::Ask(_)).then(|| Telling::begin(&course, traits));
    let mut response =
        ask_until_answered(shared, (exchange, tally), print, question, explained).await?;
    response.headers_mut().insert(SERVED_BY, HeaderValue::from_static("target"));
    let is_success = response.status().is_success();
    let wanted = wanted.filter(|_| is_success);
    let streamed = print.delivery == Delivery::Streamed;
    if let Some(telling) = telling.as_mut().filter(|_| streamed) {
        telling.first();
    }
    let telling = telling.filter(|_| is_success);
    Ok(response.map(|body| Body::wrap(Tap::new(body, ledger, (wanted, telling), streamed))))
}

/// A draft that the client has seen something of may always be silent for so long: to change the model costs more.
const SILENCE_MIN: Duration = Duration::from_secs(2);

/// A request that nothing has been done for yet.
fn start(
    shared: &Arc<Shared>,
    exchange: &Exchange,
    plan: Plan,
    (print, question): (&Fingerprint, &Question<'_>),
) -> Box<Driver> {
    let mut head = Request::new(()).into_parts().0;
    head.headers.clone_from(&question.head.headers);
    let outset = Outset {
        shared: Arc::clone(shared),
        head: Arc::new(head),
        request_id: question.request_id.clone(),
        drain: Some(exchange.drain.clone()),
        begun: question.begun,
        last: question.begun + shared.settings().timeouts.total,
        times: PoolTimes::default(),
    };
    let name = exchange.id.as_str();
    let bare = name.strip_prefix("req_").unwrap_or(name);
    let kind = match plan.surface {
        Surface::Chat => "chatcmpl",
        Surface::Completion => "cmpl",
    };
    let teller = Teller {
        surface: plan.surface,
        id: format!("{kind}-{bare}"),
        created: unix_seconds(),
        model: print.model.clone(),
        usage: plan.usage,
    };
    let tenant = print.caller.label().to_owned();
    let ledger = Ledger::new(shared, &plan.course, (&tenant, &exchange.access), plan.traits.prompt)
        .on(print.side.clone());
    let request = (question.content.body.clone(), print.clone());
    Box::new(Driver::new(outset, plan, request, (teller, ledger)))
}

/// A request whose draft was of no use, and why.
type Kept = (Box<Driver>, &'static str);

/// Asks the draft; the answer once something of it may be shown.
async fn begin(
    mut driver: Box<Driver>,
    exchange: &Exchange,
    tally: &mut Option<Tally>,
) -> Result<Response<Body>, Kept> {
    let wait = Wait::begin(driver.course(), driver.plan.traits);
    // A draft that would spare no time any more is given up, and the target asked.
    let opened = timeout(wait.limit(), Box::pin(driver.open())).await;
    let opened = opened.unwrap_or_else(|_elapsed| {
        driver.talk = None;
        Err(Turned::broken("late"))
    });
    if let Some(talk) = &mut driver.talk {
        talk.hurry(wait.limit().max(SILENCE_MIN));
    }
    wait.end(match opened {
        Ok(()) => Some(Upshot::Given),
        Err(turned) if turned.broken => (!turned.unasked).then_some(Upshot::Failed),
        Err(_) => Some(Upshot::Refused),
    });
    driver.end_prefill();
    if let Err(turned) = opened {
        if turned.broken {
            driver.outset.shared.cascade.draft_failed(turned.why);
            return Err((driver, "draft_failed"));
        }
        return Err((driver, turned.why));
    }
    let shared = Arc::clone(&driver.outset.shared);
    let served = if driver.verifies() { "verified" } else { "draft" };
    driver.ledger.served = served;
    let upstream = driver.worker.map(|worker| shared.upstream(worker));
    let first_token = shared.clock.now() - exchange.begun;
    exchange.access.note(|record| {
        record.worker = upstream.as_ref().map(|upstream| upstream.name().to_owned());
        record.first_token = Some(first_token);
        record.end.phase = Phase::Data;
    });
    if let (Some(tally), Some(worker)) = (tally.as_mut(), driver.worker) {
        tally.by(shared.pool(worker));
    }
    let mut response = match driver.print.delivery {
        Delivery::Streamed => {
            driver.tally = tally.take();
            if let Some(tally) = &mut driver.tally {
                tally.answered(StatusCode::OK);
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
                let end = driver.teller.end(told.reason, note.as_deref(), told.counts);
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
            let document = driver.teller.whole(text, told.reason, told.counts);
            finish(driver, told, access);
            Ok(reply::json(StatusCode::OK, document))
        }
        Err(error) => {
            tracing::debug!(%error, "the draft's answer was not finished; the target answers");
            driver.ledger.served = "target";
            Err((driver, "draft_failed"))
        }
    }
}

/// Closes the books over an answer that is told, and has it compared where that was drawn.
fn finish(mut driver: Box<Driver>, told: Told, access: &Access) {
    let (prompt, completion) = told.counts;
    access.note(|record| {
        (record.prompt, record.completion) = (Some(prompt), Some(completion));
        record.end = EndCode::WHOLE;
    });
    let took = micros(driver.outset.begun.elapsed());
    let traits = driver.plan.traits;
    driver.course().timed(|payback| payback.handle_draft_end(&traits, took, Waited::Client));
    let judgement = driver.judgement.filter(|judgement| judgement.checked && !driver.goes_on);
    driver.ledger.is_compared = judgement.is_some();
    driver.ledger.close();
    // Whoever reads the answer to its end is counted then.
    let (course, shared) = (Arc::clone(driver.course()), Arc::clone(&driver.outset.shared));
    let outcome = match (driver.verifies(), driver.ledger.is_mixed() || driver.goes_on) {
        (true, _) => "verified",
        (false, false) => "draft",
        (false, true) => "handed_over",
    };
    shared.cascade.answered(&course.name, outcome);
    if let Some(judgement) = judgement {
        driver.change_ledger();
        shadow::begin(driver, Ask::Draft, Some(judgement), Target::Ask);
    }
}
