//! Seats: how many sequences a worker computes at once (vLLM's `max_num_seqs`).
//!
//! No engine exports that number. A worker whose seats are all taken lets requests wait though its cache has
//! room, and it computes the same number of sequences while requests end and others take their places. Either is
//! seen in its metrics. What is learnt so may be a coincidence of long prompts, so one request more is sent now
//! and then: a worker that computes it has more seats than was believed.
//!
//! Invariant: seats that were configured are never unlearnt.

use overdraft_units::{Instant, Micros};

use super::load::Scraped;

/// Share of the cache in use, in thousandths, from which requests may wait for its sake.
const KV_USE_MAX: u16 = 900;

/// Requests that end while the number of sequences stays the same before it is believed, unless half of the
/// number is more.
const TURNOVER_MIN: u32 = 8;

/// Sequences that may be missing where some have just ended: one, and one in so many.
const DIP_PART: u32 = 16;

/// Time between two tests of what was learnt.
const TEST_INTERVAL: Micros = Micros::new(10_000_000);

/// What is known of a worker's seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    configured: Option<u32>,
    learnt: Option<u32>,
    /// The most sequences that were computed while others waited.
    most: u32,
    /// Requests that have ended while about as many were computed.
    turnover: u32,
    /// Requests that have ended since the last word.
    ended: u32,
    /// When what was learnt was confirmed.
    confirmed: Instant,
    /// Whether one more is sent to see.
    tests: bool,
}

impl Seats {
    /// Nothing is known.
    pub(super) const fn new() -> Self {
        Self {
            configured: None,
            learnt: None,
            most: 0,
            turnover: 0,
            ended: 0,
            confirmed: Instant::ORIGIN,
            tests: false,
        }
    }

    /// So many were configured.
    pub(super) const fn configure(&mut self, seats: u32) {
        self.configured = Some(seats);
    }

    /// How many there are, if that is known.
    pub fn count(&self) -> Option<u32> {
        self.configured.or(self.learnt)
    }

    /// How many may be taken, if that is bounded: one more where that is to be seen.
    pub(crate) fn limit(&self) -> Option<u32> {
        Some(self.count()? + u32::from(self.tests))
    }

    /// Whether a request that is sent now may wait for a seat, which says nothing of how fast prompts are computed.
    pub(super) fn may_wait(&self, sequences: u64) -> bool {
        self.count().map_or(0 < self.turnover, |seats| u64::from(seats) <= sequences)
    }

    /// A request has ended there.
    pub(super) const fn ended(&mut self) {
        self.ended = self.ended.saturating_add(1);
    }

    /// Takes in the worker's word.
    pub(super) fn note(&mut self, scraped: &Scraped) {
        let ended = core::mem::take(&mut self.ended);
        if self.configured.is_some() {
            return;
        }
        let Scraped { running, waiting, at, .. } = *scraped;
        if self.learnt.is_some_and(|seats| seats < running) {
            *self = Self::new();
        }
        let has_room = scraped.kv_use_permille.is_none_or(|used| used < KV_USE_MAX);
        // Where nothing is computed, no seat is taken.
        let is_full = 0 < waiting && 0 < running && has_room;
        if !is_full {
            self.tests |= self.learnt.is_some() && TEST_INTERVAL < at.since(self.confirmed);
            return;
        }
        let least = self.most - self.most / DIP_PART - u32::from(0 < self.most);
        if self.most < running || running < least {
            (self.most, self.turnover) = (running, 0);
            return;
        }
        self.turnover = self.turnover.saturating_add(ended);
        if TURNOVER_MIN.max(self.most / 2) <= self.turnover {
            (self.learnt, self.confirmed, self.tests) = (Some(self.most), at, false);
        }
    }

    /// Another process may be there.
    pub(super) fn forget(&mut self) {
        *self = Self { configured: self.configured, ..Self::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker with so many seats, `waiting` more requests and `used` of its cache in use.
    fn word(second: u64, running: u32, waiting: u32, used: u16) -> Scraped {
        Scraped {
            at: Instant::ORIGIN + Micros::new(second * 1_000_000),
            running,
            waiting,
            kv_use_permille: Some(used),
            kv_capacity: None,
            block_size: None,
            preemptions: None,
        }
    }

    fn hear(seats: &mut Seats, ended: u32, word: Scraped) -> Option<u32> {
        (0..ended).for_each(|_| seats.ended());
        seats.note(&word);
        seats.count()
    }

    #[test]
    fn a_number_that_stays_while_requests_end_and_others_wait_is_the_seats() {
        let mut seats = Seats::new();
        assert_eq!(hear(&mut seats, 0, word(0, 8, 5, 300)), None);
        assert_eq!(hear(&mut seats, 4, word(1, 8, 5, 300)), None);
        assert!(seats.may_wait(0), "it may be so");
        assert_eq!(hear(&mut seats, 4, word(2, 7, 5, 300)), Some(8), "one has just ended");
        assert_eq!((seats.may_wait(7), seats.may_wait(8)), (false, true));
        assert_eq!(seats.limit(), Some(8));
    }

    #[test]
    fn who_waits_for_memory_or_behind_a_long_prompt_waits_for_no_seat() {
        let mut seats = Seats::new();
        for second in 0..9 {
            assert_eq!(hear(&mut seats, 4, word(second, 8, 5, 950)), None, "its cache is full");
        }
        for second in 10..19 {
            assert_eq!(hear(&mut seats, 0, word(second, 3, 5, 300)), None, "nobody ends");
        }
        for second in 20..40 {
            let running = 3 + u32::try_from(second % 3).unwrap();
            assert_eq!(hear(&mut seats, 4, word(second, running, 5, 300)), None, "they vary");
        }
    }

    #[test]
    fn what_was_learnt_is_tested_and_unlearnt() {
        let mut seats = Seats::new();
        hear(&mut seats, 0, word(0, 2, 5, 300));
        assert_eq!(hear(&mut seats, 9, word(1, 2, 5, 300)), Some(2));
        assert_eq!(hear(&mut seats, 9, word(5, 2, 0, 300)), Some(2));
        assert_eq!(seats.limit(), Some(2), "not yet");
        hear(&mut seats, 9, word(12, 2, 0, 300));
        assert_eq!(seats.limit(), Some(3));
        assert_eq!(hear(&mut seats, 1, word(13, 2, 1, 300)), Some(2), "it waits: as was believed");
        assert_eq!(seats.limit(), Some(2));
        hear(&mut seats, 9, word(24, 2, 0, 300));
        assert_eq!(hear(&mut seats, 1, word(25, 3, 0, 300)), None, "it is computed");
        assert_eq!(seats.limit(), None);
    }

    #[test]
    fn configured_seats_are_not_for_learning() {
        let mut seats = Seats::new();
        seats.configure(4);
        assert_eq!(hear(&mut seats, 9, word(0, 6, 5, 300)), Some(4));
        seats.forget();
        assert_eq!(seats.count(), Some(4));
    }
}
