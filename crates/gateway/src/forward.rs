//! The path of one request: judge it, choose a worker, ask, and if that fails ask elsewhere.
//!
//! The body is read whole, looked into and sent on as it came, a few members aside. Which worker, and whether again, the
//! core says; this file carries the question there and the outcome back.
//!
//! Invariant: a retry happens only while nothing of an answer has reached the client.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, Uri};
use overdraft_core::admit::Priority;
use overdraft_core::fleet::Turn;
use overdraft_core::route::{GiveUp, Tried, Verdict};
use overdraft_http::{Body, Exchange, RequestBody};
use overdraft_telemetry::Delivery;
use overdraft_units::Micros;
use overdraft_wire::json::Patch;
use overdraft_wire::{ApiError, RequestPeek};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::attempt::{Attempted, Failed, Question, attempt};
use crate::cache::serve::{self as cache, Mark, Served};
use crate::content::{Content, Front, RANK};
use crate::fingerprint::Fingerprint;
use crate::isolation::SALT;
use crate::keys::{Caller, Charge};
use crate::refusal::{Refused, Retry};
use crate::shared::{Shared, Strictness};
use crate::tally::Tally;
use crate::trial::Side;
use crate::usage::Counts;
use crate::{admission, bounds, cascade, explain, keys, refusal, tokenizing, usage};

/// Where tokens are generated.
pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// Models that a refusal names at most.
const MODELS_NAMED_MAX: usize = 20;

/// What the answer's head tells of the request, once it is known.
#[derive(Debug, Default)]
struct Signature {
    caller: Option<Caller>,
    priority: Option<Priority>,
}

impl Signature {
    fn sign(&self, shared: &Shared, head: &mut HeaderMap) {
        if let Some(priority) = self.priority {
            refusal::tell_priority(head, priority);
        }
        if let Some((key, budget)) = self.caller.as_ref().and_then(Caller::budget) {
            let standing = shared.budgets.standing(key, budget, shared.clock.now());
            refusal::tell_standing(head, standing);
        }
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
    let mut signature = Signature::default();
    let asked = ask(shared, exchange, (&mut tally, &mut signature), (head, body), path);
    let mut response = asked.await.unwrap_or_else(|refused| {
        if let Some(reason) = refused.reason {
            let priority = signature.priority.unwrap_or_default();
            shared.admission.rejected(reason, priority.name());
        }
        refused.into_response()
    });
    signature.sign(shared, response.headers_mut());
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
    (tally, signature): (&mut Option<Tally>, &mut Signature),
    (head, body): (&Parts, RequestBody),
    path: &'static str,
) -> Result<Response<Body>, Refused> {
    let caller = &*signature.caller.insert(shared.keyring().identify(&head.headers)?);
    exchange.access.note(|record| record.tenant = caller.name());
    if !tally.as_mut().is_some_and(Tally::enter) {
        return Err(full("requests"));
    }
    let body = shared.intake.read(body).await?;
    let (mut print, content) = look(shared, exchange, (caller, head), (&body, path))?;
    signature.priority = Some(print.priority);
    // By the name that the client gave: the body's own may be the target's by now.
    let plan = cascade::consider(shared, (caller, &head.headers), (&body, path), &print)?;
    stand(tally, &print, plan.is_some());
    drop(body);
    exchange.access.note(|record| {
        record.model = Some(print.model.clone());
        record.delivery = print.delivery;
        record.priority = Some(print.priority.name());
    });
    if shared.routes().settings.names_prefixes && !print.is_chore {
        let named = print.beginnings();
        exchange.access.note(|record| (record.prompt_bytes, record.prefix) = named.unzip());
    }
    shared.admission.tenant_asked(print.caller.label(), print.priority.name());
    if print.delivery == Delivery::Streamed && !tally.as_mut().is_some_and(Tally::stream) {
        return Err(full("streams"));
    }
    let mark = if plan.is_some() {
        // Whose answer it gets is decided anew each time, and none is kept under the target's name.
        Mark::Nothing
    } else {
        let asking = cache::serve(shared, exchange, tally, (head, &content, path), &print);
        match asking.await? {
            Served::Answered(response) => return Ok(response),
            Served::Ask(mark) => mark,
        }
    };
    tokenizing::count(shared, &mut print, &content.body, path).await;
    bounds::check_prompt(shared, &print)?;
    if let Some(tally) = tally {
        tally.charge(charge(shared, &print)?);
    }
    let question = Question {
        content,
        path: Uri::from_static(path),
        request_id: HeaderValue::from_str(exchange.id.as_str())
            .expect("a request's name is printable"),
        head,
        begun: Instant::now(),
    };
    let mut explained =
        explain::is_wanted(&shared.settings().admin, exchange, &head.headers).then(Bytes::new);
    let (by, words) = ((exchange, &mut *tally), &mut explained);
    let answered = match plan {
        None => ask_until_answered(shared, by, &print, &question, words).await,
        Some(plan) => Box::pin(cascade::answer(shared, by, plan, (&print, &question), words)).await,
    };
    shared.intake.give_back(question.content.body);
    let mut response = answered.map_err(|refused| refused.explained(explained.clone()))?;
    mark.tell(&mut response);
    if let Some(words) = explained {
        explain::attach(response.headers_mut(), &words);
    }
    Ok(response)
}

/// Notes the side of a comparison that a request is on, if on any, and whether a cascade keeps its books.
fn stand(tally: &mut Option<Tally>, print: &Fingerprint, has_books: bool) {
    if let (Some(tally), Some(side)) = (tally, &print.side) {
        tally.stands_on(side, has_books);
    }
}

/// Takes what a request is expected to need from its key's budget, if that is limited.
pub(crate) fn charge(shared: &Shared, print: &Fingerprint) -> Result<Option<Charge>, Refused> {
    if print.caller.budget().is_none() {
        return Ok(None);
    }
    let (prompt, completion) = shared.router().expected(print.request());
    let tokens = prompt.get().saturating_add(completion.get());
    charge_for(shared, print, (prompt.get(), tokens))
}

/// The same for a request that needs no tokens of a worker.
pub(crate) fn charge_request(
    shared: &Shared,
    print: &Fingerprint,
) -> Result<Option<Charge>, Refused> {
    charge_for(shared, print, (0, 0))
}

fn charge_for(
    shared: &Shared,
    print: &Fingerprint,
    need: (u32, u32),
) -> Result<Option<Charge>, Refused> {
    let Some((key, budget)) = print.caller.budget() else { return Ok(None) };
    let (_, tokens) = need;
    let charged = Charge::new(&shared.budgets, (key, budget), need, shared.clock.now());
    charged.map(Some).map_err(|why| {
        let refused = Refused::for_budget(budget, tokens, why);
        shared.admission.budget_spent(print.caller.label(), refused.reason.unwrap_or_default());
        refused
    })
}

/// Looks into a request: what routing must know of it, and its body, changed where it names an alias
/// or says itself how workers should rank it. What it lacks is left to be put before it.
pub(crate) fn look(
    shared: &Shared,
    exchange: &Exchange,
    (caller, head): (&Caller, &Parts),
    (body, path): (&Bytes, &'static str),
) -> Result<(Fingerprint, Content), ApiError> {
    let peek = RequestPeek::parse(body)?;
    let settings = shared.settings();
    let routes = shared.routes();
    let named = peek.model.as_deref().or(settings.model_default.as_deref()).ok_or_else(|| {
        ApiError::invalid("model", "the request names no model; expected `model`: a string")
    })?;
    let priority = keys::urgency(caller, &head.headers, &peek)?;
    if !caller.may_ask(&routes, named) {
        return Err(unknown_model(shared, caller, routes.model_behind(named).unwrap_or(named)));
    }
    let dice = xxh3_64(exchange.id.as_str().as_bytes());
    let side = matches!(path, CHAT | COMPLETIONS).then(|| {
        let model = routes.model_behind(named).unwrap_or(named);
        shared.trials.side(named, || routes.session(model, &head.headers, &peek), dice)
    });
    let side = side.flatten();
    let asked = side.as_ref().map_or(named, Side::asks_for);
    let behind = routes.model_behind(asked);
    let model = behind.unwrap_or(asked).to_owned();
    let mut patch = Patch::new();
    if let Some(model) = behind.or((asked != named).then_some(asked)) {
        patch = patch.set("model", &model);
    }
    let stripped = settings.isolation.strip.iter().map(String::as_str);
    for name in stripped.chain([RANK]).filter(|name| peek.object.raw(name).is_some()) {
        patch = patch.remove(name);
    }
    let is_salted = peek.object.raw(SALT).is_some();
    let counts = matches!(path, CHAT | COMPLETIONS) && Counts::of(&peek) == Counts::KeptBack;
    let front = match () {
        () if is_salted || (counts && usage::has_options(&peek)) => Front::Unknown,
        () => Front::Open { counts },
    };
    if counts && front == Front::Unknown {
        patch = usage::asked(patch, &peek);
    }
    let generates = matches!(path, CHAT | COMPLETIONS);
    let bounds = settings.limits.of_request;
    let most = if generates { bounds.answer(&peek)? } else { None };
    if let Some(most) = most {
        patch = patch.set("max_tokens", &most);
    }
    let patched = (!patch.is_empty()).then(|| patch.apply(&peek.object).into());
    let session = routes.session(&model, &head.headers, &peek);
    let print = match path {
        CHAT | COMPLETIONS => {
            let salt = shared.salts().salt(caller, peek.cache_salt.as_deref());
            Fingerprint::of_text(&routes, model, (&peek, salt), (session, dice))
        }
        _ => Fingerprint::of_chore(model, &peek, (session, dice)),
    };
    let body = patched.unwrap_or_else(|| body.clone());
    let mut print = print.of(caller.clone(), priority, path);
    print.side = side;
    print.limit = print.limit.or(most);
    Ok((print, Content { body, front }))
}

/// Asks one worker after the other, as the core says.
pub(crate) async fn ask_until_answered(
    shared: &Arc<Shared>,
    (exchange, tally): (&Exchange, &mut Option<Tally>),
    print: &Fingerprint,
    question: &Question<'_>,
    explained: &mut Option<Bytes>,
) -> Result<Response<Body>, Refused> {
    let mut tried = Tried::default();
    let mut said: Option<Failed> = None;
    let mut lease = admission::place(shared, exchange, print, explained).await?;
    loop {
        let worker = lease.worker();
        match attempt(shared, exchange, print, question, (lease, &mut *tally)).await {
            Attempted::Answered(response) => {
                if response.status().is_success() {
                    shared.refuted(&tried);
                }
                return Ok(response);
            }
            Attempted::Failed(failed) => {
                shared.metrics.upstream_failed(failed.kind());
                tracing::debug!(request = %exchange.id, worker = shared.upstream(worker).name(),
                    failure = ?failed.failure, "attempt failed");
                let verdict = shared.failed(&print.model, &mut tried, (worker, failed.failure));
                let strictness = Strictness::after(failed.failure);
                if verdict == Verdict::GiveUp(GiveUp::Agreed) {
                    return Ok(failed.into_verdict(exchange));
                }
                let failed = failed.or_better(said.take());
                if let Verdict::GiveUp(_) = verdict {
                    return Ok(failed.into_response(exchange));
                }
                let again = (&tried, Turn::Again);
                match shared.choose(print, again, strictness, explained) {
                    Ok(other) => lease = other,
                    Err(_) => return Ok(failed.into_response(exchange)),
                }
                said = Some(failed);
                shared.metrics.retried();
            }
        }
    }
}

/// Names the models that could have been asked for by `caller`.
pub(crate) fn unknown_model(shared: &Shared, caller: &Caller, model: &str) -> ApiError {
    let mut error = ApiError::model_not_found(model);
    let routes = shared.routes();
    let router = shared.router();
    let known = router.fleet().models().filter(|known| caller.may_ask(&routes, known));
    let known: Vec<&str> = known.take(MODELS_NAMED_MAX).collect();
    if !known.is_empty() {
        error.message = format!("{}; known models: `{}`", error.message, known.join("`, `"));
    }
    error
}

/// Too much is in flight. 429 and not 503: others are being served.
fn full(what: &'static str) -> Refused {
    let error = ApiError::rate_limited(format!(
        "the gateway has as many {what} in flight as it may; try again in a moment"
    ));
    Refused::for_room(error, what, Retry::After(Micros::ZERO))
}
