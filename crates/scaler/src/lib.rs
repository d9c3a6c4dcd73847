//! KEDA external scaler: the wanted number of workers, over gRPC.
//!
//! KEDA asks over HTTP/2 how many workers a pool wants and is told when that becomes anything at
//! all. What is wanted is decided by `overdraft_core::scale`; this crate reads the trigger's
//! metadata, remembers each trigger's hold between questions, and speaks. The messages are seven and
//! small, so they stand here by hand (`message`) beside the interface (`proto/`), and nobody who
//! builds this needs `protoc`.
//!
//! A crate of its own, so that HTTP/2 and protobuf stay out of everything else.
//! Invariant: triggers, streams and connections are bounded; a trigger that nobody asks about any
//! more is forgotten.

mod message;
mod query;
mod serve;
#[cfg(test)]
mod tests;
mod triggers;

use std::time::Duration;

use overdraft_core::scale::{Cooldown, Load, Targets};
use overdraft_units::Instant;

pub use self::query::MetadataError;
pub use self::serve::serve;

/// Who knows the fleet.
pub trait Source: Send + Sync + 'static {
    /// The pools there are.
    fn pools(&self) -> &'static [&'static str];

    /// What a pool carries, or those of it that serve `model`.
    fn load(&self, pool: &str, model: Option<&str>) -> Load;

    /// What is set now.
    fn settings(&self) -> ScaleSettings;

    /// The time now.
    fn now(&self) -> Instant;
}

/// What triggers start from, and how steady their numbers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleSettings {
    /// What one worker is meant to carry, where a trigger says nothing else.
    pub targets: Targets,
    /// How long a change waits for the one before it.
    pub cooldown: Cooldown,
}

/// How often what is wanted is looked at for those who listen.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Triggers that are remembered at once.
pub const TRIGGERS_MAX: usize = 256;

/// Streams that are told of changes at once.
pub const STREAMS_MAX: usize = 256;

/// Connections at once.
pub const CONNECTIONS_MAX: usize = 64;
