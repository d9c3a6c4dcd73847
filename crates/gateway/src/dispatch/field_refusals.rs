//! Field refusals: which request fields of the gateway's own a worker does not take.
//!
//! The gateway adds fields to requests: the tenant's salt, a rank, and the wish for a stream's token counts. A
//! strict server answers 400 to a field that it does not know. Where the same request passes without the
//! field, the worker is not told it again. Invariant: a refusal belongs to one process; it is forgotten when
//! the process is gone.

use std::sync::atomic::{AtomicU8, Ordering};

/// A field that the gateway adds to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnField {
    /// `stream_options`.
    StreamOptions,
    /// `priority`.
    Rank,
    /// `cache_salt`.
    Salt,
}

impl OwnField {
    /// As requests have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::StreamOptions => "stream_options",
            Self::Rank => "priority",
            Self::Salt => "cache_salt",
        }
    }

    /// The setting of a worker that leaves it out.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::StreamOptions => "stream_options: off",
            Self::Rank => "priority_scheduling: false",
            Self::Salt => "cache_salt: off",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The fields that one worker has refused.
#[derive(Debug, Default)]
pub(crate) struct FieldRefusals(AtomicU8);

impl FieldRefusals {
    /// Whether it has refused this one.
    pub(crate) fn include(&self, field: OwnField) -> bool {
        self.0.load(Ordering::Relaxed) & field.bit() != 0
    }

    /// It refuses this one; whether that is news.
    pub(crate) fn note(&self, field: OwnField) -> bool {
        self.0.fetch_or(field.bit(), Ordering::Relaxed) & field.bit() == 0
    }

    /// Another process may be there.
    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_refused_by_itself_and_told_once() {
        let refusals = FieldRefusals::default();
        assert!(refusals.note(OwnField::Rank));
        assert!(!refusals.note(OwnField::Rank));
        assert!(!refusals.include(OwnField::Salt) && !refusals.include(OwnField::StreamOptions));
        refusals.forget();
        assert!(!refusals.include(OwnField::Rank));
    }
}
