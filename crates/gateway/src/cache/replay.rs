//! Replay: serves a cached answer in the form that the request asks for, whole or streamed.

use bytes::Bytes;
use http::header::AGE;
use http::{HeaderValue, Response, StatusCode};
use overdraft_http::{Body, reply};
use overdraft_wire::request::StreamUsage;
use overdraft_wire::response::replay;

use super::entry::{Entry, Kept};
use super::request::{Form, mark};

/// The answer in `form`; `None` where it cannot be told so, which is as good as a miss.
pub(crate) fn told(entry: &Entry, form: Form) -> Option<Bytes> {
    let answer = entry.answer()?;
    let told = match (entry.kept, form) {
        (Kept::Whole, Form::Whole) | (Kept::Events, Form::EventsWithUsage) => answer,
        (Kept::Events, Form::Events) => replay::without_usage(&answer),
        (Kept::Events, Form::Whole) => replay::whole_of(&answer)?,
        (Kept::Whole, Form::Events) => replay::events_of(&answer, StreamUsage::Never)?,
        (Kept::Whole, Form::EventsWithUsage) => replay::events_of(&answer, StreamUsage::Last)?,
    };
    Some(told.into())
}

/// A response that says that nobody was asked.
pub(crate) fn response(told: Bytes, form: Form, entry: &Entry, now_ms: u64) -> Response<Body> {
    let mut response = match form {
        Form::Whole => reply::json(StatusCode::OK, told),
        // In one piece, and yet a stream: without a length.
        Form::Events | Form::EventsWithUsage => {
            let step = |left: Option<Bytes>| async move { Ok(left.map(|told| (told, None))) };
            reply::event_stream(Body::unfold(Some(told), step))
        }
    };
    mark(response.headers_mut(), "HIT");
    response.headers_mut().insert(AGE, HeaderValue::from(entry.age(now_ms).as_secs()));
    response
}
