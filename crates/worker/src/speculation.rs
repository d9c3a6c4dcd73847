//! Speculation admin endpoint: shows acceptance and sets policy and depth at run time.
//!
//! `GET /admin/speculation` returns the speculation part of `/health`; `POST` sets the rule, the
//! depth or both, from the next step on, and is for operators. **Invariant:** a change applies
//! whole or is refused whole.

use http::{HeaderMap, Response, StatusCode};
use overdraft_engine::{GuessError, Policy};
use overdraft_http::{Body, Exchange, is_operator, reply};
use overdraft_wire::{ApiError, ErrorKind};
use serde_json::{Value, json};

use crate::worker::Worker;

/// The state of speculation as JSON.
pub(crate) fn state(worker: &Worker) -> Response<Body> {
    reply::json(StatusCode::OK, told(worker).to_string())
}

/// Whether the sender is an operator.
pub(crate) fn check(
    worker: &Worker,
    exchange: &Exchange,
    head: &HeaderMap,
) -> Result<(), ApiError> {
    if is_operator(worker.admin_token.as_deref(), exchange, head) {
        return Ok(());
    }
    let why = "orders are for operators; expected the token of `--admin-token` as \
               `authorization: Bearer …`, or, where none is set, a request over the loopback interface";
    Err(ApiError::new(ErrorKind::PermissionDenied, why.to_owned()))
}

/// Sets the rule by a body such as `{"policy":"fixed:3","max_depth":4}`; what is missing stays.
pub(crate) fn set(worker: &Worker, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let Ok(Value::Object(asked)) = serde_json::from_slice(body) else {
        let message =
            "the body is not a JSON object; expected `{\"policy\":\"goodput\",\"max_depth\":4}`";
        return Err(ApiError::invalid("body", message));
    };
    let known = |name: &&String| *name == "policy" || *name == "max_depth";
    if let Some(name) = asked.keys().find(|name| !known(name)) {
        let message = format!("`{name}` is not known; expected `policy` and `max_depth`");
        return Err(ApiError::invalid(name.as_str(), message));
    }
    let policy = match asked.get("policy") {
        None => None,
        Some(Value::String(text)) => Some(
            text.parse::<Policy>()
                .map_err(|error| ApiError::invalid("policy", error.to_string()))?,
        ),
        Some(other) => {
            let message = format!("`{other}` is not a policy; expected a string such as `goodput`");
            return Err(ApiError::invalid("policy", message));
        }
    };
    let depth = match asked.get("max_depth") {
        None => None,
        Some(value) => Some(depth(value)?),
    };
    if policy.is_none() && depth.is_none() {
        return Err(ApiError::invalid(
            "policy",
            "nothing is asked for; expected `policy` or `max_depth`",
        ));
    }
    let obeyed = worker.engine.set_speculation(policy, depth);
    obeyed.map_err(|error| match error {
        GuessError::Depth { .. } => ApiError::invalid("max_depth", error.to_string()),
        GuessError::Busy => ApiError::overloaded(error.to_string()),
        _ => ApiError::invalid("policy", error.to_string()),
    })?;
    Ok(json!({ "accepted": true, "in_force": "from the next step on" }).to_string().into_bytes())
}

fn depth(value: &Value) -> Result<usize, ApiError> {
    let depth = value.as_u64().and_then(|depth| usize::try_from(depth).ok());
    depth.ok_or_else(|| {
        let message = format!("`{value}` is not a depth; expected a whole number from 1 on");
        ApiError::invalid("max_depth", message)
    })
}

/// Accepted of drafted tokens of late, as `vllm_spec_acceptance_rate` tells it; none where nothing was drafted.
pub(crate) fn acceptance(worker: &Worker) -> Option<f64> {
    worker.metrics.acceptance(&worker.engine.stats(), worker.clock.now())
}

/// The state as JSON.
pub(crate) fn told(worker: &Worker) -> Value {
    let stats = worker.engine.stats().speculation;
    if !stats.enabled {
        return json!({ "enabled": false });
    }
    json!({
        "enabled": true,
        "policy": stats.policy,
        "depth": stats.depth,
        "max_depth": stats.depth_max,
        "last_change": stats.reason.name(),
        "mean_acceptance": acceptance(worker),
        "tokens_per_step": stats.tokens_per_step(),
        "drafts": stats.drafts,
        "draft_tokens": stats.draft_tokens,
        "accepted_tokens": stats.accepted_tokens,
    })
}
