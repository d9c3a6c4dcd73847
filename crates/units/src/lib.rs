//! Units: newtypes for tokens, blocks and time.
//!
//! A bare `u64` never crosses a function boundary in this workspace. Each quantity is a newtype
//! that adds and subtracts only with its own kind. So mixing tokens with blocks, or a point in time
//! with a span, is a compile error and not a review comment.
#![no_std]

mod ids;
mod port;
mod ratio;
mod split_mix;

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

pub use self::ids::{BlockId, CacheSalt, Priority, SequenceId, TokenId};
pub use self::port::{NotAPort, port_of};
pub use self::ratio::Ratio;
pub use self::split_mix::split_mix;

/// Declares an unsigned quantity: ordered, summable with itself, and printed with its unit.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($repr:ty), $suffix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($repr);

        impl $name {
            /// None of it.
            pub const ZERO: Self = Self(0);

            /// Wraps a raw count.
            pub const fn new(raw: $repr) -> Self {
                Self(raw)
            }

            /// The raw count, for the edge of the system only: wire formats, FFI, metrics.
            pub const fn get(self) -> $repr {
                self.0
            }

            /// Subtracts, or says that there is not enough.
            pub fn checked_sub(self, rhs: Self) -> Option<Self> {
                self.0.checked_sub(rhs.0).map(Self)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, rhs: Self) -> Self {
                Self(self.0 + rhs.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, rhs: Self) {
                *self = *self + rhs;
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{}", $suffix), self.0)
            }
        }
    };
}

quantity!(
    /// Vocabulary tokens, prompt or completion.
    ///
    /// ```
    /// use overdraft_units::Tokens;
    ///
    /// let prompt = Tokens::new(100) + Tokens::new(20);
    /// assert_eq!(prompt.get(), 120);
    /// assert_eq!(Tokens::new(1).checked_sub(prompt), None);
    /// ```
    Tokens(u32), "tok"
);
quantity!(
    /// Pages of key-value cache on one replica.
    Blocks(u32), "blk"
);
quantity!(
    /// A span of time. For a point in time, see [`Instant`].
    Micros(u64), "us"
);

/// A clock's span; what is longer than half a million years counts as that.
///
/// ```
/// use std::time::Duration;
///
/// use overdraft_units::Micros;
///
/// assert_eq!(Micros::from(Duration::from_millis(2)), Micros::new(2_000));
/// assert_eq!(Micros::from(Duration::MAX), Micros::new(u64::MAX));
/// assert_eq!(Duration::from(Micros::new(2_000)), Duration::from_millis(2));
/// ```
impl From<Duration> for Micros {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}

/// A point in time, counted from an origin that only the shell knows.
///
/// ```
/// use overdraft_units::{Instant, Micros};
///
/// let later = Instant::ORIGIN + Micros::new(5);
/// assert_eq!(later.since(Instant::ORIGIN), Micros::new(5));
/// assert_eq!(Instant::ORIGIN.since(later), Micros::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Micros);

impl Instant {
    /// The origin: start-up for the gateway, zero for the simulator.
    pub const ORIGIN: Self = Self(Micros::ZERO);

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Micros {
        self.0.checked_sub(earlier.0).unwrap_or(Micros::ZERO)
    }
}

impl Add<Micros> for Instant {
    type Output = Self;
    fn add(self, rhs: Micros) -> Self {
        Self(self.0 + rhs)
    }
}

impl Sub for Instant {
    type Output = Micros;
    fn sub(self, rhs: Self) -> Micros {
        self.since(rhs)
    }
}

/// How many tokens one [`Blocks`] page holds. Never zero.
///
/// ```
/// use overdraft_units::{BlockSize, Blocks, Tokens};
///
/// let block = BlockSize::new(16).unwrap();
/// assert_eq!(block.pages_for(Tokens::new(17)), Blocks::new(2));
/// assert_eq!(BlockSize::new(0), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSize(core::num::NonZeroU32);

impl BlockSize {
    /// Parses a page size; `None` if it is zero.
    pub const fn new(tokens: u32) -> Option<Self> {
        match core::num::NonZeroU32::new(tokens) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }

    /// Tokens in one page.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Pages needed to hold `tokens`, the last one partly empty.
    pub fn pages_for(self, tokens: Tokens) -> Blocks {
        Blocks::new(tokens.get().div_ceil(self.0.get()))
    }
}
