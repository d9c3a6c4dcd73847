//! Tokenizers of the workers' models: found in the configured folder, or asked of a worker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use overdraft_core::fleet::WorkerId;
use overdraft_tokenizer::{PieceCache, Prompter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::remote_tokens::RemoteTokens;
use crate::upstream::Upstream;

/// Prompts that are tokenised at once; the next one is routed by its text.
const TOKENISING_MAX: usize = 8;

/// Models whose tokenizers are kept.
const MODELS_MAX: usize = 64;

/// Workers that are asked for one model's tokenizer at most.
const ASKED_MAX: usize = 8;

/// The tokenizers that are known.
#[derive(Debug)]
pub(crate) struct Tokenizers {
    pieces: Arc<PieceCache>,
    places: Arc<Semaphore>,
    known: Mutex<BTreeMap<String, Known>>,
    remote: RemoteTokens,
    ask: mpsc::Sender<Wanted>,
    /// Until the task that looks for them has taken it.
    asked: Mutex<Option<mpsc::Receiver<Wanted>>>,
}

/// What is known of one model's tokenizer.
#[derive(Clone, Debug)]
enum Known {
    /// This is it.
    Here(Arc<Prompter>),
    /// None of these workers has handed it out so far.
    Nowhere(Vec<WorkerId>),
    /// Nor did one of these when it was asked; workers make the tokens themselves.
    AtWorkers(Vec<WorkerId>),
}

impl Default for Tokenizers {
    fn default() -> Self {
        let (ask, asked) = mpsc::channel(MODELS_MAX);
        Self {
            pieces: Arc::new(PieceCache::default()),
            places: Arc::new(Semaphore::new(TOKENISING_MAX)),
            known: Mutex::default(),
            remote: RemoteTokens::default(),
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

    /// The process behind `worker` is gone: whoever comes back may have tokenizers that it had not.
    pub(crate) fn gone(&self, worker: WorkerId) {
        for known in self.known().values_mut() {
            if let Known::Nowhere(asked) = known {
                asked.retain(|asked| *asked != worker);
            }
        }
    }

    /// `worker` serves these models: where nobody has looked for a tokenizer yet, somebody will.
    pub(crate) fn look_for(
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
            let entry = entry.or_insert_with(|| Known::Nowhere(Vec::new()));
            let (Known::Nowhere(asked) | Known::AtWorkers(asked)) = entry else { continue };
            if asked.contains(&worker) || ASKED_MAX <= asked.len() {
                continue;
            }
            let (model, upstream) = (model.clone(), upstream());
            if self.ask.try_send(Wanted { upstream, model }).is_ok() {
                asked.push(worker);
            }
        }
    }

    pub(super) fn take_wanted(&self) -> Option<mpsc::Receiver<Wanted>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the cache of pieces holds and has done.
    pub(crate) fn pieces(&self) -> &Arc<PieceCache> {
        &self.pieces
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place among the prompts that are tokenised now, if there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// What tokenises prompts to `model`, if that is known.
    pub(crate) fn of(&self, model: &str) -> Option<Arc<Prompter>> {
        match self.known().get(model) {
            Some(Known::Here(prompter)) => Some(Arc::clone(prompter)),
            Some(Known::Nowhere(_) | Known::AtWorkers(_)) | None => None,
        }
    }

    /// Whether the workers of `model` have to be asked for the tokens of its prompts.
    pub(crate) fn are_at_workers(&self, model: &str) -> bool {
        matches!(self.known().get(model), Some(Known::AtWorkers(_)))
    }

    /// Tokens that workers made.
    pub(crate) const fn remote(&self) -> &RemoteTokens {
        &self.remote
    }

    /// A worker was asked for the tokenizer of `model`, and did not hand out one that can be used.
    pub(super) fn not_handed_out(&self, model: &str) {
        if let Some(known) = self.known().get_mut(model)
            && let Known::Nowhere(asked) = known
        {
            tracing::info!(
                model,
                "prompts of the model are tokenised by its workers where they report their caches"
            );
            *known = Known::AtWorkers(std::mem::take(asked));
        }
    }

    /// This is the tokenizer of `model`.
    pub(super) fn found(&self, model: &str, prompter: Arc<Prompter>) {
        let mut known = self.known();
        if known.len() < MODELS_MAX || known.contains_key(model) {
            known.insert(model.to_owned(), Known::Here(prompter));
        }
    }
}

/// A model whose tokenizer is wanted, and a worker that serves it.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) upstream: Arc<Upstream>,
    pub(super) model: String,
}
