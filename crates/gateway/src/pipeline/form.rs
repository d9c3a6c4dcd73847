//! Inspection of a form (`multipart/form-data`): what the pipeline must know of it, and which of its parts are changed.
//!
//! A form is judged by the same fields as JSON. It goes on as it came, but for the name of its model where that is an
//! alias, and for fields that end here; what is changed is cut out of the one buffer that it was read into.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use overdraft_core::estimate::Media;
use overdraft_wire::form::{Boundary, Form};
use overdraft_wire::request::file_tokens;
use overdraft_wire::{ApiError, RequestPeek};

use super::Pipeline;
use super::context::RequestContext;
use super::inspect::Subject;
use super::keys::Caller;
use super::request_info::{FormContent, RequestInfo};
use super::tenant_salt::SALT;
use super::upstream_body::{Content, Front, RANK};

/// What a form's parts are divided by, where the request is one and its endpoint takes such.
///
/// # Errors
/// 400 where the content type announces a form and is none that can be read.
pub(super) fn boundary(context: &RequestContext<'_>) -> Result<Option<Boundary>, ApiError> {
    if !context.endpoint.takes_forms() {
        return Ok(None);
    }
    let mut values = context.head.headers.get_all(CONTENT_TYPE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        let why = "the request has more than one `content-type`; expected one";
        return Err(ApiError::invalid("content-type", why));
    }
    Ok(Boundary::of(value.as_bytes())?)
}

/// Looks into a form.
///
/// # Errors
/// 400 where it is none, or lacks the name of a model; else as a request in JSON is refused.
pub(super) fn inspect(
    pipeline: &Pipeline,
    context: &RequestContext<'_>,
    caller: &Caller,
    body: &Bytes,
    boundary: &Boundary,
) -> Result<(RequestInfo, Content), ApiError> {
    let settings = pipeline.settings();
    let form = Form::parse(body, boundary)?;
    let members = form.members()?;
    let peek = RequestPeek::parse(members.as_bytes())?;
    if peek.model.is_none() && settings.model_default.is_none() {
        let why = "the form has no part `model`; expected one with the name of a model";
        return Err(ApiError::invalid("model", why));
    }
    let subject = Subject::of(pipeline, context, caller, &peek)?;
    let stripped = &settings.isolation.strip;
    let ends_here =
        |name: &str| name == RANK || name == SALT || stripped.iter().any(|own| own == name);
    let edited = form.edited(body, subject.renamed(), ends_here);
    let (text_bytes, files) = size(&form);
    let content_type = context.head.headers[CONTENT_TYPE].clone();
    let Subject { asking, priority, named, .. } = subject;
    let info = RequestInfo::of_form(asking, &peek, text_bytes, files);
    let mut info = info.of(caller.clone(), priority, context.endpoint);
    info.form = Some(Box::new(FormContent { content_type, edited }));
    info.named = named;
    let front = Front::Unknown { counts: false };
    Ok((info, Content { body: body.clone(), front, tracked: None }))
}

/// Bytes of its fields, and what its files are likely to come to.
fn size(form: &Form<'_>) -> (u64, Media) {
    let (mut text_bytes, mut files) = (0_u64, Media::default());
    for part in form.parts() {
        if part.is_file {
            files.parts = files.parts.saturating_add(1);
            files.guessed = files.guessed.saturating_add(file_tokens(form.value(part)));
        } else {
            text_bytes = text_bytes.saturating_add(part.value.len() as u64);
        }
    }
    (text_bytes, files)
}
