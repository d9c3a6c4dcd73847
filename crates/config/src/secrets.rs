//! Secret values: the keys of the configuration that hold them.
//!
//! Their paths tell them, not their names: a `key` is a secret of a tenant and no secret of TLS. A test compares the
//! table with the schema.

use crate::node::Step;

/// Any name, or any place in a list.
const ANY: &str = "*";

/// The paths of values that are never shown.
const SECRETS: &[&[&str]] = &[
    &["admin", "token"],
    &["cache", "encryption_key"],
    &["discovery", ANY, ANY, "each", "api_key"],
    &["discovery", ANY, ANY, "each", "restart", ANY, "token"],
    &["isolation", "salt_secret"],
    &["keys", ANY, "key"],
    &["keys", ANY, "key_sha256"],
    &["models", ANY, "wake", "token"],
    &["store", "url"],
    &["tracing", "headers", ANY],
    &["workers", ANY, "api_key"],
    &["workers", ANY, "restart", ANY, "token"],
];

/// Whether a value is a secret, or a part of one.
pub(crate) fn is_secret(path: &[Step]) -> bool {
    SECRETS.iter().any(|secret| secret.len() <= path.len() && fits(secret, path))
}

/// Whether a secret stands somewhere below a value. What stands in its place may be the secret itself.
pub(crate) fn leads_to_secret(path: &[Step]) -> bool {
    SECRETS.iter().any(|secret| path.len() < secret.len() && fits(secret, path))
}

/// Whether a path and that of a secret are the same as far as both go.
fn fits(secret: &[&str], path: &[Step]) -> bool {
    secret.iter().zip(path).all(|(word, step)| match step {
        Step::Key(key) => *word == ANY || word == key,
        Step::Index(_) => *word == ANY,
    })
}
