//! Prompt tokenization in the gateway, for exact prefix look-ups.
//!
//! It pays when a worker publishes KV events: then the prompt's blocks are looked up exactly.
//! Tokenizing runs on the blocking pool, for as many prompts at once as [`Tokenizers`] allows, with
//! the timeout [`PATIENCE`]; a request that finds no slot or times out is routed by its text, which
//! costs a prefix hit and never an error.
//!
//! [`Tokenizers`]: crate::fleet::tokenizers::Tokenizers

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use overdraft_core::prefix::{Chunking, PrefixChain};
use overdraft_telemetry::unix_seconds;
use overdraft_tokenizer::Prompter;
use overdraft_units::{BlockSize, TokenId, Tokens};
use overdraft_wire::{Endpoint, Generation, RequestPeek};
use tokio::time::timeout;

use super::Pipeline;
use super::request_info::RequestInfo;
use crate::fleet::kv_events::salt_of_request;
use crate::settings::Tokenizing;

/// How long a request waits for its tokens.
const PATIENCE: Duration = Duration::from_millis(50);

/// Tokens to a block where prompts are tokenised though nobody reports.
const BLOCK_GUESS: BlockSize = BlockSize::new(16).expect("16 is not zero");

/// Replaces a request's text by its tokens, where they are wanted and can be had in time.
pub(crate) async fn count(
    pipeline: &Arc<Pipeline>,
    info: &mut RequestInfo,
    body: &Bytes,
    endpoint: Endpoint,
) {
    let Some(generation) = countable(endpoint) else { return };
    // Whether they are wanted, the core must be asked, whose lock everybody wants.
    let Some(prompter) = pipeline.fleet.tokenizers.of(&info.model) else { return };
    let Some(block) = wanted(pipeline, &info.model) else { return };
    let Some(place) = pipeline.fleet.tokenizers.place() else { return };
    let (body, salt) = (body.clone(), info.salt.clone());
    let working = tokio::task::spawn_blocking(move || {
        // Held as long as the work goes on, whoever still waits for it.
        let _place = place;
        chain(&prompter, &body, salt.as_deref(), generation, block)
    });
    // What takes too long goes on, and the next request finds its pieces.
    if let Ok(Ok(Some((tokens, chain)))) = timeout(PATIENCE, working).await {
        info.counted(tokens, chain, block);
    }
}

/// What tokenises prompts to `model`, if that is known.
pub(crate) fn prompter(pipeline: &Pipeline, model: &str) -> Option<Arc<Prompter>> {
    pipeline.fleet.tokenizers.of(model)
}

/// The tokens of a request's prompt, where its model's tokenizer is known and has a moment.
pub(crate) async fn tokens(
    pipeline: &Arc<Pipeline>,
    model: &str,
    body: &Bytes,
    endpoint: Endpoint,
) -> Option<Vec<TokenId>> {
    let generation = countable(endpoint)?;
    let prompter = prompter(pipeline, model)?;
    let place = pipeline.fleet.tokenizers.place()?;
    let body = body.clone();
    let working = tokio::task::spawn_blocking(move || {
        let _place = place;
        prompter.prompt_of(&body, generation, unix_seconds()).ok()
    });
    working.await.ok().flatten()
}

/// What an endpoint generates, where the tokens of its prompts can be counted.
const fn countable(endpoint: Endpoint) -> Option<Generation> {
    if endpoint.counts_tokens() { endpoint.generation() } else { None }
}

/// The size of the blocks that prompts for `model` are to be cut into, if they are.
fn wanted(pipeline: &Pipeline, model: &str) -> Option<BlockSize> {
    let routes = pipeline.routes();
    if !routes.asks_for_prefixes(model) {
        return None;
    }
    let reported = || pipeline.dispatcher.view().reported_block(model);
    match routes.settings.tokenizing {
        Tokenizing::Never => None,
        Tokenizing::Auto => reported(),
        Tokenizing::Always => reported().or(Some(BLOCK_GUESS)),
    }
}

/// A prompt's tokens, and the keys of its blocks under the request's salt.
fn chain(
    prompter: &Prompter,
    body: &[u8],
    tenant_salt: Option<&str>,
    generation: Generation,
    block: BlockSize,
) -> Option<(Tokens, PrefixChain)> {
    let tokens = prompter.prompt_of(body, generation, unix_seconds()).ok()?;
    let peek = RequestPeek::parse(body).ok()?;
    let salt = salt_of_request(tenant_salt.or(peek.cache_salt.as_deref()), None);
    let mut chain = PrefixChain::new(salt, Chunking::Tokens(block));
    chain.push_tokens(&tokens);
    Some((Tokens::new(u32::try_from(tokens.len()).unwrap_or(u32::MAX)), chain))
}
