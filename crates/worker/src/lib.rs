//! Worker: the engine as a server with vLLM's API.
//!
//! A request becomes a `plan`: prompts as tokens, sampling in the engine's terms, the form of the
//! answer. The engine's events become `piece`s, and pieces become an answer, whole or streamed, in
//! either generation. **Invariant:** a request is cancelled by dropping what reads its events; no task
//! of its own outlives its connection.

mod chat;
mod choice_order;
mod completions;
mod fault_injection;
mod generate;
mod health;
mod kv_events;
mod kv_share;
mod logprobs;
mod meter;
mod metrics;
mod models;
mod parse_pool;
mod piece;
mod plan;
mod refusal;
mod render;
mod routes;
mod serve;
mod settings;
mod speculation;
mod stream;
mod tokenize;
mod worker;

pub use overdraft_http::Drained;
pub use overdraft_telemetry::metrics::MetricNames;

pub use self::fault_injection::{FAULTS_MAX, FaultSettings};
pub use self::kv_events::{KvEvents, KvEventsError, KvEventsSettings, KvPublisher};
pub use self::kv_share::{KvShare, KvShareError, KvShareSettings, Peer, PeerError};
pub use self::metrics::EngineMetrics;
pub use self::serve::run;
pub use self::settings::{Served, Settings};
