//! The engine's scheduler: which sequences run in the next step, on which blocks, and who waits.
//!
//! Continuous batching with chunked prefill under a token budget, over a paged key-value cache
//! whose full blocks are shared by content. It is a pure state machine: what arrives, what is
//! cancelled and what a step did goes in, a [`Plan`] comes out, and equal inputs give equal plans.
//! The rules, numbered, are in `docs/design/batch.md`.
//!
//! | subject                                  | file           |
//! |------------------------------------------|----------------|
//! | Interface: requests, plans, step results | `types.rs`     |
//! | State, arrivals and cancellations        | `scheduler.rs` |
//! | Step planning                            | `plan.rs`      |
//! | Step completion                          | `step.rs`      |
//! | Draft slots for speculative decoding     | `drafts.rs`    |
//! | Scheduling order and aging               | `queue.rs`     |
//! | State of one sequence                    | `sequence.rs`  |
//! | Block pool and LRU eviction              | `blocks.rs`    |
//! | Prefix cache index                       | `prefix.rs`    |
//! | Page number in four bytes                | `link.rs`      |
//! | Change log for KV events                 | `changes.rs`   |
//! | Import of pages from peers               | `import.rs`    |
//! | Audit of all invariants                  | `audit.rs`     |

mod audit;
mod blocks;
mod changes;
mod drafts;
mod import;
mod link;
mod plan;
mod prefix;
mod queue;
mod scheduler;
mod sequence;
mod step;
#[cfg(test)]
mod tests;
mod types;

pub use self::changes::{CHANGES_PAGES_MAX, CacheChange, PageName, PageParent, StoredPages};
pub use self::drafts::DraftRoom;
pub use self::import::{Import, ImportedPage};
pub use self::scheduler::Scheduler;
pub use self::types::{
    Arrival, BatchLimits, BatchStats, Batching, Logits, Outcome, Overdraft, Plan, PrefixReuse,
    Progress, Refusal, Slot, Verdict,
};
