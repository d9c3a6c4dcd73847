//! Fallback: another model is asked where nobody can serve the one that was asked for.
//!
//! Off unless a model names others. Only before the first token, only for causes that are not the client's, and
//! told in `x-overdraft-served-by`. One model's words are never put behind another's.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use overdraft_http::Body;
use overdraft_wire::json::{Object, Patch};

use super::attempt::Question;
use super::attempts::ask_until_answered;
use super::context::RequestContext;
use super::refusal::Refused;
use super::request_info::{RequestInfo, Work};
use super::upstream_body::Content;
use super::{Pipeline, bounds, prompt_tokens, resume};

const SERVED_BY: HeaderName = HeaderName::from_static("x-overdraft-served-by");

/// How the access line calls an answer of another model.
const FALLBACK: &str = "fallback";

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
    if !is_ours(&first) {
        return first;
    }
    for model in others(pipeline, info, question) {
        let Some((info, mut question)) = put_to(pipeline, context, info, question, &model).await
        else {
            continue;
        };
        context.continuation = None;
        if resume::is_wanted(&context.head.headers).unwrap_or(false) {
            resume::prepare(pipeline, context, &info, &mut question);
        }
        // In a box: it is seldom asked.
        let asked = Box::pin(ask_until_answered(pipeline, context, &info, &question));
        let mut answered = asked.await;
        if is_ours(&answered) {
            continue;
        }
        pipeline.requests.fell_back(&info.model);
        context.note(|record| record.served_by = Some(FALLBACK));
        if let (Ok(response), Ok(name)) = (&mut answered, HeaderValue::from_str(&model)) {
            response.headers_mut().insert(SERVED_BY, name);
        }
        return answered;
    }
    first
}

/// Whether it is for none of the client's doing that there is no answer.
fn is_ours(answered: &Result<Response<Body>, Refused>) -> bool {
    let status = match answered {
        Ok(response) => response.status().as_u16(),
        Err(refused) => refused.error.kind.status(),
    };
    status == 429 || 500 <= status
}

/// The models that may stand in, where the answer is not to be a certain model's.
fn others(pipeline: &Pipeline, info: &RequestInfo, question: &Question<'_>) -> Vec<String> {
    let routes = pipeline.routes();
    let named = routes.settings.models.get(&info.model).map(|own| own.fallback.as_slice());
    let named = named.unwrap_or_default();
    if named.is_empty() || info.work != Work::Generation {
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
