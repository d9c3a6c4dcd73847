//! Stall: a worker that stands still now and then, with all it has under way.
//!
//! A step that would begin while it stands still begins afterwards. Workers with equal times stand still together, as
//! where they share a cause.

use std::str::FromStr;

use overdraft_units::{Instant, Micros};

/// When a worker stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Which one, from 0; one that is not there changes nothing.
    pub worker: u32,
    /// From the beginning of one time to that of the next; the first is after as long.
    pub every: Micros,
    /// How long; less than that.
    pub lasts: Micros,
}

/// `WORKER:EVERY:FOR`, in seconds.
impl FromStr for Stall {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let worker = parts.next().and_then(|part| part.parse().ok());
        let mut seconds = || {
            let seconds = parts.next()?.parse::<f64>().ok()?;
            let time = std::time::Duration::try_from_secs_f64(seconds).ok()?;
            u64::try_from(time.as_micros()).ok().filter(|micros| 0 < *micros).map(Micros::new)
        };
        let read = worker.zip(seconds()).zip(seconds()).filter(|((_, every), lasts)| lasts < every);
        let ((worker, every), lasts) = read.filter(|_| parts.next().is_none()).ok_or(
            "expected WORKER:EVERY:FOR, a worker's number from 0 and seconds, the second time the shorter, \
             as in `0:30:1.5`",
        )?;
        Ok(Self { worker, every, lasts })
    }
}

/// For how long a worker does not begin a step now.
pub(super) fn stands(stalls: &[Stall], worker: usize, now: Instant) -> Micros {
    let own = |stall: &&Stall| usize::try_from(stall.worker) == Ok(worker);
    let left = |stall: &Stall| {
        let since = now.since(Instant::ORIGIN).get();
        let into = since % stall.every.get();
        let is_first = since < stall.every.get();
        let left = stall.lasts.get().saturating_sub(into);
        if is_first { 0 } else { left }
    };
    Micros::new(stalls.iter().filter(own).map(left).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_stands_still_at_its_times_and_no_others() {
        let stalls = ["1:10:2".parse().unwrap()];
        let left = |worker, seconds: u64| {
            let now = Instant::ORIGIN + Micros::new(seconds * 1_000_000);
            stands(&stalls, worker, now).get() / 1_000_000
        };
        let lefts: Vec<u64> = [0, 1, 9, 10, 11, 12, 19, 20].map(|second| left(1, second)).into();
        assert_eq!(lefts, [0, 0, 0, 2, 1, 0, 0, 2]);
        assert_eq!(left(0, 10), 0);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_an_example() {
        for text in ["", "1", "1:10", "1:10:10", "1:10:0", "x:10:1", "1:10:1:1"] {
            let refused = text.parse::<Stall>().unwrap_err();
            assert!(refused.contains("0:30:1.5"), "{text}");
        }
    }
}
