//! Token counts: `/v1/messages/count_tokens` and `/v1/responses/input_tokens`, without an answer.
//!
//! The gateway's own tokenizer of the model counts where there is one, else the worker's `/tokenize`, else the
//! prompt's length is divided by the usual bytes of a token. Images have a fixed price, for no tokenizer of
//! text sees them.

use std::sync::Arc;

use http::{Response, StatusCode};
use overdraft_http::{Body, RequestBody, reply};
use overdraft_wire::dialect::{Prompt, messages};
use overdraft_wire::{ApiError, Endpoint};
use serde::Deserialize;

use super::super::Gateway;
use super::answer::{collect, tell_left_out};
use super::asking::{self, Asking, Incoming};
use super::responses;
use crate::pipeline::prompt_tokens;

/// What an image counts, about as much as Anthropic charges for one of a usual size.
const IMAGE_TOKENS: u64 = 1_500;

/// Bytes of a prompt's JSON to a token, where nobody counts.
const TOKEN_BYTES: usize = 4;

/// Answers `/v1/messages/count_tokens`.
pub(super) async fn of_messages(
    gateway: &Arc<Gateway>,
    incoming: Incoming,
    body: RequestBody,
) -> Response<Body> {
    let (asking, body) = match asking::read(gateway, incoming, body).await {
        Ok(read) => read,
        Err(refused) => return refused,
    };
    let prompt = messages::prompt(&body);
    drop(body);
    count(gateway, asking, prompt, |tokens| format!(r#"{{"input_tokens":{tokens}}}"#)).await
}

/// Answers `/v1/responses/input_tokens`.
pub(super) async fn of_responses(
    gateway: &Arc<Gateway>,
    incoming: Incoming,
    body: RequestBody,
) -> Response<Body> {
    let (asking, body) = match asking::read(gateway, incoming, body).await {
        Ok(read) => read,
        Err(refused) => return refused,
    };
    let prompt = responses::prompt(gateway, &asking, &body).await;
    drop(body);
    let told = |tokens| format!(r#"{{"object":"response.input_tokens","input_tokens":{tokens}}}"#);
    count(gateway, asking, prompt, told).await
}

/// Answers with the number of tokens, as `object` tells it.
async fn count(
    gateway: &Arc<Gateway>,
    asking: Asking,
    prompt: Result<Prompt, ApiError>,
    object: impl Fn(u64) -> String,
) -> Response<Body> {
    let checked = match prompt {
        Ok(prompt) => asking.known_model(prompt.model.as_deref()).await.map(|()| prompt),
        Err(error) => Err(error),
    };
    let request = match checked {
        Ok(request) => request,
        Err(error) => return asking.refuse(&error),
    };
    let id = asking.incoming.exchange.id.clone();
    let images = u64::try_from(request.images).unwrap_or(u64::MAX).saturating_mul(IMAGE_TOKENS);
    let prompt = request.chat.body;
    let told = |tokens: u64| reply::json(StatusCode::OK, object(tokens.saturating_add(images)));
    let model = model_of(gateway, request.model);
    let own = match own_count(gateway, &model, &prompt).await {
        None if gateway.uncounted.has(&model) => Some(estimate(&prompt)),
        own => own,
    };
    let mut response = if let Some(tokens) = own {
        asking.incoming.answer_with(told(tokens))
    } else {
        let guess = estimate(&prompt);
        let counted = worker_count(asking, prompt).await;
        if counted.is_none() {
            gateway.uncounted.note(&model);
        }
        told(counted.unwrap_or(guess))
    };
    tell_left_out(response.headers_mut(), &request.chat.left_out, &id);
    response
}

/// The model that is meant.
fn model_of(gateway: &Gateway, named: Option<String>) -> String {
    let pipeline = &gateway.pipeline;
    let named = named.or_else(|| pipeline.settings().model_default.clone()).unwrap_or_default();
    pipeline.routes().model_behind(&named).map(str::to_owned).unwrap_or(named)
}

/// By the gateway's tokenizer of the model.
async fn own_count(gateway: &Arc<Gateway>, model: &str, prompt: &[u8]) -> Option<u64> {
    let prompt = prompt.to_vec().into();
    let endpoint = Endpoint::ChatCompletions;
    let tokens = prompt_tokens::tokens(&gateway.pipeline, model, &prompt, endpoint).await?;
    u64::try_from(tokens.len()).ok()
}

/// By the length of the prompt.
fn estimate(prompt: &[u8]) -> u64 {
    u64::try_from(prompt.len() / TOKEN_BYTES).unwrap_or(u64::MAX).max(1)
}

/// By the worker's `/tokenize`; none where it has no such thing.
async fn worker_count(asking: Asking, prompt: Vec<u8>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Tokenized {
        count: u64,
    }
    let response = asking.ask(prompt, Endpoint::Tokenize).await;
    if !response.status().is_success() {
        return None;
    }
    let answer = collect(response.into_body()).await.ok()?;
    serde_json::from_slice::<Tokenized>(&answer).ok().map(|tokenized| tokenized.count)
}
