//! A worker from its listener to its end.
//!
//! While the first requests may already come in, one of our own goes through the model; only then is
//! the worker healthy. Pages get touched, threads started, caches filled before anyone waits for it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use overdraft_engine::{
    ChatTemplate, ControlTokens, EngineHandle, Event, Request, Sampling, Tokenizer,
};
use overdraft_http::{Drained, Limits, Server};
use overdraft_telemetry::Clock;
use overdraft_tokenizer::{PIECE_CACHE_BYTES, TokenizerDocument};
use overdraft_units::{CacheSalt, Priority, TokenId, Tokens};
use tokio::net::TcpListener;

use crate::kv_events::KvEvents;
use crate::kv_share::KvShare;
use crate::metrics::EngineMetrics;
use crate::mishap::MishapSettings;
use crate::routes::Routes;
use crate::worker::Worker;

/// Large requests parsed and tokenized at once.
const PREPARE_AT_ONCE: usize = 2;

/// What the warm-up says to the model.
const WARM_UP_TEXT: &str = "warm";

/// Tokens of the warm-up where its pace matters: as many as say something about it.
const WARM_UP_TOKENS: usize = 64;

/// The salt of the warm-up: no client's request finds its blocks.
const WARM_UP_SALT: CacheSalt = CacheSalt(u64::MAX);

/// The model that a worker serves.
#[derive(Clone, Debug)]
pub struct Served {
    /// The engine that computes it.
    pub engine: EngineHandle,
    /// Its tokenizer, the one the engine was started with.
    pub tokenizer: Arc<Tokenizer>,
    /// Its chat template.
    pub template: Arc<ChatTemplate>,
    /// Both, for others who make the same prompts.
    pub document: TokenizerDocument,
    /// Names that requests may use, at least one; answers carry the first.
    pub names: Vec<String>,
    /// Where it was loaded from, for `/v1/models`.
    pub root: Option<String>,
    /// The metrics whose observer the engine was started with.
    pub metrics: EngineMetrics,
    /// The events whose observer the engine was started with, where they are published.
    pub kv_events: Option<KvEvents>,
    /// The blocks it shares, whose observer the engine was started with.
    pub kv_share: Option<KvShare>,
}

/// How a worker serves.
#[derive(Clone)]
pub struct Settings {
    /// The listener's bounds.
    pub limits: Limits,
    /// The process's clock.
    pub clock: Clock,
    /// Large requests parsed and tokenized at once, beside the threads that serve.
    pub prepare_at_once: usize,
    /// Bytes of tokenized pieces of prompts that are remembered at most.
    pub piece_cache_bytes: usize,
    /// Which requests go wrong on purpose; `None` is none.
    pub mishaps: Option<MishapSettings>,
    /// Whoever presents this as a bearer token may give orders. Without one, whoever comes over the
    /// loopback interface.
    pub admin_token: Option<String>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.admin_token.as_ref().map(|_| "…");
        let mut fields = out.debug_struct("Settings");
        fields.field("limits", &self.limits).field("prepare_at_once", &self.prepare_at_once);
        fields.field("piece_cache_bytes", &self.piece_cache_bytes).field("admin_token", &token);
        fields.finish_non_exhaustive()
    }
}

impl Settings {
    /// The defaults.
    pub fn new(clock: Clock) -> Self {
        Self {
            limits: Limits::default(),
            clock,
            prepare_at_once: PREPARE_AT_ONCE,
            piece_cache_bytes: PIECE_CACHE_BYTES,
            mishaps: None,
            admin_token: None,
        }
    }
}

/// Serves until `shutdown` resolves, then lets requests finish for as long as the limits say.
/// Dropping the future stops everything at once.
pub async fn run(
    listener: TcpListener,
    served: Served,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) -> Drained {
    let worker = Arc::new(Worker::new(served, &settings));
    let server = Server::new(settings.limits, settings.clock);
    let serving = server.serve(listener, Arc::new(Routes(Arc::clone(&worker))), shutdown);
    let mut serving = pin!(serving);
    tokio::select! {
        biased;
        drained = &mut serving => return drained,
        () = warm_up(&worker) => {}
    }
    serving.await
}

async fn warm_up(worker: &Worker) {
    let result = one_completion(worker).await;
    if let Err(reason) = &result {
        tracing::error!(%reason, "the model failed its warm-up");
    }
    worker.metrics.begin(&worker.engine.stats());
    worker.warm.get_or_init(|| result);
}

/// Half of what a request may have.
fn length_max(worker: &Worker) -> usize {
    usize::try_from(worker.context().get() / 2).unwrap_or(1).max(1)
}

async fn one_completion(worker: &Worker) -> Result<(), String> {
    let mut prompt = worker.tokenizer.encode(WARM_UP_TEXT, ControlTokens::AsText);
    if prompt.is_empty() {
        prompt.push(TokenId(0));
    }
    prompt.truncate(1);
    if worker.kv_share.as_ref().is_some_and(KvShare::fetches) {
        // How long a prompt takes is to be known before the first choice between that and fetching.
        prompt = prompt.repeat(WARM_UP_TOKENS.min(length_max(worker)));
    }
    let sampling = Sampling { temperature: 0.0, max_tokens: Tokens::new(2), ..Sampling::default() };
    let request = Request {
        prompt,
        sampling,
        salt: WARM_UP_SALT,
        priority: Priority(0),
        prompt_logprobs: None,
    };
    let mut stream = worker.engine.submit(request).await.map_err(|error| error.to_string())?;
    loop {
        match stream.recv().await {
            Some(Event::Finished { .. }) => return Ok(()),
            Some(Event::Failed(reason)) => return Err(reason),
            Some(_) => {}
            None => return Err("the engine has stopped".to_owned()),
        }
    }
}
