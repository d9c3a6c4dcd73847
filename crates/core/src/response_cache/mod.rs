//! Response cache: which answers may be served again, to which tenant, and which are evicted.
//!
//! A cached answer is served only where nothing that could change it has changed: every field of a
//! request is in the key, cannot change the answer ([`FIELDS`] says why), or makes the request
//! bypass the cache. An unknown field makes it bypass the cache. This module also decides which
//! answers are stored ([`unkept`]), which are evicted ([`Shelf`]) and how long a request waits for
//! another's answer in a single flight ([`Openings`]); the shell does the bytes, the hashing and
//! the waiting. Responses that clients go on from are evicted by another policy ([`RecencyShelf`]).
//!
//! **Invariant:** a request with a field that is not in this table never shares an answer. See
//! `docs/design/cache.md`.

mod cache_control;
mod eviction;
mod key_fields;
mod recency_shelf;
mod single_flight_timeout;
#[cfg(test)]
mod tests;

pub use self::cache_control::{
    Answered, Asked, Bypass, Finish, Plan, Reuse, Unkept, Wish, plan, unkept,
};
pub use self::eviction::{Evicted, Found, Key, Shelf};
pub use self::key_fields::{Effect, FIELDS, Field, effect};
pub use self::recency_shelf::RecencyShelf;
pub use self::single_flight_timeout::{Openings, Wanted};
