//! Label cardinality limit: a fixed number of values, the rest is `other`.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// What values beyond the cap are called.
pub const OTHER: &str = "other";

/// Bytes of a value at most; a longer one is `other` too.
const VALUE_BYTES_MAX: usize = 256;

/// Tenants that get a label value of their own.
const TENANTS_MAX: usize = 1_000;

/// Lets the first few values through and calls every later one [`OTHER`].
#[derive(Debug)]
pub struct LabelCap {
    seen: Mutex<BTreeSet<String>>,
    values_max: usize,
}

impl LabelCap {
    /// Lets `values_max` values through.
    pub const fn new(values_max: usize) -> Self {
        Self { seen: Mutex::new(BTreeSet::new()), values_max }
    }

    /// Lets tenants through. All catalogues share one, so that a tenant has its name in all of them or in none: tokens
    /// of an identity provider may name any number.
    pub const fn of_tenants() -> Self {
        Self::new(TENANTS_MAX)
    }

    /// The value itself while there is room for it.
    pub fn admit<'a>(&self, value: &'a str) -> &'a str {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(value) {
            return value;
        }
        if seen.len() >= self.values_max || value.len() > VALUE_BYTES_MAX {
            return OTHER;
        }
        seen.insert(value.to_owned());
        value
    }

    /// The value itself where it has been let through before; it takes no room.
    pub fn known<'a>(&self, value: &'a str) -> &'a str {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(value) { value } else { OTHER }
    }
}
