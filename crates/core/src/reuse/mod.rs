//! May an answer be given again, to whom, and what is kept when there is no room for all?
//!
//! An answer is given again only where nothing that could change it has changed: every field of a
//! request is in the key, cannot change the answer ([`FIELDS`] says why), or keeps the request away
//! from the cache. What nobody has judged keeps it away. Which answers are worth keeping
//! ([`unkept`]), which make room for others ([`Shelf`]) and for how long one is waited for that another asked for
//! ([`Openings`]) is decided here too; the bytes, the hashing and the waiting are the shell's.
//!
//! **Invariant:** a field of which this table knows nothing never shares an answer. See
//! `docs/design/cache.md`.

mod fields;
mod overdue;
mod plan;
mod shelf;
#[cfg(test)]
mod tests;

pub use self::fields::{Effect, FIELDS, Field, effect};
pub use self::overdue::{Openings, Wanted};
pub use self::plan::{Answered, Asked, Bypass, Finish, Plan, Reuse, Unkept, Wish, plan, unkept};
pub use self::shelf::{Evicted, Found, Key, Shelf};
