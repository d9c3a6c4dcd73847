//! Request id: one id per request, the same in headers, logs and upstream.
//!
//! A client may bring its own name as long as it is harmless to print; otherwise the process makes
//! one: `req_` and 24 hexadecimal digits from a counter that is scrambled with a seed of the
//! process, so that names differ between processes and say nothing about how many there were.
//! **Invariant:** one generator never makes the same name twice.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use overdraft_units::split_mix;

/// What names of ours begin with.
const PREFIX: &[u8] = b"req_";
/// Digits that tell the process, and those that tell the request.
const PROCESS_DIGITS: usize = 8;
const REQUEST_DIGITS: usize = 16;
const NAME_BYTES: usize = PREFIX.len() + PROCESS_DIGITS + REQUEST_DIGITS;

/// Characters a client's own name may have at most.
pub const CLIENT_ID_BYTES_MAX: usize = 128;

/// The name of one request; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// Takes a client's own name if it is 1 to 128 letters, digits, `.`, `_` or `-`.
    pub fn from_client(raw: &str) -> Option<Self> {
        let sane = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let fits = (1..=CLIENT_ID_BYTES_MAX).contains(&raw.len());
        (fits && raw.bytes().all(sane)).then(|| Self(raw.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Makes names.
#[derive(Debug)]
pub struct RequestIds {
    seed: u64,
    count: AtomicU64,
}

impl RequestIds {
    /// A generator whose names follow from `seed`, for tests.
    pub const fn seeded(seed: u64) -> Self {
        Self { seed, count: AtomicU64::new(0) }
    }

    /// A generator with a seed of its own, from the operating system.
    pub fn random() -> Self {
        Self::seeded(RandomState::new().hash_one("overdraft"))
    }

    /// The next name.
    pub fn next(&self) -> RequestId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        // Eight digits tell the process, sixteen the request: a bijection of the counter.
        let process = split_mix(self.seed) >> 32;
        let request = split_mix(self.seed ^ count);
        let mut name = [0; NAME_BYTES];
        let (prefix, digits) = name.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX);
        let (of_process, of_request) = digits.split_at_mut(PROCESS_DIGITS);
        write_hexadecimal(process, of_process);
        write_hexadecimal(request, of_request);
        RequestId(std::str::from_utf8(&name).expect("digits are ASCII").into())
    }
}

/// Writes the lowest digits of `number`, as many as there are places. (`format!` takes six times as
/// long.)
fn write_hexadecimal(mut number: u64, places: &mut [u8]) {
    for place in places.iter_mut().rev() {
        let digit = usize::try_from(number & 0xf).unwrap_or_default();
        *place = b"0123456789abcdef"[digit];
        number >>= 4;
    }
}
