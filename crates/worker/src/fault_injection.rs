//! Fault injection: errors, stalls and cut connections by a seeded random draw, for tests.
//!
//! It serves to test gateways before workers. The fault of a request is drawn from a seed and the
//! request's number, so that sequential requests get the same faults in every run. **Invariant:** a
//! worker without [`FaultSettings`] never draws.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use overdraft_units::Tokens;
use overdraft_wire::{ApiError, ErrorKind};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The rate of each fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultSettings {
    /// Requests that are answered with an error, in millionths.
    pub errors: u32,
    /// With which error.
    pub error: ErrorKind,
    /// Requests whose answer comes to a stop, in millionths.
    pub stalls: u32,
    /// For how long; `None` is until the client has gone.
    pub stall: Option<Duration>,
    /// Requests whose connection is cut in the middle of the answer, in millionths.
    pub cuts: u32,
    /// Tokens of an answer that are told before it stalls or is cut.
    pub after: Tokens,
    /// Decides which requests.
    pub seed: u64,
}

/// All requests, in millionths.
pub const FAULTS_MAX: u32 = 1_000_000;

/// What befalls a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// Nothing.
    None,
    /// It is refused with this.
    Error(ErrorKind),
    /// Its answer stops for so long after so many tokens.
    Stall(Tokens, Option<Duration>),
    /// Its connection is cut after so many tokens.
    Cut(Tokens),
}

/// Draws what befalls requests.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    settings: FaultSettings,
    requests: AtomicU64,
}

impl FaultInjector {
    pub(crate) const fn new(settings: FaultSettings) -> Self {
        Self { settings, requests: AtomicU64::new(0) }
    }

    /// What befalls the next request.
    pub(crate) fn next(&self) -> InjectedFault {
        of(&self.settings, self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

/// What befalls the request of this number.
fn of(settings: &FaultSettings, request: u64) -> InjectedFault {
    let drawn = xxh3_64_with_seed(&request.to_le_bytes(), settings.seed);
    let place = drawn % u64::from(FAULTS_MAX);
    let errors = u64::from(settings.errors);
    let stalls = errors + u64::from(settings.stalls);
    let cuts = stalls + u64::from(settings.cuts);
    match place {
        _ if place < errors => InjectedFault::Error(settings.error),
        _ if place < stalls => InjectedFault::Stall(settings.after, settings.stall),
        _ if place < cuts => InjectedFault::Cut(settings.after),
        _ => InjectedFault::None,
    }
}

impl InjectedFault {
    /// The error instead of an answer, if that is it.
    pub(crate) fn error(self) -> Option<ApiError> {
        let Self::Error(kind) = self else { return None };
        Some(ApiError::new(kind, "this error was injected: the worker was asked to fail so often"))
    }

    /// Whether it strikes now, so many tokens having been told.
    pub(crate) fn is_due(self, told: Tokens) -> bool {
        match self {
            Self::None | Self::Error(_) => false,
            Self::Stall(after, _) | Self::Cut(after) => after <= told,
        }
    }
}

/// Waits as long as a stall lasts.
pub(crate) async fn stall(lasts: Option<Duration>) {
    match lasts {
        Some(lasts) => tokio::time::sleep(lasts).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: FaultSettings = FaultSettings {
        errors: 100_000,
        error: ErrorKind::Overloaded,
        stalls: 50_000,
        stall: None,
        cuts: 20_000,
        after: Tokens::new(3),
        seed: 7,
    };

    fn count(settings: &FaultSettings, is: impl Fn(InjectedFault) -> bool) -> usize {
        (0..100_000).filter(|&request| is(of(settings, request))).count()
    }

    #[test]
    fn mishaps_are_as_frequent_as_asked_and_alike_for_a_seed() {
        // A binomial count of 100,000 draws is within five deviations.
        let errors = count(&SETTINGS, |one| one == InjectedFault::Error(ErrorKind::Overloaded));
        assert!((9_500..10_500).contains(&errors), "{errors}");
        let stalls = count(&SETTINGS, |one| matches!(one, InjectedFault::Stall(..)));
        assert!((4_650..5_350).contains(&stalls), "{stalls}");
        let cuts = count(&SETTINGS, |one| matches!(one, InjectedFault::Cut(_)));
        assert!((1_770..2_230).contains(&cuts), "{cuts}");
        let again = FaultInjector::new(SETTINGS);
        assert!((0..1_000).all(|request| again.next() == of(&SETTINGS, request)));
        let other = FaultSettings { seed: 8, ..SETTINGS };
        assert!((0..1_000).any(|request| of(&other, request) != of(&SETTINGS, request)));
    }

    #[test]
    fn all_or_none_of_the_requests_can_go_wrong() {
        let all = FaultSettings { errors: FAULTS_MAX, ..SETTINGS };
        assert_eq!(count(&all, |one| one.error().is_some()), 100_000);
        let none = FaultSettings { errors: 0, stalls: 0, cuts: 0, ..SETTINGS };
        assert_eq!(count(&none, |one| one == InjectedFault::None), 100_000);
    }

    #[test]
    fn a_cut_strikes_once_so_many_tokens_are_told() {
        let cut = InjectedFault::Cut(Tokens::new(3));
        assert!(!cut.is_due(Tokens::new(2)) && cut.is_due(Tokens::new(3)));
        assert!(!InjectedFault::None.is_due(Tokens::new(1_000)));
    }
}
