//! Gateway names: what a gateway is called in Redis, drawn anew in each process.

use std::hash::{BuildHasher, RandomState};

/// A name that no other gateway has.
pub(crate) fn draw() -> String {
    let drawn = [RandomState::new().hash_one(0), RandomState::new().hash_one(1)];
    format!("{:016x}{:016x}", drawn[0], drawn[1])
}
