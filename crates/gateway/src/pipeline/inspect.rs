//! Inspection of a request: what the pipeline must know of it, and what of its body is changed.
//!
//! The body is scanned once and forwarded unchanged, except for a few members.

use bytes::Bytes;
use overdraft_core::admit::Priority;
use overdraft_telemetry::Delivery;
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
use super::{Pipeline, bounds, form};

/// Models that a refusal names at most.
const MODELS_NAMED_MAX: usize = 20;

/// Bytes of a model's name at most: the log of requests keeps the names of thousands, also of models that nobody serves.
pub(crate) const MODEL_BYTES_MAX: usize = 512;

/// Looks into a request: what routing must know of it, and its body, changed where it names an alias
/// or says itself how workers should rank it. What it lacks is left to be put before it.
pub(crate) fn inspect(
    pipeline: &Pipeline,
    context: &RequestContext<'_>,
    caller: &Caller,
    body: &Bytes,
) -> Result<(RequestInfo, Content), ApiError> {
    let endpoint = context.endpoint;
    if let Some(boundary) = form::boundary(context)? {
        return form::inspect(pipeline, context, caller, body, &boundary);
    }
    let peek = RequestPeek::parse(body)?;
    let settings = pipeline.settings();
    let routes = pipeline.routes();
    let subject = Subject::of(pipeline, context, caller, &peek)?;
    let mut patch = Patch::new();
    if let Some(model) = subject.renamed() {
        patch = patch.set("model", &model);
    }
    let stripped = settings.isolation.strip.iter().map(String::as_str);
    // Where no salt of the gateway's own takes its place, a tenant's ends here: it might be another tenant's.
    let ends_here = (!endpoint.takes_salt() && !caller.is_nobody()).then_some(SALT);
    let stripped = stripped.chain([RANK]).chain(ends_here);
    for name in stripped.filter(|name| peek.object.raw(name).is_some()) {
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
    let Subject { asking, priority, side, named } = subject;
    let salt = || pipeline.salts().salt(caller, peek.cache_salt.as_deref());
    let salt = endpoint.takes_salt().then(salt).flatten();
    let info = if endpoint.generates() {
        RequestInfo::of_text(&routes, asking, &peek, salt)
    } else if endpoint.read_members().is_empty() {
        RequestInfo::of_chore(asking, &peek)
    } else {
        RequestInfo::of_reading(asking, &peek, endpoint.read_members(), salt)
    };
    let body = patched.unwrap_or_else(|| body.clone());
    let mut info = info.of(caller.clone(), priority, endpoint);
    if endpoint.streams_bytes() {
        info.delivery = Delivery::Whole;
    }
    (info.side, info.named) = (side, named);
    info.limit = info.limit.or(most);
    Ok((info, Content { body, front, tracked: None }))
}

/// The model that a request is for, and how urgent it is.
pub(super) struct Subject {
    pub(super) asking: Asking,
    pub(super) priority: Priority,
    /// The side of a comparison that it is on, where it is part of one.
    side: Option<Side>,
    /// The name that the client gave, where its worker must be told another.
    pub(super) named: Option<String>,
}

impl Subject {
    /// What a request asks for, where `caller` may.
    ///
    /// # Errors
    /// Where it names no model, one with too long a name or that `caller` may not ask for, or a priority that does not
    /// exist.
    pub(super) fn of(
        pipeline: &Pipeline,
        context: &RequestContext<'_>,
        caller: &Caller,
        peek: &RequestPeek<'_>,
    ) -> Result<Self, ApiError> {
        let head = &context.head.headers;
        let (settings, routes) = (pipeline.settings(), pipeline.routes());
        let named = peek.model.as_deref().or(settings.model_default.as_deref());
        let named = named.ok_or_else(|| {
            ApiError::invalid("model", "the request names no model; expected `model`: a string")
        })?;
        check_name(named)?;
        let priority = keys::urgency(caller, head, peek)?;
        if !caller.may_ask(&routes, named) {
            return Err(unknown_model(pipeline, caller, named));
        }
        let dice = xxh3_64(context.exchange.id.as_str().as_bytes());
        let behind = routes.model_behind(named).unwrap_or(named);
        let session = |model: &str| routes.session(model, head, peek);
        let side = context.endpoint.generation().is_some();
        let side = side.then(|| pipeline.canaries.side(named, || session(behind), dice)).flatten();
        let asked = side.as_ref().map_or(named, Side::asks_for);
        let model = routes.model_behind(asked).unwrap_or(asked).to_owned();
        let (session, named) = (session(&model), (model != named).then(|| named.to_owned()));
        Ok(Self { asking: Asking { model, session, dice }, priority, side, named })
    }

    /// The name that its worker must be told instead of the client's.
    pub(super) fn renamed(&self) -> Option<&str> {
        self.named.as_ref().map(|_| self.asking.model.as_str())
    }
}

/// Refuses a name that is longer than any model's.
///
/// # Errors
/// Where it has more than [`MODEL_BYTES_MAX`] bytes.
pub(crate) fn check_name(model: &str) -> Result<(), ApiError> {
    if model.len() <= MODEL_BYTES_MAX {
        return Ok(());
    }
    let bytes = model.len();
    let message = format!(
        "`model` has {bytes} bytes; expected the name of a model, of at most {MODEL_BYTES_MAX} \
         bytes; GET /v1/models lists them"
    );
    Err(ApiError::invalid("model", message))
}

/// Names the models that could have been asked for by `caller`, who asked for the one that it calls `named`: the model
/// behind an alias is none of its business.
pub(crate) fn unknown_model(pipeline: &Pipeline, caller: &Caller, named: &str) -> ApiError {
    let mut error = ApiError::model_not_found(named);
    let routes = pipeline.routes();
    let router = pipeline.dispatcher.view();
    let known = router.fleet().models().filter(|known| caller.may_ask(&routes, known));
    let known: Vec<&str> = known.take(MODELS_NAMED_MAX).collect();
    if !known.is_empty() {
        error.message = format!("{}; known models: `{}`", error.message, known.join("`, `"));
    }
    error
}
