//! KV events of workers: subscription to a publisher, and translation of its batches for the prefix index.
//!
//! One task per source ([`follow`]) subscribes, detects gaps, requests a replay, and passes batches
//! to a [`Sink`] in order. [`Feeds`] give a batch to the prefix index. The rules are
//! in `docs/design/kv-events.md`.
//!
//! **Invariant:** a sink gets every batch of a publisher's run once and in order, or a note that
//! some are lost for good; nothing outlives the future that [`follow`] returns.

mod apply;
mod feeds;
mod follow;
mod link;

use overdraft_wire::kv_events::Batch;

pub use self::apply::{block_size_of, salt_of_request};
pub use self::feeds::Feeds;
pub use self::follow::{REPLAY_BATCHES_MAX, REPLAY_TIMEOUT, RETRY_FIRST, RETRY_MAX, Topic, follow};
pub use self::link::LinkError;

/// Receives the batches of one publisher. Called from the following task; must not block.
pub trait Sink: Send {
    /// The next batch.
    fn batch(&mut self, batch: Batch);

    /// The worker started: its cache is empty, and events will follow for what it stores.
    fn restarted(&mut self);

    /// Batches are lost and cannot be replayed: the index may be wrong about this worker.
    fn forgotten(&mut self);

    /// What is to be counted.
    fn note(&mut self, note: Note) {
        let _ = note;
    }
}

/// Something to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The publisher was reached.
    Connected,
    /// The connection is lost, or could not be made.
    Disconnected,
    /// Batches were missing and asked for.
    Gap,
    /// A batch could not be read; it counts as missing.
    Undecodable,
}
