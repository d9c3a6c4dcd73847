//! Settings of a worker, and the model that it serves.

use std::sync::Arc;

use overdraft_engine::{ChatTemplate, EngineHandle, Tokenizer};
use overdraft_http::Limits;
use overdraft_telemetry::{AccessWriter, Clock};
use overdraft_tokenizer::{PIECE_CACHE_BYTES, TokenizerDocument};

use crate::fault_injection::FaultSettings;
use crate::kv_events::KvEvents;
use crate::kv_share::KvShare;
use crate::metrics::EngineMetrics;

/// Large requests parsed and tokenized at once.
const PREPARE_AT_ONCE: usize = 2;

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
    pub fault_injection: Option<FaultSettings>,
    /// Whoever presents this as a bearer token may give orders. Without one, whoever comes over the
    /// loopback interface.
    pub admin_token: Option<String>,
    /// Whether its access lines are those of the process, or a gateway before it writes them.
    pub access_writer: AccessWriter,
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
            fault_injection: None,
            admin_token: None,
            access_writer: AccessWriter::Front,
        }
    }
}
