//! Which tokens is a prompt, where that is worth knowing?
//!
//! It is when a worker reports its cache by tokens: then the prompt's blocks are looked up exactly.
//! Tokenising runs on the blocking pool, at most [`TOKENISING_MAX`] prompts at once, and is given
//! [`PATIENCE`]; a request that finds no place or takes longer is routed by its text, which costs a
//! hit and never an error. The tokenizer is the one in the configured folder, or the worker's own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use overdraft_core::fleet::WorkerId;
use overdraft_core::prefix::{Chunking, PrefixChain};
use overdraft_telemetry::unix_seconds;
use overdraft_tokenizer::{PieceCache, Prompter, Surface, TOKENIZER_DOCUMENT_BYTES_MAX};
use overdraft_units::{BlockSize, TokenId, Tokens};
use overdraft_wire::RequestPeek;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use crate::fetch::fetch;
use crate::fingerprint::Fingerprint;
use crate::kv_events::salt_of_request;
use crate::routes::{Routes, TokenizerPlace, Tokenizing};
use crate::shared::Shared;
use crate::upstream::Upstream;

/// Prompts that are tokenised at once; the next one is routed by its text.
const TOKENISING_MAX: usize = 8;

/// How long a request waits for its tokens.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a worker may take to hand its tokenizer out.
const FETCH_PATIENCE: Duration = Duration::from_secs(10);

/// Models whose tokenizers are kept.
const MODELS_MAX: usize = 64;

/// Workers that are asked for one model's tokenizer at most.
const ASKED_MAX: usize = 8;

/// Tokens to a block where prompts are tokenised though nobody reports.
const BLOCK_GUESS: BlockSize = BlockSize::new(16).expect("16 is not zero");

const SOURCE: &str = "/tokenizer_source";

/// The tokenizers that are known.
#[derive(Debug)]
pub(crate) struct Tokenizers {
    pieces: Arc<PieceCache>,
    places: Arc<Semaphore>,
    known: Mutex<BTreeMap<String, Known>>,
    ask: mpsc::Sender<Wanted>,
    /// Until whoever studies has taken it.
    asked: Mutex<Option<mpsc::Receiver<Wanted>>>,
}

/// What is known of one model's tokenizer.
#[derive(Clone, Debug)]
enum Known {
    /// This is it.
    Here(Arc<Prompter>),
    /// None of these workers had it.
    Nowhere(Vec<WorkerId>),
}

impl Default for Tokenizers {
    fn default() -> Self {
        let (ask, asked) = mpsc::channel(MODELS_MAX);
        Self {
            pieces: Arc::new(PieceCache::default()),
            places: Arc::new(Semaphore::new(TOKENISING_MAX)),
            known: Mutex::default(),
            ask,
            asked: Mutex::new(Some(asked)),
        }
    }
}

impl Tokenizers {
    /// Forgets what was known; other places may be configured now.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }

    /// `worker` serves these models: where nobody has looked for a tokenizer yet, somebody will.
    pub(crate) fn wonder(
        &self,
        worker: WorkerId,
        models: &[String],
        upstream: impl Fn() -> Arc<Upstream>,
    ) {
        let mut known = self.known();
        for model in models.iter().take(MODELS_MAX) {
            if MODELS_MAX <= known.len() && !known.contains_key(model) {
                continue;
            }
            let entry = known.entry(model.clone());
            let Known::Nowhere(asked) = entry.or_insert_with(|| Known::Nowhere(Vec::new())) else {
                continue;
            };
            if asked.contains(&worker) || ASKED_MAX <= asked.len() {
                continue;
            }
            let (model, upstream) = (model.clone(), upstream());
            if self.ask.try_send(Wanted { upstream, model }).is_ok() {
                asked.push(worker);
            }
        }
    }

    fn take_wanted(&self) -> Option<mpsc::Receiver<Wanted>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the cache of pieces holds and has done.
    pub(crate) fn pieces(&self) -> &PieceCache {
        &self.pieces
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, model: &str) -> Option<Arc<Prompter>> {
        match self.known().get(model) {
            Some(Known::Here(prompter)) => Some(Arc::clone(prompter)),
            Some(Known::Nowhere(_)) | None => None,
        }
    }

    fn note(&self, model: &str, found: Known) {
        let mut known = self.known();
        if known.len() < MODELS_MAX || known.contains_key(model) {
            known.insert(model.to_owned(), found);
        }
    }
}

/// A model whose tokenizer is wanted, and a worker that serves it.
#[derive(Debug)]
struct Wanted {
    upstream: Arc<Upstream>,
    model: String,
}

/// Looks for the tokenizers that are wanted, one after the other; the keeper owns this.
pub(crate) async fn study(shared: Arc<Shared>) {
    let Some(mut wanted) = shared.tokenizers.take_wanted() else { return };
    while let Some(Wanted { upstream, model }) = wanted.recv().await {
        let routes = Arc::clone(&shared.routes());
        let found = find(&shared, &routes, &upstream, &model).await;
        // What was found under settings that are no more may be another's by now.
        if let Some(prompter) = found
            && Arc::ptr_eq(&routes, &shared.routes())
        {
            shared.tokenizers.note(&model, Known::Here(prompter));
        }
    }
}

async fn find(
    shared: &Arc<Shared>,
    routes: &Routes,
    upstream: &Arc<Upstream>,
    model: &str,
) -> Option<Arc<Prompter>> {
    if routes.settings.tokenizing == Tokenizing::Never {
        return None;
    }
    let pieces = Arc::clone(&shared.tokenizers.pieces);
    let opening = match routes.tokenizer(model) {
        TokenizerPlace::Off => return None,
        TokenizerPlace::Folder(path) => {
            tokio::task::spawn_blocking(move || Prompter::from_folder(&path, pieces))
        }
        TokenizerPlace::Worker => {
            let fetching = fetch(upstream, SOURCE, TOKENIZER_DOCUMENT_BYTES_MAX);
            let (status, document) = timeout(FETCH_PATIENCE, fetching).await.ok()?.ok()?;
            if status != StatusCode::OK {
                return None;
            }
            tokio::task::spawn_blocking(move || Prompter::from_document(&document, pieces))
        }
    };
    match opening.await.ok()? {
        Ok(prompter) => {
            tracing::info!(model, "its tokenizer is known");
            Some(Arc::new(prompter))
        }
        Err(error) => {
            tracing::warn!(model, %error, "its tokenizer cannot be used; prompts are estimated");
            None
        }
    }
}

/// Replaces a request's text by its tokens, where they are wanted and can be had in time.
pub(crate) async fn count(
    shared: &Arc<Shared>,
    print: &mut Fingerprint,
    body: &Bytes,
    path: &'static str,
) {
    let Some(surface) = surface(path) else { return };
    // Whether they are wanted, the core must be asked, whose lock everybody wants.
    let Some(prompter) = shared.tokenizers.of(&print.model) else { return };
    let Some(block) = wanted(shared, &print.model) else { return };
    let Ok(place) = Arc::clone(&shared.tokenizers.places).try_acquire_owned() else { return };
    let (body, salt) = (body.clone(), print.salt.clone());
    let working = tokio::task::spawn_blocking(move || {
        // Held as long as the work goes on, whoever still waits for it.
        let _place = place;
        chain(&prompter, (&body, salt.as_deref()), surface, block)
    });
    // What takes too long goes on, and the next request finds its pieces.
    if let Ok(Ok(Some((tokens, chain)))) = timeout(PATIENCE, working).await {
        print.counted(tokens, chain, block);
    }
}

/// What tokenises prompts to `model`, if that is known.
pub(crate) fn prompter(shared: &Shared, model: &str) -> Option<Arc<Prompter>> {
    shared.tokenizers.of(model)
}

/// The tokens of a request's prompt, where its model's tokenizer is known and has a moment.
pub(crate) async fn tokens(
    shared: &Arc<Shared>,
    model: &str,
    body: &Bytes,
    path: &'static str,
) -> Option<Vec<TokenId>> {
    let surface = surface(path)?;
    let prompter = prompter(shared, model)?;
    let place = Arc::clone(&shared.tokenizers.places).try_acquire_owned().ok()?;
    let body = body.clone();
    let working = tokio::task::spawn_blocking(move || {
        let _place = place;
        prompter.prompt_of(&body, surface, unix_seconds()).ok()
    });
    working.await.ok().flatten()
}

/// What kind of prompts are sent to `path`.
fn surface(path: &'static str) -> Option<Surface> {
    match path {
        "/v1/chat/completions" => Some(Surface::Chat),
        "/v1/completions" => Some(Surface::Completion),
        _ => None,
    }
}

/// The size of the blocks that prompts for `model` are to be cut into, if they are.
fn wanted(shared: &Shared, model: &str) -> Option<BlockSize> {
    let routes = shared.routes();
    if !routes.asks_for_prefixes(model) {
        return None;
    }
    let reported = || shared.router().reported_block(model);
    match routes.settings.tokenizing {
        Tokenizing::Never => None,
        Tokenizing::Auto => reported(),
        Tokenizing::Always => reported().or(Some(BLOCK_GUESS)),
    }
}

/// A prompt's tokens, and the keys of its blocks under the request's salt.
fn chain(
    prompter: &Prompter,
    (body, tenant_salt): (&[u8], Option<&str>),
    surface: Surface,
    block: BlockSize,
) -> Option<(Tokens, PrefixChain)> {
    let tokens = prompter.prompt_of(body, surface, unix_seconds()).ok()?;
    let peek = RequestPeek::parse(body).ok()?;
    let salt = salt_of_request(tenant_salt.or(peek.cache_salt.as_deref()), None);
    let mut chain = PrefixChain::new(salt, Chunking::Tokens(block));
    chain.push_tokens(&tokens);
    Some((Tokens::new(u32::try_from(tokens.len()).unwrap_or(u32::MAX)), chain))
}
