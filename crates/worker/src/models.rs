//! `/v1/models`: the model list of a worker, with its aliases.

use http::{Response, StatusCode};
use overdraft_http::{Body, reply};
use overdraft_wire::ApiError;
use overdraft_wire::response::to_json;
use percent_encoding::percent_decode_str;

use crate::worker::Worker;

/// All names.
pub(crate) fn list(worker: &Worker) -> Response<Body> {
    reply::json(StatusCode::OK, to_json(&worker.models()))
}

/// One name, as it stands in a path.
pub(crate) fn one(worker: &Worker, name: &str) -> Result<Response<Body>, ApiError> {
    let card = worker.model(&percent_decode_str(name).decode_utf8_lossy())?;
    Ok(reply::json(StatusCode::OK, to_json(&card)))
}
