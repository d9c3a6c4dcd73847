//! Seats of a worker (`max_num_seqs`): how many requests it runs at once, as its metrics show where more wait.
//!
//! Requests also wait while the prompts before them are computed, a step's tokens at a time, and more run at each look.
//! So a number is believed only where looks in a row agree on it, and never where more ran at another time.

use overdraft_wire::prometheus::engine::WorkerReport;

/// Looks in a row that agree on how many run while some wait, before so many are all the seats.
const LOOKS_AGREED: u32 = 3;

/// Share of the cache from which on requests may wait for room in it, in thousandths.
const CACHE_FULL: u16 = 900;

/// What one look at the metrics shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    running: u32,
    waiting: u32,
    kv_use_permille: Option<u16>,
}

impl From<&WorkerReport> for Look {
    fn from(said: &WorkerReport) -> Self {
        let WorkerReport { running, waiting, kv_use_permille, .. } = *said;
        Self { running, waiting, kv_use_permille }
    }
}

/// What all looks so far show of the seats.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seats {
    /// Most requests that ran at any look.
    most: u32,
    /// Most requests that [`LOOKS_AGREED`] looks in a row saw run while others waited.
    agreed: Option<u32>,
    /// How many ran at the last look.
    last: u32,
    /// Looks in a row, up to the last one, that saw so many while others waited for a seat.
    looks: u32,
}

impl Seats {
    /// After another look.
    #[must_use]
    pub(super) fn and(self, look: Look) -> Self {
        let has_room = look.kv_use_permille.is_none_or(|used| used < CACHE_FULL);
        let is_full = 0 < look.running && 0 < look.waiting && has_room;
        let before = if look.running == self.last { self.looks } else { 0 };
        let looks = if is_full { before.saturating_add(1) } else { 0 };
        let agreed = (LOOKS_AGREED <= looks).then_some(look.running);
        Self {
            most: self.most.max(look.running),
            agreed: self.agreed.max(agreed),
            last: look.running,
            looks,
        }
    }

    /// How many there are, if that was seen.
    pub(super) fn seen(self) -> Option<u32> {
        self.agreed.filter(|agreed| self.most <= *agreed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(looks: &[(u32, u32, u16)], seats: Option<u32>) {
        let look = |&(running, waiting, used): &(u32, u32, u16)| Look {
            running,
            waiting,
            kv_use_permille: Some(used),
        };
        let seen = looks.iter().map(look).fold(Seats::default(), Seats::and).seen();
        assert_eq!(seen, seats, "{looks:?}");
    }

    #[test]
    fn prompts_that_are_still_computed_wait_for_no_seat() {
        let growing: Vec<_> = (1..8).map(|step| (4 * step, 32 - 4 * step, 30)).collect();
        check(&growing, None);
        // A slow worker is seen several times within each step.
        let slow: Vec<_> = growing.iter().flat_map(|look| [*look; 4]).collect();
        check(&[&slow[..], &[(32, 0, 40)]].concat(), None);
    }

    #[test]
    fn as_many_as_looks_in_a_row_agree_on_are_all_seats() {
        check(&[(4, 28, 10), (8, 24, 20), (8, 24, 20), (8, 16, 20), (8, 0, 20)], Some(8));
        check(&[(8, 24, 20), (8, 24, 20)], None);
        check(&[(8, 24, 20), (8, 24, 20), (4, 20, 20), (8, 16, 20)], None);
    }

    #[test]
    fn who_waits_for_room_in_a_full_cache_waits_for_no_seat() {
        check(&[(8, 24, 950); 5], None);
        check(&[(0, 24, 0); 5], None);
    }
}
