//! A worker with the echo behind it, on a real socket, as its clients see it.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its world should panic")]
#![expect(clippy::disallowed_methods, reason = "a test ends what it spawns with its runtime")]

mod chat;
mod completions;
mod kv_events;
mod kv_share;
mod serving;
mod speculation;
mod support;
