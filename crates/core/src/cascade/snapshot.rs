//! State snapshot: serialises what a cascade has learnt, so that it survives a restart.
//!
//! The format is a row of integers that begins with a version; the shell stores it without knowing
//! what it means. An older version is read as far as it goes. A snapshot of a later version, or one
//! that is truncated or invalid, is refused, and the route learns anew.

use alloc::vec::Vec;
use core::fmt;

/// Why a row of numbers is not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartsError {
    /// Another version wrote it.
    Version {
        /// The version found.
        found: i64,
        /// The version supported.
        expected: i64,
    },
    /// It ends early, or goes on after its end.
    Length {
        /// The length of the row.
        found: usize,
    },
    /// A number cannot be what stands in its place.
    Value {
        /// The place, from zero.
        place: usize,
        /// The number.
        found: i64,
    },
}

impl fmt::Display for PartsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { found, expected } => write!(
                out,
                "cascade state of version `{found}`, expected `{expected}`; it is left, and learning starts anew"
            ),
            Self::Length { found } => write!(
                out,
                "cascade state of `{found}` numbers, expected another count; it was cut, and learning starts anew"
            ),
            Self::Value { place, found } => write!(
                out,
                "cascade state with `{found}` at place {place}, which cannot be; learning starts anew"
            ),
        }
    }
}

impl core::error::Error for PartsError {}

/// Reads a row from its beginning.
#[derive(Clone, Debug)]
pub(super) struct Reader<'row> {
    row: &'row [i64],
    place: usize,
    version: i64,
}

impl<'row> Reader<'row> {
    /// Behind the version, which must be between the first one and `newest`.
    pub(super) fn new(row: &'row [i64], newest: i64) -> Result<Self, PartsError> {
        let mut reader = Self { row, place: 0, version: newest };
        let found = reader.next()?;
        if !(1..=newest).contains(&found) {
            return Err(PartsError::Version { found, expected: newest });
        }
        reader.version = found;
        Ok(reader)
    }

    /// Which version wrote the row.
    pub(super) const fn version(&self) -> i64 {
        self.version
    }

    /// The next number.
    pub(super) fn next(&mut self) -> Result<i64, PartsError> {
        let found = self.row.get(self.place).copied();
        self.place += 1;
        found.ok_or(PartsError::Length { found: self.row.len() })
    }

    /// The next number, which must lie within bounds.
    pub(super) fn within(&mut self, least: i64, most: i64) -> Result<i64, PartsError> {
        let place = self.place;
        let found = self.next()?;
        if (least..=most).contains(&found) {
            Ok(found)
        } else {
            Err(PartsError::Value { place, found })
        }
    }

    /// The next number, which counts something and is at most `most`.
    pub(super) fn count(&mut self, most: usize) -> Result<usize, PartsError> {
        let place = self.place;
        let found = self.within(0, i64::try_from(most).unwrap_or(i64::MAX))?;
        usize::try_from(found).map_err(|_| PartsError::Value { place, found })
    }

    /// The next number, which is not negative.
    pub(super) fn natural(&mut self) -> Result<u64, PartsError> {
        let place = self.place;
        let found = self.next()?;
        u64::try_from(found).map_err(|_| PartsError::Value { place, found })
    }

    /// Nothing may follow.
    pub(super) const fn end(&self) -> Result<(), PartsError> {
        if self.place == self.row.len() {
            Ok(())
        } else {
            Err(PartsError::Length { found: self.row.len() })
        }
    }
}

/// A count as it is written; none is ever near the limit.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// An unsigned number as it is written, cut where it does not fit.
pub(super) fn signed(natural: u64) -> i64 {
    i64::try_from(natural).unwrap_or(i64::MAX)
}

/// Puts several numbers behind each other.
pub(super) fn write(row: &mut Vec<i64>, numbers: &[i64]) {
    row.extend_from_slice(numbers);
}
