//! Seats: how many sequences a worker computes at once (vLLM's `max_num_seqs`).
//!
//! No engine exports that number. A worker whose seats are all taken lets requests wait though its cache has
//! room, and it computes the same number of sequences while requests end and others take their places. Either is
//! seen in its metrics. But whatever came since the last step waits for the next one, too, so the same is seen by
//! chance where prompts are short and many. What is learnt is therefore tested: soon at first, then ever less
//! often, some more are sent than there are seats. A worker that computes them has more seats than was
//! believed; nothing is believed any more then, and the next number has to be seen for longer.
//!
//! Invariants: seats that were configured are never unlearnt. What is learnt is tested within a second, and no
//! coincidence puts a test off for longer than [`TEST_INTERVAL_MAX`].

use overdraft_units::{Instant, Micros};

use super::load::Scraped;

/// Share of the cache in use, in thousandths, from which requests may wait for its sake.
const KV_USE_MAX: u16 = 900;

/// Requests that end while the number of sequences stays the same before it is believed, unless half of the
/// number is more.
const TURNOVER_MIN: u32 = 8;

/// Words of the worker that agree before a number is believed, and before a test has shown it to be right.
const WORDS_MIN: u32 = 4;

/// Requests that end during a test that shows the number to be right, unless an eighth of the number is more.
const TEST_TURNOVER_MIN: u32 = 2;

/// Sequences that may be missing where some have just ended, and that a test sends beyond the number: one, and one
/// in so many.
const DIP_PART: u32 = 16;

/// Time from learning a number to its first test, which doubles with each test that shows it to be right.
const TEST_INTERVAL_MIN: Micros = Micros::new(1_000_000);

/// Longest time between two tests.
const TEST_INTERVAL_MAX: Micros = Micros::new(32_000_000);

/// Doublings of what has to end before a number is believed, by as many that were wrong.
const DOUBTS_MAX: u32 = 7;

/// What is known of a worker's seats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seats {
    configured: Option<u32>,
    learnt: Option<Learnt>,
    /// The most sequences that were computed while others waited.
    most: u32,
    agreed: Agreed,
    /// Requests that have ended since the last word.
    ended: u32,
    /// Numbers that were believed and were wrong.
    doubts: u32,
}

/// A number that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Learnt {
    seats: u32,
    /// When it was believed, or a test last showed it to be right.
    at: Instant,
    /// From then to the next test.
    wait: Micros,
    /// Whether some more are sent to see.
    tests: bool,
}

/// Words of the worker that agree with a number, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Agreed {
    words: u32,
    /// Requests that have ended meanwhile.
    turnover: u32,
}

impl Agreed {
    /// One more of them.
    const fn more(&mut self, ended: u32) {
        self.words = self.words.saturating_add(1);
        self.turnover = self.turnover.saturating_add(ended);
    }

    /// Whether that suffices, if so many have to end.
    const fn has(self, turnover: u32) -> bool {
        WORDS_MIN <= self.words && turnover <= self.turnover
    }
}

/// How far a number may be missed for those that have just ended, and is passed by to test it.
const fn dip(seats: u32) -> u32 {
    seats / DIP_PART + 1
}

impl Seats {
    /// Nothing is known.
    pub(super) const fn new() -> Self {
        let agreed = Agreed { words: 0, turnover: 0 };
        Self { configured: None, learnt: None, most: 0, agreed, ended: 0, doubts: 0 }
    }

    /// So many are configured, if any number is.
    pub(super) const fn configure(&mut self, seats: Option<u32>) {
        self.configured = seats;
    }

    /// How many there are, if that is known.
    pub fn count(&self) -> Option<u32> {
        self.configured.or(self.learnt.map(|learnt| learnt.seats))
    }

    /// How many may be taken, if that is bounded: some more where that is to be seen.
    pub(crate) fn limit(&self) -> Option<u32> {
        let seats = self.count()?;
        let tests = self.configured.is_none() && self.learnt.is_some_and(|learnt| learnt.tests);
        Some(if tests { seats.saturating_add(dip(seats)) } else { seats })
    }

    /// Whether a request that is sent now may wait for a seat, which says nothing of how fast prompts are computed.
    pub(super) fn may_wait(&self, sequences: u64) -> bool {
        let is_seen = 0 < self.agreed.turnover;
        self.count().map_or(is_seen, |seats| u64::from(seats) <= sequences)
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
        let running = scraped.running;
        if self.learnt.is_some_and(|learnt| learnt.seats < running) {
            let doubts = DOUBTS_MAX.min(self.doubts + 1);
            *self = Self { doubts, ..Self::new() };
        }
        let has_room = scraped.kv_use_permille.is_none_or(|used| used < KV_USE_MAX);
        // Where nothing is computed, no seat is taken.
        let is_full = 0 < scraped.waiting && 0 < running && has_room;
        match self.learnt {
            Some(learnt) => self.test(learnt, scraped, is_full, ended),
            None if is_full => self.learn(running, scraped.at, ended),
            None => {}
        }
    }

    /// A worker lets some wait, and computes so many.
    fn learn(&mut self, running: u32, at: Instant, ended: u32) {
        if self.most < running || running.saturating_add(dip(self.most)) < self.most {
            (self.most, self.agreed) = (running, Agreed::default());
            return;
        }
        self.agreed.more(ended);
        if self.agreed.has(TURNOVER_MIN.max(self.most / 2) << self.doubts) {
            let wait = TEST_INTERVAL_MIN;
            self.learnt = Some(Learnt { seats: self.most, at, wait, tests: false });
            self.agreed = Agreed::default();
        }
    }

    /// Whether what is believed is to be tested, or has been.
    fn test(&mut self, mut learnt: Learnt, scraped: &Scraped, is_full: bool, ended: u32) {
        let Scraped { at, running, waiting, .. } = *scraped;
        let seats = learnt.seats;
        if !learnt.tests {
            learnt.tests = learnt.wait <= at.since(learnt.at);
            self.agreed = Agreed::default();
        } else if is_full
            && seats < running.saturating_add(waiting)
            && seats <= running.saturating_add(dip(seats))
        {
            self.agreed.more(ended);
            if self.agreed.has(TEST_TURNOVER_MIN.max(seats / 8)) {
                let wait = TEST_INTERVAL_MAX.min(learnt.wait + learnt.wait);
                learnt = Learnt { at, wait, tests: false, ..learnt };
            }
        }
        self.learnt = Some(learnt);
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
        assert_eq!(hear(&mut seats, 4, word(2, 7, 5, 300)), None, "one has just ended");
        assert_eq!(hear(&mut seats, 0, word(3, 8, 5, 300)), None, "seen three times");
        assert_eq!(hear(&mut seats, 0, word(4, 8, 5, 300)), Some(8));
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

    /// A worker that was seen with so many at once for long enough.
    fn learnt(seats: &mut Seats, from: u64, number: u32) {
        for second in from..from + 5 {
            hear(seats, 9, word(second, number, 5, 300));
        }
        assert_eq!((seats.count(), seats.limit()), (Some(number), Some(number)));
    }

    #[test]
    fn what_was_learnt_is_tested_ever_less_often() {
        let mut seats = Seats::new();
        learnt(&mut seats, 0, 2);
        let mut limits = alloc::vec::Vec::new();
        for second in 5..60 {
            let waiting = seats.limit().map_or(0, |limit| limit - 2);
            assert_eq!(hear(&mut seats, 1, word(second, 2, waiting, 300)), Some(2));
            limits.push(seats.limit() == Some(3));
        }
        let begun = |pair: &&[bool]| !pair[0] && pair[1];
        // After 1, 2, 4, 8 and 16 s, and four words each.
        assert_eq!(
            limits.windows(2).filter(begun).count() + usize::from(limits[0]),
            5,
            "{limits:?}"
        );
    }

    #[test]
    fn what_a_test_refutes_is_forgotten_and_the_next_has_to_be_seen_for_longer() {
        let mut seats = Seats::new();
        learnt(&mut seats, 0, 20);
        // What has come since the last step waits, too; it takes no seat that is not there.
        assert_eq!(hear(&mut seats, 9, word(5, 18, 2, 300)), Some(20));
        assert_eq!(seats.limit(), Some(22), "however full it looks");
        assert_eq!(hear(&mut seats, 9, word(6, 21, 1, 300)), None, "it is computed");
        assert_eq!(seats.limit(), None);
        for second in 7..10 {
            assert_eq!(hear(&mut seats, 6, word(second, 21, 1, 300)), None, "18 do not suffice");
        }
        assert_eq!(hear(&mut seats, 6, word(11, 21, 1, 300)), Some(21));
    }

    #[test]
    fn a_test_that_finds_nobody_to_send_goes_on() {
        let mut seats = Seats::new();
        learnt(&mut seats, 0, 4);
        for second in 5..30 {
            assert_eq!(hear(&mut seats, 9, word(second, 3, 0, 300)), Some(4));
            assert_eq!(seats.limit(), Some(5));
        }
    }

    #[test]
    fn configured_seats_are_not_for_learning() {
        let mut seats = Seats::new();
        seats.configure(Some(4));
        assert_eq!(hear(&mut seats, 9, word(0, 6, 5, 300)), Some(4));
        seats.forget();
        assert_eq!(seats.count(), Some(4));
        seats.configure(None);
        assert_eq!(seats.count(), None);
    }
}
