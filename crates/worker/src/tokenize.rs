//! `/tokenize` and `/detokenize`: the model's tokenizer for those who have none, and
//! `/tokenizer_source` for those who want one.

use http::{Response, StatusCode};
use overdraft_engine::{Framing, SpecialTokens};
use overdraft_http::{Body, reply};
use overdraft_telemetry::unix_seconds;
use overdraft_tokenizer::{Chat, PromptBound, UNCUT_BYTES_MAX};
use overdraft_units::{CacheSalt, TokenId};
use overdraft_wire::request::TokenizeInput;
use overdraft_wire::response::{DetokenizeResponse, TokenizeResponse, to_json};
use overdraft_wire::{ApiError, DetokenizeRequest, TokenizeRequest};

use crate::worker::Worker;

/// Pieces of these texts are shared with requests that bring no salt.
const UNSALTED: CacheSalt = CacheSalt(0);

/// The tokens of a prompt or a chat.
pub(crate) fn tokenize(worker: &Worker, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let request = TokenizeRequest::parse(body)?;
    worker.check_model(request.model.as_deref())?;
    let tokenizer = &worker.tokenizer;
    // What would not fit the context is counted as well.
    let bound = PromptBound { tokens: worker.context(), uncut_bytes: UNCUT_BYTES_MAX };
    let prompter = worker.prompter.clone().within(bound);
    let rendering = &request.rendering;
    let tokens = match &request.input {
        TokenizeInput::Prompt(text) => {
            let framing = Framing::from_flag(rendering.add_special_tokens);
            let tokens = prompter.prompt(text, framing, UNSALTED);
            tokens.map_err(|error| ApiError::from(error).with_param("prompt"))?
        }
        TokenizeInput::Messages { messages, tools } => {
            let chat = Chat { messages, tools, rendering };
            prompter.chat(&chat, UNSALTED, unix_seconds())?
        }
    };
    let texts = |tokens: &[TokenId]| {
        tokens.iter().map(|&token| tokenizer.token_text(token).into_owned()).collect()
    };
    Ok(to_json(&TokenizeResponse {
        count: tokens.len(),
        max_model_len: worker.context().get(),
        token_strs: request.return_token_strs.then(|| texts(&tokens)),
        tokens: tokens.iter().map(|token| token.0).collect(),
    }))
}

/// The text of tokens.
pub(crate) fn detokenize(worker: &Worker, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let request = DetokenizeRequest::parse(body)?;
    worker.check_model(request.model.as_deref())?;
    let tokenizer = &worker.tokenizer;
    let known = |token: &TokenId| {
        usize::try_from(token.0).is_ok_and(|place| place < tokenizer.vocabulary())
    };
    if let Some(token) = request.tokens.iter().find(|token| !known(token)) {
        let message = format!(
            "`{}` is not a token of this model; expected less than {}",
            token.0,
            tokenizer.vocabulary()
        );
        return Err(ApiError::invalid("tokens", message));
    }
    let prompt = tokenizer.decode(&request.tokens, SpecialTokens::Keep);
    Ok(to_json(&DetokenizeResponse { prompt }))
}

/// The tokenizer and the chat template themselves.
pub(crate) fn source(worker: &Worker) -> Response<Body> {
    reply::json(StatusCode::OK, worker.document.json().clone())
}
