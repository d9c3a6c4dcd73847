//! Continuation: what a stream asks of its owner to go on at another worker.
//!
//! The relay shows it everything that is given out. When the answer breaks off it says how the stream goes
//! on; the relay only swaps the one answer for the other.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use super::{Fault, Opened};
use crate::dispatch::{Lease, Member, Used};

/// What of some events goes to the client, and what they amount to.
pub(crate) struct Passed {
    pub(crate) events: Bytes,
    pub(crate) verdict: Verdict,
}

/// What some events amount to.
pub(crate) enum Verdict {
    /// More is to come, as far as they say.
    GoesOn,
    /// The answer ends with them, whatever its worker has still to say.
    Finished,
    /// Nothing may follow them.
    Failed(Fault),
}

/// Follows one stream, and has it go on elsewhere.
pub(crate) trait Continuation: fmt::Debug + Send + Sync {
    /// This worker is asked first, or next as long as none has begun.
    fn begins(&mut self, member: &Arc<Member>);

    /// Takes whole events that its worker has sent.
    fn pass(&mut self, events: &Bytes) -> Passed;

    /// What ends a stream that is whole and has not said so.
    fn ending(&mut self) -> Bytes;

    /// Whether some of it is held back, as nobody knows yet whether all of it has come.
    fn is_doubtful(&self) -> bool {
        false
    }

    /// Whether its worker leaves, and has been given its time.
    fn is_leaving(&self) -> bool;

    /// The tokens that the client is told it used; `last` is what the last worker says.
    fn used(&self, last: Option<Used>) -> Option<Used>;

    /// Has it go on: it broke off by this fault, or its worker leaves.
    fn resume(self: Box<Self>, fault: Option<Fault>) -> Resuming;
}

/// On the way to another worker.
pub(crate) type Resuming = Pin<Box<dyn Future<Output = Resumed> + Send>>;

/// What came of it.
pub(crate) struct Resumed {
    pub(crate) continuation: Box<dyn Continuation>,
    pub(crate) outcome: Outcome,
}

/// How a stream goes on.
pub(crate) enum Outcome {
    /// With this answer, whose first events are for the client as they are.
    GoesOn { lease: Box<Lease>, opened: Box<Opened> },
    /// It ends with these events: nothing is left to be asked for.
    Finished(Bytes),
    /// It does not, for this reason.
    Refused(&'static str),
}
