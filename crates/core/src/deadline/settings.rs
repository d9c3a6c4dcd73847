//! Deadline settings: which limits of time are set, and which follow from what was measured.

use core::time::Duration;

use overdraft_units::Micros;

/// How long something may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// As long as it needs by what was measured, and never shorter than its least.
    #[default]
    Auto,
    /// So long.
    Fixed(Micros),
}

impl Patience {
    /// The shortest that it can come to.
    pub fn at_least(self, least: Micros) -> Micros {
        match self {
            Self::Auto => least,
            Self::Fixed(after) => after,
        }
    }
}

impl From<Duration> for Patience {
    fn from(span: Duration) -> Self {
        Self::Fixed(Micros::from(span))
    }
}

/// The limits of time of one model's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineSettings {
    /// From sending a request to its first token.
    pub first_token: Patience,
    /// Between two events of a stream.
    pub stall: Patience,
    /// From sending a request to its end.
    pub total: Patience,
}
