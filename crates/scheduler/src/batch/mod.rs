//! The engine's scheduler: which sequences run in the next step, on which blocks, and who waits.
//!
//! Continuous batching with chunked prefill under a token budget, over a paged key-value cache
//! whose full blocks are shared by content. It is a pure state machine: what arrives, what is
//! cancelled and what a step did goes in, a [`Plan`] comes out, and equal inputs give equal plans.
//! The rules, numbered, are in `docs/design/batch.md`.
//!
//! | question                                   | file           |
//! |--------------------------------------------|----------------|
//! | What goes in, what comes out?              | `types.rs`     |
//! | Who comes and goes?                        | `scheduler.rs` |
//! | What is computed next?                     | `plan.rs`      |
//! | What did a step do?                        | `step.rs`      |
//! | Which drafted tokens are verified?         | `drafts.rs`    |
//! | Whose turn is it?                          | `queue.rs`     |
//! | What is known about a sequence?            | `sequence.rs`  |
//! | Which page is free, which is given up?     | `blocks.rs`    |
//! | Which page holds this prefix?              | `prefix.rs`    |
//! | How is a page named in four bytes?         | `link.rs`      |
//! | What came into the cache, what left it?    | `changes.rs`   |
//! | What did somebody else compute?            | `import.rs`    |
//! | Does it all hold together?                 | `audit.rs`     |

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
    Arrival, BatchLimits, BatchStats, Logits, Outcome, Overdraft, Plan, PrefixReuse, Progress,
    Refusal, Slot, Verdict,
};
