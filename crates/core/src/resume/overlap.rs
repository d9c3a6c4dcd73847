//! Overlap check: what a second answer repeats is compared and swallowed, the rest is new.

use alloc::string::String;
use alloc::vec::Vec;

use super::ledger::{Call, CallPart};

/// The second answer is not the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged;

/// Text that is to come again.
#[derive(Clone, Debug, Default)]
pub(super) struct Overlap {
    expected: String,
    seen: usize,
}

impl Overlap {
    pub(super) fn new(expected: &str) -> Self {
        Self { expected: expected.into(), seen: 0 }
    }

    /// Whether all of it has come.
    pub(super) const fn is_over(&self) -> bool {
        self.expected.len() <= self.seen
    }

    /// What of `piece` is new.
    pub(super) fn take<'a>(&mut self, piece: &'a str) -> Result<&'a str, Diverged> {
        let left = &self.expected.as_bytes()[self.seen..];
        let same = left.len().min(piece.len());
        if piece.as_bytes()[..same] != left[..same] {
            return Err(Diverged);
        }
        self.seen += same;
        // Where the expected text ends, a character ends.
        Ok(piece.get(same..).unwrap_or_default())
    }
}

/// Tool calls that are to come again.
#[derive(Clone, Debug, Default)]
pub(super) struct CallOverlap(Vec<(u32, Overlap, Overlap)>);

impl CallOverlap {
    pub(super) fn new(calls: &[Call]) -> Self {
        let expected =
            |call: &Call| (call.index, Overlap::new(&call.name), Overlap::new(&call.arguments));
        Self(calls.iter().map(expected).collect())
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.iter().all(|(_, name, arguments)| name.is_over() && arguments.is_over())
    }

    /// What of `part` is new; nothing where all of it was told.
    pub(super) fn take(&mut self, part: CallPart) -> Result<Option<CallPart>, Diverged> {
        let told = self.0.iter_mut().find(|(index, ..)| *index == part.index);
        let Some((_, name, arguments)) = told else { return Ok(Some(part)) };
        let new_name = name.take(part.name.as_deref().unwrap_or_default())?;
        // A call keeps the name and the id that it was first told with.
        if !new_name.is_empty() {
            return Err(Diverged);
        }
        let rest = String::from(arguments.take(&part.arguments)?);
        Ok((!rest.is_empty()).then_some(CallPart { arguments: rest, id: None, name: None, ..part }))
    }
}
