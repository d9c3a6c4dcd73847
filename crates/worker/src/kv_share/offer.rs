//! KV block server: streams the blocks of a prefix to a peer.
//!
//! It copies a few megabytes out between two steps, sends them, and then copies the next: decodes
//! are hardly delayed, and a slow reader holds up no request. If a block is evicted meanwhile, the
//! response breaks off.

use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use overdraft_engine::{BlockPrefix, EngineHandle};
use overdraft_http::{Body, BoxError, RequestBody, read_body, reply};
use overdraft_wire::kv_blocks::{
    BLOCKS_HEADER, BLOCKS_PATH, BlockKey, BlocksAsk, BlocksOffer, FORMAT, write_envelope,
};
use overdraft_wire::{ApiError, ErrorKind};
use tokio::sync::OwnedSemaphorePermit;

use super::KvShare;
use crate::worker::Worker;

const BLOCKS: HeaderName = HeaderName::from_static(BLOCKS_HEADER);
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// What this worker's blocks are like.
pub(crate) fn describe(worker: &Worker, headers: &HeaderMap) -> Result<Response<Body>, ApiError> {
    let share = offering(worker, headers)?;
    let offer = BlocksOffer {
        format: FORMAT,
        model: share.0.model.to_string(),
        block_size: share.0.block_size.get(),
        block_bytes: u64::try_from(share.0.block_bytes).unwrap_or(u64::MAX),
    };
    let document = serde_json::to_vec(&offer).expect("numbers and texts can be written");
    Ok(reply::json(StatusCode::OK, document))
}

/// The blocks of a prefix that this worker has.
pub(crate) async fn blocks(
    worker: &Worker,
    headers: &HeaderMap,
    body: RequestBody,
) -> Result<Response<Body>, ApiError> {
    let share = offering(worker, headers)?;
    let ask = BlocksAsk::parse(&read_body(body).await?)
        .map_err(|error| ApiError::new(ErrorKind::InvalidRequest, error.to_string()))?;
    if ask.model != share.0.model {
        return Ok(other_model(share, &ask));
    }
    let Some(salt) = share.0.roots.salt_of(ask.root) else { return Ok(answer(0, Body::empty())) };
    let prefix = BlockPrefix { salt, tokens: Arc::from(ask.tokens.as_slice()) };
    // Who wants none asks how many there are. That copies nothing, so it takes no place from those
    // who fetch; the listener bounds how many ask.
    if ask.blocks.is_empty() {
        let leading = leading(worker, &prefix).await?;
        return Ok(answer(leading.saturating_sub(ask.blocks.start), Body::empty()));
    }
    let permit = Arc::clone(&share.0.offers).try_acquire_owned().map_err(|_| busy())?;
    let (first, end) = (ask.blocks.start, leading(worker, &prefix).await?.min(ask.blocks.end));
    let keys = ask.root.keys(&ask.tokens, share.0.block_size);
    let keys: Vec<BlockKey> = keys.take(end).skip(first).collect();
    let (share, engine) = (share.clone(), worker.engine.clone());
    let count = keys.len();
    let giving = Giving { share, engine, prefix, first, keys, given: 0, _permit: permit };
    Ok(answer(count, Body::unfold(giving, Giving::step)))
}

/// How much of a prefix is in the cache.
async fn leading(worker: &Worker, prefix: &BlockPrefix) -> Result<usize, ApiError> {
    let leading = worker.engine.leading_blocks(prefix.clone()).await;
    leading.map_err(|error| ApiError::overloaded(error.to_string()))
}

/// An answer being sent.
struct Giving {
    share: KvShare,
    engine: EngineHandle,
    prefix: BlockPrefix,
    /// Number of the first block in its prefix.
    first: usize,
    keys: Vec<BlockKey>,
    /// Blocks that are on their way already.
    given: usize,
    _permit: OwnedSemaphorePermit,
}

impl Giving {
    /// As many blocks as the engine gives at once.
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        let rest = &self.keys[self.given..];
        if rest.is_empty() {
            return Ok(None);
        }
        let pages = self.first + self.given..self.first + self.keys.len();
        let blocks = self.engine.export_blocks(self.prefix.clone(), pages).await?;
        if blocks.is_empty() {
            return Err("the rest was evicted".into());
        }
        let mut out = Vec::new();
        let mut bytes = 0;
        for (key, block) in rest.iter().zip(&blocks) {
            write_envelope(*key, block, &mut out);
            bytes += u64::try_from(block.len()).unwrap_or(0);
        }
        self.share.0.metrics.offered(u64::try_from(blocks.len()).unwrap_or(0), bytes);
        self.given += blocks.len();
        Ok(Some((Bytes::from(out), self)))
    }
}

/// The worker's share, if it offers it to the sender of these.
fn offering<'a>(worker: &'a Worker, headers: &HeaderMap) -> Result<&'a KvShare, ApiError> {
    let share = worker.kv_share.as_ref().filter(|share| share.0.settings.offers);
    let share = share.ok_or_else(|| {
        let message = format!(
            "`{BLOCKS_PATH}` is not served here; start the worker with `--kv-share listen`"
        );
        ApiError::new(ErrorKind::NotFound, message)
    })?;
    let said = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let said = said.and_then(|said| said.strip_prefix("Bearer ")).unwrap_or_default();
    if !same(said.as_bytes(), share.0.settings.token.as_bytes()) {
        let message = "no token of this fleet was sent; expected the one of `--kv-share-token`";
        return Err(ApiError::new(ErrorKind::InvalidApiKey, message));
    }
    Ok(share)
}

/// Takes as long whichever letter is the first wrong one.
fn same(one: &[u8], other: &[u8]) -> bool {
    let different = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && different == 0
}

fn answer(blocks: usize, body: Body) -> Response<Body> {
    let mut response = reply::document(OCTETS, Bytes::new());
    response.headers_mut().insert(BLOCKS, HeaderValue::from(blocks));
    *response.body_mut() = body;
    response
}

fn other_model(share: &KvShare, ask: &BlocksAsk) -> Response<Body> {
    let (asked, model) = (ask.model, share.0.model);
    let message = format!(
        "`{asked}` is another model's digest; expected {model}: the same weights, number format and \
         block size"
    );
    let mut response = reply::error(&ApiError::new(ErrorKind::InvalidRequest, message));
    *response.status_mut() = StatusCode::CONFLICT;
    response
}

fn busy() -> ApiError {
    ApiError::overloaded("too many peers are given blocks already; compute them, or come again")
}
