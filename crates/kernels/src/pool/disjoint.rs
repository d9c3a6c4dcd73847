//! Disjoint slices: several threads write parts of one slice without a lock.
//!
//! Each thread takes ranges that no other takes. The compiler cannot check that, so taking one is
//! `unsafe`, and every caller says why its ranges are disjoint.

use std::marker::PhantomData;
use std::ops::Range;

/// A mutable slice that several threads may carve up.
#[derive(Debug)]
pub(crate) struct Disjoint<'a, T> {
    start: *mut T,
    length: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: sharing it shares only the right to call `slice`, whose callers promise disjoint ranges;
// each element is then reached by one thread, as if it had been sent there.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    /// Over the whole of `slice`.
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), length: slice.len(), slice: PhantomData }
    }

    /// The elements of `range`; panics when it reaches beyond the slice.
    ///
    /// # Safety
    /// No element of `range` may be reached through another slice taken here while this one lives.
    #[expect(clippy::mut_from_ref, reason = "handing out disjoint parts is this type's purpose")]
    #[inline]
    pub(crate) unsafe fn slice(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.length, "a part beyond its slice");
        // SAFETY: the range lies within the slice, checked above.
        let start = unsafe { self.start.add(range.start) };
        // SAFETY: within one live slice, and the caller promises that nobody else holds the range.
        unsafe { std::slice::from_raw_parts_mut(start, range.end - range.start) }
    }
}
