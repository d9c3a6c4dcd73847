//! Dispatcher: the one place where events enter the core and decisions leave it, each with its time.
//!
//! | subject                       | file              |
//! |-------------------------------|-------------------|
//! | Events of requests            | `dispatcher.rs`   |
//! | Events of the fleet           | `fleet_events.rs` |
//! | Events of peer gateways       | `peer_events.rs`  |
//! | Lease of an attempt in flight | `lease.rs`        |
//! | Wait queue and wake-ups       | `wait_queue.rs`   |
//! | Drafts that cascades miss     | `misses.rs`       |
//! | Workers behind the core's ids | `members.rs`, `field_refusals.rs` |
//! | Explain records               | `explain.rs`      |
//! | Decisions that are kept       | `decision_note.rs` |
//!
//! **Invariants.** The core's lock is held for microseconds and never across an await. Nothing
//! outside this folder changes the core; readers take a [`View`].

mod decision_note;
mod dispatcher;
pub(crate) mod explain;
mod field_refusals;
mod fleet_events;
mod lease;
mod members;
mod misses;
mod peer_events;
mod wait_queue;

pub(crate) use self::decision_note::{CandidateNote, DecisionNote, DecisionTrail};
pub(crate) use self::dispatcher::{Dispatcher, DispatcherMetrics, Placing};
pub(crate) use self::explain::Explanation;
pub(crate) use self::field_refusals::{FieldRefusals, OwnField};
pub(crate) use self::fleet_events::Traits;
pub(crate) use self::lease::{Lease, Used};
pub(crate) use self::members::Member;
pub(crate) use self::wait_queue::WaitQueue;
