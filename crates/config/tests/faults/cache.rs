//! Caches that could give nothing again, and secrets that anybody would guess.

use crate::check;

#[test]
fn answers_that_are_kept_for_no_time() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
cache: {mode: on, ttl: 0s}
",
        &[],
        "
bad.yaml:2:24: an answer cannot be kept for `0s`
  |
2 | cache: {mode: on, ttl: 0s}
  |                        ^^
  = expected more than `0s` and at most 30 days
",
    );
}

#[test]
fn a_memory_without_room_for_one_answer() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
cache: {mode: on, memory: 1KiB}
",
        &[],
        "
bad.yaml:2:27: one answer of `1MiB` would not fit into a memory of `1KiB`
  |
2 | cache: {mode: on, memory: 1KiB}
  |                           ^^^^
  = expected `cache.memory` to hold at least one answer of `entry_max`
",
    );
}

#[test]
fn a_secret_that_is_none_and_is_not_repeated() {
    check(
        "bad.yaml",
        "workers: [{url: 'http://10.0.0.5:8000', model: llama}]
isolation:
  salt_secret: ${SECRET}
",
        &[("SECRET", "hunter2")],
        "
bad.yaml:3:16: `isolation.salt_secret` is too short to be a secret
  |
3 |   salt_secret: (redacted)
  |                ^^^^^^^^^
  = expected at least 16 characters, as `openssl rand -hex 32` prints
",
    );
}
