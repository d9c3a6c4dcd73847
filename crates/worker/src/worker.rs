//! Worker state shared by all its requests.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use overdraft_engine::{EngineHandle, Tokenizer};
use overdraft_telemetry::{AccessWriter, Clock, unix_seconds};
use overdraft_tokenizer::{PieceCache, PromptBound, Prompter, TokenizerDocument};
use overdraft_units::{CacheSalt, Tokens};
use overdraft_wire::ApiError;
use overdraft_wire::response::{ModelCard, ModelList};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::fault_injection::FaultInjector;
use crate::kv_events::KvEvents;
use crate::kv_share::KvShare;
use crate::metrics::EngineMetrics;
use crate::parse_pool::ParsePool;
use crate::settings::{Served, Settings};

/// One model, its engine and its names.
pub(crate) struct Worker {
    pub(crate) engine: EngineHandle,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// Makes the prompts, with that tokenizer; what cannot fit the context is not tokenized.
    pub(crate) prompter: Prompter,
    pub(crate) document: TokenizerDocument,
    pub(crate) metrics: EngineMetrics,
    pub(crate) kv_events: Option<KvEvents>,
    pub(crate) kv_share: Option<KvShare>,
    pub(crate) clock: Clock,
    pub(crate) parse_pool: ParsePool,
    pub(crate) admin_token: Option<String>,
    pub(crate) access_writer: AccessWriter,
    pub(crate) load: Load,
    /// What befalls requests, where some are to go wrong.
    pub(crate) fault_injection: Option<FaultInjector>,
    /// Filled once the warm-up is over: with a reason if the model failed it.
    pub(crate) warm: OnceLock<Result<(), String>>,
    names: Vec<String>,
    root: Option<String>,
    created: u64,
    salt_seed: u64,
}

impl Worker {
    pub(crate) fn new(served: Served, settings: &Settings) -> Self {
        let pieces = Arc::new(PieceCache::new(settings.piece_cache_bytes));
        let tokenizer = served.tokenizer;
        let fits = PromptBound { tokens: served.engine.context(), uncut_bytes: 0 };
        let prompter = Prompter::new(Arc::clone(&tokenizer), served.template, pieces).within(fits);
        Self {
            engine: served.engine,
            tokenizer,
            prompter,
            document: served.document,
            metrics: served.metrics,
            kv_events: served.kv_events,
            kv_share: served.kv_share,
            clock: settings.clock,
            parse_pool: ParsePool::new(settings.prepare_at_once),
            admin_token: settings.admin_token.clone(),
            access_writer: settings.access_writer,
            load: Load::default(),
            fault_injection: settings.fault_injection.map(FaultInjector::new),
            warm: OnceLock::new(),
            names: served.names,
            root: served.root,
            created: unix_seconds(),
            salt_seed: RandomState::new().hash_one("cache salt"),
        }
    }

    /// Prompt plus completion of one request at most.
    pub(crate) fn context(&self) -> Tokens {
        self.engine.context()
    }

    /// The name that answers carry.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Whether a request for this model is for this worker; one that names none is.
    pub(crate) fn check_model(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            Some(asked) if !self.names.iter().any(|name| name == asked) => {
                Err(ApiError::model_not_found(asked))
            }
            _ => Ok(()),
        }
    }

    /// Equal salts share cached prefixes. The seed is the process's own, so that nobody can look
    /// for two texts with one salt.
    pub(crate) fn cache_salt(&self, text: Option<&str>) -> CacheSalt {
        let Some(text) = text else { return CacheSalt(0) };
        let salt = CacheSalt(xxh3_64_with_seed(text.as_bytes(), self.salt_seed).max(1));
        if let Some(events) = &self.kv_events {
            events.note_salt(salt, text);
        }
        if let Some(share) = &self.kv_share {
            share.note_salt(salt, text);
        }
        salt
    }

    pub(crate) fn models(&self) -> ModelList {
        ModelList::new(self.names.iter().map(|name| self.card(name)).collect())
    }

    pub(crate) fn model(&self, name: &str) -> Result<ModelCard, ApiError> {
        self.check_model(Some(name))?;
        Ok(self.card(name))
    }

    fn card(&self, name: &str) -> ModelCard {
        let mut card = ModelCard::new(name, self.created);
        card.root = Some(self.root.clone().unwrap_or_else(|| self.name().to_owned()));
        card.max_model_len = Some(self.context().get());
        card
    }
}

/// How many completions are being computed or wait to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load(Arc<AtomicU32>);

/// Counts as load until it is dropped.
#[derive(Debug)]
pub(crate) struct Loading(Load);

impl Load {
    pub(crate) fn begin(&self) -> Loading {
        self.0.fetch_add(1, Ordering::Relaxed);
        Loading(self.clone())
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
