//! `/v1/models`: the model list of a worker, with its aliases.

use http::{Response, StatusCode};
use overdraft_http::{Body, reply};
use overdraft_wire::ApiError;
use overdraft_wire::response::to_json;

use crate::worker::Worker;

/// All names.
pub(crate) fn list(worker: &Worker) -> Response<Body> {
    reply::json(StatusCode::OK, to_json(&worker.models()))
}

/// One name, as it stands in a path.
pub(crate) fn one(worker: &Worker, name: &str) -> Result<Response<Body>, ApiError> {
    let card = worker.model(&percent_decoded(name))?;
    Ok(reply::json(StatusCode::OK, to_json(&card)))
}

/// `%2F` to `/`; what is no escape stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%')
            .then(|| after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
