//! Peer link estimate: latency and bandwidth of fetching KV blocks from one peer.

use overdraft_units::{Instant, Micros};

use crate::estimate::MovingAverage;

/// Prior bandwidth of a link that was never used, in bytes a second: a network of one gigabit.
pub const BYTES_PER_SECOND_FIRST: u64 = 100_000_000;

/// Prior time to the first byte of a peer that was never used.
pub const WAIT_FIRST: Micros = Micros::new(5_000);

/// Age at which an estimate expires: a slow peer may be fast again, and only using it tells.
pub const STALE: Micros = Micros::new(60_000_000);

/// Backoff after a peer's first failure; it doubles with each further failure.
pub const BARRED_FIRST: Micros = Micros::new(5_000_000);

/// Maximum backoff.
pub const BARRED_MAX: Micros = Micros::new(60_000_000);

/// Silence from which on a peer has failed. A shorter one may be the time that a good peer needs, whose engine computes
/// a step before it answers.
pub const SILENCE_FAILS: Micros = Micros::new(250_000);

/// Maximum doublings of the backoff.
const DOUBLINGS_MAX: u32 = 6;

/// Pieces smaller than this say more about the wait than about the rate.
const RATE_BYTES_MIN: u64 = 1 << 16;

/// How long a peer takes to answer, and how fast it sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link {
    /// Microseconds over answers.
    wait: MovingAverage,
    /// Bytes over microseconds.
    rate: MovingAverage,
    noted: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    barred_until: Option<Instant>,
    /// Since its last answer.
    silence: Option<Silence>,
}

/// A peer did not answer in the time that it had, which was too short for a failure.
#[derive(Clone, Copy, Debug)]
struct Silence {
    lasted: Micros,
    noted: Instant,
}

impl Link {
    /// Never used.
    pub const fn new() -> Self {
        Self {
            wait: MovingAverage::new(),
            rate: MovingAverage::new(),
            noted: None,
            failures: 0,
            barred_until: None,
            silence: None,
        }
    }

    /// It answered after `wait`, and then so many bytes came in that time.
    pub fn note(&mut self, wait: Micros, bytes: u64, took: Micros, now: Instant) {
        if self.is_stale(now) {
            (self.wait, self.rate) = (MovingAverage::new(), MovingAverage::new());
        }
        self.wait.note(wait.get(), 1);
        if RATE_BYTES_MIN <= bytes {
            self.rate.note(bytes, took.get().max(1));
        }
        self.noted = Some(now);
        (self.failures, self.barred_until, self.silence) = (0, None, None);
    }

    /// It did not answer in that time. Where that is no failure, it is taken to need twice as long.
    pub fn note_silence(&mut self, lasted: Micros, now: Instant) {
        if SILENCE_FAILS <= lasted {
            return self.note_failure(now);
        }
        self.silence = Some(Silence { lasted, noted: now });
    }

    /// It did not answer, or what came could not be used.
    pub fn note_failure(&mut self, now: Instant) {
        let times = 1_u64 << self.failures.min(DOUBLINGS_MAX);
        let barred = Micros::new(BARRED_FIRST.get() * times).min(BARRED_MAX);
        self.barred_until = Some(now + barred);
        self.failures = self.failures.saturating_add(1);
    }

    /// Whether it is left alone because it has failed.
    pub fn is_barred(&self, now: Instant) -> bool {
        self.barred_until.is_some_and(|until| now < until)
    }

    /// How long so many bytes should take, the wait included.
    pub fn time_for(&self, bytes: u64, now: Instant) -> Micros {
        let (wait, (sent, micros)) = if self.is_stale(now) {
            (WAIT_FIRST, (BYTES_PER_SECOND_FIRST, 1_000_000))
        } else {
            (self.wait(), self.rate())
        };
        let sending = u128::from(bytes) * u128::from(micros) / u128::from(sent.max(1));
        wait.max(self.least_wait(now)) + Micros::new(u64::try_from(sending).unwrap_or(u64::MAX / 2))
    }

    /// How long it takes to answer at least, by its silence.
    fn least_wait(&self, now: Instant) -> Micros {
        let silence = self.silence.filter(|silence| now.since(silence.noted) <= STALE);
        silence.map_or(Micros::ZERO, |silence| silence.lasted + silence.lasted)
    }

    fn wait(&self) -> Micros {
        let (micros, answers) = self.wait.parts();
        micros.checked_div(answers).map_or(WAIT_FIRST, Micros::new)
    }

    fn rate(&self) -> (u64, u64) {
        match self.rate.parts() {
            (0, _) | (_, 0) => (BYTES_PER_SECOND_FIRST, 1_000_000),
            parts => parts,
        }
    }

    fn is_stale(&self, now: Instant) -> bool {
        self.noted.is_none_or(|noted| STALE < now.since(noted))
    }
}
