//! What do workers say of their caches?
//!
//! One task per source ([`follow`]) subscribes, notices what is missing, asks for it again, and hands
//! batches to a [`Sink`] in order. [`apply`] gives a batch to the feed of the prefix index. The rules
//! are in `docs/design/kv-events.md`.
//!
//! **Invariant:** a sink hears every batch of a life once and in order, or that some are missing for
//! good; nothing outlives the future that [`follow`] returns.

mod apply;
mod follow;
mod link;

use overdraft_wire::kv_events::Batch;

pub use self::apply::{apply, salt_of_request};
pub use self::follow::{REPLAY_BATCHES_MAX, REPLAY_TIMEOUT, RETRY_FIRST, RETRY_MAX, follow};
pub use self::link::LinkError;

/// Hears what one publisher has to say. Called from the following task; must not block.
pub trait Sink: Send {
    /// The next batch.
    fn batch(&mut self, batch: Batch);

    /// The worker's life begins here: it holds nothing, and what it stores will be told.
    fn restarted(&mut self);

    /// Batches are missing and cannot be had: what was believed may be wrong.
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
    /// The connection is gone, or never came about.
    Disconnected,
    /// Batches were missing and asked for.
    Gap,
    /// A batch could not be read; it counts as missing.
    Undecodable,
}
