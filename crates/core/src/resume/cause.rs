//! Cause of a resume: why a stream goes on at another worker, and what that says of which one may be asked.

use crate::fleet::Failure;
use crate::route::Strictness;

/// Why another worker is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The last one failed.
    Broken(Failure),
    /// It leaves; its answer goes on there where no other worker can do it.
    Leaves,
}

impl Cause {
    /// How well the next worker must be.
    pub const fn strictness(self) -> Strictness {
        match self {
            Self::Broken(failure) => Strictness::after(failure),
            Self::Leaves => Strictness::Judged,
        }
    }

    /// Whether a worker that has failed the stream may be asked once more, where none is left that has not. One that fell
    /// silent and has computed nothing since (`is_paused`) would only fail it again.
    pub fn allows_again(self, is_paused: bool) -> bool {
        self != Self::Broken(Failure::Silent) || !is_paused
    }
}
