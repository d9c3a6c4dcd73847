//! Prompt tokenization in the gateway, for exact prefix look-ups.
//!
//! It pays when a worker publishes KV events: then the prompt's blocks are looked up exactly. Where the
//! model's tokenizer is not known here, a worker makes the tokens ([`RemoteTokens`]). Tokenizing runs on the blocking pool, for as many prompts at once as [`Tokenizers`] allows, with
//! the timeout [`PATIENCE`]; a request that finds no slot, times out or would take too much memory is
//! routed by its text, which costs a prefix hit and never an error.
//!
//! [`Tokenizers`]: crate::fleet::tokenizers::Tokenizers
//! [`RemoteTokens`]: crate::fleet::remote_tokens::RemoteTokens

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use overdraft_core::prefix::{Chunking, PrefixChain};
use overdraft_telemetry::unix_seconds;
use overdraft_tokenizer::Prompter;
use overdraft_units::{BlockSize, TokenId, Tokens};
use overdraft_wire::request::{TokenizeAsk, Truncation};
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
    let tokenizers = &pipeline.fleet.tokenizers;
    let parent = pipeline.fleet.models.parent(&info.model);
    let prompter = tokenizers
        .of(&info.model)
        .or_else(|| parent.as_deref().and_then(|base| tokenizers.of(base)));
    if prompter.is_none() && !tokenizers.are_at_workers(&info.model) {
        return;
    }
    // Whether they are wanted, the core must be asked, whose lock everybody wants.
    let Some(block) = wanted(pipeline, &info.model) else { return };
    let adapter = parent.map(|_| info.model.clone());
    let keys = Keys { tenant_salt: info.salt.clone(), adapter, block };
    let counted = match prompter {
        Some(prompter) => here(pipeline, prompter, body.clone(), generation, keys).await,
        None => at_worker(pipeline, info, body, generation, &keys).await,
    };
    if let Some((tokens, chain)) = counted {
        info.counted(tokens, chain, block);
    }
}

/// What a prompt's keys depend on besides its tokens.
struct Keys {
    tenant_salt: Option<String>,
    /// The adapter that it is computed with.
    adapter: Option<String>,
    block: BlockSize,
}

/// Tokenizes a prompt on the blocking pool.
async fn here(
    pipeline: &Pipeline,
    prompter: Arc<Prompter>,
    body: Bytes,
    generation: Generation,
    keys: Keys,
) -> Option<(Tokens, PrefixChain)> {
    let place = pipeline.fleet.tokenizers.place()?;
    let working = tokio::task::spawn_blocking(move || {
        // Held as long as the work goes on, whoever still waits for it.
        let _place = place;
        let prompts = prompter.prompts_of(&body, generation, unix_seconds()).ok()?;
        let (_, chain) = keys.chain(&RequestPeek::parse(&body).ok()?, prompts.first()?)?;
        let tokens = prompts.iter().map(Vec::len).sum::<usize>();
        Some((Tokens::new(u32::try_from(tokens).ok()?), chain))
    });
    // What takes too long goes on, and the next request finds its pieces.
    timeout(PATIENCE, working).await.ok()?.ok()?
}

/// Has a worker tokenize a prompt.
async fn at_worker(
    pipeline: &Pipeline,
    info: &RequestInfo,
    body: &Bytes,
    generation: Generation,
    keys: &Keys,
) -> Option<(Tokens, PrefixChain)> {
    let worker = pipeline.dispatcher.view().reporting(&info.model, info.dice)?;
    let upstream = pipeline.dispatcher.upstream(worker);
    let peek = RequestPeek::parse(body).ok()?;
    let truncation = Truncation::of(&peek.object)?;
    let ask = TokenizeAsk::of(&peek.object, generation, &info.model)?;
    let salt = keys.tenant_salt.as_deref().or(peek.cache_salt.as_deref());
    let tokens = pipeline.fleet.tokenizers.remote().of(&upstream, ask, salt).await?;
    let (tokens, chain) = match truncation {
        Truncation::Nothing => keys.chain(&peek, &tokens)?,
        truncation => keys.chain(&peek, &truncation.apply(tokens.to_vec())?)?,
    };
    // Others in a list are taken to be as long as the first.
    Some((Tokens::new(tokens.get().saturating_mul(peek.prompts)), chain))
}

impl Keys {
    /// How many tokens a prompt has, and the keys of its blocks.
    fn chain(&self, peek: &RequestPeek<'_>, tokens: &[TokenId]) -> Option<(Tokens, PrefixChain)> {
        let salt = self.tenant_salt.as_deref().or(peek.cache_salt.as_deref());
        let salt = salt_of_request(salt, self.adapter.as_deref());
        let mut chain = PrefixChain::new(salt, Chunking::Tokens(self.block));
        chain.push_tokens(tokens);
        Some((Tokens::new(u32::try_from(tokens.len()).ok()?), chain))
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
