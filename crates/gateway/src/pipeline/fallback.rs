//! Fallback: another model is asked where nobody can serve the one that was asked for.
//!
//! Off unless a model names others. Only before the first token, only for causes that are not the client's or for a
//! prompt that is too long for the model, and told in `x-overdraft-served-by`. One model's words are never put behind
//! another's.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use overdraft_http::Body;
use overdraft_telemetry::Ender;
use overdraft_wire::ErrorKind;
use overdraft_wire::json::{Object, Patch};

use super::attempts::ask_until_answered;
use super::context::RequestContext;
use super::facts::FALLBACK;
use super::failed_attempt::TooLong;
use super::question::Question;
use super::refusal::Refused;
use super::request_info::{RequestInfo, Work};
use super::upstream_body::Content;
use super::{Pipeline, bounds, prompt_tokens, resume};

const SERVED_BY: HeaderName = HeaderName::from_static("x-overdraft-served-by");

/// Asks the workers of the model that was asked for, then those of the models that it names.
///
/// # Errors
/// [`Refused`] as the model itself is refused.
pub(crate) async fn ask(
    pipeline: &Arc<Pipeline>,
    context: &mut RequestContext<'_>,
    info: &RequestInfo,
    question: &Question<'_>,
) -> Result<Response<Body>, Refused> {
    let first = ask_until_answered(pipeline, context, info, question).await;
    if !may_be_served(&first) {
        return first;
    }
    let end = context.facts.known().end;
    for model in others(pipeline, info, question) {
        // Whoever failed has not ended the request yet: another model may answer it whole.
        context.note(|record| record.end.ender = Ender::Nobody);
        // In boxes: another model is seldom asked.
        let put = Box::pin(put_to(pipeline, context, info, question, &model));
        let Some((info, mut question)) = put.await else { continue };
        context.continuation = None;
        if resume::is_wanted(&context.head.headers).unwrap_or(false) {
            resume::prepare(pipeline, context, &info, &mut question);
        }
        let asked = Box::pin(ask_until_answered(pipeline, context, &info, &question));
        let mut answered = asked.await;
        if may_be_served(&answered) {
            continue;
        }
        pipeline.requests.fell_back(&info.model);
        context.note(|record| {
            (record.served_by, record.stand_in) = (Some(FALLBACK), Some(model.clone()));
        });
        if let (Ok(response), Ok(name)) = (&mut answered, HeaderValue::from_str(&model)) {
            response.headers_mut().insert(SERVED_BY, name);
        }
        return answered;
    }
    // The client is told what the model itself came to.
    context.note(|record| record.end = end);
    first
}

/// Whether another model may serve it: there is no answer for none of the client's doing, or for a long prompt alone.
fn may_be_served(answered: &Result<Response<Body>, Refused>) -> bool {
    let (status, is_too_long) = match answered {
        Ok(response) => {
            (response.status().as_u16(), response.extensions().get::<TooLong>().is_some())
        }
        Err(refused) => {
            let kind = refused.error.kind;
            (kind.status(), kind == ErrorKind::ContextLengthExceeded)
        }
    };
    status == 429 || 500 <= status || is_too_long
}

/// The models that may stand in, where the answer is not to be a certain model's.
fn others(pipeline: &Pipeline, info: &RequestInfo, question: &Question<'_>) -> Vec<String> {
    let routes = pipeline.routes();
    let named = routes.settings.models.get(&info.model).map(|own| own.fallback.as_slice());
    let named = named.unwrap_or_default();
    // What came in a dialect of its own says nothing to the workers of others.
    let is_passed = question.endpoint.is_some_and(|endpoint| endpoint.dialect().is_some());
    if named.is_empty() || info.work != Work::Generation || is_passed {
        return Vec::new();
    }
    let object = Object::parse(&question.content.body);
    let is_seeded = object.is_ok_and(|object| object.raw("seed").is_some_and(|raw| raw != "null"));
    let may_ask = |model: &&String| !is_seeded && info.caller.may_ask(&routes, model);
    named.iter().filter(may_ask).cloned().collect()
}

/// The same request for another model; nothing where it is too long for that one.
async fn put_to<'a>(
    pipeline: &Arc<Pipeline>,
    context: &RequestContext<'_>,
    info: &RequestInfo,
    question: &Question<'a>,
    model: &str,
) -> Option<(RequestInfo, Question<'a>)> {
    let object = Object::parse(&question.content.body).ok()?;
    let body = Bytes::from(Patch::new().set("model", &model).apply(&object));
    let routes = Arc::clone(&pipeline.routes());
    let mut info = info.of_draft(&routes, model, &body, context.endpoint);
    prompt_tokens::count(pipeline, &mut info, &body, context.endpoint).await;
    bounds::check_prompt(pipeline, &info).ok()?;
    let content = Content { body, front: question.content.front, tracked: None };
    let (path, request_id) = (question.path.clone(), question.request_id.clone());
    let Question { endpoint, head, begun, .. } = *question;
    let trace = question.trace.clone();
    Some((info, Question { content, path, endpoint, request_id, head, begun, trace }))
}
