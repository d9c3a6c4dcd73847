//! Worker life cycle: from its listener to its end.
//!
//! While the first requests may already come in, one of our own goes through the model; only then is
//! the worker healthy. Pages get touched, threads started, caches filled before anyone waits for it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use overdraft_engine::{ControlTokens, Event, Request, Sampling};
use overdraft_http::{Drained, Server};
use overdraft_units::{CacheSalt, Priority, TokenId, Tokens};
use tokio::net::TcpListener;

use crate::kv_share::KvShare;
use crate::routes::Routes;
use crate::settings::{Served, Settings};
use crate::worker::Worker;

/// What the warm-up says to the model.
const WARM_UP_TEXT: &str = "warm";

/// Tokens of the warm-up where its pace matters: as many as say something about it.
const WARM_UP_TOKENS: usize = 64;

/// The salt of the warm-up: no client's request finds its blocks.
const WARM_UP_SALT: CacheSalt = CacheSalt(u64::MAX);

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
