//! Clock: the shell's only source of time.
//!
//! Decisions take `now` as an argument; their callers read it here, once per event. Instants count
//! from the clock's own start, so two clocks are never comparable: a process starts one and passes
//! it on. **Invariant:** `now` never runs backwards.

use jiff::Timestamp;
use overdraft_units::{Instant, Micros};

/// A monotonic clock that started at [`Instant::ORIGIN`].
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// Starts a clock; its origin is now.
    #[expect(clippy::disallowed_methods, reason = "the shell's only clock")]
    pub fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// The time since the start.
    pub fn now(&self) -> Instant {
        let elapsed = self.origin.elapsed().as_micros();
        Instant::ORIGIN + Micros::new(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }
}

/// Seconds since 1970, for the `created` fields of answers; never for measuring.
pub fn unix_seconds() -> u64 {
    since_1970().as_secs()
}

/// Seconds since 1970 and their fraction, for events that others order by time; never for measuring.
pub fn unix_time() -> f64 {
    since_1970().as_secs_f64()
}

/// Milliseconds since 1970, for views and for the age of what others wrote; never for measuring.
pub fn unix_milliseconds() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// The time of the calendar, for what ends on a date; never for measuring.
pub fn calendar_time() -> Timestamp {
    let seconds = i64::try_from(unix_seconds()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

#[expect(clippy::disallowed_methods, reason = "the shell's only calendar")]
fn since_1970() -> std::time::Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
