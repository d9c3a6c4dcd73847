//! Dispatcher: the one place where events enter the core and decisions leave it, each with its time.
//!
//! | question                                            | file                |
//! |-----------------------------------------------------|---------------------|
//! | Which events of a request does the core learn?      | `dispatcher.rs`     |
//! | Which events of the fleet does the core learn?      | `fleet_events.rs`   |
//! | What do other gateways tell the core?               | `peer_events.rs`    |
//! | Which attempt is in flight, and how does it end?    | `lease.rs`          |
//! | Who waits for a worker, and how is he called?       | `wait_queue.rs`     |
//! | Which workers stand behind the core's numbers?      | `members.rs`        |
//! | Why did a request go where it went?                 | `explain.rs`        |
//!
//! **Invariants.** The core's lock is held for microseconds and never across an await. Nothing outside
//! this folder changes the core; who only looks takes a [`View`].

mod dispatcher;
pub(crate) mod explain;
mod fleet_events;
mod lease;
mod members;
mod peer_events;
mod wait_queue;

pub(crate) use self::dispatcher::{Dispatcher, DispatcherMetrics, Placing};
pub(crate) use self::explain::Explanation;
pub(crate) use self::lease::{Lease, Used};
pub(crate) use self::members::Member;
pub(crate) use self::wait_queue::WaitQueue;
