//! Inspection of a request: what the pipeline must know of it, and what of its body is changed.
//!
//! The body is scanned once and forwarded unchanged, except for a few members.

use bytes::Bytes;
use overdraft_wire::json::Patch;
use overdraft_wire::{ApiError, RequestPeek};
use xxhash_rust::xxh3::xxh3_64;

use super::canary::Side;
use super::context::RequestContext;
use super::keys::{self, Caller};
use super::request_info::{Asking, RequestInfo};
use super::tenant_salt::SALT;
use super::upstream_body::{Content, Front, RANK};
use super::usage::{self, Counts};
use super::{Pipeline, bounds};

/// Models that a refusal names at most.
const MODELS_NAMED_MAX: usize = 20;

/// Looks into a request: what routing must know of it, and its body, changed where it names an alias
/// or says itself how workers should rank it. What it lacks is left to be put before it.
pub(crate) fn inspect(
    pipeline: &Pipeline,
    context: &RequestContext<'_>,
    caller: &Caller,
    body: &Bytes,
) -> Result<(RequestInfo, Content), ApiError> {
    let (head, endpoint) = (context.head, context.endpoint);
    let peek = RequestPeek::parse(body)?;
    let settings = pipeline.settings();
    let routes = pipeline.routes();
    let named = peek.model.as_deref().or(settings.model_default.as_deref()).ok_or_else(|| {
        ApiError::invalid("model", "the request names no model; expected `model`: a string")
    })?;
    let priority = keys::urgency(caller, &head.headers, &peek)?;
    if !caller.may_ask(&routes, named) {
        return Err(unknown_model(pipeline, caller, routes.model_behind(named).unwrap_or(named)));
    }
    let dice = xxh3_64(context.exchange.id.as_str().as_bytes());
    let side = endpoint.generates().then(|| {
        let model = routes.model_behind(named).unwrap_or(named);
        pipeline.canaries.side(named, || routes.session(model, &head.headers, &peek), dice)
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
    let counts = endpoint.streams() && Counts::of(&peek) == Counts::KeptBack;
    // Where the client has options of its own, the worker must know them anyway.
    let has_options = counts && usage::has_options(&peek);
    if has_options {
        patch = usage::asked(patch, &peek);
    }
    let counts = counts && !has_options;
    let front = if is_salted { Front::Unknown { counts } } else { Front::Open { counts } };
    let limits = settings.limits.of_request;
    let most = if endpoint.generates() { bounds::answer(limits, &peek)? } else { None };
    if let Some(most) = most {
        patch = patch.set("max_tokens", &most);
    }
    let patched = (!patch.is_empty()).then(|| patch.apply(&peek.object).into());
    let session = routes.session(&model, &head.headers, &peek);
    let asking = Asking { model, session, dice };
    let info = if endpoint.generates() {
        let salt = pipeline.salts().salt(caller, peek.cache_salt.as_deref());
        RequestInfo::of_text(&routes, asking, &peek, salt)
    } else if endpoint.read_members().is_empty() {
        RequestInfo::of_chore(asking, &peek)
    } else {
        RequestInfo::of_reading(asking, &peek, endpoint.read_members())
    };
    let body = patched.unwrap_or_else(|| body.clone());
    let mut info = info.of(caller.clone(), priority, endpoint);
    info.side = side;
    info.limit = info.limit.or(most);
    Ok((info, Content { body, front, tracked: None }))
}

/// Names the models that could have been asked for by `caller`.
pub(crate) fn unknown_model(pipeline: &Pipeline, caller: &Caller, model: &str) -> ApiError {
    let mut error = ApiError::model_not_found(model);
    let routes = pipeline.routes();
    let router = pipeline.dispatcher.view();
    let known = router.fleet().models().filter(|known| caller.may_ask(&routes, known));
    let known: Vec<&str> = known.take(MODELS_NAMED_MAX).collect();
    if !known.is_empty() {
        error.message = format!("{}; known models: `{}`", error.message, known.join("`, `"));
    }
    error
}
